r"""The two kernels: shares and threshold of a row, and the product with the Jacobian.

A program handles R rows in a tile of R x B entries.  Rows of up to B entries are read
once and stay in registers (HELD); longer ones are read again in each pass, B entries at
a time.  The search is that of `softtopk/_search/root.py` and `start.py`, line by line,
except for the origin :math:`u_0` of the curve (see `triton_curves`): here
:math:`u=z+u_0` and :math:`z=(x-a)/\tau-t`, so that the threshold is
:math:`a+\tau(t-u_0)`.

The formulas are those of the book: the bracket *selection/threshold*; the start, the
rules that end a search and the steps *computing/search*; the gradients
*selection/derivatives* and *computing/backward*.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .triton_curves import FUSE, INF, sum2

NAN = tl.constexpr(float("nan"))
PATIENCE = tl.constexpr(5)
LIMIT = tl.constexpr(2500)
EPS32, EPS64 = tl.constexpr(2.0**-23), tl.constexpr(2.0**-52)
TINY32, TINY64 = tl.constexpr(2.0**-126), tl.constexpr(2.0**-1022)


@triton.jit
def _rows_of(rows, R: tl.constexpr):
    """The indices of this program's rows, and which of them are within the array."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    return row, row < rows


@triton.jit
def _tile(X, row, stride, step, col, n, inside, other, DTYPE: tl.constexpr):
    """Entries `col` of the rows, converted to the type that the kernel computes in."""
    here = inside[:, None] & (col < n)[None, :]
    at = X + (row * stride)[:, None] + (col.to(tl.int64) * step)[None, :]
    return tl.load(at, mask=here, other=other).to(DTYPE)


@triton.jit
def _held(
    X,
    row,
    stride,
    step,
    n,
    inside,
    other,
    DTYPE: tl.constexpr,
    R: tl.constexpr,
    B: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """All entries of the rows.

    Triton gives adjacent entries to adjacent threads: a few to each thread if it can
    tell that they are aligned, and otherwise one, so that all threads of a warp share a
    row.  They would then hold several rows, one after the other, and repeat the numbers
    of each.  So here a thread that Triton would give one entry at a time gets SPLIT
    entries of one row, from as many parts of it.
    """
    size: tl.constexpr = B // SPLIT
    col = tl.arange(0, size)
    x = _tile(X, row, stride, step, col, n, inside, other, DTYPE)
    if SPLIT > 1:
        y = _tile(X, row, stride, step, col + size, n, inside, other, DTYPE)
        if SPLIT == 2:
            x = tl.reshape(tl.permute(tl.join(x, y), (0, 2, 1)), (R, B))
        else:
            v = _tile(X, row, stride, step, col + 2 * size, n, inside, other, DTYPE)
            w = _tile(X, row, stride, step, col + 3 * size, n, inside, other, DTYPE)
            pairs = tl.join(tl.join(x, v), tl.join(y, w))
            x = tl.reshape(tl.permute(pairs, (0, 2, 3, 1)), (R, B))
    return x


@triton.jit
def _plus(total, rest, term, HELD: tl.constexpr):
    """A sum over tiles and its accumulated rounding error (TwoSum)."""
    if HELD:
        return term, rest
    new = total + term
    part = new - total
    return new, rest + ((total - (new - part)) + (term - part))


@triton.jit
def _span(
    s,
    record,
    n,
    S: tl.constexpr,
    LAST: tl.constexpr,
    B: tl.constexpr,
    HELD: tl.constexpr,
):
    """The range of entries that this program adds up for sum s of a row.

    In launch s it is the program's segment.  In a later launch the sum is known and the
    range is empty.  For a sum after the last launch it is the whole row.
    """
    if S == 1:
        return 0, (B if HELD else n)
    stage = record[3]
    length = tl.cdiv(n, S * B) * B
    first = tl.program_id(1) * length
    own, most = s == stage, tl.where((s > LAST) & (stage == LAST), n, 0)
    return tl.where(own, first, 0), tl.where(own, tl.minimum(n, first + length), most)


@triton.jit
def _over(
    s, record, part, slot: tl.constexpr, S: tl.constexpr, MOST: tl.constexpr = False
):
    """The sum, or the maximum, of the results of launch s for the segments of a row.

    In launch s itself the program stores the result for its own segment and returns it.
    """
    if S == 1:
        return part
    SUMMED, row, rows, stage = record
    stage += 0 * row  # one for each row: the interpreter does not broadcast a scalar
    at = SUMMED + ((s * 4 + slot) * rows + row) * S
    tl.store(at + tl.program_id(1), part, mask=(row < rows) & (stage == s))
    at = at[:, None] + tl.arange(0, S)[None, :]
    parts = tl.load(at, mask=((row < rows) & (stage > s))[:, None], other=0)
    return tl.where(stage > s, tl.max(parts, 1) if MOST else tl.sum(parts, 1), part)


@triton.jit
def _range(n0, t0, l0, s0, n1, t1, l1, s1):
    return n0 + n1, tl.maximum(t0, t1), tl.minimum(l0, l1), s0 + s1


@triton.jit
def _measure(x, unit):
    """The number of scores above -inf, their extremes, and their sum times `unit`.

    If a score is NaN, so is the sum; the extremes need not be.
    """
    on = x > -INF
    count, low = on.to(x.dtype), tl.where(on, x, INF)
    part = tl.where(x == -INF, 0.0, x * unit)
    if FUSE:
        return tl.reduce((count, x, low, part), 1, _range)
    return tl.sum(count, 1), tl.max(x, 1), tl.min(low, 1), tl.sum(part, 1)


@triton.jit
def _moved(a, t, shift, tau):
    """Anchor and offset of a + tau (t + shift), with the rounded sum as the anchor.

    The rounding error of a + tau shift is added to the offset, exactly
    (`start.rebase`).  t itself is no more than a rounding error of the anchor.
    """
    move = tau * shift
    total = a + move
    back = total - a
    return total, t + ((a - (total - back)) + (move - back)) / tau


@triton.jit
def _follow(a, t, low, high, tau, eps):
    """The same threshold with its own rounded value as anchor: `start.follow`."""
    new, rest = _moved(a, 0 * t, t, tau)
    shift = (new - a) / tau
    rest = tl.where(shift == 0, t, rest)
    slack = 2 * eps * tl.abs(shift)
    return new, rest, low - shift - slack, high - shift + slack


@triton.jit(do_not_specialize=["k", "part", "temperature", "stage"])
def select_kernel(
    X, WHOLE, PART, TAU, OUT, A, T, k, part: tl.float64, temperature: tl.float64,
    stride, whole_stride, part_stride, tau_stride, SUMMED, stage, rows, n,
    SUMS: tl.constexpr, VALUE: tl.constexpr, INVERSE: tl.constexpr,
    STEP: tl.constexpr, b: tl.constexpr, ORIGIN: tl.constexpr, FLAT: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, MEAN: tl.constexpr, DEV: tl.constexpr,
    BEND: tl.constexpr, K_ROWS: tl.constexpr, TAU_ROWS: tl.constexpr,
    R: tl.constexpr, B: tl.constexpr, HELD: tl.constexpr, SPLIT: tl.constexpr,
    S: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    DTYPE: tl.constexpr = SUMMED.dtype.element_ty
    ENDS: tl.constexpr = (LOW > -INF) & (HIGH < INF)
    eps: tl.constexpr = EPS64 if DTYPE == tl.float64 else EPS32
    tiny: tl.constexpr = TINY64 if DTYPE == tl.float64 else TINY32
    row, inside = _rows_of(rows, R)
    col = tl.arange(0, B)
    zero = tl.zeros([R], DTYPE)
    if K_ROWS:
        whole = tl.load(WHOLE + row * whole_stride, mask=inside, other=0).to(tl.int64)
        part = tl.load(PART + row * part_stride, mask=inside, other=0.5).to(DTYPE)
    else:
        whole = tl.zeros([R], tl.int64) + k
        part = tl.full([R], part, DTYPE)
    if TAU_ROWS:
        tau = tl.load(TAU + row * tau_stride, mask=inside, other=1.0).to(DTYPE)
    else:
        tau = tl.full([R], temperature, DTYPE)
    record = SUMMED, row, rows, stage
    # If HELD, the whole row fits one tile and is read here, once.  The loops over tiles
    # below then have a single iteration, and the compiler removes them.
    x = tl.zeros([R, B], DTYPE)
    if HELD:
        x = _held(X, row, stride, 1, n, inside, -INF, DTYPE, R, B, SPLIT)

    # The moments of the finite scores: start.moments.
    count, total, top, least = zero, zero, zero - INF, zero + INF
    first, stop = _span(0, record, n, S, LAST, B, HELD)
    for j in range(first, stop, B):
        if not HELD:
            x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
        count1, top1, least1, total1 = _measure(x, 1.0 / n)
        count, total = count + count1, total + total1
        top, least = tl.maximum(top, top1), tl.minimum(least, least1)
    count, total = _over(0, record, count, 0, S), _over(0, record, total, 1, S)
    top = _over(0, record, top, 2, S, True)
    least = -_over(0, record, -least, 3, S, True)
    mean = total / tl.maximum(count, 1.0) * n

    # `in_range` is true for a row whose scores, budget k and temperature are in range.
    # `inner` is true where moreover 0 < k < count, the number of finite entries: only
    # these rows have a threshold to search for.  The others get harmless arguments
    # here, and `outer` or NaN as t after the search, as `solved` in
    # _search/selection_search.py gives them.
    others = count.to(tl.int64) - whole
    k_float, rest = whole.to(DTYPE) + part, others.to(DTYPE) - part
    good = (tau >= tiny) & (tau <= 1 / tiny)
    in_range = (top < INF) & (mean == mean) & (part >= 0) & (part < INF) & good
    in_range = in_range & (whole >= 0) & (rest >= 0)
    inner = in_range & (k_float > 0) & (rest > 0) & inside
    outer = tl.where(k_float == 0, INF, -INF)
    tau = tl.where(good, tau, 1.0)
    mean = tl.where(inner, mean, 0.0)
    top, least = tl.where(inner, top, 1.0), tl.where(inner, least, -1.0)
    k_float, rest = tl.where(inner, k_float, 0.5), tl.where(inner, rest, 0.5)
    count = tl.where(inner, count, 1.0)
    whole, part = tl.where(inner, whole, 0).to(tl.int32), tl.where(inner, part, 0.5)
    size = tl.maximum(top - mean, mean - least)
    unit = 1 / tl.where(size > 0, size, 1.0)
    squares = zero
    first, stop = _span(1, record, n, S, LAST, B, HELD)
    for j in range(first, stop, B):
        if not HELD:
            x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
        d = tl.where(x == -INF, 0.0, (x - mean[:, None]) * unit[:, None])
        squares += tl.sum(d * d, 1)
    squares = _over(1, record, squares, 0, S)
    spread = size * tl.sqrt(squares / count) / tau / DEV

    # The start: start.begin.
    q = k_float / count
    middle = INVERSE(q, b)
    factor = tl.sqrt(1 + spread * spread)
    normal = (tl.exp(0.135 * tl.log(1 - q)) - tl.exp(0.135 * tl.log(q))) / 0.1975
    own = -(MEAN + middle) / DEV
    t = MEAN + DEV * factor * (normal + (own - normal) / (factor * factor * factor))
    above, below = (top - mean) / tau, (least - mean) / tau
    slack = 0.015625 * (1 + tl.abs(middle))
    slack += 4 * eps * (tl.abs(above) + tl.abs(below))
    head = tl.where(k_float < 1, INVERSE(tl.where(k_float < 1, k_float, q), b), HIGH)
    tail = tl.where(rest < 1, INVERSE(tl.where(rest < 1, 1 - rest, q), b), LOW)
    low = tl.maximum(below - middle, tl.where(k_float <= 1, above - head, -INF)) - slack
    high = tl.minimum(above - middle, tl.where(rest <= 1, below - tail, INF)) + slack
    t = tl.where((low < t) & (t < high), t, 0.5 * low + 0.5 * high)
    # The origin of the curve, which for a flat curve depends on the row's budget.
    if FLAT:
        c = (1 - 2 * b) * tl.exp(b * tl.log(tl.minimum(k_float, 1.0)))
        origin = (c - 1) / b
    else:
        c, origin = zero, zero + ORIGIN
    low, high = low + origin, high + origin
    a, t, low, high = _follow(mean, t + origin, low, high, tau, eps)
    common_distance = tl.abs(middle - origin)
    few = tl.minimum(k_float, rest)
    scale = tl.minimum(few, 1.0)

    # The search: root.solve_rows.  A row whose first guess is NaN is not searched: its
    # threshold is NaN.
    done = ~inner | (t != t)
    before, width = zero + INF, zero + INF
    inverse_tau = 1 / tau
    passes = 0
    going = tl.max((~done).to(tl.int32), 0) > 0
    if S > 1:  # each launch makes one pass, and the last one the rest of a search
        going = going & ((stage == LAST) | (stage > 1))
    while going:
        s = tl.where(2 + passes < LAST, 2 + passes, LAST + 1)
        m, P, C, W, P2, C2 = zero, zero, zero, zero, zero, zero
        first1, stop1 = _span(s, record, n, S, LAST, B, HELD)
        for j in range(first1, stop1, B):
            if not HELD:
                x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
            z = (x - a[:, None]) * inverse_tau[:, None] - t[:, None]
            m1, P1, C1, W1 = SUMS(z, c, b)
            m, W = m + m1, W + W1
            P, P2 = _plus(P, P2, P1, HELD)
            C, C2 = _plus(C, C2, C1, HELD)
        m, W = _over(s, record, m, 0, S), _over(s, record, W, 1, S)
        P, C = _over(s, record, P + P2, 2, S), _over(s, record, C + C2, 3, S)
        # root.advance
        excess = (P - C) - ((whole - m.to(tl.int32)).to(DTYPE) + part)
        noise = eps * (P + C)
        tol = 2 * noise
        if ENDS:  # the rounding of z at an end of the support that is not the origin
            start: tl.constexpr = 0.0 if FLAT else LOW - ORIGIN
            end: tl.constexpr = 0.0 if FLAT else HIGH - ORIGIN
            edge = tl.where(P > 0, 0.5 * min(start, 1.0), 0.0)
            edge += tl.where(C > 0, 0.5 * min(end, 1.0), 0.0)
            tol += eps * (scale / 16 + tl.where(passes > PATIENCE, edge * W, 0.0))
        excess = tl.where(tl.abs(excess) <= tol, 0.0, excess)
        proposal = t + tl.where(excess == 0, 0.0, STEP(excess, P, C, W, b))
        low, high = tl.where(excess >= 0, t, low), tl.where(excess <= 0, t, high)
        remaining = tl.where(excess > 0, high - proposal, proposal - low)
        proposal = tl.where(remaining <= 8 * eps * (high - low), NAN, proposal)
        away, room = tl.abs(excess), high - low
        halve = ~((low < proposal) & (proposal < high))
        late = (passes > 4 * PATIENCE) & (passes % 2 == 0)
        slow = (2 * away > before) | (late & (16 * away > before))
        halve = halve | (slow & (2 * room > width) & (passes > PATIENCE))
        found = tl.where(halve, 0.5 * low + 0.5 * high, proposal)
        move = tl.abs(found - t)
        short = move / tl.minimum(scale, few / W)
        settled = (short <= 2 * eps) & (away <= 8 * noise)
        settled = settled | (excess == 0) | (short <= eps / 8)
        new = tl.where(done | settled, t, found)
        final = away <= 0.5 * eps * common_distance * tl.minimum(P + C, W)
        if BEND < INF:
            final = final | (BEND * move * move <= 2 * eps)
        done = done | settled | (~halve & final)
        before, width = away, room
        a, t, low, high = _follow(a, new, low, high, tau, eps)
        passes += 1
        going = (passes < LIMIT) & (tl.max((~done).to(tl.int32), 0) > 0)
        if S > 1:
            going = going & ((stage == LAST) | (stage > 1 + passes))

    if ENDS:  # the middle, where the thresholds are an interval: root.middle_threshold
        CENTRE: tl.constexpr = 0.5 * LOW + 0.5 * HIGH
        m, least1, most = zero, zero + INF, zero - INF
        end = tl.where(2 + passes < LAST, 2 + passes, LAST + 1)
        first, stop = _span(end, record, n, S, LAST, B, HELD)
        for j in range(first, stop, B):
            if not HELD:
                x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
            z = (x - a[:, None]) * inverse_tau[:, None] - t[:, None]
            up = z > (CENTRE - origin)[:, None]
            m += tl.sum(up.to(DTYPE), 1)
            least1 = tl.minimum(least1, tl.min(tl.where(up, x, INF), 1))
            most = tl.maximum(most, tl.max(tl.where(up, -INF, x), 1))
        m, most = _over(end, record, m, 0, S), _over(end, record, most, 1, S, True)
        least1 = -_over(end, record, -least1, 2, S, True)
        flat = (whole - m.to(tl.int32)).to(DTYPE) + part == 0
        flat = flat & ((least1 - most) / tau >= HIGH - LOW)
        a1, t1 = _moved(0.5 * least1 + 0.5 * most, zero, origin - CENTRE, tau)
        a, t = tl.where(flat, a1, a), tl.where(flat, t1, t)

    # The shares, and the pair of the threshold itself: `selection_search.shares_at`.
    near = (tl.abs(top - a) < INF) & (tl.abs(least - a) < INF)
    known = tl.where(near, t, NAN)
    a1, t1 = _moved(a, t, -origin, tau)
    t1 = tl.where(in_range & (near | ~inner), tl.where(inner, t1, outer), NAN)
    tl.store(A + row, tl.where(inner, a1, 0.0), mask=inside)
    tl.store(T + row, t1, mask=inside)
    finite_t, bad = inner & (known == known), t1 != t1
    a, t = tl.where(finite_t, a, 0.0), tl.where(finite_t, t, 0.0)
    others = tl.where(bad, NAN, tl.where(t1 < 0, 1.0, 0.0))
    first, stop = _span(LAST, record, n, S, LAST, B, HELD)
    for j in range(first, stop, B):
        if not HELD:
            x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
        z = (x - a[:, None]) * inverse_tau[:, None] - t[:, None]
        p = tl.where(finite_t[:, None], VALUE(z, c, b), others[:, None])
        p = tl.where((x > -INF) | bad[:, None], p, 0.0)
        here = inside[:, None] & (j + col < n)[None, :]
        at = OUT + (row * n)[:, None] + (j + col)[None, :]
        tl.store(at, p.to(OUT.dtype.element_ty), mask=here)


@triton.jit
def _slope_weights(
    z, c, top, on, WEIGHT: tl.constexpr, LOGS: tl.constexpr, b: tl.constexpr
):
    """The slopes, divided by e^top if they are logarithms; 0 for entries not `on`."""
    w = WEIGHT(z, c, b)
    if LOGS:
        w = tl.exp(w - top[:, None])
    return tl.where(on, w, 0.0)


@triton.jit(do_not_specialize=["temperature", "stage"])
def pull_kernel(
    X, G, A, T, TAU, GX, GK, GTAU, temperature: tl.float64,
    stride, g_row, g_col, tau_stride, SUMMED, stage, rows, n,
    WEIGHT: tl.constexpr, LOGS: tl.constexpr, b: tl.constexpr, ORIGIN: tl.constexpr,
    FLAT: tl.constexpr, TAU_ROWS: tl.constexpr, R: tl.constexpr, B: tl.constexpr,
    HELD: tl.constexpr, SPLIT: tl.constexpr, S: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """With w the slopes, W their sum, d = (x - a) / tau: the gradients

    gk = sum w g / W,  gx = w (g - gk) / tau,  gtau = -sum gx d,

    of the shares' gradient g; w / W from logarithms where slopes underflow.
    """
    DTYPE: tl.constexpr = SUMMED.dtype.element_ty
    tiny: tl.constexpr = TINY64 if DTYPE == tl.float64 else TINY32
    row, inside = _rows_of(rows, R)
    col = tl.arange(0, B)
    zero = tl.zeros([R], DTYPE)
    a = tl.load(A + row, mask=inside, other=0)
    t = tl.load(T + row, mask=inside, other=0)
    if TAU_ROWS:
        tau = tl.load(TAU + row * tau_stride, mask=inside, other=1.0).to(DTYPE)
    else:
        tau = tl.full([R], temperature, DTYPE)
    bad, finite_t = t != t, tl.abs(t) < INF
    tau = tl.where((tau >= tiny) & (tau <= 1 / tiny), tau, 1.0)
    inverse_tau = 1 / tau
    c, origin = zero, zero + ORIGIN
    if FLAT:  # the origin is 0 here: slopes are largest next to it, and jump at it
        c, origin = zero + 1, zero
    a, t = tl.where(finite_t, a, 0.0), tl.where(finite_t, t, 0.0)
    # The slopes need the threshold's pair with the origin, and d needs the anchor a.
    o, s = _moved(a, t, origin, tau)
    record = SUMMED, row, rows, stage
    x, g = tl.zeros([R, B], DTYPE), tl.zeros([R, B], DTYPE)
    if HELD:
        x = _held(X, row, stride, 1, n, inside, -INF, DTYPE, R, B, SPLIT)
        g = _held(G, row, g_row, g_col, n, inside, 0.0, DTYPE, R, B, SPLIT)

    top = zero
    if LOGS:
        top = zero - INF
        first, stop = _span(0, record, n, S, LAST, B, HELD)
        for j in range(first, stop, B):
            if not HELD:
                x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
            on = (x > -INF) & finite_t[:, None]
            z = tl.where(on, (x - o[:, None]) * inverse_tau[:, None] - s[:, None], 0.0)
            log = tl.where(on, WEIGHT(z, c, b), -INF)
            top = tl.maximum(top, tl.max(log, 1))
        top = _over(0, record, top, 0, S, True)
        top = tl.where(top > -INF, top, 0.0)
    W, W2, total, total2 = zero, zero, zero, zero
    first, stop = _span(1, record, n, S, LAST, B, HELD)
    for j in range(first, stop, B):
        if not HELD:
            x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
            g = _tile(G, row, g_row, g_col, j + col, n, inside, 0.0, DTYPE)
        on = (x > -INF) & finite_t[:, None]
        z = tl.where(on, (x - o[:, None]) * inverse_tau[:, None] - s[:, None], 0.0)
        w = _slope_weights(z, c, top, on, WEIGHT, LOGS, b)
        # In a row out of range the slopes are 0: 0 if nothing depends on it, else NaN.
        term = tl.where(bad[:, None] & (g != 0), NAN, w * g)
        W1, total1 = sum2(w, term)
        W, W2 = _plus(W, W2, W1, HELD)
        total, total2 = _plus(total, total2, total1, HELD)
    W, total = _over(1, record, W + W2, 0, S), _over(1, record, total + total2, 1, S)
    gk = total / tl.where(W > 0, W, 1.0)
    tl.store(GK + row, gk, mask=inside)
    size = tl.exp(top) * inverse_tau if LOGS else inverse_tau
    gtau, gtau2 = zero, zero
    first, stop = _span(2, record, n, S, LAST, B, HELD)
    for j in range(first, stop, B):
        if not HELD:
            x = _tile(X, row, stride, 1, j + col, n, inside, -INF, DTYPE)
            g = _tile(G, row, g_row, g_col, j + col, n, inside, 0.0, DTYPE)
        on = (x > -INF) & finite_t[:, None]
        z = tl.where(on, (x - o[:, None]) * inverse_tau[:, None] - s[:, None], 0.0)
        d = tl.where(on, (x - a[:, None]) * inverse_tau[:, None], 0.0)
        w = _slope_weights(z, c, top, on, WEIGHT, LOGS, b)
        gx = (w * size[:, None]) * (g - gk[:, None])
        gtau, gtau2 = _plus(gtau, gtau2, tl.sum(gx * d, 1), HELD)
        here = inside[:, None] & (j + col < n)[None, :]
        at = GX + (row * n)[:, None] + (j + col)[None, :]
        tl.store(at, gx.to(GX.dtype.element_ty), mask=here)
    tl.store(GTAU + row, -_over(2, record, gtau + gtau2, 0, S), mask=inside)

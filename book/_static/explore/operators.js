/* The package's operators for the explorable figures: a few scores, double precision.
 *
 * A curve f with a budget k picks the threshold that solves sum f((x_i - t)/tau) = k.
 * With a few scores bisection to the last bit is both the simplest solver and fast
 * enough, so that is what runs here. tests/test_explore.py holds every function
 * against the package. A classic script, so that pages also work from a file: it
 * defines `softtopk` in a page and exports the same object under Node.
 */
"use strict";

(function (root) {
  const half = (t) => 0.5 * Math.exp(-Math.abs(t));

  /* Each curve: value f(t), complement 1 - f(t), slope f'(t), all without cancellation. */
  const curves = {
    exp: {
      label: "min(1, eᵗ)",
      value: (t) => Math.exp(Math.min(t, 0)),
      complement: (t) => -Math.expm1(Math.min(t, 0)),
      slope: (t) => (t <= 0 ? Math.exp(t) : 0),
    },
    laplace: {
      label: "Laplace",
      value: (t) => (t < 0 ? half(t) : 1 - half(t)),
      complement: (t) => (t < 0 ? 1 - half(t) : half(t)),
      slope: half,
    },
    sigmoid: {
      label: "sigmoid",
      value: (t) => 1 / (1 + Math.exp(-t)),
      complement: (t) => 1 / (1 + Math.exp(t)),
      slope: (t) => 1 / (2 + Math.exp(t) + Math.exp(-t)),
    },
    clip: {
      label: "clip",
      value: (t) => Math.min(1, Math.max(0, t)),
      complement: (t) => Math.min(1, Math.max(0, 1 - t)),
      slope: (t) => (t > 0 && t < 1 ? 1 : 0),
    },
    triangular: {
      label: "triangular",
      value: (t) => (t < 0 ? 0.5 * Math.max(0, 1 + t) ** 2 : 1 - 0.5 * Math.max(0, 1 - t) ** 2),
      complement: (t) =>
        t < 0 ? 1 - 0.5 * Math.max(0, 1 + t) ** 2 : 0.5 * Math.max(0, 1 - t) ** 2,
      slope: (t) => Math.max(0, 1 - Math.abs(t)),
    },
    entmax15: {
      label: "entmax 1.5",
      value: (t) => Math.min(1, Math.max(0, 1 + t / 2) ** 2),
      complement: (t) => (t >= 0 ? 0 : t <= -2 ? 1 : (-t * (4 + t)) / 4),
      slope: (t) => (t > -2 && t < 0 ? 1 + t / 2 : 0),
    },
  };

  /* sum f - k without cancellation near 0 and 1: large shares enter by what they lack. */
  function excess(curve, x, k, tau, threshold) {
    let whole = 0;
    let rest = 0;
    for (const score of x) {
      const t = (score - threshold) / tau;
      const p = curve.value(t);
      if (p > 0.5) {
        whole += 1;
        rest -= curve.complement(t);
      } else {
        rest += p;
      }
    }
    return whole - k + rest;
  }

  /* The boundary between thresholds where `low` holds and those where it does not. */
  function bisect(low, from, to) {
    for (let step = 0; step < 200; step++) {
      const middle = 0.5 * (from + to);
      if (!(from < middle && middle < to)) break;
      if (low(middle)) from = middle;
      else to = middle;
    }
    return 0.5 * (from + to);
  }

  /* For min(1, e^t) the threshold is the least of these, m = 0 .. ceil(k) - 1 entries
   * being cut off: log-sum-exp of the others minus log(k - m). */
  function segments(x, k, tau) {
    const sorted = x.map((score) => score / tau).sort((a, b) => b - a);
    const levels = [];
    for (let m = 0; m < k && m < x.length; m++) {
      const sum = sorted.slice(m).reduce(logAdd, -Infinity);
      levels.push(tau * (sum - Math.log(k - m)));
    }
    return levels;
  }

  /* The threshold; the middle of its interval where it is not unique. */
  function threshold(name, x, k, tau) {
    const curve = curves[name];
    if (k <= 0) return Infinity;
    if (k >= x.length) return -Infinity;
    if (name === "exp") return Math.min(...segments(x, k, tau));
    const reach = 800 * tau;
    const from = Math.min(...x) - reach;
    const to = Math.max(...x) + reach;
    const at = (t) => excess(curve, x, k, tau, t);
    const low = bisect((t) => at(t) > 0, from, to);
    const high = bisect((t) => at(t) >= 0, from, to);
    return 0.5 * (low + high);
  }

  /* The selection p of a threshold operator. */
  function softTopK(name, x, k, tau) {
    if (k <= 0) return x.map(() => 0);
    if (k >= x.length) return x.map(() => 1);
    const level = threshold(name, x, k, tau);
    return x.map((score) => curves[name].value((score - level) / tau));
  }

  /* Its Jacobian, diag(w) - w w'/W with w the slopes: an array of rows. */
  function jacobian(name, x, k, tau) {
    const level = threshold(name, x, k, tau);
    const inside = Number.isFinite(level);
    const w = x.map((s) => (inside ? curves[name].slope((s - level) / tau) / tau : 0));
    const total = w.reduce((a, b) => a + b, 0);
    return w.map((a, i) =>
      w.map((b, j) => (i === j ? a : 0) - (total > 0 ? (a * b) / total : 0)),
    );
  }

  /* log e_j of the weights for j = 0..k, by additions only. */
  function logPartitions(x, k) {
    const logs = new Array(k + 1).fill(-Infinity);
    logs[0] = 0;
    for (const score of x) {
      for (let j = k; j >= 1; j--) logs[j] = logAdd(logs[j], logs[j - 1] + score);
    }
    return logs;
  }

  function logAdd(a, b) {
    const top = Math.max(a, b);
    if (top === -Infinity) return top;
    return top + Math.log1p(Math.exp(Math.min(a, b) - top));
  }

  /* GradTopK: the marginals of the k-subset distribution; k is a whole number. */
  function gradTopK(x, k, tau) {
    const n = x.length;
    if (k <= 0) return x.map(() => 0);
    if (k >= n) return x.map(() => 1);
    const top = Math.max(...x);
    const scaled = x.map((score) => (score - top) / tau);
    const whole = logPartitions(scaled, k)[k];
    return scaled.map((score, i) => {
      const others = scaled.filter((_, j) => j !== i);
      return Math.min(1, Math.exp(score + logPartitions(others, k - 1)[k - 1] - whole));
    });
  }

  /* Its Jacobian, the covariance of the random k-subset. */
  function gradJacobian(x, k, tau) {
    const n = x.length;
    const p = gradTopK(x, k, tau);
    const top = Math.max(...x);
    const scaled = x.map((score) => (score - top) / tau);
    const whole = logPartitions(scaled, k)[k];
    return p.map((a, i) =>
      p.map((b, j) => {
        if (i === j) return (a * (1 - a)) / tau;
        if (k < 1 || k >= n) return 0;
        if (k < 2) return (-a * b) / tau;
        const others = scaled.filter((_, m) => m !== i && m !== j);
        const both = Math.exp(scaled[i] + scaled[j] + logPartitions(others, k - 2)[k - 2] - whole);
        return (both - a * b) / tau;
      }),
    );
  }

  /* The hard top-k; a tie at the k-th place shares what is left. */
  function topK(x, k) {
    const sorted = [...x].sort((a, b) => b - a);
    const last = sorted[Math.min(x.length, Math.max(1, Math.ceil(k))) - 1];
    const above = x.filter((score) => score > last).length;
    const tied = x.filter((score) => score === last).length;
    return x.map((score) => {
      if (k <= 0) return 0;
      return score > last ? 1 : score < last ? 0 : (k - above) / tied;
    });
  }

  /* Entmax: p_i = [z_i - l]_+^(1/b) with z = b (x - max x), b = alpha - 1; the sum falls in l. */
  function entmax(x, alpha) {
    const b = alpha - 1;
    const top = Math.max(...x);
    if (b === 0) {
      const weights = x.map((score) => Math.exp(score - top));
      const sum = weights.reduce((a, w) => a + w, 0);
      return weights.map((w) => w / sum);
    }
    const shares = (level) => x.map((s) => Math.max(b * (s - top) - level, 0) ** (1 / b));
    let from = -1; // the largest score alone contributes 1
    let to = -(x.length ** -b); // no score contributes more than 1/n
    for (let step = 0; step < 80; step++) {
      const middle = 0.5 * (from + to);
      const sum = shares(middle).reduce((a, p) => a + p, 0);
      if (sum >= 1) from = middle;
      else to = middle;
    }
    return shares(from);
  }

  function softmax(x, tau) {
    return softTopK("exp", x, 1, tau);
  }

  const operators = {
    curves,
    excess,
    segments,
    threshold,
    softTopK,
    jacobian,
    gradTopK,
    gradJacobian,
    topK,
    softmax,
    entmax,
  };
  root.softtopk = operators;
  if (typeof module !== "undefined") module.exports = operators;
})(typeof globalThis !== "undefined" ? globalThis : this);

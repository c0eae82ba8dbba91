r"""How much room a formula of a line of text takes, estimated while the book is built.

MathJax sets a formula in the browser, on a phone seconds after the text has come. If
the text kept no room for it, its lines would then break anew. So each formula tells how
wide it will be. The estimate follows TeX's rules for spaces, fractions and scripts,
with the widths of MathJax's fonts; 99 of 100 formulas of the book are met within
0.02 em. For a formula with a sign or command that is in no table below there is no
estimate.

The unit is one em of MathJax's font, which MathJax chooses so that its x has the height
of the x of the text around it: 0.442 em are 1 ex.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

X_HEIGHT = 0.442  # of MathJax's fonts, in em
SMALL = 0.7071  # a script, of what it belongs to
AFTER_SCRIPT = 0.0825  # what MathJax leaves free behind one
RAISED = 0.055  # and before a superscript, where the letter is slanted outwards
AROUND_BAR = 0.44  # what a fraction is wider than its parts
SURD = 0.853
BIG = {  # brackets of \big, \Big, \bigg and \Bigg, by the width of the plain one
    0.278: (0.417, 0.472, 0.528, 0.583),
    0.389: (0.458, 0.597, 0.736, 0.792),
    0.444: (0.472, 0.528, 0.583, 0.639),
    0.5: (0.583, 0.667, 0.75, 0.806),
}


def _table(groups: dict[float, str]) -> dict[str, float]:
    return {name: width for width, names in groups.items() for name in names.split()}


def _letters(groups: dict[float, str]) -> dict[str, float]:
    return {letter: width for width, letters in groups.items() for letter in letters}


# fmt: off
ITALIC = _letters({
    .298: "l", .345: "i", .361: "t", .412: "j", .429: "b", .433: "c", .451: "r",
    .46: "q", .466: "ez", .469: "s", .477: "g", .485: "ov", .49: "y", .503: "pI",
    .52: "dk", .529: "a", .55: "f", .572: "ux", .576: "h", .6: "n", .633: "J",
    .645: "S", .681: "L", .704: "T", .716: "w", .723: "Z", .75: "AFP", .759: "BRC",
    .764: "OYEU", .769: "V", .786: "G", .791: "Q", .828: "D", .852: "X", .878: "m",
    .888: "HNK", 1.05: "WM",
})
SLANT = _letters({  # how much of that stands out at the top
    .014: "q", .024: "X", .026: "E", .032: "S", .04: "KZ", .045: "C", .06: "fHI",
    .078: "J", .083: "MUN", .106: "WFP", .12: "T", .184: "YV",
})
ROMAN = _letters({
    .25: " ", .278: "il.,:;'", .306: "j", .333: "-", .361: "I", .372: "f", .389: "t()",
    .392: "rs", .444: "cez", .5: "ago0123456789", .514: "J", .528: "kqvxy",
    .556: "bdhnpuS", .611: "Z", .625: "L", .653: "F", .681: "EP", .708: "B",
    .722: "wCT", .736: "R", .75: "AHNUVXY", .764: "D", .778: "KOQ", .785: "G",
    .833: "m", .917: "M", 1.028: "W",
})
SANS = _letters({
    .239: "il", .267: "j", .278: "I", .345: "rf", .361: "t", .383: "s", .435: "z",
    .444: "ce", .461: "vxy", .472: "J", .485: "ak", .5: "go0123456789",
    .517: "bdhnpqu", .55: "LS", .569: "F", .597: "E", .611: "Z", .642: "CPR",
    .667: "ABGVXY", .685: "TwU", .7: "KHN", .722: "D", .736: "OQ", .794: "m",
    .875: "M", .944: "W",
})
BOLD = _letters({
    .319: "il", .351: "j", .436: "I", .45: "tfs", .474: "r", .511: "cz", .527: "e",
    .559: "a", .575: "go0123456789", .594: "J", .607: "kqvxy", .639: "bdhnpuS",
    .7: "LZ", .724: "F", .756: "E", .786: "P", .8: "T", .818: "B", .831: "wC",
    .865: "ROQAVXY", .883: "DU", .9: "HNKG", .958: "m", 1.092: "M", 1.189: "W",
})
DOUBLE = _letters({
    .389: "I", .5: "J", .556: "S1", .611: "FP", .667: "BELTZ", .722: "ACDNRUVXY",
    .778: "GHKOQ", .944: "M", 1.0: "W",
})
SCRIPT = _letters({
    .527: "C", .564: "E", .595: "G", .642: "IS", .657: "BV", .69: "UL", .714: "Y",
    .733: "P", .765: "KZD", .8: "OX", .818: "QA", .835: "FTJ", .847: "HR", .979: "N",
    1.034: "W", 1.201: "M",
})
FONTS = {
    "mathrm": ROMAN, "operatorname": ROMAN, "text": ROMAN, "textrm": ROMAN,
    "mathsf": SANS, "mathbf": BOLD, "mathbb": DOUBLE, "mathcal": SCRIPT,
}
# Signs by their class, which decides on the space around them.
SIGNS = {
    "ord": _table({
        .278: "| .", .354: r"\iota", .406: r"\epsilon", .417: r"\ell",
        .438: r"\xi", .444: r"\delta", .466: r"\varepsilon", .47: r"\theta \zeta",
        .497: r"\eta", .5: r"/ \|", .517: r"\rho \tau", .53: r"\nu",
        .54: r"\upsilon \gamma", .566: r"\beta \partial", .57: r"\pi \sigma",
        .576: r"\kappa", .583: r"\lambda", .596: r"\phi \vartheta", .603: r"\mu",
        .625: r"\omega \Gamma \chi", .64: r"\alpha", .652: r"\psi \varphi",
        .667: r"\Xi", .694: r"\Lambda", .722: r"\Sigma \Phi \Omega", .75: r"\Pi",
        .778: r"\Theta \Psi \top", .833: r"\Delta \nabla \# \%", 1.0: r"\infty",
    }),
    "op": _table({.61: r"\int", .944: r"\prod", 1.056: r"\sum"}),
    "bin": _table({
        .278: r"\cdot", .5: r"* \circ \star \setminus \bullet", .667: r"\cap \cup",
        .778: r"+ - \pm \mp \times \odot",
    }),
    "rel": _table({
        .278: r": \mid", .5: r"\downarrow \uparrow", .667: r"\in \notin",
        .778: r"= < > \le \ge \ne \approx \sim \propto \subset \equiv \preceq",
        1.0: r"\to \mapsto \leftarrow \Leftrightarrow \Rightarrow \leftrightarrow "
             r"\ll \gg",
        2.414: r"\iff",
    }),
    "open": _table({
        .278: r"[ \lvert", .389: r"( \langle", .444: r"\lceil \lfloor",
        .5: r"\{ \lVert",
    }),
    "close": _table({
        .278: r"] ! \rvert", .389: r") \rangle", .444: r"\rceil \rfloor",
        .5: r"\} \rVert",
    }),
    "punct": _table({.278: r", ; \colon"}),
    "inner": _table({1.172: r"\dots \ldots \cdots"}),
}
# fmt: on
CLASS = {
    name: (kind, size) for kind, signs in SIGNS.items() for name, size in signs.items()
}
NAMED = {
    *(
        "log",
        "exp",
        "max",
        "min",
        "sup",
        "inf",
        "lim",
        "det",
        "dim",
        "ker",
        "arg",
        "gcd",
    ),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "Pr"),
}
ACCENTS = {"bar", "hat", "tilde", "dot", "ddot", "vec", "overline", "widetilde"}
BLANKS = _table({0.1667: r"\,", 0.2222: r"\: \>", 0.2778: r"\;", 1.0: r"\quad"})
BLANKS |= {r"\ ": 0.25, "~": 0.25, r"\!": -0.1667, r"\qquad": 2.0}

THIN, MEDIUM, THICK = 1 / 6, 2 / 9, 5 / 18
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\S", re.DOTALL)


class UnknownError(Exception):
    """What stands in no table."""


@dataclass
class Part:
    """A piece of a formula: what it is, and how far it goes to each side."""

    kind: str
    width: float
    signs: float = 1  # as formulas.js counts them, to see what may break
    above: float = 0.7
    below: float = 0.19
    slant: float = 0


def between(left: str, right: str) -> float:
    """The space that TeX leaves between two parts of a line."""
    if left == "open" or right in ("close", "punct"):
        return THIN if (left, right) == ("inner", "punct") else 0
    if "rel" in (left, right):
        return 0 if left == right else THICK
    if "bin" in (left, right):
        return MEDIUM
    if left == "punct":
        return THIN
    if (left, right) == ("fraction", "name"):  # MathJax, not TeX
        return 0
    if left in ("op", "name", "inner"):
        return 0 if left != "inner" and right == "open" else THIN
    return THIN if right in ("op", "name", "inner") else 0


def row(parts: list[Part], level: int) -> Part:
    """Parts beside each other."""
    kinds = [part.kind for part in parts if part.kind != "blank"]
    if kinds and parts[0].kind == "bar":
        kinds[0] = "open"
    kinds = ["ord" if kind == "bar" else kind for kind in kinds]
    for place, kind in enumerate(kinds):  # a minus may be a sign
        before = kinds[place - 1] if place else "open"
        after = kinds[place + 1] if place + 1 < len(kinds) else "close"
        alone = before in ("open", "rel", "bin", "op", "name", "punct")
        if kind == "bin" and (alone or after in ("rel", "close", "punct")):
            kinds[place] = "ord"
    space = 0.0
    for left, right in pairwise(kinds):
        gap = between(left, right)
        of_operator = gap == THIN and bool({"op", "name"} & {left, right})
        space += gap if not level or of_operator else 0
    return Part(
        kinds[0] if len(parts) == len(kinds) == 1 else "ord",
        space + sum(part.width for part in parts),
        2 * space + sum(part.signs for part in parts),
        max((part.above for part in parts), default=0),
        max((part.below for part in parts), default=0),
        parts[0].slant if len(parts) == 1 else 0,
    )


class Reader:
    """Reads a formula from the left to the right."""

    def __init__(self, tex: str) -> None:
        self.tokens = TOKEN.findall(re.sub(r"\\ ", "~", tex))
        self.texts = re.findall(r"\\(?:text|textrm|operatorname)\s*\{([^{}]*)\}", tex)
        self.place = 0
        self.raised = 0.36  # how far up an exponent goes

    def peek(self) -> str:
        """The next token, or none at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        """The next token, which has then been read."""
        if not (token := self.peek()):
            raise UnknownError("the end")
        self.place += 1
        return token

    def line(self, level: int, *ends: str) -> Part:
        """A row of parts, up to one of the ends or to the end of all."""
        return row(list(self.parts(level, *ends)), level)

    def parts(self, level: int, *ends: str) -> Iterator[Part]:
        """The parts of a row with what is raised and lowered at each."""
        while self.peek() not in ("", *ends):
            part = self.part(level)
            yield self.scripts(part, level)

    def argument(self, level: int) -> Part:
        """One token or a group."""
        if len(token := self.peek()) > 1 and token[0].isdigit():
            self.tokens[self.place : self.place + 1] = [token[0], token[1:]]
        return self.part(level)

    def scripts(self, part: Part, level: int) -> Part:
        """A part with its index, its exponent and its primes."""
        wide = signs = 0.0
        above, below, primes = part.above, part.below, 0
        lower = upper = False
        while (mark := self.peek()) in ("_", "^", "'") and mark:
            self.take()
            if mark == "'":
                primes += 1
                upper = True
                continue
            script = self.argument(level + 1)
            size = SMALL if level < 2 else 1
            own = size * script.width
            if mark == "^":
                upper = True
                above = max(above, self.raised + size * script.above)
                own += primes * 0.195 + (RAISED if part.slant else 0)
                primes = 0
            else:
                lower = True
                below = max(below, 0.15 + size * script.below)
                own -= part.slant
            wide = max(wide, own)
            signs = max(signs, 0.7 * script.signs)
        if not (lower or upper):
            return part
        if primes:
            wide = max(wide, primes * 0.195 + (RAISED if part.slant else 0))
        return replace(
            part,
            width=part.width + wide + AFTER_SCRIPT,
            signs=part.signs + max(signs, 0.7 * primes),
            above=above,
            below=below,
            slant=0,
        )

    def letters(self, font: dict[str, float]) -> Part:
        """The letters of a font, as in an operator's name."""
        name = ""
        if (token := self.take()) == "{":
            while (token := self.take()) != "}":
                name += token
        else:
            name = token
        if font is ROMAN and self.texts and re.sub(r"\s", "", self.texts[0]) == name:
            name = self.texts.pop(0)
        if set(name) - font.keys():
            raise UnknownError(name)
        return Part("ord", sum(font[letter] for letter in name), len(name))

    def fraction(self, level: int, *, bar: bool, display: bool) -> Part:
        """One argument above the other."""
        inner = level if display else level + 1
        size = 1 if display or level > 1 else SMALL
        over, under = self.argument(inner), self.argument(inner)
        lift = max(0.68 if display else 0.394, 0.33 + size * over.below)
        drop = max(0.69 if display else 0.345, size * under.above - 0.17)
        return Part(
            "fraction" if bar else "ord",
            size * max(over.width, under.width) + (AROUND_BAR if bar else 0.916),
            0.7 * max(over.signs, under.signs) + (0 if bar else 2),
            lift + size * over.above,
            drop + size * under.below,
        )

    def bracket(self, size: int, kind: str) -> Part:
        """A bracket of a given size; 0 is its own."""
        name = self.take()
        if name == ".":
            return Part(kind, 0.12, 0)
        width = CLASS.get(name, ("", 0))[1]
        if not width:
            raise UnknownError(name)
        bar = name in ("|", r"\|", r"\lvert", r"\rvert", r"\lVert", r"\rVert")
        part = Part(kind, width if bar or not size else BIG[width][size - 1])
        if bar and size:
            part.width += 0.055
        reach = 0.755 + 0.1 * size if size < 2 else 0.555 + 0.3 * size
        return replace(part, above=reach, below=reach - 0.5) if size else part

    def part(self, level: int) -> Part:
        """What one token begins."""
        token = self.take()
        name = token[1:]
        if token == "{":
            inner = self.line(level, "}")
            self.take()
            return replace(inner, kind="ord")
        if token[0].isdigit():
            width = ROMAN["0"] * len(token) - 0.222 * token.count(".")
            return Part("ord", width, len(token), 0.67, 0.02)
        if token in ITALIC:
            return Part(
                "ord",
                ITALIC[token],
                above=0.44 if token in "acegmnopqrsuvwxyz" else 0.7,
                below=0.2 if token in "fgjpqyQ" else 0.02,
                slant=SLANT.get(token, 0),
            )
        if token in BLANKS:
            return Part("blank", BLANKS[token], 2 * BLANKS[token], 0, 0)
        if token in CLASS:
            kind, width = CLASS[token]
            part = Part(kind, width, slant=0.19 if token == r"\int" else 0)
            if kind in ("op", "open", "close") or token in "/|":
                part.above, part.below = 0.755, 0.255
            elif kind in ("bin", "rel"):
                part.above, part.below = 0.6, 0.14
            return replace(part, kind="bar") if token in ("|", r"\|") else part
        if name in NAMED:
            return Part("name", sum(ROMAN[one] for one in name), len(name), 0.7, 0.2)
        if name in FONTS:
            part = self.letters(FONTS[name])
            return replace(part, kind="name") if name == "operatorname" else part
        if name in ("frac", "tfrac", "dfrac", "binom"):
            return self.fraction(level, bar=name != "binom", display=name == "dfrac")
        if name == "sqrt" and self.peek() != "[":
            raised, self.raised = self.raised, 0.29
            inner = self.argument(level)
            self.raised = raised
            tall = inner.above + inner.below > 0.895
            return Part(
                "ord",
                inner.width + (1.02 if tall else SURD),
                inner.signs + 1,
                max(0.87, inner.above + 0.2),
                max(0.21, inner.below),
            )
        if name in ACCENTS:
            inner = self.argument(level)
            above = inner.above + (0.26 if "bar" in name or "line" in name else 0.37)
            return replace(inner, kind="ord", above=above, slant=0)
        if found := re.fullmatch(r"(big|Big|bigg|Bigg)([lrm]?)", name):
            size = ["big", "Big", "bigg", "Bigg"].index(found[1]) + 1
            kinds = {"l": "open", "r": "close", "m": "rel", "": "ord"}
            return self.bracket(size, kinds[found[2]])
        if name == "left":
            start = self.place
            self.bracket(0, "open")
            inner = self.line(level, r"\right")
            self.take()
            reach = max(inner.above - 0.25, inner.below + 0.25)
            size = sum(reach >= least for least in (0.52, 0.68, 0.95))
            right = self.bracket(size, "close")
            end, self.place = self.place, start
            left, self.place = self.bracket(size, "open"), end
            return replace(row([left, inner, right], level), kind="inner")
        raise UnknownError(token)


LONG = 20  # formulas.js breaks what has more signs
RISE, DROP = 0.95, 0.38  # a formula that goes further makes its line higher


def room(tex: str) -> Part | None:
    r"""The room that a formula takes in its line; none where that is not known.

    >>> round(room("k=2").width, 2), round(room(r"\frac{1}{n}").width, 2)
    (2.35, 0.86)
    >>> room(r"\unheardof") is None
    True
    """
    reader = Reader(tex)
    try:
        found = reader.line(0)
    except UnknownError:
        return None
    return found if reader.place == len(reader.tokens) else None

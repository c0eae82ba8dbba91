"""MyST Markdown as the Markdown that any notebook program shows.

Directives become headings, quotations and lists, roles become the words that a page
shows for them, labels go, and numbered equations carry their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

Role = Callable[[str, str], str]  # the name of a role and what it holds: its words

FENCE = re.compile(r"( *)(`{3,}|:{3,})(?:\{([\w:-]+)\}[^\S\n]*(.*)|(.*))")
OPTION = re.compile(r":[\w-]+:")
ROLE = re.compile(r"\{([\w:-]+)\}`([^`]+)`")
EQUATION = re.compile(r"\$\$((?:[^$]|\$(?!\$))+)\$\$(?: *\(([\w-]+)\))?")
TITLES = ("theorem", "proposition", "lemma", "corollary", "definition", "remark")


class Block(NamedTuple):
    """A directive or a block of code."""

    name: str  # empty for code
    argument: str
    label: str
    body: list[str]


def blocks(lines: list[str]) -> Iterator[str | Block]:
    """The lines of a text, and its fenced blocks whole."""
    place = 0
    while place < len(lines):
        opening = FENCE.fullmatch(lines[place])
        if opening is None:
            yield lines[place]
            place += 1
            continue
        fence, name, argument, language = opening.groups()[1:]
        end = place + 1
        while end < len(lines) and not (
            lines[end].strip().startswith(fence) and not lines[end].strip(" `:")
        ):
            end += 1
        body = lines[place + 1 : end]
        if not name:
            yield Block("", language or "", "", body)
        else:
            label = ""
            while body and OPTION.match(body[0]):
                key, _, value = body.pop(0)[1:].partition(":")
                label = value.strip() if key == "label" else label
            yield Block(name, argument or "", label, body)
        place = end + 1


def quoted(text: str) -> str:
    """A text as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))


def plain(text: str, role: Role) -> str:
    r"""A text without what only MyST knows; `role` gives the words of a role.

    ``role("claims", "A1 A2")`` gives the list for the directive ``{claim}``, and
    ``role("number", label)`` what a labelled block or equation is called.
    """
    parts = []
    for part in blocks(text.split("\n")):
        if isinstance(part, Block):
            parts.append(directive(part, role))
        elif not re.fullmatch(r"\([\w-]+\)=", part):
            parts.append(part)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip()


def directive(block: Block, role: Role) -> str:
    """A directive, or a block of code, as plain Markdown."""
    kind, inner = block.name.removeprefix("prf:"), "\n".join(block.body)
    if kind == "literalinclude":
        return f"`{block.argument.rpartition('/')[2]}` is the file of a cell above."
    if not block.name or kind in ("code-block", "code"):
        return f"```{block.argument}\n{inner}\n```"
    if kind == "math":
        return f"$$\n{inner.strip()}{tag(block.label, role)}\n$$"
    if kind in ("claim", "install"):
        return role({"claim": "claims"}.get(kind, kind), block.argument) + "\n"
    if kind == "bibliography" or kind.endswith("-end"):
        return ""
    if kind == "proof":
        text = plain(inner, role)
        closed = text.endswith(("```", "$$"))
        return f"*Proof.* {text}" + ("\n\n∎" if closed else " ∎")
    title = inline(block.argument, role)
    if kind.startswith("solution"):
        return f"**Solution.**\n\n{plain(inner, role)}"
    if kind in TITLES or kind == "exercise":
        number = role("number", block.label) if block.label else ""
        name = number or kind.capitalize()
        title = f" ({title})" if title else ""
        return quoted(f"**{name}**{title}\n\n{plain(inner, role)}")
    head = f"**{title or kind.capitalize()}**"
    return quoted(f"{head}\n\n{plain(inner, role)}")


def tag(label: str | None, role: Role) -> str:
    """The number of an equation, as TeX."""
    number = role("number", label) if label else ""
    return f" \\tag{{{number}}}" if number else ""


def inline(text: str, role: Role) -> str:
    """The roles and equations of a text."""
    text = ROLE.sub(lambda m: role(m[1], m[2]), text)
    return EQUATION.sub(lambda m: numbered(m, role), text)


def numbered(match: re.Match[str], role: Role) -> str:
    """A display with its number in the place of its label."""
    inner, label = match.groups()
    if not label:
        return match[0]
    end = "\n" if inner.startswith("\n") else ""
    return f"$${inner.rstrip()}{tag(label, role)}{end}$$"


def whole(text: str, role: Role) -> str:
    """A Markdown cell, ready for any notebook program."""
    moving = re.compile(r"<(softtopk-[\w-]+).*?</\1>", re.DOTALL)
    text = moving.sub("*(This figure moves in the web edition.)*", text)
    return inline(plain(text, role), role)

"""The link between a code cell and the claims that it checks, and how a page shows it.

Everything that asks what a cell is asks here: the pages, the printed edition, the
notebooks for download, the tool that refreshes the notebooks, and the tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

TAG = "claim-"
# Tags of the cells that a page folds, besides those that check a claim.
KINDS = ("check", "plot", "imports", "helpers")


def claimed(source: str) -> dict[str, str]:
    """Claims that a cell checks, in order of appearance, each with its verdict.

    >>> claimed('with verify.claim("A45", "holds"):\\n    assert one == 1')
    {'A45': 'holds'}
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with a magic checks no claim
        return {}
    calls = [
        [ast.literal_eval(argument) for argument in node.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "claim"
        and node.args
        and all(isinstance(argument, ast.Constant) for argument in node.args)
    ]
    return {str(name): str(rest[0]) if rest else "" for name, *rest in calls}


def tagged(tags: Iterable[str]) -> list[str]:
    """Claims that the tags of a cell name."""
    return [tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG)]


def with_claims(tags: Iterable[str], source: str) -> list[str]:
    """The tags that a cell should have: its own, and one for each claim it checks."""
    own = [tag for tag in tags if not tag.startswith(TAG)]
    return own + [TAG + name for name in claimed(source)]


def kind(tags: Iterable[str]) -> str | None:
    """Which kind of fold a cell is: ``claim`` or one of ``KINDS``; None if it is open.

    >>> kind(["check"]), kind(["claim-A45", "plot"]), kind(["nbval-skip"])
    ('check', 'claim', None)
    """
    tags = list(tags)
    if tagged(tags):
        return "claim"
    return next((name for name in KINDS if name in tags), None)


def announced(source: str) -> str:
    """What the first line of a cell says, if that line is a comment.

    >>> announced("# Ties are kept.\\nassert True"), announced("x = 1")
    ('Ties are kept.', '')
    """
    first = source.lstrip().partition("\n")[0]
    comment = re.fullmatch(r"#+\s*(.*?)\s*", first)
    return comment[1] if comment else ""

"""What a module exports, with its signatures, read from its source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef


def exported(tree: ast.Module) -> list[str]:
    """The names in ``__all__``, functions before classes.

    >>> exported(ast.parse("__all__ = ['f', 'C', 'a']"))
    ['a', 'f', 'C']
    """
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return sorted(names, key=lambda name: (name[0].isupper(), name))
    return []


def definitions(path: Path) -> tuple[dict[str, Definition], list[Path]]:
    """What a module defines or imports from its package, and the files it stands in."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    found: dict[str, Definition] = {}
    files = [path]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            other = path.parent.joinpath(*node.module.split(".")).with_suffix(".py")
            wanted = {name.name: name.asname or name.name for name in node.names}
            if not set(wanted.values()) & set(exported(tree)):
                continue
            there, further = definitions(other)
            # A class may take its signature from a base beside it.
            found |= {wanted.get(name, name): node for name, node in there.items()}
            files += further
    return found, files


def signature(node: Definition, known: dict[str, Definition]) -> str:
    """The arguments of a function or of a class, with their defaults.

    >>> module = ast.parse("def f(x: int, *, dim: int = -1, **axis: int): ...")
    >>> signature(module.body[0], {})
    '(x, *, dim=-1)'
    >>> tree = ast.parse("class A:\\n def __init__(self, k): ...\\nclass B(A): ...")
    >>> signature(tree.body[1], {"A": tree.body[0]})
    '(k)'
    """
    if isinstance(node, ast.ClassDef):
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                return re.sub(r"^\(self(, )?", "(", signature(item, known))
        bases = [known[b.id] for b in node.bases if isinstance(b, ast.Name)]
        return signature(bases[0], known)
    given = node.args
    several = [given.vararg] if given.vararg else []
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several):
        each.annotation = None
    given.kwarg = None  # the other word for an axis
    return f"({ast.unparse(given)})"

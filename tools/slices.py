"""Which cells of a notebook a cell needs: the names that each takes and gives."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Collection

import nbformat

Notebook = nbformat.NotebookNode
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def plain_code(cell: Notebook) -> ast.Module:
    """The code of a cell without its magics."""
    return ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE))


def defined(tree: ast.AST) -> set[str]:
    """Names that a cell binds for the cells after it."""
    names: set[str] = set()
    todo = list(ast.iter_child_nodes(tree))
    while todo:
        node = todo.pop()
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
            continue  # what it binds inside is its own
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
            continue
        if isinstance(node, ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {
                (alias.asname or alias.name).partition(".")[0] for alias in node.names
            }
        todo += ast.iter_child_nodes(node)
    return names


def used(tree: ast.Module) -> set[str]:
    """Names that a cell takes from the cells before it.

    >>> sorted(used(ast.parse("with f() as g:\\n    a = a[0]\\n    b = g")))
    ['a', 'f']
    >>> sorted(used(ast.parse("try:\\n    a\\nexcept E as e:\\n    e")))
    ['E', 'a']
    >>> sorted(used(ast.parse("for i in n:\\n    a += i\\n    b = i\\n    b += i")))
    ['a', 'n']
    """
    found, _ = _taken(tree.body, set(), defined(tree))
    return found


def _taken(
    body: list[ast.stmt], bound: set[str], later: set[str]
) -> tuple[set[str], set[str]]:
    """Names that statements take from before them, and those bound after them."""
    found: set[str] = set()
    for statement in body:
        blocks = [
            block
            for name in ("body", "orelse", "finalbody")
            for block in [getattr(statement, name, [])]
            if block and not isinstance(statement, _DEFINITIONS)
        ]
        if isinstance(statement, ast.Try):
            blocks += [_caught(handler) for handler in statement.handlers]
        first = _head(statement) if blocks else statement
        here, inside = names_read(first)
        found |= (here - bound) | (inside - bound - later)
        bound = bound | defined(ast.Module([first], []))
        ends = [bound]
        for block in blocks:
            more, end = _taken(block, bound, later)
            found |= more
            ends.append(end)
        bound = set().union(*ends)
    return found, bound


def _caught(handler: ast.ExceptHandler) -> list[ast.stmt]:
    """The block of a handler, after a statement that reads what it waits for."""
    waits = ast.Expr(handler.type or ast.Constant(None))
    name = [ast.Assign([ast.Name(handler.name, ast.Store())], ast.Constant(None))]
    first: list[ast.stmt] = [waits, *(name if handler.name else [])]
    return [*map(ast.fix_missing_locations, first), *handler.body]


def _head(statement: ast.stmt) -> ast.stmt:
    """A statement with blocks, without what stands in them."""
    empty: list[ast.stmt] = [ast.Pass()]
    head: ast.stmt = ast.Pass()
    match statement:
        case ast.For():
            head = ast.For(statement.target, statement.iter, empty, [])
        case ast.With():
            head = ast.With(statement.items, empty)
        case ast.If() | ast.While():
            head = ast.Expr(statement.test)
    return ast.fix_missing_locations(head)


def names_read(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Names that a statement reads: itself, and in the functions that it holds."""
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    here = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        here.add(statement.target.id)
    inside, scopes = set(), table.get_children()
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        inside |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
    return here, inside


def changed(tree: ast.AST) -> set[str]:
    """Names of what a cell may change in place: ``a[0] = 1``, ``a.b = 1``, ``a.f(1)``.

    Who changes an item in a loop changes what the loop runs over.  A class that is
    called makes something new.

    >>> sorted(changed(ast.parse("a[0] = 1\\nf(b)\\nfor i in c: d.e.append(i)")))
    ['a', 'd']
    >>> sorted(changed(ast.parse("for a in b.values(): a[0] = 1\\nc.Table(1)")))
    ['a', 'b']
    """
    places: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript | ast.Attribute):
            places += [node] if isinstance(node.ctx, ast.Store) else []
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if isinstance(called, ast.Attribute) and not called.attr[0].isupper():
                places.append(called)
    names = set()
    for place in places:
        while isinstance(place, ast.Subscript | ast.Attribute):
            place = place.value
        names |= {place.id} if isinstance(place, ast.Name) else set()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    for loop in reversed(loops):  # an inner loop before those around it
        if _named(loop.target) & names:
            names |= _named(loop.iter)
    return names


def _named(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def needed(cells: list[Notebook], wanted: Collection[int]) -> list[int]:
    """The places of the wanted cells and of those whose names they build upon."""
    names: set[str] = set()
    kept = []
    for place in reversed(range(len(cells))):
        tree = plain_code(cells[place])
        if place in wanted or (defined(tree) | changed(tree)) & names:
            kept.append(place)
            names |= used(tree)
    return kept[::-1]

"""Run the cells of a page as a notebook runs them.

A page has one `Shell`, in its interpreter. What a cell shows goes out as the outputs of
a notebook: streams, results, figures and errors, in their order.
"""

from __future__ import annotations

import ast
import base64
import builtins
import io
import linecache
import sys
import traceback
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from pretty import pretty

Output = dict[str, Any]
MIME = {"text/latex": "_repr_latex_", "text/markdown": "_repr_markdown_"}


def plain(value: object) -> str:
    """A value as IPython prints it."""
    return pretty(value)


def bundle(value: object) -> dict[str, str]:
    """Every form in which a value shows itself."""
    data = {"text/plain": plain(value)}
    for mime, method in MIME.items():
        form = getattr(type(value), method, None)
        shown = form(value) if form else None
        if shown is not None:
            data[mime] = shown
    return data


# --- A reader's answer ---------------------------------------------------------------


def defined(statement: ast.stmt) -> set[str]:
    """The names that a statement binds and does nothing else with."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value:
        targets = [statement.target]
    leaves = [leaf for target in targets for leaf in _leaves(target)]
    return {leaf.id for leaf in leaves if isinstance(leaf, ast.Name)}


def _leaves(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [leaf for part in target.elts for leaf in _leaves(part)]
    return [target]


def names(source: str) -> list[str]:
    """The names that a cell defines, in order.

    >>> names("a, b = 1, 2\\ndef f():\\n    c = 3\\nassert a < b")
    ['a', 'b', 'f']
    """
    found: dict[str, None] = {}
    for statement in ast.parse(source).body:
        found.update(dict.fromkeys(sorted(defined(statement))))
    return list(found)


def asked(sources: list[str]) -> list[str]:
    """The names that the cells of a solution define."""
    return list(dict.fromkeys(name for source in sources for name in names(source)))


def answered(source: str, given: Iterable[str]) -> tuple[str, list[str]]:
    """A check that takes the names which a reader has given, and which those are.

    A definition of the check gives way when all of its names are given.

    >>> answered("a = 1\\nb = 2\\nassert a < b", ["b", "z"])
    ('a = 1\\nassert a < b', ['b'])
    """
    given, used, kept = set(given), [], []
    for statement in ast.parse(source).body:
        bound = defined(statement)
        if bound and bound <= given:
            used += sorted(bound)
        else:
            kept.append(ast.get_source_segment(source, statement) or "")
    return "\n".join(kept), list(dict.fromkeys(used))


# --- The shell -----------------------------------------------------------------------


class _Stream(io.TextIOBase):
    def __init__(self, name: str, emit: Callable[[Output], None]) -> None:
        self.name, self.emit = name, emit

    def write(self, text: str) -> int:
        if text:
            self.emit({"output_type": "stream", "name": self.name, "text": text})
        return len(text)


class Shell:
    """One notebook: names that its cells share, and where their outputs go.

    A cell finds the names as the cell above it has left them, also when cells below
    have run since: what it shows is what a run from the top would show.
    """

    def __init__(self, emit: Callable[[Output], None]) -> None:
        self.emit = emit
        self.names: dict[str, Any] = {
            "__name__": "__main__",
            "__builtins__": builtins,
            "display": self.display,
        }
        self.left = {-1: dict(self.names)}  # by the number of the cell

    def display(self, *values: object) -> None:
        """Show values, as a cell's last line does."""
        for value in values:
            self.emit({"output_type": "display_data", "data": bundle(value)})

    def figures(self) -> None:
        """Show the open figures, and close them."""
        plt = sys.modules.get("matplotlib.pyplot")
        for number in plt.get_fignums() if plt else []:
            figure, image = plt.figure(number), io.BytesIO()
            figure.savefig(image, format="png", bbox_inches="tight")
            data = {
                "text/plain": plain(figure),
                "image/png": base64.b64encode(image.getvalue()).decode(),
            }
            self.emit({"output_type": "display_data", "data": data})
            plt.close(figure)

    def run(self, source: str, number: int, above: int) -> bool:
        """Run a cell below another one; whether it came to its end."""
        name = f"cell {number + 1}"
        self.names.clear()  # the functions of the cells have this very dictionary
        self.names.update(self.left[above])
        streams = sys.stdout, sys.stderr
        sys.stdout = _Stream("stdout", self.emit)
        sys.stderr = _Stream("stderr", self.emit)
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        try:
            for code, shown in parts(source, name):
                value = eval(code, self.names)
                if shown and value is not None:
                    data = bundle(value)
                    self.emit({"output_type": "execute_result", "data": data})
            self.figures()
        except BaseException as error:
            self.emit(described(error, name))
            return False
        finally:
            sys.stdout, sys.stderr = streams
            self.left[number] = dict(self.names)
        return True

    def check(
        self, sources: list[str], answer: str, number: int, above: int
    ) -> tuple[bool, list[str], list[str]]:
        """Run the cells of a solution on the names that an answer gives.

        Returns whether they came to their end, the names that they took from the
        answer, and those that they could have taken.
        """
        given, used = names(answer), []
        for source in sources:
            code, taken = answered(source, given)
            used += taken
            if not self.run(code, number, above):
                return False, used, asked(sources)
            above = number
        return True, used, asked(sources)


def parts(source: str, name: str) -> list[tuple[CodeType, bool]]:
    """The code of a cell, its last expression apart: that one is shown."""
    tree = ast.parse(source, name)
    last = tree.body[-1:]
    if not last or not isinstance(last[0], ast.Expr) or source.rstrip()[-1:] == ";":
        return [(compile(tree, name, "exec"), False)]
    tree.body.pop()
    shown = compile(ast.Expression(last[0].value), name, "eval")
    return [(compile(tree, name, "exec"), False), (shown, True)]


def described(error: BaseException, name: str) -> Output:
    """An error as a notebook stores it; its traceback begins in the cell."""
    told = traceback.TracebackException.from_exception(error)
    frames = list(told.stack)
    own = [place for place, frame in enumerate(frames) if frame.filename == name]
    told.stack[:] = frames[own[0] :] if own else []
    return {
        "output_type": "error",
        "ename": type(error).__name__,
        "evalue": str(error),
        "traceback": "".join(told.format()).rstrip(),
    }

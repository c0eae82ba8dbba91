"""The functions of a module, described from its source without importing it.

``.. functions-of:: softtopk.torch`` lists what the module exports, each with its
signature and its whole docstring. The book is built where PyTorch, JAX and Dask are not
installed, so autodoc, which imports a module, cannot read these three. sphinx-autoapi
can, and finds the same names; but words in single backticks are no links there (1 link
in the descriptions for PyTorch, where there are 205), signatures hold the types that
the docstrings say in words, and it reads the whole package at each build.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from signatures import Definition, definitions, exported, signature
from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import NumpyDocstring
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


CODE = re.compile(r"(:[\w:]+:`[^`]*`|``[^`]*``)|(?<!`)`([^`]+)`(?!`)")


def linked(line: str, module: str, known: Collection[str]) -> str:
    """A line whose words in backticks are code, and links where the module has them.

    >>> linked("As `x` of `f`, :math:`a`.", "lib", {"f"})
    'As ``x`` of :py:obj:`~lib.f`, :math:`a`.'
    """

    def role(word: re.Match[str]) -> str:
        if word[1]:
            return word[1]
        return (
            f":py:obj:`~{module}.{word[2]}`" if word[2] in known else f"``{word[2]}``"
        )

    return CODE.sub(role, line)


def described(module: str, name: str, known: dict[str, Definition]) -> list[str]:
    """The lines of reStructuredText that describe a function or a class.

    >>> text = "def f(x):\\n    'Twice `x`.'"
    >>> described("lib", "f", {"f": ast.parse(text).body[0]})
    ['.. py:function:: f(x)', '', '   Twice ``x``.', '']
    """
    node = known[name]
    kind = "class" if isinstance(node, ast.ClassDef) else "function"
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    lines = str(NumpyDocstring(text)).splitlines()
    head = f".. py:{kind}:: {name}{signature(node, known)}"
    body = (f"   {linked(line, module, set(known) - {name})}" for line in lines)
    return [head, "", *(line.rstrip() for line in body), ""]


class FunctionsOf(SphinxDirective):
    """All that a module exports."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the descriptions."""
        module = self.arguments[0]
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        known, files = definitions(path)
        for file in files:
            self.env.note_dependency(str(file))
        lines = [f".. py:module:: {module}", ""]
        for name in exported(ast.parse(path.read_text(encoding="utf8"))):
            if name in known:  # the others are modules
                lines += described(module, name, known)
        section = nodes.section()
        section.document = self.state.document
        self.state.nested_parse(StringList(lines, str(path)), 0, section)
        return list(section.children)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.add_directive("functions-of", FunctionsOf)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

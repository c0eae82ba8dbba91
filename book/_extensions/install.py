"""How to install the package, said in one place.

``{install}`` directive
    The line that installs the package, with the extras that it names::

        ```{install} torch
        ```

It installs from where the book is published (``publish_repository``): the page of a
release installs that release. Before it is published, it installs from the folder that
the reader has.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from versions import tag, version

NAME = "softtopk"


def requirement(repository: str, *extras: str, ref: str = "") -> str:
    """What ``pip install`` is asked for; `ref` names a commit, a tag or a branch.

    >>> requirement(""), requirement("", "torch")
    ('.', '".[torch]"')
    >>> requirement("https://example.org/a/b", "jax", "torch")
    '"softtopk[jax,torch] @ git+https://example.org/a/b"'
    >>> requirement("https://example.org/a/b", ref="v1.0")
    '"softtopk @ git+https://example.org/a/b@v1.0"'
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    if repository:
        return f'"{NAME}{wanted} @ git+{repository}{ref and "@"}{ref}"'
    return f'".{wanted}"' if wanted else "."


class InstallDirective(SphinxDirective):
    """The line for a terminal."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return a block of code."""
        extras = " ".join(self.arguments).replace(",", " ").split()
        ref = tag(version())
        what = requirement(self.config.publish_repository, *extras, ref=ref)
        line = f"pip install {what}"
        return [nodes.literal_block(line, line, language="bash")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.add_directive("install", InstallDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

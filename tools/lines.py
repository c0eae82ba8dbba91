"""Count the lines of code of the package, by module and in all.

Docstrings, comments and blank lines are left out.  Where a tool writes a
module, the tool counts instead of it: that is what somebody reads and changes.

    python tools/lines.py [FOLDER]
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def code_lines(text: str) -> int:
    """How many lines of a module hold code.

    >>> code_lines('"A docstring."\\n\\nx = 1  # one\\n# a comment\\ny = (\\n 2\\n)\\n')
    4
    >>> code_lines("# Written by tools/some.py.\\nx = 1\\n")
    0
    """
    if writers(text):
        return 0
    lines = text.splitlines()
    code = {
        i for i, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"
    }
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            code -= set(range(value.lineno, (value.end_lineno or 0) + 1))
    return len(code)


def writers(text: str) -> list[str]:
    """The tool that wrote a module, if one did.

    >>> writers("# Written by tools/some.py from softtopk.\\nx = 1\\n")
    ['tools/some.py']
    """
    return re.findall(r"\A# Written by (tools/\w+\.py)", text)


def main(folder: Path) -> None:
    """Print a line for each module, the longest first, and the sum."""
    texts = {
        path.relative_to(folder.parent).as_posix(): path.read_text(encoding="utf8")
        for path in folder.rglob("*.py")
    }
    for name in {name for text in texts.values() for name in writers(text)}:
        texts[name] = (ROOT / name).read_text(encoding="utf8")
    counts = {name: code_lines(text) for name, text in texts.items()}
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:6}  {name}")
    print(f"{sum(counts.values()):6}  in all")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "softtopk")

"""The generated part of docs/design.md: the files that its tables do not name, by first lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "alveus"
BEGIN, END = "<!-- files: written by tools/make_design.py -->", "<!-- end of files -->"
LINES_OF_EXPORTS = 60
"""An `__init__.py` with fewer lines only exports names."""


def design_page(there: str) -> str:
    """Return docs/design.md with a row for each file that is not named before the rows."""
    before, _, rest = there.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "\n".join(_rows(before))
    return f"{before}{BEGIN}\n| file | what it has |\n|---|---|\n{rows}\n{END}{after}"


def _rows(named_in: str) -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text(encoding="utf-8")
        is_export = path.name == "__init__.py" and text.count("\n") < LINES_OF_EXPORTS
        if f"`{name}`" not in named_in and path.name != "__main__.py" and not is_export:
            first, _, _ = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
            yield f"| `{name}` | {first} |"

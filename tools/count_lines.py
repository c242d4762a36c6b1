"""Count the code lines of the package: Python by room, SQL and C apart.

    python tools/count_lines.py             the package of this checkout
    python tools/count_lines.py OTHER/src   that of another one
    python tools/count_lines.py --json
    python tools/count_lines.py --lower     write a figure that fell into tests/ceilings.toml

A code line of Python has something on it that is no blank, no comment and no docstring; a
docstring is a string that stands alone as a statement. A code line of SQL or C is not blank and
no comment. A room is a package or a module right below `alveus`.

tests/test_house.py compares the sum for Python with `code_lines` in tests/ceilings.toml, and
fails if the package has grown above it. To raise a ceiling on purpose, edit that file.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import tokenize
import tomllib
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CEILINGS = ROOT / "tests" / "ceilings.toml"
SLACK = 200
"""Code lines below the ceiling from which the ceiling is to be lowered."""

LAYOUT = {
    tokenize.COMMENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.INDENT, tokenize.NEWLINE,
    tokenize.NL,
}  # fmt: skip
COMMENTS = {
    ".sql": re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL),
    ".c": re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL),
}


def python_lines(text: str) -> int:
    """Return the code lines of a Python file."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass
    return len(code)


def other_lines(text: str, kind: str) -> int:
    """Return the code lines of an SQL or C file; *kind* is ``.sql`` or ``.c``."""
    return sum(1 for line in COMMENTS[kind].sub("", text).splitlines() if line.strip())


def counts(source: Path) -> dict[str, Any]:
    """Return the figures of the package below the folder *source*."""
    package = source / "alveus"
    rooms: Counter[str] = Counter()
    total = dict.fromkeys(("code_lines", "raw_lines", "files", "sql_lines", "c_lines"), 0)
    for path in sorted(package.rglob("*")):
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            lines = python_lines(text)
            rooms[path.relative_to(package).parts[0].removesuffix(".py")] += lines
            total["code_lines"] += lines
            total["raw_lines"] += len(text.splitlines())
            total["files"] += 1
        elif path.suffix == ".sql":
            total["sql_lines"] += other_lines(path.read_text(encoding="utf-8"), ".sql")
        elif path.suffix in {".c", ".h"}:
            total["c_lines"] += other_lines(path.read_text(encoding="utf-8"), ".c")
    return {**total, "rooms": dict(rooms.most_common())}


def ceiling() -> int:
    """Return the most code lines that the house test lets the package have."""
    return tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["code_lines"]


def lower(figures: dict[str, int]) -> None:
    """Write figures, by the names that they have in the file, as the new ceilings.

    Raises:
        SystemExit: One is above its ceiling, which only an edit by hand raises.
    """
    text = CEILINGS.read_text(encoding="utf-8")
    for name, count in figures.items():
        line = re.compile(rf"^{name} = ([\d_]+)$", re.MULTILINE)
        (most,) = line.findall(text)
        if count > int(most):
            raise SystemExit(f"{name}: {count:,} is above the ceiling of {int(most):,}")
        text = line.sub(f"{name} = {count:_}", text)
    CEILINGS.write_text(text, encoding="utf-8")


def main() -> None:
    """Print the figures, or lower the ceiling."""
    parser = argparse.ArgumentParser(description="Count the code lines of the package.")
    parser.add_argument("source", type=Path, nargs="?", default=ROOT / "src")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--lower", action="store_true", help="lower the ceiling of the house test")
    options = parser.parse_args()
    if not (options.source / "alveus" / "__init__.py").is_file():
        parser.error(f"{options.source} holds no package alveus; name the folder above it")
    found = counts(options.source)
    if options.lower:
        lower({"code_lines": found["code_lines"]})
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for room, lines in found.pop("rooms").items():
        print(f"{lines:8,}  {room}")
    for name, count in found.items():
        print(f"{count:8,}  {name.replace('_', ' ')}")


if __name__ == "__main__":
    main()

"""Draw docstrings, paragraphs and errors at random, for a reader who judges how they read.

    python tools/sample_prose.py --seed 7              40 docstrings, 20 paragraphs, 20 errors
    python tools/sample_prose.py --seed 7 --json

A docstring is that of a module, a class or a function below `src/alveus`; a paragraph is one of a
page in `docs`, of README.md, CONTRIBUTING.md or SECURITY.md, without code, tables, headings and
generated pages; an error is the text of an exception that `src/alveus` raises, as it is written.
The same seed draws the same from the same files.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
GENERATED = {"cli.md", "contract.md", "decisions.md", "reference.md"}
FEWEST_WORDS = 4
"""Of a docstring, a paragraph or an error that can be misread."""


@dataclass(frozen=True)
class Sample:
    """A text, and where it is."""

    kind: str
    path: str
    line: int
    text: str


def docstrings(path: Path) -> Iterator[Sample]:
    """Yield the docstrings of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and len(text.split()) >= FEWEST_WORDS:
                yield Sample("docstring", named(path), node.body[0].lineno, text)


def errors(path: Path) -> Iterator[Sample]:
    """Yield the texts of exceptions that a file raises; a value shows as its expression."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                text = message(argument)
                if len(text.split()) >= FEWEST_WORDS:
                    yield Sample("error", named(path), node.lineno, text)


def message(node: ast.expr) -> str:
    """Return a text as its literal has it, or "" if it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (
            part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
        return "".join(map(str, parts))
    return ""


def paragraphs(path: Path) -> Iterator[Sample]:
    """Yield the paragraphs of prose of a page."""
    line, fenced = 1, False
    for block in re.split(r"(\n{2,})", path.read_text(encoding="utf-8")):
        start, line = line, line + block.count("\n")
        fences = block.count("```")
        prose = not fenced and not fences and not re.match(r"[#|<!:\s]|(\w+: )", block)
        if fences % 2:
            fenced = not fenced
        if prose and len(block.split()) >= FEWEST_WORDS:
            yield Sample("paragraph", named(path), start, block)


def named(path: Path) -> str:
    """Return the path of a file from the root of the repository."""
    return str(path.relative_to(ROOT))


def drawn(seed: int, *, counts: dict[str, int]) -> list[Sample]:
    """Return as many of each kind as *counts* says."""
    sources = sorted((ROOT / "src" / "alveus").rglob("*.py"))
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in GENERATED]
    pages += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    everything = {
        "docstring": [one for path in sources for one in docstrings(path)],
        "paragraph": [one for path in pages for one in paragraphs(path)],
        "error": [one for path in sources for one in errors(path)],
    }
    chance = random.Random(seed)
    return [one for kind, count in counts.items() for one in chance.sample(everything[kind], count)]


def main() -> None:
    """Print what is drawn."""
    parser = argparse.ArgumentParser(description="Draw docstrings, paragraphs and errors.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--docstrings", type=int, default=40)
    parser.add_argument("--paragraphs", type=int, default=20)
    parser.add_argument("--errors", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    options = parser.parse_args()
    counts = {
        "docstring": options.docstrings,
        "paragraph": options.paragraphs,
        "error": options.errors,
    }
    samples = drawn(options.seed, counts=counts)
    if options.json:
        print(json.dumps([asdict(one) for one in samples], indent=2, ensure_ascii=False))
        return
    for number, one in enumerate(samples, start=1):
        print(f"--- {number}. {one.kind}, {one.path}:{one.line}\n{one.text}\n")


if __name__ == "__main__":
    main()

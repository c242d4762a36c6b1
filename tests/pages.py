"""The repository as a reader finds it: its files, its Markdown pages, and the code in them."""

from __future__ import annotations

import re
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<marks>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
_NO_RUN = re.compile(r"^\s*<!--\s*no-run\b:?\s*(?P<reason>.*?)\s*-->\s*$")
_NEVER_OURS = {"__pycache__", "build", "dist"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: Number of its first line of code; its fence is the line before.
        no_run: None, or the reason that `<!-- no-run: reason -->` before it gives ('' if none).
    """

    page: Path
    line: int
    language: str
    code: str
    no_run: str | None

    @property
    def place(self) -> str:
        """Where to look: file:line."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def files() -> list[Path]:
    """Every file of the repository: what git tracks or would track, or what a copy holds."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        found = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not _is_left_behind(path)]
    return sorted(path for path in set(found) if path.is_file())


def _is_left_behind(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    hidden = any(part.startswith(".") and part not in {".ci", ".gitignore"} for part in parts)
    return hidden or not _NEVER_OURS.isdisjoint(parts)


def pages() -> list[Path]:
    """README.md and everything below docs/: what a user reads."""
    return [path for path in files() if path.suffix == ".md" and _is_for_users(path)]


def _is_for_users(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts == ("README.md",) or parts[0] == "docs"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of *page*, in order.

    Raises:
        ValueError: A fence is not closed.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence:
            end = _closing(lines, number, fence["marks"], page)
            code = textwrap.dedent("\n".join(lines[number + 1 : end]) + "\n")
            marker = _marker_before(lines, number)
            found.append(Block(page, number + 2, fence["language"].lower(), code, marker))
            number = end
        number += 1
    return found


def _closing(lines: list[str], start: int, marks: str, page: Path) -> int:
    closing = re.compile(rf"^\s*{re.escape(marks[0])}{{{len(marks)},}}\s*$")
    for number in range(start + 1, len(lines)):
        if closing.match(lines[number]):
            return number
    message = f"{page.relative_to(ROOT)}:{start + 1}: this fence is never closed"
    raise ValueError(message)


def _marker_before(lines: list[str], fence: int) -> str | None:
    for line in reversed(lines[:fence]):
        if line.strip():
            marker = _NO_RUN.match(line)
            return marker["reason"] if marker else None
    return None


def prose(page: Path) -> list[str]:
    """The lines of *page*, with the insides of fenced blocks left empty."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        for number in range(block.line - 1, block.line - 1 + block.code.count("\n")):
            if number < len(lines):
                lines[number] = ""
    return lines

"""Count the words that have a plain one, in the package and in the pages.

    python tools/check_words.py             how often each occurs, and how often it may
    python tools/check_words.py --files     also in which files
    python tools/check_words.py --lines     each line, with the plain word
    python tools/check_words.py --lower     write counts that fell into tests/ceilings.toml
    python tools/check_words.py --check     fail where a word occurs more often than it may
    python tools/check_words.py PATH …      of these files and folders

A word counts wherever it stands: in identifiers (`told_of`, `NoSuchPlace`), docstrings, comments,
messages and pages. tools/words.toml has the list, and the lines that are no fault, with reasons.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from count_lines import CEILINGS, ROOT, lower

READ = ("src/alveus", "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md")
KINDS = {".py", ".md", ".sql", ".c", ".h"}


@dataclass(frozen=True)
class Word:
    """A word to avoid.

    Attributes:
        forms: How it is written, in lower case.
        plain: What to write in its place.
    """

    name: str
    forms: tuple[str, ...]
    plain: str

    @property
    def pattern(self) -> str:
        """A regular expression for the word in prose and as a part of an identifier."""
        lower_case = "|".join(map(re.escape, self.forms))
        capital = "|".join(re.escape(form.capitalize()) for form in self.forms)
        return rf"(?<![A-Za-z])(?:{lower_case})(?![a-z])|(?:{capital})(?![a-z])"


@dataclass(frozen=True)
class Found:
    """A word in a line of a file."""

    word: Word
    path: str
    line: int


@dataclass(frozen=True)
class Exempt:
    """Lines in which a word is no fault: those of a file, or of all, that have a text in them."""

    word: str
    line: str
    path: str = ""

    def covers(self, found: Found, line: str) -> bool:
        """Return whether it is about that word in that line."""
        return (
            self.word == found.word.name
            and self.line in line
            and (not self.path or self.path == found.path)
        )


class WordList:
    """The list of words, and the lines that are exempt."""

    def __init__(self, file: Path = ROOT / "tools" / "words.toml") -> None:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
        self.words = tuple(
            Word(name, tuple(each["forms"]), each["plain"]) for name, each in read["words"].items()
        )
        self.exempt = tuple(
            Exempt(each["word"], each["line"], each.get("path", "")) for each in read["exceptions"]
        )
        groups = (f"(?P<w{n}>{word.pattern})" for n, word in enumerate(self.words))
        self._pattern = re.compile("|".join(groups))

    def found(self, text: str, *, path: str) -> Iterator[Found]:
        """Yield each word of a file that is not exempt."""
        for number, line in enumerate(text.splitlines(), start=1):
            for match in self._pattern.finditer(line):
                each = Found(self.words[int(str(match.lastgroup)[1:])], path, number)
                if not any(one.covers(each, line) for one in self.exempt):
                    yield each


def files(paths: list[Path]) -> list[Path]:
    """Return the files that are read of some files and folders."""
    found = {one for path in paths for one in (path.rglob("*") if path.is_dir() else (path,))}
    return sorted(path for path in found if path.is_file() and path.suffix in KINDS)


def read(paths: list[Path], listed: WordList) -> list[Found]:
    """Return every word of some files and folders that is not exempt."""
    return [
        each
        for file in files([path.resolve() for path in paths])
        for each in listed.found(
            file.read_text(encoding="utf-8"),
            path=str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file),
        )
    ]


def report(found: list[Found], *, lines: bool, by_file: bool) -> None:
    """Print where words are."""
    if lines:
        for each in found:
            print(f"{each.path}:{each.line}: {each.word.name}: {each.word.plain}")
    if by_file:
        for (path, word), count in sorted(Counter((f.path, f.word.name) for f in found).items()):
            print(f"{count:6,}  {word:8} {path}")


def main() -> None:
    """Print what is found."""
    parser = argparse.ArgumentParser(description="Count the words that have a plain one.")
    parser.add_argument("paths", type=Path, nargs="*", default=[ROOT / each for each in READ])
    for option, effect in {
        "files": "also print the counts of each file",
        "lines": "print each line",
        "json": "print the counts as one JSON object",
        "lower": "lower the ceilings of the house test",
        "check": "fail above a ceiling",
    }.items():
        parser.add_argument(f"--{option}", action="store_true", help=effect)
    options = parser.parse_args()
    listed = WordList()
    found = read(options.paths, listed)
    counts = {word.name: 0 for word in listed.words} | Counter(each.word.name for each in found)
    if options.lower:
        lower(counts)
    if options.json:
        print(json.dumps(counts, indent=2))
        return
    report(found, lines=options.lines, by_file=options.files)
    most: dict[str, int] = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["words"]
    for word in listed.words:
        print(f"{counts[word.name]:6,}  of {most[word.name]:5,}  {word.name}: {word.plain}")
    if options.check and (above := [name for name, count in counts.items() if count > most[name]]):
        raise SystemExit(f"{', '.join(above)}: use the plain word (--lines shows where)")


if __name__ == "__main__":
    main()

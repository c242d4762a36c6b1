"""Which tests do more at full scale: those that look at `COUNTS`, or use what does."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

COUNTS = "COUNTS"

_WORD = re.compile(r"\w+")
_FROM = re.compile(r"^from ([\w.]+) import", re.MULTILINE)

_HERE = str(Path(__file__).parent) + os.sep


def is_scaled(module: ModuleType, test: Callable[..., Any], owner: type | None) -> bool:
    """Return whether a test of a module, or of a class there, does more at full scale."""
    names = _scaled_names(module)
    if not names:
        return False
    if owner is not None and owner.__name__ in names:
        return True
    code = inspect.unwrap(test).__code__
    return not names.isdisjoint(_words_of(code.co_filename, code.co_firstlineno))


@functools.cache
def _words_of(path: str, first: int) -> set[str]:
    """Return the words of the function of a file that begins in a line."""
    lines, _ = _parsed(path)
    return _words_between(lines, first, _last_lines(path)[first])


@functools.cache
def _last_lines(path: str) -> dict[int, int]:
    """Return the last line of each function of a file, by its first one."""
    return {
        _first_line(each): each.end_lineno or 0
        for each in ast.walk(_parsed(path)[1])
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@functools.cache
def _parsed(path: str) -> tuple[list[str], ast.Module]:
    text = Path(path).read_text(encoding="utf-8")
    return text.splitlines(), ast.parse(text)


@functools.cache
def _scaled_names(module: ModuleType) -> frozenset[str]:
    """Return what a module has by `COUNTS`: numbers, and functions and classes that look there."""
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    if COUNTS not in text and not any(map(_scaled_names_of, _FROM.findall(text))):
        return frozenset()  # to parse it takes longer
    lines, tree = _parsed(module.__file__ or "")
    uses: dict[str, set[str]] = {}
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found |= _imported(node)
        else:
            uses |= dict.fromkeys(_defined(node), _words(lines, node))
    while more := {name for name, words in uses.items() if name not in found and words & found}:
        found |= more
    return frozenset(found)


def _imported(node: ast.ImportFrom) -> set[str]:
    """Return what of an import is scaled: `COUNTS`, and what other modules of tests have by it."""
    names = {each.name for each in node.names}
    if node.module == "scale":
        return names & {COUNTS}
    return names & _scaled_names_of(node.module or "")


def _scaled_names_of(name: str) -> frozenset[str]:
    """Return what a module of tests has by `COUNTS`; any other has nothing."""
    other = sys.modules.get(name)
    if not (getattr(other, "__file__", None) or "/").startswith(_HERE):
        return frozenset()
    return _scaled_names(other)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [
            each.id
            for target in node.targets
            for each in ast.walk(target)
            if isinstance(each, ast.Name)
        ]
    return []


def _words(lines: list[str], node: ast.stmt) -> set[str]:
    """Return the words of a statement, of its decorators too; of a class without its tests."""
    if not isinstance(node, ast.ClassDef):
        return _words_between(lines, _first_line(node), node.end_lineno or 0)
    parts = [each for each in node.body if not getattr(each, "name", "").startswith("test")]
    return set[str]().union(*(_words(lines, each) for each in parts))


def _words_between(lines: list[str], first: int, last: int) -> set[str]:
    return set(_WORD.findall("\n".join(lines[first - 1 : last])))


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])

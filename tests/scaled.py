"""Which tests do more at full scale: those that look at `COUNTS`, or use what does."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

COUNTS = "COUNTS"

_WORD = re.compile(r"\w+")


def is_scaled(module: ModuleType, test: Callable[..., Any], owner: type | None) -> bool:
    """Return whether a test of a module, or of a class there, does more at full scale."""
    names = _scaled_names(module)
    if not names:
        return False
    if owner is not None and owner.__name__ in names:
        return True
    return not names.isdisjoint(_WORD.findall(_source(inspect.unwrap(test))))


@functools.cache
def _source(test: Callable[..., Any]) -> str:
    return inspect.getsource(test)


@functools.cache
def _scaled_names(module: ModuleType) -> frozenset[str]:
    """Return what a module has by `COUNTS`: numbers, and functions and classes that look there."""
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    uses: dict[str, set[str]] = {}
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            found |= _imported(node)
        else:
            uses |= dict.fromkeys(_defined(node), _words(text, node))
    while more := {name for name, words in uses.items() if name not in found and words & found}:
        found |= more
    return frozenset(found)


def _imported(node: ast.ImportFrom) -> set[str]:
    """Return what of an import is scaled: `COUNTS`, and what other modules of tests have by it."""
    names = {each.name for each in node.names}
    if node.module == "scale":
        return names & {COUNTS}
    other = sys.modules.get(node.module or "")
    here = Path(__file__).parent
    if other is None or not Path(getattr(other, "__file__", None) or "/").is_relative_to(here):
        return set()
    return names & _scaled_names(other)


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


def _words(text: str, node: ast.stmt) -> set[str]:
    """Return the words of a statement, of its decorators too; of a class without its tests."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    if not isinstance(node, ast.ClassDef):
        return set(_WORD.findall("\n".join(text.splitlines()[first - 1 : node.end_lineno])))
    parts = [each for each in node.body if not getattr(each, "name", "").startswith("test")]
    return set[str]().union(*(_words(text, each) for each in parts))

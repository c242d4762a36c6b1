"""Names, attributes and data files that are read or computed at their first use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, overload


def lazy_names(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: it imports a name when the name is first used.

    The names are those that the package imports below ``if TYPE_CHECKING:``, where a type checker
    reads them too.

    Args:
        package: The ``__name__`` of the package.
    """

    @cache
    def modules() -> dict[str, str]:
        from dis import get_instructions

        found, module = dict[str, str](), ""
        for step in get_instructions(
            cast("Any", sys.modules[package]).__loader__.get_code(package)
        ):
            if step.opname == "IMPORT_NAME":
                module = step.argval
            elif step.opname == "IMPORT_FROM":
                found[step.argval] = module
        return found

    def __getattr__(name: str) -> object:  # noqa: N807 - the name that Python looks up
        if name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


@cache
def data_file(package: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML file of a package, such as a list of words; it is read once."""
    import tomllib
    from importlib import resources

    return tomllib.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


T = TypeVar("T")


class lazy_attribute(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """A method without arguments that is replaced by its result.

    `functools.cached_property` of Python 3.11 holds a lock while it computes, one for all objects
    of a class. A child that is forked meanwhile waits for the lock forever. This class has no lock:
    if two threads come at once, both compute, and the later result stays.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> lazy_attribute[T]: ...
    @overload
    def __get__(self, of: object, owner: type) -> T: ...
    def __get__(self, of: object | None, owner: type) -> lazy_attribute[T] | T:
        if of is None:
            return self
        value = self._compute(of)
        vars(of)[self._name] = value
        return value


def lists_of(module: str) -> dict[str, list[str]]:
    """Return the lists in the text file beside a module, ``words.txt`` for ``words.py``, by name.

    This is a hundred times as fast as `data_file`, so it may be called at import.

    A line ``[name]`` begins a list. Every other line is an entry of the list, except lines that are
    empty or begin with ``#``.

    Args:
        module: The ``__file__`` of the module.
    """
    lists: dict[str, list[str]] = {}
    entries: list[str] = []
    for line in Path(module).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].isidentifier():
            entries = lists.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            entries.append(line)
    return lists


def words_of(module: str) -> dict[str, list[str]]:
    """Return the lists of `lists_of` for a file with several entries, between spaces, in a line."""
    return {name: " ".join(lines).split() for name, lines in lists_of(module).items()}

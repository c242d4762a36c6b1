"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its ``__name__``.
        names: The names that each module gives, by the module's full name.
    """
    modules = {
        name: module for module, names_of_module in names.items() for name in names_of_module
    }

    def __getattr__(name: str) -> object:  # noqa: N807 - what a module calls it
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__

"""The module in C that is compiled when alveus is installed where a C compiler is."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType


def compiled(functions: Sequence[str]) -> ModuleType | None:
    """Return the compiled module; None: it is not here, lacks one of *functions*, or is off."""
    if os.environ.get("ALVEUS_NATIVE", "").lower() == "off" or "t" in sys.abiflags:
        return None  # a Python without its global lock has no limited interface
    try:
        module = import_module("alveus.values._native")
    except ImportError:  # there was no compiler, or it was compiled for another kind of Python
        return None
    return module if all(hasattr(module, each) for each in functions) else None

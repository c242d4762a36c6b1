"""`NATIVE`: the functions of the C extension, or None.

`_native.c` does the work that takes most of the time of an add (the words of a text with their
stems, its language, its word pieces, their sum, the rounding of vectors). It also writes values of
a run as JSON, builds objects, and compares the codes of a large set with those of a question. It is
compiled when alveus is installed and a C compiler exists (`hatch_build.py`).

The Python code beside each call does the same, to the last bit. It defines the result, and handles
the inputs that C leaves to it, such as new words that are not ASCII. It does all of the work if the
extension is missing or ``ALVEUS_NATIVE=off`` is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from alveus.values._native import Native

FUNCTIONS = (
    *("known_words", "analyse", "listed_words", "guess_language"),
    *("vocabulary", "pieces", "add_pieces"),
    *("quantise", "differing", "compact", "read_texts"),
    *("holds_text", "columns", "learn"),
)
"""The functions that a compiled module must have; a module of an older version may lack some."""


def compiled(functions: Sequence[str]) -> ModuleType | None:
    """Return the compiled module.

    Return None if the module is missing, lacks one of *functions*, or is switched off.
    """
    if os.environ.get("ALVEUS_NATIVE", "").lower() == "off" or "t" in sys.abiflags:
        return None  # a Python without its global lock has no limited interface
    try:
        module = import_module("alveus.values._native")
    except ImportError:  # no compiler existed, or the module was compiled for another Python
        return None
    return module if all(hasattr(module, each) for each in functions) else None


NATIVE = cast("Native | None", compiled(FUNCTIONS))

"""The part of alveus that may be compiled: `NATIVE` has what works on values, or is None.

`_native.c` does what takes most of the time of an add: it reads the words of a text (their stems:
`_c/stems.h`), cuts it into word pieces, sums these up, and rounds vectors; of a run: it writes
values as JSON; and of a search among very many items: it counts the bits in which their codes
differ from a question's. It is compiled when alveus is installed where a C compiler is
(`hatch_build.py`), and left out where there is none. Python beside each call does the same, to the
last bit: it is the definition, reads whatever the compiled part leaves to it, such as words that
are not of ASCII when they are met first, and serves where that is missing, or where
``ALVEUS_NATIVE=off`` turns it off for a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from alveus.values.storable import Value

FUNCTIONS = (
    *("known_words", "analyse", "vocabulary", "pieces", "add_pieces"),
    *("quantise", "differing", "compact", "read_texts"),
)
"""What a compiled module has to have; one that stayed from another version may not."""


class Native(Protocol):
    """The functions of `_native.c`; what each does is said where Python does the same."""

    def known_words(
        self,
        stop: frozenset[str],
        temporal: frozenset[str],
        others: Callable[[str], tuple[list[int], int, int] | None],
        /,
    ) -> object:
        """Return what `analyse` knows of words, to which it adds the terms of what it meets."""
        ...

    def analyse(
        self, text: str, context_terms: list[int], known_words: object, /
    ) -> tuple[bytes, int, int] | None:
        """See `words.analyse_with`; None: the text is for Python."""
        ...

    def vocabulary(self, firsts: dict[str, int], inner: dict[str, int], longest: int, /) -> object:
        """Return what is known of word pieces, to which those of what is met are added."""
        ...

    def pieces(
        self, text: str, vocabulary: object, others: Callable[[str], list[int]], /
    ) -> list[int]:
        """See `WordPieces.ids`."""
        ...

    def add_pieces(  # noqa: PLR0913, PLR0917 - it has no names
        self,
        texts: list[str],
        vocabulary: object,
        others: Callable[[str], Sequence[int]],
        rows: NDArray[np.int8],
        scales: NDArray[np.float32],
        first: int,
        sums: NDArray[np.float32],
        /,
    ) -> None:
        """See `static.add_pieces`."""
        ...

    def quantise(self, rows: NDArray[np.float32], width: int, /) -> bytes | None:
        """See `vectors.quantise`; None: a number is not finite."""
        ...

    def differing(
        self,
        codes: NDArray[np.uint64],
        width: int,
        code: NDArray[np.uint64],
        out: NDArray[np.uint16],
        /,
    ) -> bool:
        """See `Bits.distances`; False: nothing was done, the machine cannot count bits."""
        ...

    def compact(self, value: Value, /) -> str | None:
        """See `wire.encode`; None: the value is for Python."""
        ...

    def read_texts(
        self,
        texts: list[Any],
        metadata: list[Any],
        caption: str,
        context_terms: list[list[int]],
        known_words: object,
        in_python: Callable[[str, list[int]], tuple[bytes, int, int]],
        /,
    ) -> tuple[list[str], list[bytes], list[int], list[int]] | None:
        """See `words.analyse_texts`; None: they are for Python, but not for what a text says.

        Args:
            in_python: Reads a text that `analyse` leaves to Python.
        """
        ...


def compiled(functions: Sequence[str]) -> ModuleType | None:
    """Return the compiled module; None: it is not here, lacks one of *functions*, or is off."""
    if os.environ.get("ALVEUS_NATIVE", "").lower() == "off" or "t" in sys.abiflags:
        return None  # a Python without its global lock has no limited interface
    try:
        module = import_module("alveus.values._native")
    except ImportError:  # there was no compiler, or it was compiled for another kind of Python
        return None
    return module if all(hasattr(module, each) for each in functions) else None


NATIVE = cast("Native | None", compiled(FUNCTIONS))
"""The compiled functions; None: there are none."""

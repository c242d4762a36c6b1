# The functions of `_native.c`. Each does what the Python beside its call does, to the last bit, and
# returns None where it leaves the work to that Python.

from collections.abc import Callable, Sequence
from typing import Any, Protocol, type_check_only

import numpy as np
from numpy.typing import NDArray

from alveus.values.storable import Value

@type_check_only
class Native(Protocol):
    # Known words, to which `analyse` adds the terms of new ones.
    def known_words(
        self,
        stop: frozenset[str],
        temporal: frozenset[str],
        languages: object,
        others: Callable[[str], tuple[list[int], int, int] | None],
        has_endings: Callable[[str], bool],
        /,
    ) -> object: ...
    # See `words.analyse_with`.
    def analyse(
        self, text: str, context_terms: list[int], known_words: object, /
    ) -> tuple[bytes, int, int] | None: ...
    # Listed words, each with a bit for each language that lists it, and its kind.
    def listed_words(self, words: list[tuple[str, int, int]], /) -> object: ...
    # See `languages.language_of`. The number is the language's bit, -1 for no known language.
    def guess_language(self, text: str, known_languages: object, /) -> int | None: ...
    # See `words.analyse_texts`. `in_python` reads a text that `analyse` leaves to Python.
    def read_texts(
        self,
        texts: list[Any],
        metadata: list[Any],
        caption: str,
        context_terms: list[list[int]],
        known_words: object,
        in_python: Callable[[str, list[int]], tuple[bytes, int, int]],
        /,
    ) -> tuple[list[str], list[bytes], list[int], list[int]] | None: ...
    # Known word pieces, to which `pieces` and `add_pieces` add new ones.
    def vocabulary(
        self, firsts: dict[str, int], inner: dict[str, int], longest: int, /
    ) -> object: ...
    # See `WordPieces.ids`.
    def pieces(
        self, text: str, vocabulary: object, others: Callable[[str], list[int]], /
    ) -> list[int]: ...
    # See `static.add_pieces`.
    def add_pieces(
        self,
        texts: list[str],
        vocabulary: object,
        others: Callable[[str], Sequence[int]],
        rows: NDArray[np.int8],
        scales: NDArray[np.float32],
        first: int,
        sums: NDArray[np.float32],
        /,
    ) -> None: ...
    # See `vectors.quantise`; None: a number is not finite.
    def quantise(self, rows: NDArray[np.float32], width: int, /) -> bytes | None: ...
    # See `Bits.distances`; False: the machine cannot count bits, and nothing was done.
    def differing(
        self,
        codes: NDArray[np.uint64],
        width: int,
        code: NDArray[np.uint64],
        out: NDArray[np.uint16],
        /,
    ) -> bool: ...
    # See `wire.encode`.
    def compact(self, value: Value, /) -> str | None: ...
    # See `lazy_dataclass.holds_text`.
    def holds_text(self, kind: type, /) -> None: ...
    # See `lazy_dataclass.columns_of`.
    def columns(self, objects: list[Any], like: object, /) -> tuple[list[Any], ...] | None: ...
    # Build the objects of a class in C; return what the class keeps for that, or None.
    def learn(
        self,
        made: type,
        fields: tuple[tuple[object, ...], ...],
        positional: int,
        then_checks: bool,
        frozen: bool,
        acyclic: bool,
        /,
    ) -> object: ...

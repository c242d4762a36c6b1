"""Text into the word pieces of BERT (uncased), in plain Python.

The pieces are those of the `tokenizers` library for every text it accepts, with one exception on
purpose: ``[SEP]`` and similar words in a text are cut like other words, so a user cannot write the
model's marks. `tests/test_embedders.py` checks this with a golden file.

The classes of characters are tables of Unicode 8, which the `tokenizers` library uses. The tables
of `unicodedata` grow with every version of Python: a text would get other pieces, and another
vector, after an upgrade. The tables were read off the library by cutting ``a?b`` for each of the
1.1 million characters instead of ``?``; `tools/make_weights.py --golden` compares them again.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from alveus.embed.weights import read_lines
from alveus.values.lazy import lazy_attribute, words_of
from alveus.values.native import NATIVE

UNKNOWN = 100
"""The piece of a word that cannot be cut into known pieces."""

START = 101
"""The mark before a text."""

END = 102
"""The mark after a text."""

FIRST_WORD = 999
"""The first entry of the vocabulary that is a piece of text. Those before are marks or unused."""

LONGEST_WORD = 100
"""Most characters of a word. A longer word is one unknown piece.

Source: BERT's `max_input_chars_per_word`.
"""

CACHED_CHUNKS = 32_768
"""Most cached chunks, the texts between spaces: about 7 MB. A full cache is emptied."""

CACHED_CHARACTERS = 8_192
"""Most cached characters. A full cache is emptied."""

# str.split() also splits at these, which BERT removes: "a\x0bb" is one word.
_REMOVED_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


class WordPieces:
    """Cuts texts into pieces. One instance may serve many threads."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._words = {piece: at for at, piece in enumerate(vocabulary) if piece[:2] != "##"}
        self._inner = {piece[2:]: at for at, piece in enumerate(vocabulary) if piece[:2] == "##"}
        self._longest = max(map(len, chain(self._words, self._inner)))
        self._characters = _Characters()
        self._chunks = _Chunks(self)

    def ids(self, text: str) -> list[int]:
        """Return the pieces of *text* as positions in the vocabulary, without marks.

        Any `str` is accepted, also with lone surrogates, and no error is raised. Case and accents
        are dropped. Each punctuation mark and each Chinese character is a word. A word with an
        unknown part, or of more than `LONGEST_WORD` characters, is one `UNKNOWN`.
        """
        if NATIVE is not None:
            return NATIVE.pieces(text, self.vocabulary, self.find)
        return self.find(text)

    def find(self, text: str) -> list[int]:
        """Return the pieces as `ids` does, without the C extension."""
        if _REMOVED_SPACES.search(text):
            text = _REMOVED_SPACES.sub("", text)
        return list(chain.from_iterable(map(self._chunks.__getitem__, text.split())))

    def words(self, text: str) -> list[str]:
        """Return the words of *text*, before they are cut into pieces."""
        return text.translate(self._characters).split()

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word: from the left, always the longest known piece."""
        whole = self._words.get(word)
        if whole is not None:
            return (whole,)
        if len(word) > LONGEST_WORD:
            return (UNKNOWN,)
        found: list[int] = []
        start, known = 0, self._words
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = known.get(word[start:end])
                if piece is not None:
                    break
            else:
                return (UNKNOWN,)
            found.append(piece)
            start, known = end, self._inner
        return tuple(found)

    @lazy_attribute
    def vocabulary(self) -> object:
        """The vocabulary in the form that the C extension reads, or None without the extension."""
        return NATIVE and NATIVE.vocabulary(self._words, self._inner, self._longest)


class _Chunks(dict[str, tuple[int, ...]]):
    """A cache of the pieces of text between two spaces."""

    def __init__(self, pieces: WordPieces) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        cut = self._pieces.pieces
        found = tuple(chain.from_iterable(map(cut, self._pieces.words(chunk))))
        if len(chunk) <= LONGEST_WORD:
            if len(self) >= CACHED_CHUNKS:
                self.clear()
            self[chunk] = found
        return found


class _Characters(dict[int, str]):
    """A cache of the replacements of characters, for `str.translate`."""

    def __init__(self) -> None:
        super().__init__()
        tables = {name: CharacterTable(ranges) for name, ranges in words_of(__file__).items()}
        self._dropped, self._punctuation = tables["dropped"], tables["punctuation"]
        self._ideographs = tables["ideographs"]

    def __missing__(self, code: int) -> str:
        if len(self) >= CACHED_CHARACTERS:
            self.clear()
        self[code] = becomes = self._become(chr(code))
        return becomes

    def _become(self, character: str) -> str:
        if ord(character) in self._dropped:
            return ""
        if character.isspace():
            return " "
        apart = "".join(map(self._settle, unicodedata.normalize("NFD", character)))
        return f" {apart} " if ord(character) in self._ideographs else apart

    def _settle(self, part: str) -> str:
        if ord(part) in self._dropped:
            return ""
        lower = part.lower()
        return f" {lower} " if ord(part) in self._punctuation else lower


@lru_cache(maxsize=1)
def bundled() -> WordPieces:
    """Return the `WordPieces` of the bundled vocabulary, which is read at the first call."""
    return WordPieces(read_lines("vocabulary.txt"))


# --- windows of a long text ---------------------------------------------------------------------

WINDOW = 256
"""Word pieces in a window, including the two marks. Source: all-MiniLM-L6-v2's `max_seq_length`."""

READ = WINDOW - 2
"""Word pieces of the text itself in a window."""

STRIDE = 192
"""Most word pieces between the starts of two neighbouring windows, if 32 windows are enough."""

MOST_WINDOWS = 32
"""Most windows of a text."""


def window_starts(pieces: int) -> list[int]:
    """Return the starts of the windows of a text with this number of pieces: 1 to 32 starts.

    The first starts at the beginning, the last ends at the end, the others are spread evenly.
    Neighbours share at least 62 pieces up to 6,206 pieces (about 4,500 English words). In a longer
    text the 32 windows move apart. Up to 8,128 pieces every piece is still in a window. In a longer
    text the pieces between two windows are in no window: meaning does not read them, but words do.
    """
    rest = pieces - READ
    if rest <= 0:
        return [0]
    steps = min(-(-rest // STRIDE), MOST_WINDOWS - 1)
    return [at * rest // steps for at in range(steps + 1)]


class CharacterTable:
    """A set of characters, held as ranges: 140,000 of them in 300 pairs."""

    def __init__(self, ranges: Sequence[str]) -> None:
        ends = [part.partition("-") for part in ranges]
        self._lows = [int(low, 16) for low, _, _ in ends]
        self._highs = [int(high or low, 16) for low, _, high in ends]

    def __contains__(self, code: int) -> bool:
        """Return whether the character with this code point is in the table."""
        at = bisect_right(self._lows, code) - 1
        return at >= 0 and code <= self._highs[at]

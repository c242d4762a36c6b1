"""The words of a text become terms, and terms become bytes.

A term is a stem, as a 32-bit number that is the same on every machine. Where words are written
with spaces, tokens come from SQLite's `unicode61` (letters and digits, lower case, no diacritics)
and stems from its `porter`; stop words are removed first. Arabic and Hindi have separate light
stems. In scripts without spaces (ideographs, kana, hangul, Thai, Lao, Khmer, Burmese), terms
are pairs of characters, and for ideographs the single ones too.

A long text is cut into passages, each with separate terms, so that a few words that answer a
question are not lost among the others. A text may also have marks, which describe its form to
search, such as being a question. Marks are kept as terms that no word has.
"""

from __future__ import annotations

import re
import struct
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import crc32

import apsw
import numpy as np
from numpy.typing import NDArray

from alveus.values.forks import FORKS
from alveus.values.languages import has_endings, known_languages, language_of
from alveus.values.lazy import words_of
from alveus.values.native import NATIVE
from alveus.values.phrases import temporal_words
from alveus.values.sqlite_connections import PlainConnection
from alveus.values.storable import EPOCH, checked

if TYPE_CHECKING:
    from alveus.values._native import Native

MAX_COUNT = 255
"""The highest count of a term, and of temporal words."""

CACHED_TERMS = 65_536
"""The most terms of tokens that a process caches: about 10 MB, in compiled code 4 MB."""

CACHED_CONTEXTS = 1_024
"""The most pairs of a speaker and a minute whose terms a process caches; less than 1 MB."""

PASSAGE_WORDS = 100
"""Words after which a text is cut."""

LAST_WORDS = 33
"""The fewest words of a last passage; fewer words stay with the passage before."""

PASSAGE = 0
"""The mark before the terms of each passage of a text that is cut."""

QUESTION, SHORT_QUESTION, INSTRUCTION = 1, 2, 3
"""Marks of a text that ends in a question mark and has up to 60 words; the same with up to 25
words; and of a standing instruction of up to 40 words, such as "always answer in French"."""

QUESTION_WORDS, SHORT_QUESTION_WORDS, INSTRUCTION_WORDS = 60, 25, 40

FIRST_TERM = 16
"""The lowest term of a word."""

_MINUTE = timedelta(minutes=1)

_LONGEST_STEMMED = 64
"""Characters of a token that is stemmed and cached; `porter` itself leaves longer ones alone."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

_LISTS = words_of(__file__)

STOP_WORDS = frozenset(_LISTS["stop"])
"""Words that are left out of texts and queries."""

_TEMPORAL_WORDS = frozenset(_LISTS["temporal"])
"""Words that answer "when?"."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED_SCRIPTS = (
    f"{_HAN}\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uac00-\ud7a3"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3"
)
_VARIANTS = re.compile(
    "[\u1100-\u11ff\u3040-\u30ff\uff00-\uffef\ufb00-\ufb06\ufb50-\ufdff\ufe70-\ufefc]+"
)
"""Full- and half-width forms, split hangul and kana, ligatures, and Arabic letters by their place.

Each has one form that is searched.

Only these are normalised: on a long run of other combining marks `normalize` takes quadratic time.
"""
_FOLDED = str.maketrans(
    {
        **dict.fromkeys(map(chr, (*range(0x064B, 0x0660), 0x0670, 0x0640))),  # Arabic vowels
        **dict.fromkeys(map(chr, range(0x06D6, 0x06EE))),
        **dict.fromkeys(map(chr, range(0x0591, 0x05C8))),  # Hebrew points
        "\u0622": "\u0627",
        "\u0623": "\u0627",
        "\u0625": "\u0627",
        "\u0671": "\u0627",
        "\u0649": "\u064a",
        "\u0629": "\u0647",
        "\u06cc": "\u064a",  # Persian yeh and kaf
        "\u06a9": "\u0643",
        **{chr(zero + n): str(n) for zero in (0x660, 0x6F0, 0x966) for n in range(10)},
        "\u200c": None,  # how letters are joined
        "\u200d": None,
        "\u093c": None,  # the dot that tells Hindi letters apart is often left out
        "\u0901": "\u0902",
        "\u00df": "ss",
        "\u1e9e": "ss",
        **{chr(0xFE00 + at): " " for at in range(16)},  # how emoji are drawn
        **{
            chr(code): unicodedata.normalize("NFD", chr(code))[0]  # Greek accents
            for code in (*range(0x386, 0x3CF), *range(0x1F00, 0x2000))
        },
        "\u03c2": "\u03c3",  # sigma at the end of a word
        "\u0401": "\u0415",  # Russian yo is mostly written ye
        "\u0451": "\u0435",
        **dict(
            zip("\u0131\u0141\u0142\u00d8\u00f8\u0110\u0111\u00d0\u00f0", "iLlOoDdDd", strict=True)
        ),
        "\u00c6": "AE",
        "\u00e6": "ae",
        "\u0152": "OE",
        "\u0153": "oe",
        "\u00de": "Th",
        "\u00fe": "th",
        "\u0132": "IJ",
        "\u0133": "ij",
    }
)
"""Optional signs, and letters with two spellings."""

PREFIX = 5
"""Letters of the beginning of a word in a language whose endings no other rule knows.

Cut there, Russian words are found 11 points more often (XQuAD, R@1), Turkish ones 7, Romanian and
German ones 5, as often as with Snowball's stems. Six letters are a point worse.
"""

_CUT = re.compile("[\u0370-\u03ff\u0400-\u052f]{6,}")
"""Greek and Cyrillic words that are cut to `PREFIX` letters."""

_DOTTED = re.compile("[\u0929\u0931\u0934\u0958-\u095f]")
"""Hindi letters with their dot, encoded as one character or as two."""

_ARABIC = re.compile("[\u0621-\u064a]+")
_ARABIC_FRONTS = ("وال", "بال", "كال", "فال", "لل", "ال")
_ARABIC_ENDS = ("ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي")  # noqa: RUF001 - Arabic letters
"""Affixes that light10 removes (Larkey, Ballesteros and Connell, SIGIR 2002), letters folded."""

_HINDI = re.compile("[\u0900-\u097f]+")
_HINDI_ENDS = (
    *("ियों", "ियां", "ाओं", "ाएं", "ुओं", "ुएं"),
    *("ों", "ें", "ीं", "ां", "ी", "े", "ा", "ो", "ू", "ि", "ु"),
)
"""Endings of number, case and gender (Ramanathan and Rao, EACL 2003), the longest first."""

_NUMERIC_DATE = re.compile(
    r"(?<![\d.-])(?:\d{4}-(\d\d)-(\d\d)|(\d\d?)\.(\d\d?)\.\d{4})(?![\d-])", re.ASCII
)
_MAY_BE_DATE = re.compile(r"\d[-.]\d", re.ASCII)

_QUESTION_ENDS = ("?", "\uff1f", "\u061f", "\u037e")
"""Question marks: Latin, full-width, Arabic, Greek."""

_CLOSING = " \t\n\r\"')]}\u2019\u201d\u00bb\u300d*_"
"""Characters that may follow the last mark of a sentence."""

_INSTRUCTION = re.compile(
    r"\W*(?:please\W+)?"
    r"(?:always|never(?!\W+(?:mind|ever))|from\s+now\s+on|whenever\s+i\s+ask"
    r"|make\s+sure\s+(?:that\s+)?you\s+always)\b",
    re.IGNORECASE,
)
_Tokenizer = Callable[[bytes], "list[str]"]


class TextTerms(NamedTuple):
    """The terms and counts of one text, ready for a record.

    Attributes:
        packed: The result of `pack`. If the text is cut, the numbers of all passages in turn, then
            their counts.
        tokens: The number of words, with repetitions and without stop words.
        temporal: The number of temporal words in the text, at most `MAX_COUNT`.
    """

    packed: bytes
    tokens: int
    temporal: int


def analyse(
    text: str,
    time: datetime | None = None,
    speaker: str | None = None,
    caption: str | Sequence[str] | None = None,
) -> TextTerms:
    """Return the terms and counts of `document(text, …)`. Any text is accepted.

    The time is in proportion to the length: for 30 words between spaces, it is 1 to 3 µs with the C
    extension, and 15 to 35 µs without it.
    """
    minute = None if time is None else minute_of(time)
    return TextTerms(*analyse_with(text, context_terms(minute, speaker), caption))


def analyse_with(
    text: str, context_terms: list[int], caption: str | Sequence[str] | None = None
) -> tuple[bytes, int, int]:
    """Return the fields of the `TextTerms` of a text, given the result of `context_terms`."""
    if caption:
        context_terms = _terms_of(_tokenize(_image(caption))[0]) + context_terms
    if NATIVE is not None:
        found = NATIVE.analyse(text, context_terms, _known_words(NATIVE))
        if found is not None:
            return found
    return _analyse(text, context_terms)


def analyse_texts(
    texts: list[Any], metadata: list[Any], caption: str, context_terms: list[list[int]]
) -> tuple[list[str], list[bytes], list[int], list[int]] | None:
    """Return the wire forms of *metadata*, and a list for each field of the texts' `TextTerms`.

    Return None if one of *texts* is no str, if *metadata* has a *caption* or a rare value, or if
    the C extension is missing.

    Args:
        context_terms: The result of the function `context_terms`, for each text.

    Raises:
        InvalidValue: One of *texts* holds a lone surrogate.
    """
    if NATIVE is None:
        return None
    known = _known_words(NATIVE)
    return NATIVE.read_texts(texts, metadata, caption, context_terms, known, _analyse_checked)


def _analyse_checked(text: str, context_terms: list[int]) -> tuple[bytes, int, int]:
    checked(text)
    return _analyse(text, context_terms)


def _analyse(text: str, context_terms: list[int]) -> TextTerms:
    """Return the terms of a text. In a language with endings, they include beginnings of words."""
    parts, marks, cut = passages(text), _marks(text), has_endings(text)
    read, temporal = (_terms_and_beginnings, _temporal_of(text)) if cut else (_terms_of, None)
    if len(parts) == 1:
        words, times = _tokenize(text, temporal)
        packed, tokens = pack(read(words) + context_terms, marks)
        return TextTerms(packed, tokens, times)
    pieces: list[bytes] = []
    tokens, times = len(context_terms), 0
    for part in parts:
        words, temporal_words = _tokenize(part, temporal)
        part_terms = read(words)
        pieces.append(pack(part_terms + context_terms, [PASSAGE, *([] if pieces else marks)])[0])
        tokens, times = tokens + len(part_terms), times + temporal_words
    ends = [len(piece) // 5 * 4 for piece in pieces]
    packed = b"".join(
        [piece[:end] for piece, end in zip(pieces, ends, strict=True)]
        + [piece[end:] for piece, end in zip(pieces, ends, strict=True)]
    )
    return TextTerms(packed, tokens, min(times, MAX_COUNT))


def minute_of(time: datetime) -> int:
    """Return the whole minutes of a time since 1970; a time without a zone is in UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // _MINUTE


def context_terms(minute: int | None, speaker: str | None) -> list[int]:
    """Return the terms of a speaker, and of a minute since 1970; the list must not be changed."""
    if speaker and len(speaker) > _LONGEST_STEMMED:
        return _terms_of(_tokenize(speaker)[0]) + _kept_context_terms(minute, None)
    return _kept_context_terms(minute, speaker)


@lru_cache(maxsize=CACHED_CONTEXTS)
def _kept_context_terms(minute: int | None, speaker: str | None) -> list[int]:
    """Return the list for `context_terms`. Items that are added together share the list."""
    tokens = _tokenize(speaker)[0] if speaker else []
    return _terms_of(tokens if minute is None else tokens + _time_words(EPOCH + minute * _MINUTE))


# Patterns of large sets of characters take milliseconds to compile: only where they are needed.


@lru_cache(maxsize=1)
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED_SCRIPTS}]+")


@lru_cache(maxsize=1)
def _words_of() -> re.Pattern[str]:
    """Return a pattern of the words to count.

    A word is the text between two spaces; in a script without spaces, up to two characters.
    """
    return re.compile(f"[{_UNSPACED_SCRIPTS}]{{1,2}}|[^\\s{_UNSPACED_SCRIPTS}]+")


@lru_cache(maxsize=1)
def _ideograph() -> re.Pattern[str]:
    return re.compile(f"[{_HAN}]")


BREAK = "\x1e"
"""Stands between the texts of an item that has several: U+001E, the separator of records."""


def joined(texts: Sequence[str]) -> str:
    """Return several texts as one text to store. Search by words reads it as a whole."""
    return f"{BREAK}\n".join(texts)


def separate(text: str) -> list[str]:
    """Undo `joined`: return the texts in *text*. Search by meaning reads each separately."""
    return [part for part in text.split(BREAK) if part.strip()] or [text]


def passages(text: str) -> list[str]:
    """Return the passages of *text*, in order. A passage has `PASSAGE_WORDS` words.

    Fewer than `LAST_WORDS` words at the end stay with the passage before them.
    """
    least = PASSAGE_WORDS + LAST_WORDS
    if len(text) < 2 * least - 1:
        return [text]
    starts = [word.start() for word in _words_of().finditer(text)]
    if len(starts) < least:
        return [text]
    cuts = starts[PASSAGE_WORDS : len(starts) - LAST_WORDS + 1 : PASSAGE_WORDS]
    return [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]


def is_marked(text: str) -> bool:
    """Return whether *text* has a mark, such as `QUESTION`."""
    return bool(_marks(text))


def _marks(text: str) -> list[int]:
    is_question = text.rstrip(_CLOSING).endswith(_QUESTION_ENDS)
    is_instruction = _INSTRUCTION.match(text) is not None
    if not (is_question or is_instruction):
        return []
    count = sum(1 for _ in islice(_words_of().finditer(text), QUESTION_WORDS + 1))
    marks = (
        (QUESTION, is_question and count <= QUESTION_WORDS),
        (SHORT_QUESTION, is_question and count <= SHORT_QUESTION_WORDS),
        (INSTRUCTION, is_instruction and count <= INSTRUCTION_WORDS),
    )
    return [mark for mark, applies in marks if applies]


def document(
    text: str,
    *,
    time: datetime | None = None,
    speaker: str | None = None,
    caption: str | Sequence[str] | None = None,
) -> str:
    """Return the text that search by words reads.

    It is ``[1:56 pm on 8 May, 2023] Speaker: text [image: caption]``, without unknown parts. The
    date is in UTC and in English on every machine. It is worth 2 points of recall (LoCoMo, R@10).
    """
    label = f"{speaker}: " if speaker else ""
    image = f" {_image(caption)}" if caption else ""
    if time is None:
        return f"{label}{text}{image}"
    hour, minute, half, on, day, month, year = _time_words(time)
    return f"[{hour}:{minute} {half} {on} {day} {month.title()}, {year}] {label}{text}{image}"


def _time_words(time: datetime) -> list[str]:
    utc = time.astimezone(UTC) if time.tzinfo else time
    later, hour = divmod(utc.hour, 12)
    half, month = "pm" if later else "am", MONTHS[utc.month - 1].lower()
    return [f"{hour or 12}", f"{utc.minute:02}", half, "on", f"{utc.day}", month, f"{utc.year}"]


def _image(caption: str | Sequence[str]) -> str:
    return f"[image: {caption if isinstance(caption, str) else '; '.join(caption)}]"


def terms(text: str) -> list[int]:
    """Return the terms of a query, each once, in their order."""
    read = _terms_and_beginnings if has_endings(text) else _terms_of
    return list(dict.fromkeys(read(_tokenize(text)[0])))


def temporal(text: str) -> int:
    """Return the number of temporal words in *text*, at most `MAX_COUNT`.

    These are words such as "yesterday", months (not "may"), weekdays, numbers of four digits. Each
    language in Latin letters has separate words (`alveus.values.phrases`), or none.
    """
    return _tokenize(text, _temporal_of(text))[1]


def is_unspaced(text: str) -> bool:
    """Return whether *text* has characters of a script that puts no spaces between words."""
    return not text.isascii() and _unspaced().search(text) is not None


def pack(terms: Sequence[int], marks: Sequence[int] = ()) -> tuple[bytes, int]:
    """Return terms and marks as bytes, and the number of terms.

    The bytes are n unsigned 32-bit little-endian numbers in rising order, marks first, then their
    n counts of a byte each; so n is a fifth of their length.
    """
    ordered = sorted(terms)
    distinct: Collection[int] = set(ordered)
    if len(distinct) == len(ordered):
        distinct, counts = ordered, b"\x01" * len(ordered)
    else:
        distinct = occurrences = dict.fromkeys(ordered, 0)
        for term in ordered:
            occurrences[term] += 1
        try:
            counts = bytes(occurrences.values())
        except ValueError:  # more than a byte holds
            counts = bytes([min(n, MAX_COUNT) for n in occurrences.values()])
    numbers = _uint32s(len(marks) + len(distinct)).pack(*marks, *distinct)
    return numbers + b"\x01" * len(marks) + counts, len(ordered)


@lru_cache(maxsize=256)
def _uint32s(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")


def unpack(packed: bytes) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return the terms of a whole text in rising order and their counts, without marks."""
    n = len(packed) // 5
    terms, counts = np.frombuffer(packed, "<u4", n), np.frombuffer(packed, np.uint8, n, 4 * n)
    if n and terms[0] < FIRST_TERM:
        words = terms >= FIRST_TERM
        cut = terms[0] == PASSAGE
        terms, counts = terms[words], counts[words]
        if cut:
            terms, at = np.unique(terms, return_inverse=True)
            sums = np.bincount(at, counts, len(terms))
            counts = np.minimum(sums, MAX_COUNT).astype(np.uint8)
    return terms, counts


def _tokenize(text: str, temporal: frozenset[str] | None = None) -> tuple[list[str], int]:
    """Return the tokens of *text*, with stop words, and the number of temporal words.

    Args:
        temporal: The temporal words of the text's language. None means those of English and of the
            languages in other letters than Latin.
    """
    text, pairs = _folded(text)
    tokens, times, years = _split(text, pairs, temporal)
    if years:
        tokens = tokens + _date_words(text)
    return tokens + pairs if pairs else tokens, min(times + years, MAX_COUNT)


def _folded(text: str) -> tuple[str, list[str]]:
    """Return a text with one form of each letter, and the `_pairs` of scripts without spaces."""
    if text.isascii():
        return text, []
    text = _VARIANTS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _DOTTED.sub(lambda found: unicodedata.normalize("NFD", found[0]), text).translate(
        _FOLDED
    )
    if _unspaced().search(text) is None:
        return text, []
    return _unspaced().sub(" ", text), _pairs(text)


def _split(
    text: str, pairs: list[str], temporal: frozenset[str] | None = None
) -> tuple[list[str], int, int]:
    """Return tokens, and the numbers of temporal words and possible years among them."""
    tokens = _tokenizers().split(text.encode(errors="replace"))
    years = sum([token.isdecimal() for token in tokens if len(token) == len("2023")])
    if temporal is not None:
        return tokens, sum(map(temporal.__contains__, tokens + pairs)), years
    times = sum(map(_TEMPORAL_WORDS.__contains__, tokens))
    if pairs or not text.isascii():
        times += sum(map(_temporal_elsewhere().__contains__, tokens + pairs))
    return tokens, times, years


def _temporal_of(text: str) -> frozenset[str] | None:
    return _temporal_in(language_of(text) or "") if has_endings(text) else None


@lru_cache(maxsize=64)
def _temporal_in(language: str) -> frozenset[str]:
    """Return the temporal words of a language, as tokens."""
    texts = map(_folded, temporal_words(language))
    return frozenset(
        token for text, pairs in texts for token in pairs[-1:] or _tokenizers().split(text.encode())
    )


@lru_cache(maxsize=1)
def _temporal_elsewhere() -> frozenset[str]:
    """Return the temporal words of languages in other letters than Latin, as tokens."""
    return frozenset[str]().union(*map(_temporal_in, ("ar", "hi", "ja", "ko", "ru", "zh")))


def _read_chunk(chunk: str) -> tuple[list[int], int, int] | None:
    """Return the terms of *chunk*, for the C extension: text between two spaces that is not ASCII.

    Return also how many of its words are temporal, and how many of these may be years. Return None
    if the chunk may contain a date in numbers: its words count only if the whole text has a year.
    """
    text, pairs = _folded(chunk)
    if _MAY_BE_DATE.search(text):
        return None
    tokens, times, years = _split(text, pairs)
    return _terms_of(tokens + pairs), times + years, years


def _pairs(text: str) -> list[str]:
    """Return the ideographs of *text*, and the pairs of neighbours in each run without spaces.

    A lone character of another script counts as a pair.
    """
    pairs = _ideograph().findall(text)
    for run in _unspaced().findall(text):
        pairs += [run[i : i + 2] for i in range(len(run) - 1)]
        if len(run) == 1 and not _ideograph().match(run):
            pairs.append(run)
    return pairs


def _date_words(text: str) -> list[str]:
    """Return the months, and days without a zero before them, of dates in numbers.

    So ``29.12.2023``, ``2023-12-29`` and "29 December 2023" find each other.
    """
    words: list[str] = []
    for date in _NUMERIC_DATE.finditer(text):
        month, day = (date[1], date[2]) if date[1] else (date[4], date[3])
        if 1 <= int(month) <= len(MONTHS):
            words.append(MONTHS[int(month) - 1].lower())
            if day.startswith("0"):
                words.append(day[1:])
    return words


def _terms_of(tokens: Iterable[str]) -> list[int]:
    """Return the terms of *tokens* in order, without stop words."""
    return list(filter(None, map(_stems().__getitem__, tokens)))


def _terms_and_beginnings(tokens: Iterable[str]) -> list[int]:
    """Return the terms of *tokens*, and the term of the beginning of each long word."""
    found: list[int] = []
    for token in tokens:
        if term := _stems()[token]:
            found.append(term)
            if len(token) > PREFIX and token.isalpha() and token < _LATIN_END:
                beginning = _hash(token[:PREFIX])
                if beginning != term:
                    found.append(beginning)
    return found


_LATIN_END = "\u0250"
"""The first letter after those of Latin languages."""


class _Stems(dict[str, int]):
    """A cache of terms by token, 0 for a stop word; emptied when full."""

    def __missing__(self, token: str) -> int:
        term = _term(token)
        if len(token) <= _LONGEST_STEMMED:
            if len(self) >= CACHED_TERMS:
                self.clear()
            self[token] = term
        return term


def _term(token: str) -> int:
    if len(token) > _LONGEST_STEMMED:
        return _hash(token)
    stem = " ".join(_tokenizers().stem(token.encode(errors="replace"))) or token
    if not token.isascii():
        stem = _light_stem(stem)
    return 0 if token in STOP_WORDS else _hash(stem)


@lru_cache(maxsize=1)
def _stems() -> _Stems:
    return _Stems()


@lru_cache(maxsize=1)
def _known_words(native: Native) -> object:
    languages = known_languages(native)
    return native.known_words(STOP_WORDS, _TEMPORAL_WORDS, languages, _read_chunk, has_endings)


def _light_stem(token: str) -> str:
    """Return an Arabic or Hindi word without article, number and case.

    Return the beginning of a Greek or Cyrillic word, and other words unchanged.
    """
    if _HINDI.fullmatch(token):
        end = next((e for e in _HINDI_ENDS if token.endswith(e) and len(token) > len(e) + 1), "")
        return token.removesuffix(end)
    if _CUT.fullmatch(token):
        return token[:PREFIX]
    if not _ARABIC.fullmatch(token):
        return token
    front = next((f for f in _ARABIC_FRONTS if token.startswith(f) and len(token) > len(f) + 1), "")
    token = token.removeprefix(front)
    for end in _ARABIC_ENDS:
        if token.endswith(end) and len(token) > len(end) + 1:
            token = token.removesuffix(end)
    return token


def _hash(stem: str) -> int:
    """Return a number of 32 bits for *stem*, from `FIRST_TERM` on, the same on every machine."""
    return max(crc32(stem.encode(errors="replace")), FIRST_TERM)


class _PerThread(threading.local):
    """SQLite's tokenizers. Each thread opens a separate pair, so no lock is held during a fork."""

    def __init__(self) -> None:
        with FORKS.inside():
            connection = PlainConnection(":memory:")
            # Vowel signs of Indian scripts are parts of words; unicode61 by itself splits at them.
            kinds = "L* N* Co Mn Mc"
            folding = ["unicode61", "remove_diacritics", "2", "categories", kinds]
            self.split = _tokenizer(connection, folding)
            self.stem = _tokenizer(connection, ["porter", *folding])


@lru_cache(maxsize=1)
def _tokenizers() -> _PerThread:
    return _PerThread()


def _tokenizer(connection: apsw.Connection, name: Sequence[str]) -> _Tokenizer:
    tokenize = connection.fts5_tokenizer(name[0], list(name[1:]))

    def tokens(utf8: bytes) -> list[str]:
        answer = tokenize(
            utf8, apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
        )
        return cast("list[str]", answer)

    return tokens

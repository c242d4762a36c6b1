"""Sentences and tokens of texts, and whether two texts say the same.

The write barrier merges texts that say the same, and a prompt shows such texts once.

A text is read as a sequence of words. Parts that never change the meaning are left out: case,
spacing, punctuation, articles, "please" and similar words. Contractions, numbers and dates have one
spelling. Two texts say the same if their sequences are equal, or if they differ only by a phrase
such as "on Monday" that stands first in one text and last in the other. Any other difference in a
word, its form, its position, a number or a question mark makes a different statement. The
comparison is strict on purpose: a duplicate that is kept costs a line in a prompt, but a statement
that is dropped costs an answer.

The spellings are English. Two texts in another language say the same if they are equal except for
case, spacing and punctuation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise

from alveus.embed import wordpiece
from alveus.values import words
from alveus.values.lazy import words_of
from alveus.values.lazy_dataclass import dataclass

_LISTS = words_of(__file__)
_NEGATIONS, _PRONOUNS, _ASKING, _AUXILIARIES, _INTERJECTIONS, _INTENSIFIERS, _MOVABLE, _TODAY = (
    frozenset(_LISTS[name])
    for name in (
        *("negations", "pronouns", "asking", "auxiliaries"),
        *("interjections", "intensifiers", "movable", "days"),
    )
)
_SUBJECTS = _PRONOUNS.union(_LISTS["determiners"])
_FUNCTION_WORDS = words.STOP_WORDS.union(
    _NEGATIONS, _SUBJECTS, _ASKING, _AUXILIARIES, ["us", "mine"]
)
_ENGLISH = _FUNCTION_WORDS.difference(_LISTS["also_foreign"])

_CODES = _FUNCTION_WORDS - {"i", "am", "not"}
"""Function words that are names if they are written in capitals: US, IT, WHO."""

_OPENINGS = (
    ("by", "the", "way"), ("you", "know"), ("well",), ("so",), ("ok",), ("okay",), ("actually",),
)  # fmt: skip
"""Words that may open a sentence, before a comma, and have no meaning there."""

_SPANS = frozenset(_LISTS["spans"]).union(month.lower() for month in words.MONTHS)
_NUMBERS = {
    **dict(zip(_LISTS["cardinals"], map(str, range(13)), strict=True)),
    **dict(zip(_LISTS["ordinals"], _LISTS["ordinal_digits"], strict=True)),
    **dict(zip(_LISTS["tens"], map(str, range(20, 100, 10)), strict=True)),
}
_SPELLINGS = _NUMBERS | {"%": "percent", "&": "and", "a.m": "am", "p.m": "pm"}

_NEGATED = {f"{word}n": word for word in _AUXILIARIES} | {
    "can": "can",
    "won": "will",
    "shan": "shall",
}
_UNSTABLE = (
    _FUNCTION_WORDS
    | _INTERJECTIONS
    | _INTENSIFIERS
    | {word for opening in _OPENINGS for word in opening}
    | frozenset(("please", "percent", "sept"))
    | _NEGATED.keys()
    | {"cannot"}
    | _NUMBERS.keys()
    | {month.lower() for month in words.MONTHS}
)
_ANCHOR_WORD = re.compile(r"(?<![^\W_])[^\W\d_]{4,}(?![^\W_])")
_ANCHOR_NUMBER = re.compile(
    r"(?<![a-z\d])(?:[a-z]+\d[a-z\d]*|\d*(?:3[2-9]|[4-9][1-9]|[1-9]\d\d|\d{4}))(?![a-z\d])"
    r"(?!\s(?:am|pm|[kmc]?m|[km]?g|m?l|h|min|s|[kmgt]b|k?wh?|v|k)\b)"  # 45 kg may be 45kg
)

_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\uff07", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        "\uff1f": "?", "\u061f": "?", "\u037e": "?", "\u2026": "...",
    }
)  # fmt: skip
_BULLET = re.compile(r"^\s*[*+\u2022-]\s+", re.MULTILINE)
_MONTH_NUMBERS = {month.lower()[:3]: at for at, month in enumerate(words.MONTHS, start=1)}
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>\d{4})(?!\w))?"
_DATES = tuple(
    re.compile(rf"(?<![\w.-]){date}(?![\w-])", re.IGNORECASE | re.ASCII)
    for date in (
        r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
        r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
        rf"{_DAY}(?:\s+of)?\s+{_MONTH}{_YEAR}",
        rf"{_MONTH}\s+{_DAY}{_YEAR}",
    )
)
_TOKEN = re.compile(
    r"\[\d{0,4}-\d\d-\d\d\]"  # a date, as `_date` writes it
    r"|[^\W_]+(?:(?:['/_@\\]|\.(?=[a-z\d])|(?<=\d)[,:](?=\d))[^\W_]+)*"  # a word
    r"|[^\w\s]|_"
)
_NAME = re.compile(r"(?<=[\w,;)] )(?!I\b)[^\W\d_a-z][\w]*")
_SPLIT_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([a-z]+)")
_SIGN = re.compile(r"-(?=\d)|!(?==)|(?<![^\s(\[])[-.:!](?=\w)")
"""Punctuation that has a meaning: -5, 10-12, !=, -r, .env."""
_QUOTATION = re.compile(r'"(\S+(?:\s+\S+){3,})"')
"""Quoted speech of four words or more. Fewer words in quotation marks are a title, or emphasis."""
_SILENT = frozenset("!.,;:()[]{}\"'`-_\u00bf\u00a1\u3002\uff0c\uff01\u3001")
_STOPS = frozenset("!.,;:")


@dataclass(frozen=True, slots=True)
class Statement:
    """The meaning of a text, in a form that can be compared with other statements.

    Attributes:
        words: The significant words of the text, in order.
        names: The words that begin with a capital inside a sentence.
        is_relative: True if the text has words such as "today" or "last week", whose meaning
            depends on the day.
        is_one_sentence: True if the text is one sentence. Only then may a phrase stand first in one
            text and last in the other.
    """

    words: tuple[str, ...]
    names: tuple[str, ...]
    is_relative: bool
    is_one_sentence: bool

    def says_the_same(self, other: Statement) -> bool:
        """Return whether another text says the same.

        The days to which words such as "today" refer are not compared.
        """
        if self.words == other.words:
            return True
        if len(self.words) != len(other.words) or not (
            self.is_one_sentence and other.is_one_sentence
        ):
            return False
        return _is_moved(self.words, other.words) or _is_moved(other.words, self.words)

    def differs_in_content(self, other: Statement) -> bool:
        """Return whether two texts differ in some nouns, verbs and the like, and in nothing else.

        Their function words, numbers, signs and names are equal, no word occurs in another form,
        and the words that both texts have are in the same order.
        """
        mine, theirs = set(self.words), set(other.words)
        forms = set(words.terms(" ".join(mine - theirs))) & set(
            words.terms(" ".join(theirs - mine))
        )
        return (
            not forms
            and self.names == other.names
            and all(word.isalpha() and word not in _FUNCTION_WORDS for word in mine ^ theirs)
            and [w for w in self.words if w in theirs] == [w for w in other.words if w in mine]
        )


def anchor_words(text: str) -> list[str]:
    """Return longer words of a text that each text with the same meaning has, too.

    If two texts differ in these words, their statements need not be compared. This function takes a
    fifth of the time of `statement`.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_CHARACTERS)
    return [word for word in _ANCHOR_WORD.findall(text.lower()) if word not in _UNSTABLE]


def anchors(text: str) -> list[int]:
    """Return search terms of a text that each text with the same meaning has, too.

    These are the terms of `anchor_words`, and numbers with a single spelling.
    """
    if not text.isascii() and not (text := text.translate(_CHARACTERS)).isascii():
        return words.terms(text)
    return words.terms(" ".join([*anchor_words(text), *_ANCHOR_NUMBER.findall(text.lower())]))


def statement(text: str) -> Statement:
    """Return the statement that a text makes. This takes about 2 µs a word."""
    whole = text.strip()
    text = _folded(whole)
    spoken = _spoken(list(_tokens(text)))
    said = tuple(_weighty(spoken)) or tuple(word for word in spoken if word not in _SILENT)
    if not said:
        said = tuple(whole.casefold().split())
    elif "?" not in said and _asks(said):
        said = (*said, "?")
    relative = any(
        word in _TODAY or (word in ("last", "next", "this") and after in _SPANS)
        for word, after in pairwise((*said, ""))
    )
    inner = text.strip().rstrip("!.?\"' ")
    return Statement(said, _names(text), relative, not re.search(r"[.!?]\s|\n", inner))


def _names(text: str) -> tuple[str, ...]:
    return tuple(found.lower() for found in _NAME.findall(text))


def _folded(text: str) -> str:
    """Return a text with one form of each character and each date.

    A text that is all in capitals is returned in lower case.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_CHARACTERS)
    text = _BULLET.sub("", text)
    if '"' in text:
        text = _QUOTATION.sub("\u201c\\1\u201d", text)
    if text.isupper() and " " in text.strip():
        text = text.lower()
    if any(character.isdigit() for character in text):
        for date in _DATES:
            text = date.sub(_date, text)
    return text


def _date(found: re.Match[str]) -> str:
    year, month = found["year"] or "", found["month"].lower()
    number = int(month) if month.isdigit() else _MONTH_NUMBERS[month[:3]]
    return f"[{year}-{number:02}-{int(found['day']):02}]"


def _tokens(text: str) -> Iterator[str]:
    """Yield the words and signs of a text. Words are in lower case, except names such as "US"."""
    begins = True
    for match in _TOKEN.finditer(text):
        said = match[0]
        word = said.lower()
        if said in "-.:!" and _SIGN.match(text, match.start()):
            yield f"\\{said}"
        elif said.isupper() and (len(said) > 1 or not begins) and word in _CODES:
            yield said
        else:
            yield word
        begins = said in ".!?:" or (begins and said in _SILENT)


def _spoken(tokens: Sequence[str]) -> list[str]:
    """Return tokens with one spelling of contractions, numbers and signs."""
    spoken: list[str] = []
    for word, after in pairwise((*tokens, "")):
        if word in _SPELLINGS:
            spoken.append(_SPELLINGS[word])
        elif "'" in word:
            spoken += _expanded(word, after)
        elif word == "cannot":
            spoken += ["can", "not"]
        elif word[0].isdigit():
            spoken += _number(word, after)
        else:
            spoken.append(word)
    return spoken


def _number(number: str, after: str) -> list[str]:
    if number.endswith(":00") and after in ("am", "pm", "a.m", "p.m"):
        return [number.removesuffix(":00")]
    split = _SPLIT_NUMBER.fullmatch(number)
    if split is None or split[2] in ("st", "nd", "rd", "th"):
        return [number]
    return [split[1], split[2]]


_IS_AFTER = _PRONOUNS | _ASKING | {"that", "there", "here"}
_ENDINGS = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}


def _expanded(contraction: str, after: str) -> list[str]:
    """Return the words of a contraction. If they are ambiguous, return its two parts."""
    word, at, end = contraction.rpartition("'")
    if end == "t" and word in _NEGATED:
        return [_NEGATED[word], "not"]
    if at + end in _ENDINGS and word in _PRONOUNS:
        return [word, _ENDINGS[at + end]]
    if contraction == "let's":
        return ["let", "us"]
    if end == "s" and word in _IS_AFTER:
        return [word, "has" if after in ("been", "had", "got") else "is"]
    if end == "d" and word in _PRONOUNS and after in ("like", "love", "rather", "prefer", "be"):
        return [word, "would"]
    return [word, at + end]


def _weighty(spoken: Sequence[str]) -> Iterator[str]:
    """Yield the words and signs that have a meaning."""
    is_english = not _ENGLISH.isdisjoint(spoken)
    is_negated = not _NEGATIONS.isdisjoint(spoken)
    unread, begins = 0, True
    for at, word in enumerate(spoken):
        before, after = spoken[at - 1] if at else "", spoken[at + 1] if at + 1 < len(spoken) else ""
        if unread:
            unread -= 1
            continue
        if word in _SILENT:
            if word in _STOPS and before in _NEGATIONS and after:
                yield ","
            begins = begins or word in _STOPS - {","}
            continue
        if begins and (unread := _opening(spoken, at)):
            continue
        begins = word == "?"
        if word == "?" and before == "?":
            continue
        if not _is_weightless(word, before, after, english=is_english, negated=is_negated):
            yield word


def _opening(spoken: Sequence[str], at: int) -> int:
    """Return how many tokens after the word at *at* belong to an opening such as "by the way,".

    Return 0 if the word does not begin such an opening.
    """
    if spoken[at] in _INTERJECTIONS and len(spoken) > at + 1:
        return 1
    for opening in _OPENINGS:
        end = at + len(opening)
        if tuple(spoken[at:end]) == opening and spoken[end : end + 1] == [","]:
            return len(opening)
    return 0


def _is_weightless(word: str, before: str, after: str, *, english: bool, negated: bool) -> bool:
    if word in ("a", "an", "the"):
        is_quantity = after in ("few", "little", "lot", "bit")
        return (english or word == "the") and bool(after) and not is_quantity
    if word in _INTENSIFIERS or (word == "too" and after in ("", ".", "!")):
        return english and not negated and before != "me"
    if word == "that":
        return after in _SUBJECTS and before.isalpha() and before not in _FUNCTION_WORDS
    return word == "please"


def _asks(said: Sequence[str]) -> bool:
    if len(said) == 1:
        return False
    first, second = said[:2]
    return (first in _ASKING and second in _AUXILIARIES) or (
        first in _AUXILIARIES - {"be"} and second in _PRONOUNS
    )


def _is_moved(first: tuple[str, ...], last: tuple[str, ...]) -> bool:
    """Return whether the texts are equal except for a phrase: first in *first*, last in *last*."""
    if first[0] not in _MOVABLE or not _NEGATIONS.isdisjoint(first):
        return False
    if first[-1] == last[-1] == "?":
        first, last = first[:-1], last[:-1]
    starts = [at for at, word in enumerate(last) if word == first[0] and at]
    return any(last[at:] + last[:at] == first for at in starts)


LONGEST_SENTENCE = 600
"""Most characters of a sentence. A longer sentence is cut, at a space if possible."""

BYTES_A_TOKEN = 4
"""Most bytes that count as one token: BERT counts a long unknown word as a single word piece."""

_CLOSERS = "\"')\\]\u201d\u2019\u00bb\u300d\u300f\uff09\u3011"
_MARKS = ".!?\u2026\u061f\u06d4\u0964"  # the last three: Arabic, Urdu, Hindi
_WIDE_MARKS = "\u3002\uff01\uff1f\uff61"

# Each run of marks is tried once, from its beginning, so the search takes linear time. A line end
# before a lower-case letter ends no sentence: the line was broken to fit a page.
_END = re.compile(
    rf"(?<![{_MARKS}])[{_MARKS}]++[{_CLOSERS}]*+(?=\s)"
    rf"|[{_WIDE_MARKS}]++[{_CLOSERS}]*+"
    r"|\n(?![ \t]*+[a-z\u00df-\u00ff])"
)
_SHORT = frozenset({"mr", "mrs", "ms", "dr", "prof", "vs", "e.g", "i.e", "z.b", "bzw"})
_LAST_WORD = re.compile(r"[^\s(\"']{1,8}\Z")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text.

    Attributes:
        source: The index of the text that has the sentence.
        start, end: The position of the sentence in that text.
        spaced: True if a space or the end of the text follows.
    """

    text: str
    source: int
    start: int
    end: int
    spaced: bool


def tokens(text: str) -> int:
    """Return about how many tokens a language model would count in a text of any script.

    The result is the number of BERT's word pieces, but at least one token for four bytes.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    return max(len(wordpiece.bundled().ids(text)), -(-size // BYTES_A_TOKEN))


def sentences(text: str, source: int = 0) -> Iterator[Sentence]:
    """Yield the sentences of *text* in order.

    No sentence is empty or has more than `LONGEST_SENTENCE` characters.

    Args:
        source: The index of the text, for `Sentence.source`.
    """
    begin = 0
    for end in [*_ends(text), len(text)]:
        at = begin
        while at < end:
            to = _cut(text, at, end)
            if bare := text[at:to].strip():
                start = at + len(text[at:to]) - len(text[at:to].lstrip())
                spaced = to == len(text) or text[to].isspace() or text[to - 1].isspace()
                yield Sentence(bare, source, start, start + len(bare), spaced)
            at = to
        begin = end


def joined(chosen: Sequence[Sentence]) -> str:
    """Return sentences as one text. The sentences of each source begin on a new line."""
    parts: list[str] = []
    for before, sentence in zip([None, *chosen], chosen, strict=False):
        if before is not None and before.source != sentence.source:
            parts.append("\n")
        elif before is not None and before.spaced:
            parts.append(" ")
        parts.append(sentence.text)
    return "".join(parts)


def shortened(text: str, most: int) -> str:
    """Return *text*, or the longest beginning of it that has at most *most* tokens.

    The beginning is cut after a word, or within a word if it would otherwise lose much. It is empty
    only if not even the first character fits.
    """
    begin = text[: most * BYTES_A_TOKEN]
    if len(begin) == len(text) and tokens(text) <= most:
        return text
    fits, fails = 0, len(begin) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if tokens(begin[:middle]) <= most:
            fits = middle
        else:
            fails = middle
    space = max(begin.rfind(" ", 0, fits + 1), begin.rfind("\n", 0, fits + 1))
    word = begin[:space].rstrip() if space > fits // 2 else ""
    return word if word and tokens(word) <= most else begin[:fits].rstrip()


def parts(text: str, most: int) -> list[str]:
    """Return *text* in pieces of whole sentences with at most *most* tokens each.

    A sentence that has more tokens is cut: only its beginning is returned.
    """
    found: list[str] = []
    start, end, size = 0, 0, 0
    for sentence in sentences(text):
        more = tokens(sentence.text) + 1
        if size and size + more > most:
            found.append(text[start:end])
            size = 0
        if not size:
            start = sentence.start
        end, size = sentence.end, size + more
    return [shortened(part, most) for part in [*found, text[start:end]] if part]


def _ends(text: str) -> Iterator[int]:
    for found in _END.finditer(text):
        if found[0] == "." and _is_abbreviation(text, found.start()):
            continue
        yield found.end()


def _is_abbreviation(text: str, dot: int) -> bool:
    """Return whether a dot belongs to the word before it, as in "Dr." or after an initial."""
    word = _LAST_WORD.search(text[max(0, dot - 9) : dot])
    if word is None:
        return False
    return word[0].lower() in _SHORT or (len(word[0]) == 1 and word[0].isupper() and word[0] != "I")


def _cut(text: str, at: int, end: int) -> int:
    if end - at <= LONGEST_SENTENCE:
        return end
    space = text.rfind(" ", at + LONGEST_SENTENCE // 2, at + LONGEST_SENTENCE)
    return at + LONGEST_SENTENCE if space < 0 else space + 1

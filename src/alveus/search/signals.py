"""The signals that search reads from a question, and their weights.

The weights were measured on conversations and then fixed: a gain on a single collection was left
out. `docs/how-search-works.md` has the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import date as Day  # noqa: N812 - a field of signals has its name
from functools import lru_cache
from typing import cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values import words
from alveus.values.dates import RELATIVE_WORDS, NamedDate, named_date, past_days
from alveus.values.keywords import suggest_names_in
from alveus.values.languages import ENGLISH, language_of
from alveus.values.lazy import words_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.phrases import asks_for_advice, past_days_in, says, without_impersonal
from alveus.values.storable import checked_kind

MAX_TERMS = 256
"""Most terms of a question that are searched: its first ones. A pasted page has more."""

MAX_PARSED = 2_000
"""Number of first characters of a question in which names, dates and "when" are recognised."""

MAX_WEIGHT = 1e6
"""The highest weight. Above it, rounding to nine decimals would lose effects of small weights."""


_SHARES = frozenset({"mean", "names", "decay", "b"})
"""Numbers that are at most 1."""


@suggest_names_in
@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """The weight of each signal in a score; 0 switches a signal off.

    Attributes:
        words: Weight of BM25. BM25 is first divided by the best BM25 of the search, so it is 0..1.
        meaning: Weight of the cosine between question and text. Results with 1.5 and with 3 differ
            by about a point (LoCoMo).
        previous: Share of words and meaning that an item takes from the item before it in its
            session. Together with `next` it is worth 3 points.
        next: Share of words and meaning that an item takes from the item after it in its session.
        reply: Further share that an answer takes from the item before it. An answer is an item that
            follows a question of up to 60 words in its session. If the query names a speaker, only
            items of that speaker count as answers.
        speaker: Weight of an item by the one speaker whom the question names. A higher weight helps
            where questions name the right speaker. It costs 8 points where they name the wrong one.
        user: Weight of an item by the user, if the question names no speaker and says "I".
        session: Share of the best score in its session that an item takes, because items beside a
            good answer belong to it. An item without a session counts as a session by itself.
        instruction: Weight of a standing instruction: up to 40 words that begin with "always",
            "never", "from now on", "whenever I ask" or "make sure you always".
        short_question: Penalty of an item that ends in a question mark and has up to 25 words.
        date: Weight of a time close to the date that the question names.
        when: Weight of temporal words in the text, if the question asks for a time. Two such words
            have the full weight, one word has half of it.
        recency: Weight of a recent time: in full for an item of now, half of it after
            `half_life_days`, a quarter after twice that time.
        importance: Weight of the importance stored with the item.
        mean: Share, 0..1, that the mean of a long text's windows has in its cosine. The best window
            has the rest.
        entities: Weight of the people, places and things that the question names, if the field
            "entities" or "subject" of an item's metadata has them. Facts have these fields. An item
            that has one of two names gets half of the weight.
        names: Least likeness (Ratcliff and Obershelp, 0..1) of a capitalised word to a speaker's
            first name at which the word counts as a misspelling of the name. Only words that no
            item contains are compared. 0 means that no words are compared.
        decay: Share of a score, 0..1, that age takes away in the end. A score is multiplied by
            ``1 - decay * (1 - 2 ** (-age / half_life))``. *age* is the time since the item was last
            read, or since the item's time if that is later. *half_life* is ``half_life_days * (1 +
            importance)``, so an item of importance 1 fades half as fast.
        half_life_days: Days after which recency has halved, and half of the decay is done.
        k1: Parameter of BM25: how fast repetitions of a word stop counting.
        b: Parameter of BM25: the penalty of a long text. `k1` of 0.9 and `b` of 0.4 beat 1.2 and
            0.75 by a point.

    Raises:
        InvalidInput: A weight is not a number from 0 to `MAX_WEIGHT`, `mean`, `names`, `decay` or
            `b` is above 1, or `half_life_days` is 0.
    """

    words: float = 1.0
    meaning: float = 2.0
    previous: float = 0.2
    next: float = 0.1
    reply: float = 0.2
    speaker: float = 0.45
    user: float = 0.8
    date: float = 0.3
    when: float = 0.15
    session: float = 0.3
    instruction: float = 0.4
    short_question: float = 0.2
    recency: float = 0.0
    importance: float = 0.0
    mean: float = 0.0
    entities: float = 0.0
    names: float = 0.0
    decay: float = 0.0
    half_life_days: float = 30.0
    k1: float = 0.9
    b: float = 0.4

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            number: object = getattr(self, name)
            top = 1.0 if name in _SHARES else MAX_WEIGHT
            usable = type(number) in {int, float} and 0 <= cast("float", number) <= top
            if not usable:
                what = f"a number from 0 to {top:g}"
                raise InvalidInput(f"signal {name!r} must be {what}, not {short_repr(number)}")
        if not self.half_life_days:
            raise InvalidInput(
                "signal 'half_life_days' must be above 0; to switch recency off, set recency=0"
            )

    def to_json(self) -> dict[str, float]:
        """Return every weight by name. `from_json` makes an equal object of the result."""
        return asdict(self)

    @classmethod
    def from_json(cls, weights: Mapping[str, float] | None) -> Signals:
        """Return `Signals` with the given *weights*. Every other weight has its default.

        Raises:
            InvalidInput: A name is unknown, or the number of a weight cannot be used.
        """
        if weights is None:
            return cls()
        checked_kind(weights, Mapping, "weights must be a dict of names and numbers")
        known = [field.name for field in fields(cls)]
        unknown = [name for name in weights if name not in known]
        if unknown:
            shown = short_repr(sorted(unknown, key=repr))
            raise InvalidInput(f"there are no signals {shown}; the signals are {', '.join(known)}")
        return cls(**dict(weights))


@dataclass(frozen=True, slots=True)
class QuestionSignals:
    """The signals of a question.

    Attributes:
        text: The question as it was asked.
        terms: The terms that are searched, each once, in order.
        meaning: The text whose vector is searched: the question without the names of known
            speakers. Half of a conversation carries the name that a question has. Without the name
            the recall of meaning is 14 points higher (LoCoMo, R@10).
        speaker: The known speaker whom the question names. None if it names none, or several.
        says_i: Whether the question names no speaker and says I, me, my or mine.
        date: The date that the question names, or None.
        when: Whether the question asks for a time.
        relative: Whether the question names no date, but has a word that may name a day, such as
            "yesterday".
    """

    text: str
    terms: tuple[int, ...]
    meaning: str
    speaker: str | None = None
    says_i: bool = False
    date: NamedDate | None = None
    when: bool = False
    relative: bool = False

    @classmethod
    def of(cls, text: str, *, speakers: Iterable[str] = ()) -> QuestionSignals:
        """Return the signals of *text*. Any text is accepted.

        Names of *speakers* are recognised in any language, and dates in the languages of
        `alveus.values.dates`. "I", "when" and "yesterday" are recognised in English and in the
        languages of `alveus.values.phrases`; the rules of English read no other language.

        Args:
            speakers: The speakers of the searched items.
        """
        head = text[:MAX_PARSED]
        found = [*_WORD.finditer(head)]
        lower = [word[0].lower().replace("\u2019", "'") for word in found]
        spans, named = _named(head, found, lower, tuple(speakers))
        date = named_date(_blanked(head, spans), lower)
        language = language_of(text)
        if language in (None, ENGLISH):
            says_i, when = _says_i(found, lower), _WHEN.search(head) is not None
            relative = not RELATIVE_WORDS.isdisjoint(lower)
        else:
            says_i, when = says("i", language, head), says("when", language, head)
            relative = past_days_in(language, head, Day.max) is not None
        return cls(
            text=text,
            terms=tuple(words.terms(text)[:MAX_TERMS]),
            meaning=_without(text, spans) if spans else text,
            speaker=next(iter(named)) if len(named) == 1 else None,
            says_i=not named and says_i,
            date=date,
            when=when,
            relative=date is None and relative,
        )

    def asked_on(self, today: Day) -> QuestionSignals:
        """Return the signals with the date that a word such as "yesterday" means on *today*.

        If the question has no such word, return the signals unchanged.
        """
        days = days_named(self.text, today) if self.relative else None
        return self if days is None else replace(self, date=NamedDate.of_days(*days))


def is_personal(request: str) -> bool:
    """Return whether somebody asks for himself: about himself, or for advice, a choice or a plan.

    "Plan my week." and "Suggest a recipe." are personal; "Tell me a joke." is not.
    """
    language = language_of(request)
    rest = without_impersonal(language or ENGLISH, request[:MAX_PARSED])
    return asks_for_advice(language, rest) or QuestionSignals.of(rest).says_i


def days_named(question: str, today: Day) -> tuple[Day, Day] | None:
    """Return the past days that words such as "yesterday" in a question name, first and last."""
    language, head = language_of(question), question[:MAX_PARSED]
    if language in (None, ENGLISH):
        return past_days(head, today)
    return past_days_in(language, head, today)


def naming(question: str) -> Callable[[str], bool]:
    """Return a function that returns whether *question* has a name, as whole words in any case."""
    asked = [word[0].casefold() for word in _WORD.finditer(question[:MAX_PARSED])]
    text = f" {' '.join(asked)} "

    def is_named(name: str) -> bool:
        said = _WORD.findall(name.casefold())
        plain = " ".join(said)
        is_word = len(said) == 1 and (plain in _ROLES or plain in _OPENERS or len(plain) < 2)  # noqa: PLR2004 - a letter
        return bool(plain) and not is_word and f" {plain} " in text

    return is_named


def respelled(
    text: str, speakers: Iterable[str], least: float, occurs: Callable[[int], bool]
) -> str:
    """Return a question with misspelt names of speakers corrected: "Melany" becomes "Melanie".

    A capitalised word of four letters or more that is no name, and that no item contains, becomes
    the most similar first name of a speaker with the same first letter.

    Args:
        least: Least likeness of the word and the name (Ratcliff and Obershelp), 0..1.
        occurs: Returns whether any item contains a term.
    """
    from difflib import SequenceMatcher  # only where names are respelled, which is off by default

    spellings = [_first_name(speaker) for speaker in speakers]
    firsts = {spelling[0] for spelling in spellings if _can_name(spelling)}
    if not firsts:
        return text

    def name_of(match: re.Match[str]) -> str:
        word = match[0]
        plain = word.lower()
        if len(word) < _SHORTEST_MISSPELT or not word.istitle() or plain in firsts:
            return word
        if any(occurs(term) for term in words.terms(word)) or not words.terms(word):
            return word
        alike = [
            (SequenceMatcher(None, plain, name).ratio(), name)
            for name in firsts
            if name[0] == plain[0]
        ]
        likeness, name = max(alike, default=(0.0, ""))
        return name.title() if name and likeness >= least else word

    return _WORD.sub(name_of, text[:MAX_PARSED]) + text[MAX_PARSED:]


_SHORTEST_MISSPELT = 4

_WHEN = re.compile(
    r"^\W*(?:when\b|how\s+long\b"
    r"|(?:(?:in|on|at|by|since|from)\s+)?(?:what|which)\s+(?:year|month|date|day|time)\b)"
    r"|\bhow\s+many\s+(?:days|weeks|months|years)\b|\bsince\s+when\b",
    re.IGNORECASE,
)

_APOSTROPHE = "['\u2019]"
_WORD = re.compile(rf"\w+(?:-\w+|{_APOSTROPHE}(?![sS]\b)\w+)*")
_POSSESSIVE = re.compile(rf"{_APOSTROPHE}[sS]\b")
_SENTENCE_BEFORE = re.compile(r"(?:^|[.!?:\n])\W*$")
_DATE_BEFORE = re.compile(
    r"\b(?:in|during|since|until|last|next|of|early|late|\d+)\s+$", re.IGNORECASE
)
_NUMBER_AFTER = re.compile(r"\s*,?\s*\d")

_LISTS = {name: frozenset(listed) for name, listed in words_of(__file__).items()}
_I, _ENGLISH, _TITLES, _ROLES = map(_LISTS.__getitem__, ("i", "english", "titles", "roles"))
_OPENERS = words.STOP_WORDS | {"may"}
_ALSO_WORDS = _OPENERS | _LISTS["also_words"]


def _says_i(found: Sequence[re.Match[str]], lower: Sequence[str]) -> bool:
    if not _I.isdisjoint(lower):
        return True
    english = not _ENGLISH.isdisjoint(lower)
    return "i" in lower and (english or any(word[0] == "I" for word in found))


_Span = tuple[int, int]


def _named(
    text: str, found: Sequence[re.Match[str]], lower: Sequence[str], speakers: tuple[str, ...]
) -> tuple[list[_Span], set[str]]:
    """Return the spans of *text* that name speakers, and the named speakers."""
    spans: list[_Span] = []
    named: set[str] = set()
    if not speakers:
        return spans, named
    names = _names(speakers)
    at = 0
    while at < len(found):
        length, who = names.at(lower, at) if lower[at] in names.spelled else (0, ())
        if length > 1 or (length and _is_name(text, found[at])):
            end = found[at + length - 1].end()
            possessive = _POSSESSIVE.match(text, end)
            spans.append((found[at].start(), possessive.end() if possessive else end))
            named.update(who)
        at += max(length, 1)
    for name in names.unspaced:
        if (start := text.find(name)) >= 0:
            spans.append((start, start + len(name)))
            named.add(name)
    return sorted(spans), named


def _is_name(text: str, word: re.Match[str]) -> bool:
    """Return whether *word* in *text*, which spells a name, means the name and no other word."""
    plain = word[0].lower()
    if plain not in _ALSO_WORDS or _POSSESSIVE.match(text, word.end()):
        return plain not in _ALSO_WORDS or word[0].istitle()
    before = text[: word.start()]
    dated = _DATE_BEFORE.search(before) or _NUMBER_AFTER.match(text, word.end())
    opens = plain in _OPENERS and _SENTENCE_BEFORE.search(before)
    return word[0].istitle() and not dated and not opens


@dataclass(frozen=True, slots=True)
class _SpeakerNames:
    """The spellings of the names of speakers.

    Attributes:
        spelled: Spellings by their first word: (words, whether they are the whole name, speaker).
        unspaced: Names in scripts that write no spaces between words.
    """

    spelled: Mapping[str, Sequence[tuple[tuple[str, ...], bool, str]]]
    unspaced: Sequence[str]

    def at(self, lower: Sequence[str], at: int) -> tuple[int, Iterable[str]]:
        """Return the longest spelling that begins at word *at*: its number of words, its speakers.

        Return 0 and no speakers if no spelling begins there.
        """
        best, who = (0, False), list[str]()
        for spelling, whole, speaker in self.spelled[lower[at]]:
            rank = (len(spelling), whole)
            if rank >= best and tuple(lower[at : at + len(spelling)]) == spelling:
                who = [*who, speaker] if rank == best else [speaker]
                best = rank
        return best[0], who


@lru_cache(maxsize=16)
def _names(speakers: tuple[str, ...]) -> _SpeakerNames:
    spelled: dict[str, list[tuple[tuple[str, ...], bool, str]]] = {}
    unspaced: list[str] = []
    for speaker in dict.fromkeys(speakers):
        if words.is_unspaced(speaker):
            unspaced += [speaker] if len(speaker) > 1 else []
            continue
        whole = _spelling(speaker)
        first = _first_name(speaker)
        for spelling in dict.fromkeys([whole, first]):
            if _can_name(spelling):
                entry = (spelling, spelling == whole, speaker)
                spelled.setdefault(spelling[0], []).append(entry)
    return _SpeakerNames(spelled, unspaced)


def _spelling(speaker: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(speaker.lower().replace("\u2019", "'")))


def _first_name(speaker: str) -> tuple[str, ...]:
    return tuple(word for word in _spelling(speaker) if word not in _TITLES)[:1]


def _can_name(spelling: tuple[str, ...]) -> bool:
    if len(spelling) != 1:
        return len(spelling) > 1
    word = spelling[0]
    return len(word) > 1 and word not in _ROLES and not word.isdecimal()


def _blanked(text: str, spans: Sequence[_Span]) -> str:
    """Return *text* with *spans* blanked out, so that the speaker April is not read as a month."""
    for start, end in spans:
        text = text[:start] + "_" * (end - start) + text[end:]
    return text


def _without(text: str, spans: Sequence[_Span]) -> str:
    """Return *text* without *spans*, or unchanged if only stop words would be left."""
    kept: list[str] = []
    at = 0
    for start, end in spans:
        kept.append(text[at:start])
        at = max(at, end)
    left = " ".join("".join([*kept, text[at:]]).split())
    return left if words.terms(left) else text

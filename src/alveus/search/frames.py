"""Reads what a text says, in a form in which texts can be compared.

A sentence is read as a frame: a subject, a relation and a value.

    "The budget is $5,000."  ->  subject "budget", relation "IS", value "$5,000"
    "I moved to Porto."      ->  subject "i", relation "LIVE", value "Porto"

Ways to say the same have one form: contractions, "lives in" and "is based in", "was moved to" and
"is at". A sentence of doubt, condition, denial or wish has no frame, nor has a question. A text in
a language without rules is read as the row of its words.

The words and phrases of English are in `frames.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from alveus.values.languages import ENGLISH, language_of
from alveus.values.lazy import lists_of
from alveus.values.words import is_unspaced

LONGEST = 300
"""Most characters of a text that is read."""

MOST_SENTENCES = 4

CACHED = 8_192
"""Most texts whose reading is cached."""

IS, LIVE, WORK, DECIDE, MOVE, CHANGE = "IS", "LIVE", "WORK", "DECIDE", "MOVE", "CHANGE"
"""Relations that are said in several ways. To move is to live elsewhere or, of a thing, to be
elsewhere. What was changed to something is that now."""

_SAID_BY_PHRASES = frozenset((IS, LIVE, WORK, DECIDE, MOVE, CHANGE))
_ARTICLES = ("a", "an", "the")
FAVOURITE = frozenset(("favourite", "favorite"))

_WORD = re.compile(
    r"[^\W_]+(?:(?:['./@_-]|(?<=\d)[,:](?=\d))[^\W_]+)*%?|(?<!\w)[#@$\u20ac\u00a3+-][\w.,/+-]*\w%?|[:?]"
)
_SENTENCE_END = re.compile(
    r"(?<![A-Z][.])(?<!\b[A-Z][a-z][.])(?<=[.!?])\s+(?!(?:is|was|are|were|has)\b)|\n+"
)
_APOSTROPHES = str.maketrans("\u2019\u02bc", "''")
_QUESTION_ENDS = ("?", "\uff1f", "\u061f", "\u037e")
_CLAUSE_END = re.compile(r"[,;]\s+(?:(?:and|but|so)\s+)?|\s+(?:and|because)\s+")
_LABEL = re.compile(r"\A\s*\[[^\]]{1,40}\]:?\s*")
_IS_SHORTENED = ("it", "that", "he", "she", "what", "there", "let")
_SHORT_FORMS = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}


class Word(NamedTuple):
    """A word of a sentence.

    Attributes:
        text: The word in lower case.
        is_name: Whether it begins with a capital, or is an address or a sign.
        article: The article before it in lower case, or "".
    """

    text: str
    is_name: bool = False
    article: str = ""


class Frame(NamedTuple):
    """What a sentence says.

    Attributes:
        subject: The words before the relation.
        link: The preposition behind the relation, or "". "*" stands for any.
        value: The words behind relation and link.
        adjunct: The words behind the value, such as "since May" or "for private mail".
        is_past: Whether the sentence says what was.
        is_passive: Whether the relation is a participle behind a form of "be".
        is_definite: Whether the subject begins with "the".
    """

    subject: tuple[str, ...]
    relation: str
    link: str
    value: tuple[Word, ...]
    adjunct: tuple[str, ...] = ()
    is_past: bool = False
    is_passive: bool = False
    is_definite: bool = False


Key = tuple[str, str]
"""The last word of a subject and a relation. Frames with different keys have nothing in common."""


class Reading(NamedTuple):
    """What a text says.

    Attributes:
        frames: The frames of its sentences by their keys. Empty in a language without rules.
        keys: The keys under which the text can be compared.
        is_whole: Whether the text says nothing beside one frame. No other text can be replaced.
        row: The words of a text in a language without rules.
    """

    frames: Mapping[Key, Frame]
    keys: tuple[Key, ...]
    is_whole: bool
    row: tuple[str, ...] = ()


Phrases = Mapping[str, Sequence[tuple[tuple[str, ...], tuple[str, ...]]]]
"""Phrases by their first word, the longest first, each with the words that it means."""


@cache
def lists() -> dict[str, list[str]]:
    """Return the lines of each list of `frames.txt`, read once."""
    return lists_of(__file__)


class EnglishFrames:
    """The words and phrases of English."""

    def __init__(self) -> None:
        lines = lists()
        words = {name: frozenset(" ".join(listed).split()) for name, listed in lines.items()}
        self.words = words
        self.doubts = words["doubts"]
        self.dropped = words["fillers"] | words["adjectives"]
        self.verbs: dict[str, str] = {}
        for name in ("single", "purposes", "others"):
            for base in " ".join(lines[name]).split():
                for form in (base, *_s_forms(base)):
                    self.verbs[form] = base
        self.participles = words["past"] | words["once"]
        self.same = _phrases(lines["same"])
        self.silent = _phrases(lines["silent"])
        self.doubtful = _phrases(lines["doubtful"])
        self.past = _phrases(lines["asked_past"])
        self.several = _phrases(lines["several"])
        self.cues = {
            name.removeprefix("cue_"): _phrases(given)
            for name, given in lines.items()
            if name.startswith("cue_")
        }
        self.cue_begins = frozenset[str]().union(*self.cues.values())
        self.object_ends = frozenset[str]().union(
            *(words[name] for name in ("links", "adjuncts", "openings", "passing", "owners"))
        )


def _s_forms(base: str) -> tuple[str, ...]:
    if base[-1] == "y" and base[-2] not in "aeou":
        return (f"{base[:-1]}ies",)
    if base in ("have", "do", "go"):
        return ({"have": "has", "do": "does", "go": "goes"}[base],)
    return (f"{base}es",) if base.endswith(("s", "sh", "ch", "x", "z", "o")) else (f"{base}s",)


def _phrases(lines: Iterable[str]) -> Phrases:
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in lines:
        phrase, _, meaning = line.partition(" = ")
        words = tuple(phrase.split())
        found.setdefault(words[0], []).append((words, tuple(meaning.split())))
    for one in found.values():
        one.sort(key=lambda pair: -len(pair[0]))
    return found


@cache
def english() -> EnglishFrames:
    """Return the words and phrases of English, read once."""
    return EnglishFrames()


# --- texts --------------------------------------------------------------------------------------


@lru_cache(maxsize=CACHED)
def reading(text: str) -> Reading | None:
    """Return what a text says, or None if it says nothing that a later text can change.

    A first reading took 0.1 to 0.3 ms on a busy machine; later ones are cached.
    """
    if len(text) > LONGEST:
        return None
    text = _LABEL.sub("", text.translate(_APOSTROPHES)).strip()
    parts = [part for part in _SENTENCE_END.split(text) if part]
    if len(parts) > MOST_SENTENCES:
        return None
    found = [frame for part in parts for frame in _sentence_frames(part)]
    frames = {key: each for frame in found if frame is not None for key, each in _keyed(frame)}
    if frames:
        return Reading(frames, tuple(frames), len(found) == 1)
    row = _foreign_row(text)
    return None if row is None else Reading({}, ((row[0], row[1]),), is_whole=True, row=row)


def _foreign_row(text: str) -> tuple[str, ...] | None:
    """Return the words of a text in a language without rules; None for any other text.

    In a script without spaces between words, each character is a word.
    """
    if text.rstrip().endswith(_QUESTION_ENDS) or language_of(text) in (ENGLISH, None):
        return None
    found = _WORD.findall(text.lower())
    if not english().participles.isdisjoint(found):
        return None  # "Paul met Ines in London" has words of two languages
    if is_unspaced(text):
        found = [sign for word in found for sign in (word if is_unspaced(word) else (word,))]
    return tuple(found) if len(found) > 2 else None  # noqa: PLR2004 - subject, verb and value


# --- sentences ----------------------------------------------------------------------------------


def _sentence_frames(sentence: str) -> list[Frame | None]:
    """Return a frame for each clause that has a verb, None for a clause without a frame.

    A greeting of up to two words says nothing.
    """
    if sentence.rstrip().endswith("?"):
        return [None]
    rows = [_row(clause) for clause in _CLAUSE_END.split(sentence)]
    if [] in rows and len(rows) > 1:
        rows = [_row(sentence)]
    ends = [_verb_at(row) for row in rows]
    if len(rows) > 1 and -1 in ends:
        rows = [_row(sentence)]
        ends = [_verb_at(rows[0])]
    frames: list[Frame | None] = []
    subject = tuple[str, ...]()
    for row, end in zip(rows, ends, strict=True):
        at = _verb_at(row, end) if end == len(row) - 1 else end  # a verb at the end has no value
        frames.append(None if at < 0 else _frame(row, at, subject))
        subject = subject or _subject(row, end)
    is_greeting = frames == [None] and len(sentence.split()) <= 2  # noqa: PLR2004 - "Good news!"
    return [] if is_greeting else frames


def _subject(row: Sequence[Word], at: int) -> tuple[str, ...]:
    """Return the words before the verb at *at* and before its auxiliaries."""
    words, first = english().words, max(at, 0)
    while first and (row[first - 1].text in words["auxiliaries"] or row[first - 1].text == IS):
        first -= 1
    return tuple([word.text for word in row[:first]])


def _keyed(frame: Frame) -> list[tuple[Key, Frame]]:
    """Return a frame with the keys under which another frame can change it."""
    head = frame.subject[-1] if frame.subject else ""
    if frame.relation not in (MOVE, CHANGE):
        one = (head, frame.relation), frame
        is_single = frame.relation in english().words["single"]
        return [one, ((head, CHANGE), frame)] if is_single else [one]
    frame = frame._replace(link="*")
    changed = [
        ((head, IS), frame._replace(relation=IS)),
        ((head, CHANGE), frame._replace(relation=CHANGE)),
    ]
    if frame.relation == CHANGE:
        return changed
    home = (head, LIVE), frame._replace(relation=LIVE, link="in")
    is_person = head in english().words["pronouns"] and not frame.is_passive
    return [home] if is_person else [home, *changed]


def _frame(row: Sequence[Word], at: int, before: tuple[str, ...]) -> Frame | None:
    """Return what a row of words says.

    Args:
        at: The position of the verb.
        before: The subject of the clause before, to which "it" refers.
    """
    words = english().words
    subject = _subject(row, at)
    group = [word.text for word in row[len(subject) : at]]
    if before and subject in (("it",), ("he",), ("she",), ("they",)):
        subject = before
    relation, value, link = row[at].text, tuple(row[at + 1 :]), ""
    if value[0].text in words["links"]:
        link, value = value[0].text, value[1:]
    value = _lasting(value, relation)
    if not value or (not subject and relation in (IS, CHANGE)) or relation in ("was", "were"):
        return None
    value, adjunct = _parted(value)
    is_past = "was" in group or "were" in group
    is_passive = is_past or IS in group or "been" in group
    if relation in (MOVE, CHANGE):
        is_past = False  # what was changed holds now
    elif relation == IS and not link and (turned := _turned(row[: len(subject)], value)):
        subject, value = turned
    elif relation not in _SAID_BY_PHRASES:
        base = "have" if relation == "has" else english().verbs.get(relation, relation)
        is_past = is_past or (base == relation and not group and is_participle(relation))
        relation = base
    is_definite = row[0].article == "the"
    frame = Frame(subject, relation, link, value, adjunct, is_past, is_passive, is_definite)
    return frame if _can_change(frame) else None


def _can_change(frame: Frame) -> bool:
    """Return whether another value could change what a frame says.

    Most sentences of talk have no such frame, so that few texts are compared.
    """
    words, relation, value = english().words, frame.relation, frame.value
    head = frame.subject[-1] if frame.subject else ""
    if head in words["vague"]:
        return False
    of = [word.text for word in value].index("of") if any(w.text == "of" for w in value) else 0
    if relation == IS:
        if frame.link or is_number(value[0].text):
            return frame.link in words["settings"] or not frame.link
        if head in words["pronouns"]:
            return bool(of) and value[of - 1].text in words["belongings"]
        named = words["attributes"] | FAVOURITE | {"of"}
        return value[0].is_name or bool(of) or not named.isdisjoint(frame.subject)
    if relation in _SAID_BY_PHRASES or frame.is_passive or relation == "died" or of > 0:
        return True
    if relation == "have":
        return is_number(value[0].text)
    return not frame.is_past and (relation in words["single"] or relation in words["purposes"])


def _parted(value: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[str, ...]]:
    """Return a value and the words behind it that say more, such as "since May"."""
    words = english().words
    for at in range(1, len(value) - 1):
        text = value[at].text
        is_name = value[0].is_name and value[at + 1].is_name and text in words["links"]
        if text in words["adjuncts"] and not is_name:
            if text == "to" and is_number(value[at + 1].text):
                continue  # a range
            return value[:at], tuple(word.text for word in value[at:])
    return value, ()


def _turned(
    subject: Sequence[Word], value: Sequence[Word]
) -> tuple[tuple[str, ...], tuple[Word, ...]] | None:
    """Return subject and value of "Tom is our vendor" as of "Our vendor is Tom", else None."""
    words = english().words
    first = value[0]
    of = next((at for at, word in enumerate(value) if word.text == "of"), len(value))
    is_definite = first.article == "the" or first.text in words["owners"] or "'s" in first.text
    head = value[of - 1].text
    if not is_definite or not subject or not all(word.is_name for word in subject):
        return None
    if head in words["many"] or (of == len(value) and head not in words["attributes"]):
        return None
    return tuple(word.text for word in value), tuple(subject)


def _lasting(value: tuple[Word, ...], relation: str) -> tuple[Word, ...]:
    """Return a value without the time of a change, such as "last week".

    Return an empty value if it holds on one day only.
    """
    passing = english().words["passing"]
    for at, word in enumerate(value):
        if word.text in passing:
            return value[:at] if relation in (MOVE, WORK, CHANGE, DECIDE) else ()
    return value


# --- words --------------------------------------------------------------------------------------


def _row(sentence: str) -> list[Word]:
    """Return the words of a sentence that count, with relations in capitals.

    Return an empty list for a question and for a sentence of doubt.
    """
    found = split_words(sentence)
    lower = [word.lower() for word in found]
    if is_doubtful(found, lower):
        return []
    row: list[Word] = []
    at = 0
    while 0 <= at < len(lower):
        at = _read(row, found, lower, at)
    return [] if at < 0 else row


def is_doubtful(
    found: Sequence[str], lower: Sequence[str], *, but: frozenset[str] = frozenset()
) -> bool:
    """Return whether words say what is not sure, is wished or is denied.

    Args:
        lower: The words in lower case.
        but: Words that are not looked at, and no phrase begins with.
    """
    rules = english()
    if not rules.doubts.isdisjoint(lower) and any(
        word in rules.doubts and word not in but and not is_in_name(found, at)
        for at, word in enumerate(lower)
    ):
        return True
    return not rules.doubtful.keys().isdisjoint(lower) and any(
        matching(rules.doubtful, lower, at) and lower[at] not in but and not is_in_name(found, at)
        for at in range(len(lower))
    )


def is_in_name(found: Sequence[str], at: int) -> bool:
    """Return whether a word has a capital that no beginning of a sentence gives it."""
    return bool(at) and found[at][0].isupper() and not found[at].isupper()


def _read(row: list[Word], found: Sequence[str], lower: Sequence[str], at: int) -> int:
    """Add the word or phrase at a position to a row. Return the next position, -1 for none."""
    rules, word = english(), lower[at]
    if word in _ARTICLES:
        return at + 1
    if word in rules.silent and (silent := matching(rules.silent, lower, at)) is not None:
        return at + len(silent[0])
    if word == ":":
        if row:  # "Correction: …" has none
            row.append(Word(IS))
        return -1 if any(one.text in _SAID_BY_PHRASES for one in row[:-1]) else at + 1
    is_other = word == "am" and "i" not in lower[:at]  # "9 am", "Frankfurt am Main"
    if word in rules.same and not is_other:
        same = matching(rules.same, lower, at)
        if same is not None:
            row += map(Word, same[1])
            return at + len(same[0])
    is_name = found[at] != word or not (word[0].islower() or word[0].isdigit())  # "eBay"
    is_filler = word in rules.dropped and (not row or not is_name)
    if not is_filler and (row or word not in rules.words["openings"]):
        row.append(Word(word, is_name, lower[at - 1] if at and lower[at - 1] in _ARTICLES else ""))
    return at + 1


def split_words(text: str) -> list[str]:
    """Return the words of a text with contractions split: "I'm" is "I am"."""
    words: list[str] = []
    for word in _WORD.findall(text.translate(_APOSTROPHES)):
        at = word.rfind("'")
        if at <= 0:
            words.append(word)
            continue
        end = word[at:].lower()
        if end in _SHORT_FORMS:
            words += [word[:at], _SHORT_FORMS[end]]
        elif end == "'t":
            words.append("not")
        elif end == "'s" and word[:at].lower() in _IS_SHORTENED:
            words += [word[:at], "us" if word[:at].lower() == "let" else "is"]
        else:
            words.append(word)
    return words


def matching(
    phrases: Phrases, words: Sequence[str], at: int
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the longest of *phrases* that begins at a word, with its meaning, or None."""
    for phrase, meaning in phrases.get(words[at], ()):
        if len(phrase) == 1 or tuple(words[at : at + len(phrase)]) == phrase:
            return phrase, meaning
    return None


def _verb_at(row: Sequence[Word], before: int | None = None) -> int:
    """Return the position of the last verb of a sentence, or of the words *before* a position.

    Return -1 if there is none.
    """
    for at in range((len(row) if before is None else before) - 1, -1, -1):
        if _is_verb(row, at):
            return at
    return -1


def _is_verb(row: Sequence[Word], at: int) -> bool:
    rules = english()
    word = row[at]
    text = word.text
    before = row[at - 1].text if at else ""
    if text in _SAID_BY_PHRASES:
        return True
    if word.is_name and at:
        return False  # "Will Smith"
    if text in rules.words["auxiliaries"] and text != "am":
        return True
    if word.article or before in rules.words["owners"]:
        return False
    base = rules.verbs.get(text)
    if base is not None and (base != text or before in rules.words["base_after"]):
        return True
    return at > 0 and is_participle(text)


def is_participle(text: str) -> bool:
    """Return whether a word is a past form or a participle."""
    return text in english().participles or (text.endswith("ed") and len(text) > 4)  # noqa: PLR2004 - "used"


def is_number(text: str) -> bool:
    """Return whether a word is a number, a day or a time."""
    return any(map(str.isdigit, text)) or text in english().words["numbers"]

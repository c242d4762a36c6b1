"""The lists of words in the text files of the package: each entry changes how a text is read."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import date
from types import ModuleType
from typing import cast

import pytest

from alveus.errors import ModelRefused
from alveus.llm import Usage, answer_reader, answer_text, server_replies
from alveus.search import margin, signals
from alveus.search.margin import is_courtesy
from alveus.search.signals import QuestionSignals
from alveus.text import statements
from alveus.text.statements import statement
from alveus.values import http_json, languages, phrases, words
from alveus.values.http_json import STATUSES, reported_failure
from alveus.values.languages import language_of
from alveus.values.lazy import lists_of, words_of

LISTED = (
    *(answer_reader, http_json, languages, phrases, server_replies, signals, statements, words),
)


def same(first: str, second: str) -> bool:
    """Whether two texts say the same."""
    return statement(first).says_the_same(statement(second))


def numbers(name: str, digits: list[str]) -> Callable[[str], bool]:
    """A reading of a number's word as the number."""
    of = dict(zip(words_of(statements.__file__)[name], digits, strict=True))
    return lambda word: same(f"{word} cats sleep", f"{of.get(word)} cats sleep")


def names(question: str, speaker: str) -> bool:
    """Whether a question names a speaker."""
    return QuestionSignals.of(question, speakers=[speaker]).speaker == speaker


def is_refused(finish: str) -> bool:
    """Whether an answer that ended so is one that a filter stopped."""
    reply = server_replies.ServerReply("text", finish, refused=False, usage=Usage())
    try:
        server_replies.text_of("m", reply, asked_json=False)
    except ModelRefused:
        return True
    return False


def has_status(code: str) -> bool:
    """Whether a failure with this code has a status."""
    failure = reported_failure({"error": {"code": code}})
    return failure is not None and failure.status is not None


def foreign(word: str) -> bool:
    """Whether "a" beside this function word may be a word of another language."""
    return word in statements._FUNCTION_WORDS and not same(f"{word} a zorro", f"{word} zorro")


def votes(word: str, code: str) -> bool:
    """Whether a word votes for a language."""
    return languages._votes()._counts(word)[code] > 0


def is_particle(word: str) -> bool:
    """Whether a word gives a text a language, and a name none."""
    return language_of(f"zorro {word} zorro") != language_of(f"Zorro {word} Zorro") is None


READINGS: dict[tuple[ModuleType, str], Callable[[str], bool]] = {
    (words, "stop"): lambda w: words.terms(w) == [],
    (words, "temporal"): lambda w: words.temporal(w) == 1,
    (signals, "i"): lambda w: QuestionSignals.of(f"what about {w}").says_i,
    (signals, "english"): lambda w: QuestionSignals.of(f"{w} zorro i pan").says_i,
    (signals, "titles"): lambda w: names("Ada zorro", f"{w} Ada"),
    (signals, "roles"): lambda w: not names(f"{w} zorro", w),
    (signals, "also_words"): lambda w: not names(f"about {w}", w.title()),
    (statements, "negations"): lambda w: not same(f"I {w} really like it", f"I {w} like it"),
    (statements, "pronouns"): lambda w: same(f"{w}'re late now", f"{w} are late now"),
    (statements, "determiners"): lambda w: same(f"I know that {w} cat ran", f"I know {w} cat ran"),
    (statements, "asking"): lambda w: same(f"{w} is it", f"{w} is it?"),
    (statements, "auxiliaries"): lambda w: same(f"what {w} they want", f"what {w} they want?"),
    (statements, "also_foreign"): foreign,
    (statements, "interjections"): lambda w: same(f"{w}, I like tea", "I like tea"),
    (statements, "intensifiers"): lambda w: same(f"I {w} like tea", "I like tea"),
    (statements, "movable"): lambda w: same(f"{w} Monday I go home", f"I go home {w} Monday"),
    (statements, "days"): lambda w: statement(f"I go {w}").is_relative,
    (statements, "spans"): lambda w: statement(f"I go last {w}").is_relative,
    (statements, "cardinals"): numbers("cardinals", [str(n) for n in range(13)]),
    (statements, "ordinals"): numbers("ordinals", words_of(statements.__file__)["ordinal_digits"]),
    (statements, "tens"): numbers("tens", [str(n) for n in range(20, 100, 10)]),
    (languages, "loans"): lambda w: not votes(w, "other"),
    (languages, "particles"): is_particle,
    (server_replies, "filtered"): is_refused,
    (answer_reader, "tags"): lambda w: answer_text(f"<{w}>a</{w}>said") == "said",
    (answer_reader, "relatives"): lambda w: answer_text(f"<think>a</{w}>said") == "said",
    (answer_reader, "dropped"): lambda w: answer_text(f"{w}said") == "said",
    (answer_reader, "wrappers"): lambda w: (
        answer_text(f"<think>a</think>{w}said</{w[1:]}") == "said"
    ),
    (answer_reader, "starts"): lambda w: answer_text(f"{w} said") == "said",
    (answer_reader, "ends"): lambda w: answer_text(f"said{w}") == "said",
}

CODES = [name for name in words_of(languages.__file__) if len(name) == len("en")]


@pytest.mark.parametrize("code", CODES)
def test_each_word_votes_for_its_language(code: str) -> None:
    listed = words_of(languages.__file__)[code]
    assert [word for word in listed if not votes(word, code)] == []
    assert not votes("zebra", code)


def test_each_letter_votes_for_its_languages() -> None:
    listed = words_of(languages.__file__)["letters"]
    for code, letters in zip(listed[::2], listed[1::2], strict=True):
        assert [letter for letter in letters if not votes(f"{letter}x", code)] == []


DAYS = {
    "before_yesterday": ("2024-05-06", "2024-05-06"),
    "yesterday": ("2024-05-07", "2024-05-07"),
    "last_week": ("2024-04-29", "2024-05-05"),
    "last_month": ("2024-04-01", "2024-04-30"),
    "last_year": ("2023-01-01", "2023-12-31"),
}


def is_read(kind: str, language: str, phrase: str) -> bool:
    """Whether a text with a phrase is read as the list of the phrase says."""
    if kind == "temporal":
        return words._tokenize(phrase, words._temporal_in(language))[1] >= 1
    if kind in DAYS:
        days = phrases.past_days_in(language, f"x {phrase} y", date(2024, 5, 8))
        return days is not None and tuple(map(date.isoformat, days)) == DAYS[kind]
    text = phrase.removeprefix("^")
    asked = f"{text} zebra" if phrase != text else f"zebra {text}?"
    if kind == "impersonal":
        return phrases.without_impersonal(language, asked).split() == ["zebra", "?"]
    return phrases.says(cast("phrases.Kind", kind), language, asked)


@pytest.mark.parametrize("name", words_of(phrases.__file__))
def test_each_phrase_is_read(name: str) -> None:
    kind, _, language = name.rpartition("_")
    listed = [entry.replace("_", " ") for entry in words_of(phrases.__file__)[name]]
    assert [entry for entry in listed if not is_read(kind, language, entry)] == []
    assert not is_read(kind, language, "zebra")


OTHERS = {
    "also_foreign": "what",
    "loans": "zébra",
    "relatives": "zebra",
    "tags": "zebra",
    "titles": "Zebra",
}
"""Words that are in no list, for lists to which "<zebra>" cannot belong."""


@pytest.mark.parametrize(
    ("module", "name"), READINGS, ids=[f"{module.__name__}-{name}" for module, name in READINGS]
)
def test_each_word_is_needed(module: ModuleType, name: str) -> None:
    """A text with the word is read otherwise than the same text with a word of no list."""
    reads = READINGS[module, name]
    marks = name in {"dropped", "wrappers", "starts", "ends"}
    assert [word for word in words_of(str(module.__file__))[name] if not reads(word)] == []
    assert not reads("<zebra>" if marks else OTHERS.get(name, "zebra"))


def test_each_code_has_its_status() -> None:
    for code, status in STATUSES.items():
        failure = reported_failure({"error": {"code": code.upper()}})
        assert failure is not None, code
        assert failure.status == status, code
    assert not has_status("zebra")


def test_each_pair_of_marks_is_around_thoughts() -> None:
    listed = words_of(answer_reader.__file__)["pairs"]
    for begin, end in zip(listed[::2], listed[1::2], strict=True):
        assert answer_text(f"{begin}a{end}said") == "said"


def test_each_courtesy_is_read() -> None:
    lists = lists_of(margin.__file__)
    assert all(is_courtesy(f"{said.upper()}!") for said in lists["courtesies"] if said.isascii())
    assert all(is_courtesy(f"{said}.") for said in lists["courtesies"])
    assert len({*lists["courtesies"]}) == len(lists["courtesies"])
    assert not any(is_courtesy(said) for said in ("", "hello Ada", "thanks for nothing", "zebra"))
    assert not is_courtesy("किसे है")  # its consonants are those of कैसे हो
    assert len({*lists["self_contained"]}) == len(lists["self_contained"])


@pytest.mark.parametrize(
    "said", ["İyi akşamlar!", "Buenos di\u0301as", "Ça va ?", "ｈｅｌｌｏ", "شُكْراً"]
)
def test_a_courtesy_is_read_in_each_form_of_its_letters(said: str) -> None:
    """A capital İ, an accent, a wide letter and Arabic vowels make no other word."""
    assert is_courtesy(said)
    assert is_courtesy(unicodedata.normalize("NFD", said))


@pytest.mark.parametrize("module", LISTED)
def test_no_list_has_a_word_twice(module: ModuleType) -> None:
    for name, listed in lists_of(str(module.__file__)).items():
        entries = " ".join(listed).split()
        assert entries
        if name != "pairs":
            assert len(set(entries)) == len(entries), name

"""Each entry of the lists of the write barrier finds something that no other entry finds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import pytest

from admission_texts import needed, samples, spelled_out
from alveus.sets.admission import injection, secret_formats
from alveus.sets.admission.injection import injections
from alveus.sets.admission.injection_forms import forms
from alveus.sets.admission.injection_guards import Examples
from alveus.sets.admission.injection_phrases import (
    AttackPhrases,
    PhraseGroup,
    english_groups,
    language_group,
    languages,
    phrase_groups,
    word_lists,
)
from alveus.sets.admission.secret_formats import known_formats

NOTHING = "(?!)"


def found_by(group: PhraseGroup, text: str) -> set[str]:
    """The families of a group of which a text has a phrase."""
    return {
        family.name
        for form in forms(text)
        if group.may_be_in(form)
        for family in group.families
        if injection._has(form, family, Examples(form))
    }


@pytest.fixture(scope="module")
def attacks() -> list[tuple[str, list[set[str]]]]:
    """Texts, with what each group of phrases finds in them."""
    listed = needed()
    texts = [sample.text for sample in samples("injections")]
    texts += [text for name in ("english", *languages()) for text in listed.get(name, ())]
    return [(text, [found_by(group, text) for group in phrase_groups()]) for text in texts]


def unneeded(
    attacks: list[tuple[str, list[set[str]]]], changed: Iterable[tuple[str, int, PhraseGroup]]
) -> Iterator[str]:
    """Yield the names of changes of a group, by its number, that no text notices."""
    for name, at, group in changed:
        if not any(
            set().union(*found) != set().union(*found[:at], found_by(group, text), *found[at + 1 :])
            for text, found in attacks
            if found[at]
        ):
            yield name


def test_each_english_phrase_is_needed(attacks):
    """Without a phrase, an announcement or a deed, some text has one attack fewer."""
    changed = [
        (patterns[at], number, replace(group, families=(replace(family, **{part: rest}),)))
        for number, group in enumerate(english_groups())
        for family in group.families
        for part, patterns in (("patterns", family.patterns), ("deeds", family.deeds))
        for at in range(len(patterns))
        for rest in [patterns[:at] + patterns[at + 1 :]]
    ]
    assert len(changed) > 100
    assert list(unneeded(attacks, changed)) == []


def test_each_part_of_another_language_is_needed(attacks):
    """Without a part, some text has one attack fewer."""
    first = len(list(english_groups()))
    changed = [
        (f"{name}.{part.name}", number, language_group(replace(words, **{part.name: NOTHING})))
        for number, (name, words) in enumerate(languages().items(), start=first)
        for part in fields(AttackPhrases)
        if part.name not in {"needs", "spaced"}
    ]
    assert len(changed) > 150
    assert list(unneeded(attacks, changed)) == []


def test_no_need_has_another_one_in_it():
    """A text that has the longer one has the shorter one, which is enough."""
    for group in phrase_groups():
        assert len(set(group.needs)) == len(group.needs)
        assert not [
            (each, other) for each in group.needs for other in group.needs if other in each != other
        ]


WHOLE = {"gap", "far", "ai", "that", "announced", "answer"}
"""Lists of one regular expression, without which phrases that are needed find nothing."""

SHOWN = {
    r"[\w.+-]+@[\w-]+\.\w": "ada@example.org",
    r"https?://\S": "https://x",
    r"webhooks?\b": "webhook",
}
"""Words of lists that stand for many, and a text for each."""


def example(word: str) -> str:
    """The shortest text that a word of a list stands for: its first alternatives."""
    text = re.sub(r"\(\?[=!][^()]*\)", "", SHOWN.get(word, word)).replace(r"\w+", "day")
    text = re.sub(r"\[(.).*?\]", r"\1", text)
    while (shorter := re.sub(r"\(\?:([^()|]*)(?:\|[^()]*)?\)\??", r"\1", text)) != text:
        text = shorter
    return text.replace("-?", "").replace("?", "")


def test_each_word_of_a_list_is_needed(monkeypatch):
    """Put into the sentence of its list, a word makes an attack that is not seen without it."""
    sentences = needed()["sentences"]
    assert sentences.keys() == word_lists().keys() - WHOLE
    useless: list[str] = []
    for name, sentence in sentences.items():
        words = word_lists()[name]
        for word in words:
            text = sentence.format(example(word))
            injection._compiled.cache_clear()
            found = set(injections(text))
            with monkeypatch.context() as patch:
                patch.setitem(word_lists(), name, tuple(w for w in words if w != word))
                injection._compiled.cache_clear()
                if set(injections(text)) == found:
                    useless.append(f"{name}: {word}: {text}")
    injection._compiled.cache_clear()
    assert useless == []


def test_each_hint_of_a_secret_is_needed(monkeypatch):
    """Without a hint, with its kind and pattern, some text has one secret fewer."""
    formats = secret_formats._formats()
    texts = [sample.text for sample in samples("secrets")]
    texts += map(spelled_out, needed()["secrets"])
    found = {text: set(known_formats(text)) for text in texts}
    useless: list[str] = []
    for at, each in enumerate(formats):
        rest = formats[:at] + formats[at + 1 :]
        monkeypatch.setattr(secret_formats, "_formats", lambda rest=rest: rest)
        if all(set(known_formats(text)) == found[text] for text in texts if each[0] in text):
            useless.append(f"{each[1]}: {each[0]}")
    assert useless == []

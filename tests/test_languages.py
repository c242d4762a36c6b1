"""The language of a text, and searches by an embedder that does not read it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alveus import Memory
from alveus.embed import embed_quantised, open_embedder, reads
from alveus.store.items import WORDS_ALONE
from alveus.values import words
from alveus.values.languages import READ, language_of
from postgres_server import url_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOW = datetime(2026, 1, 1, tzinfo=UTC)

SAID = {
    "en": ["I went to the market with my sister.", "Is allergic to peanuts", "THE END IS NEAR"],
    "de": ["Verträgt keine Milch.", "Wann habe ich frei?", "Was heißt das?", "ICH BIN DA"],
    "nl": ["Hij woont in een klein huis.", "Waarom is het niet open?"],
    "sv": ["Hon bor inte här.", "När kommer du hem och vad ska vi äta?"],
    "da": ["Hvornår kommer du hjem, og hvad skal vi spise?"],
    "nb": ["Hva skal vi spise når du kommer hjem?"],
    "fi": ["Milloin sinä olet siellä?", "Hän asuu täällä ja pitää siitä."],
    "et": ["Ma olen siin ja see on minu maja."],
    "hu": ["Hol lakik és mit szeret?", "Nem szeret repülni."],
    "is": ["Hvað er það og hvar er hún?"],
    "pl": ["Nie lubi kawy.", "Gdzie mieszka moja siostra?"],
    "cs": ["Můj bratr bydlí v Brně.", "Kde bydlí můj bratr?"],
    "sk": ["Kde býva môj brat a čo robí?"],
    "sl": ["Kje živi in kaj dela moj brat?"],
    "hr": ["Gdje živi i što radi moj brat?"],
    "ro": ["Unde locuiește și ce mănâncă?", "Nu îi place cafeaua."],
    "it": ["Dove abita e cosa mangia?", "Non beve il caffè."],
    "es": ["¿Dónde vive y qué come?", "Tiene miedo a volar."],
    "pt": ["Onde você mora e o que come?", "Não gosta de café."],
    "fr": ["Où est-ce qu'elle habite ?", "N'aime pas le café."],
    "ca": ["On viu i què li agrada?", "Té por de volar amb avió."],
    "lt": ["Kur gyvena ir ką mėgsta?"],
    "lv": ["Kur viņa dzīvo un ko viņa dara?"],
    "tr": ["Nerede yaşıyor ve neyi seviyor?", "Bugün hava çok güzel."],
    "vi": ["Anh ấy sống ở đâu?", "Tôi không thích cà phê."],
    "id": ["Di mana dia tinggal?", "Saya tidak suka kopi."],
    "tl": ["Saan siya nakatira ngayon?", "Hindi ko gusto ang kape."],
    "sw": ["Anaishi wapi sasa?", "Mimi ni mwalimu wa shule hii."],
    "sq": ["Ku jeton dhe çfarë punon?"],
    "eu": ["Non bizi da eta zer egin du?"],
    "ru": ["Где живёт моя сестра?", "Мой iPhone 15 Pro", "Привет"],
    "uk": ["Де живе моя сестра?", "Їжак"],
    "bg": ["Къде живее тя и какво обича?"],
    "sr": ["Где живи и шта ради мој брат?"],
    "el": ["Πού μένει η αδελφή μου;"],
    "he": ["איפה גרה אחותי?"],
    "ar": ["أين تعيش أختي؟"],
    "fa": ["خواهرم کجا زندگی می‌کند و چه می‌پزد؟"],
    "ur": ["میری بہن کہاں رہتی ہے؟"],
    "hi": ["मेरी बहन कहाँ रहती है?"],
    "bn": ["আমার বোন কোথায় থাকে?"],
    "ta": ["என் சகோதரி எங்கே வசிக்கிறாள்?"],
    "th": ["พี่สาวของฉันอยู่ที่ไหน"],
    "zh": ["我姐姐住在哪里？", "我的iPhone怎么设置"],
    "ja": ["姉はどこに住んでいますか。", "コーヒー"],
    "ko": ["언니는 어디에 살아요?"],
    "ka": ["სად ცხოვრობს ჩემი და?"],
    "hy": ["Որտե՞ղ է ապրում իմ քույրը:"],
}
"""Texts of each language."""

NO_LANGUAGE = [
    *("", "  ", "🎉🎉", "42", "sushi", "Beyoncé", "Münchner Freiheit", "İzmir", "\ud800", "\x00"),
    *("Rio de Janeiro", "Los Angeles", "El Paso", "Vincent van Gogh", "Leonardo da Vinci"),
    *("Café de Flore", "Visit El Prado", "piñata party"),
    *(
        "def area(self, r): pass",
        "https://de.wikipedia.org/wiki/Das",
        "la/le/les",
        "no-reply@es.es",
    ),
    "Kubernetes pod 重启",  # as much of one as of another
]
"""Names, codes, and what is no text."""


@pytest.mark.parametrize("code", SAID)
def test_a_text_has_its_language(code: str) -> None:
    assert {text: language_of(text) for text in SAID[code]} == dict.fromkeys(SAID[code], code)


def test_names_and_codes_have_no_language() -> None:
    """They stand in texts of every language, so no embedder is switched off by them."""
    assert {text: language_of(text) for text in NO_LANGUAGE} == dict.fromkeys(NO_LANGUAGE)


@pytest.mark.parametrize(
    "text",
    [
        "I love La La Land and the movie Das Boot",
        "She said привет to me",
        "他 means he",
        "Zoë visits a café",
        "We ate crème brûlée at the Café de la Paix in Paris",
        "Catch ya later!",
        "My café's résumé template is über helpful",
        "The capital of Đắk Lắk",
    ],
)
def test_english_stays_english_beside_words_of_others(text: str) -> None:
    assert language_of(text) == "en"


def test_a_letter_has_one_form() -> None:
    """An accent that is written as a character of its own changes nothing."""
    assert language_of("kein Ru\u0308ckweg") == language_of("kein Rückweg") == "de"


def test_only_the_beginning_is_read() -> None:
    german = "Das ist nicht mein Haus. "
    assert language_of(german * (READ // len(german) + 1) + "The end of it. " * 100) == "de"


@given(st.text())
def test_any_text_is_accepted(text: str) -> None:
    assert language_of(text) == language_of(text)


# --- the embedder ----------------------------------------------------------------------------


class Counting:
    """An embedder that notes the texts that it reads."""

    name, dimensions, instant = "counting", 2, True
    languages: frozenset[str] | None = frozenset({"en"})

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.read += texts
        return np.tile(np.array([1, 0], np.float32), (len(texts), 1))


def test_an_embedder_reads_its_languages_and_unknown_ones() -> None:
    english = Counting()
    assert reads(english, "Where is it?")
    assert reads(english, "Rio de Janeiro")
    assert not reads(english, "Wo ist es?")
    english.languages = frozenset({"de"})
    assert reads(english, "Wo ist es?")
    english.languages = None
    assert reads(english, "Où est-ce ?")
    assert reads(open_embedder("words"), "Où est-ce ?")


def test_no_vectors_are_made_of_what_is_not_read() -> None:
    embedder = Counting()
    made = embed_quantised(embedder, ["Where is it?", "Wo ist es?", "42"])
    assert [len(vectors) for vectors in made] == [2, 0, 2]
    assert embedder.read == ["Where is it?", "42"]
    assert embed_quantised(embedder, ["Wo ist es?"]) == [b""]
    embedder.languages = None
    assert len(embed_quantised(embedder, ["Wo ist es?"])[0]) == 2


def test_of_several_texts_those_that_are_read_have_vectors() -> None:
    embedder = Counting()
    both = words.joined(["Wo ist mein Hund?", "Where is my dog?"])
    neither = words.joined(["Wo ist mein Hund?", "Où est mon chien ?"])
    assert [len(vectors) for vectors in embed_quantised(embedder, [both, neither])] == [2, 0]
    assert [text.strip() for text in embedder.read] == ["Where is my dog?"]


# --- searches --------------------------------------------------------------------------------

FACTS = [
    *("Is allergic to peanuts.", "Lives in Lisbon with a dog.", "iPhone 15 Pro", "🎉"),
    *("对海鲜过敏。", "在医院做夜班护士。", "不吃辣。", "膝盖受过伤，不能跑步。", "正在学法语。"),
    *("Аллергия на орехи.", "Живёт в Казани с мамой.", "Работает в больнице по ночам."),
    *("Ζει στη Λισαβόνα με έναν σκύλο.", "Δεν τρώει κρέας."),
    *("أختي تعيش في القاهرة.", "لا تشرب القهوة."),
    *("Verträgt keine Milch.", "Hat einen Hund namens Pepe."),
]
"""Facts in several scripts."""

ASKED = (
    *("海鲜", "过敏", "医院", "法语", "跑步", "орехи", "Казани", "больнице", "мамой", "аллергия"),
    *("Λισαβόνα", "σκύλο", "κρέας", "القاهرة", "القهوة", "أختي"),
)
"""Words of questions in other scripts than Latin."""


def found(memory: Memory, query: str, **options: object) -> list[tuple[str, float]]:
    hits = memory.key("ada").search(query, limit=50, **options)  # pyright: ignore[reportArgumentType] - wrong on purpose
    return [(hit.item.id, hit.score) for hit in hits]


def filled(url: str | Path, embedder: str, facts: Sequence[str] = FACTS) -> Memory:
    memory = Memory.open(url, embedder=embedder, clock=lambda: NOW)
    with memory.key("ada").batch() as batch:
        for at, fact in enumerate(facts):
            batch.add(fact, id=f"{at:04}", session=f"s{at // 4}", speaker=["Ada", "Bo"][at % 2])
    assert memory.settle()
    return memory


@pytest.fixture(scope="module")
def memories() -> list[Memory]:
    return [filled(":memory:", embedder) for embedder in ("words", "minilm", "static")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(ASKED), min_size=1, max_size=6), st.sampled_from([None, 0.2]))
def test_a_question_in_another_script_is_answered_by_words_alone(
    memories: list[Memory], asked: list[str], min_score: float | None
) -> None:
    """The bundled embedders change neither the hits, nor their order, scores or relevance."""
    by_words, *others = (found(one, " ".join(asked), min_score=min_score) for one in memories)
    for hits in others:
        assert hits == by_words


@pytest.mark.parametrize("query", ["Wo ist der Hund?", "¿Qué come en Lisbon?", "Pepe neyi yemez?"])
def test_so_is_a_question_in_another_language(memories: list[Memory], query: str) -> None:
    by_words, *others = (found(one, query) for one in memories)
    for hits in others:
        assert hits == by_words


def test_a_hit_says_that_meaning_has_no_part_in_it(memories: list[Memory]) -> None:
    by_words, minilm, _ = (memory.key("ada") for memory in memories)
    parts = {hit.item.text: hit.parts for hit in minilm.search("Pepe Lisbon peanuts", limit=50)}
    read, unread = parts["Is allergic to peanuts."], parts["Hat einen Hund namens Pepe."]
    assert (WORDS_ALONE in read, read["meaning"] > 0) == (False, True)
    assert (unread[WORDS_ALONE], unread["meaning"]) == (0.0, 0.0)
    assert len(read) == len(list(read)) == len(unread) - 1
    with pytest.raises(KeyError):
        read[WORDS_ALONE]
    hits = minilm.search("Wo ist der Hund?")
    assert all("meaning" not in hit.parts and hit.parts[WORDS_ALONE] == 0 for hit in hits)
    assert f"{len(hits)} of {len(hits)} hits by words alone" in hits.explain()
    assert WORDS_ALONE not in by_words.search("Wo ist der Hund?")[0].parts
    assert "words alone" not in by_words.search("Wo ist der Hund?").explain()


def test_an_item_in_another_language_is_as_relevant_as_by_words(memories: list[Memory]) -> None:
    """A name in a question that the embedder reads finds it with the relevance of words."""
    by_words, minilm, _ = (
        {hit.item.text: hit.relevance for hit in memory.key("ada").search("Pepe", min_score=0)}
        for memory in memories
    )
    fact = "Hat einen Hund namens Pepe."
    assert minilm[fact] == by_words[fact]


@pytest.mark.parametrize("place", ["ram", "file", pytest.param("server", marks=pytest.mark.server)])
def test_every_store_answers_alike(place: str, tmp_path: Path, memories: list[Memory]) -> None:
    url = {"ram": ":memory:", "file": str(tmp_path / "m.db"), "server": ""}[place]
    with filled(url or url_for(tmp_path / "memory"), "minilm") as memory:
        for query in ("海鲜过敏", "Wo ist der Hund?", "Where does she live?", "Pepe Lisbon"):
            assert found(memory, query) == found(memories[1], query)
            past = found(memory, query, as_of=1)
            assert past == found(memory, query)


def test_a_draft_is_searched_likewise(memories: list[Memory]) -> None:
    with Memory.open(embedder="static") as memory, memory.key("ada").batch() as batch:
        batch.add("Hat einen Hund namens Pepe.")
        batch.add("Has a dog.")
        hits = batch.search("Wo ist der Hund?")
        assert [hit.item.text for hit in hits] == ["Hat einen Hund namens Pepe."]
        assert hits[0].parts[WORDS_ALONE] == 0


def test_in_a_large_set_words_choose_the_candidates() -> None:
    """With more items than are scored whole, the hits are those of words alone."""
    facts = [
        f"{'Живёт' if at % 3 else 'Lives'} {at % 89} {ASKED[at % 16]} {at % 97}."
        for at in range(2_600)
    ]
    with filled(":memory:", "static", facts) as static, filled(":memory:", "words", facts) as plain:
        for query in ("Казани 88", "мамой орехи 96", "海鲜 过敏 5"):
            assert found(static, query) == found(plain, query) != []


class Reader(Counting):
    name = "reader"
    languages = None


def test_another_embedder_reads_them_after_reindexing(tmp_path: Path) -> None:
    """Items without vectors get them from an embedder that reads them, and lose them again."""
    path = tmp_path / "m.db"
    filled(path, "static").close()
    assert Memory.reindex(path, embedder=Reader()) == len(FACTS)
    with Memory.open(path, embedder=Reader()) as memory:
        assert all(WORDS_ALONE not in hit.parts for hit in memory.key("ada").search("海鲜过敏"))
    assert Memory.reindex(path, embedder="static") == len(FACTS)
    with Memory.open(path, embedder="static") as memory:
        assert all(WORDS_ALONE in hit.parts for hit in memory.key("ada").search("海鲜过敏"))


@pytest.mark.parametrize("name", ["Vera", "Ella", "Ben", "Kim", "Per"])
def test_a_name_that_is_a_function_word_has_no_language(name: str) -> None:
    """ "Vera keeps bees" is not Icelandic."""
    assert language_of(f"{name} keeps bees.") in (None, "en")

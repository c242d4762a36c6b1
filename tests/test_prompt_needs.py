"""Prompts by need: requests for oneself, courtesies, and what an empty prompt says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from alveus import Budget, Context, Item, Memory
from alveus.errors import EmbedderFailed, InvalidInput
from alveus.search.margin import is_courtesy
from alveus.search.signals import is_personal
from alveus.store.times import FOREVER
from alveus.testing.batches import START, Clock
from alveus.text.messages import MESSAGES, Message
from doors import Letters

PERSONAL = [
    "What should I watch tonight?",
    "Plan my week.",
    "Suggest a recipe.",
    "Book me a flight.",
    "Where shall we go on Sunday?",
    "Give me some advice.",
    "Was soll ich heute Abend sehen?",
    "Schlag ein Rezept vor.",
    "Buche einen Flug.",
    "Recomienda un libro.",
    "¿Qué puedo pedir en la pizzería?",
    "Propose une recette.",
    "Sugere uma receita.",
    "Consiglia un film.",
    "Посоветуй фильм.",
    "推荐一本书",
    "おすすめの映画は?",
    "영화 추천해 줘",
    "اقترح وصفة",
    "कोई फिल्म सुझाओ",
    "Bir film öner",
    "Raad een boek aan",
]

IMPERSONAL = [
    "Tell me a joke.",
    "How do I sort a list in Python?",
    "What is 8 times 14?",
    "Sag mir die Hauptstadt von Peru.",
    "¿Cómo puedo ordenar una lista?",
    "给我讲个笑话",
    "Wer schrieb Faust?",
]


@pytest.mark.parametrize("request_", PERSONAL)
def test_a_request_for_oneself_is_recognised(request_: str) -> None:
    """By "I", by "we", and by words of advice, choice and planning, in fourteen languages."""
    assert is_personal(request_)


@pytest.mark.parametrize("request_", IMPERSONAL)
def test_a_request_of_anybody_is_not_for_oneself(request_: str) -> None:
    """Also if it says "me" or "I"."""
    assert not is_personal(request_)


@pytest.mark.parametrize("embedder", ["words", "static", "minilm"])
def test_a_request_for_oneself_gets_lasting_items_of_a_large_memory(
    embedder: Literal["words", "static", "minilm"],
) -> None:
    """Also if hundreds of turns are nearer to it, and whatever language it has."""
    with Memory.open(embedder=embedder) as memory:
        ada = memory.key("ada")
        talk = ada.set("talk")
        said = [f"We watched film {n} tonight, and planned a flight." for n in range(300)]
        talk.add_many([Item(text, speaker="Bob", session="talk") for text in said])
        ada.add_many(["Is allergic to peanuts.", "Lives in Lisbon."])
        for request in ("What should I watch tonight?", "Suggest a recipe.", "Was kann ich essen?"):
            made = ada.context(request, budget_tokens=1_000, knowledge=None)
            assert {"Is allergic to peanuts.", "Lives in Lisbon."} <= set(_texts(made)), request
        made = ada.context("What is 8 times 14?", budget_tokens=1_000, knowledge=None)
        assert "Is allergic to peanuts." not in _texts(made)
        only = ada.context("Suggest a recipe.", where={"$speaker": "Bob"}, budget_tokens=1_000)
        assert "Lives in Lisbon." not in _texts(only)


def test_messages_of_a_conversation_are_not_lasting() -> None:
    """A large conversation with nothing beside it: a search finds what there is."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        chat = ada.set("chat", item_type=MESSAGES)
        for n in range(120):
            chat.add(Message(f"The printer is out of paper, {n}.").to_dict())
        made = ada.context("Suggest a recipe.", budget_tokens=2_000, messages=None)
        assert _texts(made) == []
        assert made.text.startswith("Nothing from memory is shown: no item matches the query.")


@pytest.mark.parametrize(("name", "is_shown"), [("Nadia", True), ("nadia", False), ("Olga", False)])
def test_a_question_that_names_a_speaker_gets_turns(*, name: str, is_shown: bool) -> None:
    """However little it resembles them, since it is about somebody who is in the memory."""
    with Memory.open(embedder="words") as memory:
        chat = memory.key("ada").conversation("chat")
        chat.add(
            [
                {"role": "user", "name": "Nadia Kim", "content": f"The harbour was quiet, {n}."}
                for n in range(400)
            ]
        )
        query = f"Would {name} rather ride a horse, sail, drive or fly to the quiet north?"
        made = memory.key("ada").context(query, budget_tokens=800, messages=None)
        assert bool(_texts(made)) is is_shown


def _texts(made: Context) -> list[str]:
    return [piece.text for piece in made.why if piece.shown and piece.part == "items"]


# --- courtesies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        "Moin",
        "Servus!",
        "Hi, how are you?",
        "早安",
        "thx",
        "Hello! Thanks a lot, bye.",
        "Coucou, ça va ?",
        "Hola, ¿qué tal?",
        "Ciao, come va?",
        "E aí, tudo bem?",
        "Приветик, как дела?",
        "お疲れ様です。",
        "안녕하세요, 반갑습니다!",
        "صباح النور",
        "हैलो, कैसे हैं आप?",
        "Selam, naber?",
        "Dank je wel!",
        "谢谢，再见。",
    ],
)
def test_a_row_of_courtesies_is_a_courtesy(request_: str) -> None:
    """Greetings, thanks and farewells, one or several."""
    assert is_courtesy(request_)


@pytest.mark.parametrize(
    "request_", ["", "?", "Hi, what do I like?", "Thanks to whom do I live here?", "good seats"]
)
def test_a_courtesy_with_a_question_is_none(request_: str) -> None:
    """The rest of the request counts."""
    assert not is_courtesy(request_)


# --- an empty prompt says why -----------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(embedder="words", clock=Clock(), timezone="UTC") as memory:
        yield memory


def _reason(made: Context) -> str:
    first = made.text.partition("\n")[0]
    return first.removeprefix("Nothing from memory is shown: ").removesuffix(".")


def test_an_empty_prompt_names_the_true_cause(memory: Memory) -> None:
    """Not "nothing was found" beside what was found; not "no items yet" beside items."""
    ada = memory.key("ada")
    assert _reason(ada.context("tea?", sets=None)) == "knowledge holds no items yet"
    assert _reason(ada.context("tea?")) == "it holds no items yet"
    ada.add("Likes tea. " * 40, metadata={"kind": "drink"})
    assert _reason(ada.context("tea?", sets=["typo"], knowledge=None)) == (
        "the sets that were searched hold no items"
    )
    small = ada.context("tea?", budget_tokens=30)
    assert _reason(small) == "what was found does not fit into the budget"
    none = ada.context("tea?", where={"kind": "food"}, knowledge=None)
    assert _reason(none) == "no item that holds now matches the filters"
    gone = ada.context("tea?", valid_at=START, where={"kind": "food"}, knowledge=None)
    assert _reason(gone) == "no item that held at the time of valid_at matches the filters"


def test_knowledge_that_does_not_match_counts_before_a_key_without_items(memory: Memory) -> None:
    """The key of a new user is empty, but the memory is not."""
    for n in range(30):
        memory.knowledge.set("handbook").add(f"Seat {n} has a window.")
    assert _reason(memory.key("new").context("tea?")) == "no item matches the query"


def test_a_moment_before_the_first_item_says_that_memory_was_empty(memory: Memory) -> None:
    """The items of today are none of that moment."""
    ada = memory.key("ada")
    ada.add("Likes tea.")
    assert _reason(ada.context("tea?", as_of=0)) == "it held no items at that moment"
    before = START - timedelta(days=1)
    assert _reason(ada.context("tea?", as_of=before)) == "it held no items at that moment"


def test_a_commit_of_the_future_is_refused(memory: Memory) -> None:
    """By context, search and list; a time of the future is the present."""
    ada = memory.key("ada")
    ada.add("Likes tea.")
    last = memory.store.commit_at(FOREVER)
    assert _texts(ada.context("tea?", as_of=last)) == ["Likes tea."]
    problem = f"as_of={last + 1} is a commit of the future; the last one is {last}"
    with pytest.raises(InvalidInput, match=problem):
        ada.context("tea?", as_of=last + 1)
    with pytest.raises(InvalidInput, match=problem):
        ada.search("tea?", as_of=last + 1)
    with pytest.raises(InvalidInput, match=problem):
        ada.list(as_of=last + 1)
    later = START + timedelta(days=900)
    assert _texts(ada.context("tea?", as_of=later)) == ["Likes tea."]


def test_a_counter_that_raises_is_named(memory: Memory) -> None:
    """Its error is the cause."""

    def broken(text: str) -> int:
        raise KeyError(text)

    with pytest.raises(InvalidInput, match=r"token counter .*broken raised KeyError") as caught:
        memory.key("ada").context("tea?", budget_tokens=Budget(100, counter=broken))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_context_without_a_key_says_what_to_do(memory: Memory) -> None:
    """The error of Python alone does not."""
    with pytest.raises(TypeError, match=r"'key'; name the key, as in memory\.context\(query, key="):
        memory.context("tea?")  # pyright: ignore[reportCallIssue] - that is the mistake


# --- vectors that are no numbers --------------------------------------------------------------


class _Sick(Letters):
    """An embedder that answers with a number that is not finite, once *sick* is set."""

    sick: float | None = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row per text."""
        rows = super().embed(texts)
        if self.sick is not None:
            rows[:, 0] = self.sick
        return rows


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_refused(number: float) -> None:
    """At add, search and context; the next answer of the embedder is used, not a cached one."""
    embedder = _Sick()
    with Memory.open(embedder=embedder) as memory:
        ada = memory.key("ada")
        ada.add("Likes tea.")
        embedder.sick = number
        with pytest.raises(EmbedderFailed, match="letters"):
            ada.add("Likes coffee.")
        with pytest.raises(EmbedderFailed, match="'letters' returned NaN or infinity"):
            ada.search("tea?")
        with pytest.raises(EmbedderFailed, match="'letters' returned NaN or infinity"):
            ada.context("tea?")
        embedder.sick = None
        assert [hit.item.text for hit in ada.search("tea?")] == ["Likes tea."]
        assert _texts(ada.context("tea?")) == ["Likes tea."]
        assert [item.text for item in ada.list()] == ["Likes tea."]

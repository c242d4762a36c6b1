"""Searching: what is embedded first, what is partial, the past, several sets, other embedders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alveus import Item, Memory, Signals
from alveus.errors import EmbedderConflict, EmbedderFailed, InvalidInput
from alveus.search.query import EMBED_FIRST, REMEMBERED
from doors import Clock, Letters


@pytest.fixture
def slow() -> Letters:
    return Letters(instant=False)


@pytest.fixture(params=["ram", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, slow: Letters) -> Iterator[Memory]:
    """Nobody embeds in the background here: what is asked for is all that happens."""
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder=slow, clock=Clock()) as memory:
        memory._engine.worker._stop.set()
        yield memory


def found(hits) -> list[str | None]:
    return [hit.item.text for hit in hits]


def test_a_search_first_embeds_what_waits_in_its_reach(memory: Memory, slow: Letters) -> None:
    """Up to 64 of its own sets, not of others; then it is whole."""
    ada = memory.key("ada")
    ada.add_many([f"note {i}" for i in range(EMBED_FIRST)])
    ada.set("other").add("elsewhere")
    memory.key("bob").add("somebody else's")
    hits = ada.set("default").search("note", limit=1000)
    assert not hits.partial
    assert len(hits) == EMBED_FIRST
    assert memory.stats().pending == 2
    assert {"elsewhere", "somebody else's"}.isdisjoint(slow.asked)
    assert not ada.search("note").partial
    assert memory.stats().pending == 1


def test_past_the_64_a_search_is_partial_until_it_is_settled(memory: Memory) -> None:
    """It says so, each search brings it 64 further, words find the rest, settle does all."""
    ada = memory.key("ada")
    ada.add_many([f"note {i}" for i in range(3 * EMBED_FIRST)])
    hits = ada.search("note 191", limit=1000)
    assert hits.partial
    assert "partial" in hits.explain()
    assert "partial" in repr(hits)
    assert "note 191" in found(hits), "found by its words"
    assert memory.stats().pending == 2 * EMBED_FIRST
    assert ada.search("note").partial
    assert memory.stats().pending == EMBED_FIRST
    assert memory.settle()
    assert not ada.search("note").partial
    assert memory.stats().pending == 0


def test_a_filter_does_not_shorten_the_reach(memory: Memory) -> None:
    """What the filter hides counts for partial: the question was asked of the set."""
    ada = memory.key("ada")
    ada.add_many([Item(f"n{i}", metadata={"i": i}) for i in range(EMBED_FIRST + 1)])
    assert ada.search("n", where={"i": 0}).partial
    assert not ada.search("n", where={"i": 0}).partial


def test_settle_embeds_what_is_pending_in_every_key(memory: Memory) -> None:
    """Of the space and its knowledge; it tells how many; then nothing waits."""
    memory.key("ada").add_many([f"a{i}" for i in range(40)])
    memory.key("bob").set("notes").add("b")
    memory.knowledge.set("facts").add("c")
    done: list[int] = []
    assert memory.settle(progress=done.append)
    assert sum(done) == 42
    assert memory.stats().pending == 0


def test_an_embedder_that_raises_loses_nothing(memory: Memory, slow: Letters) -> None:
    """The item is durable and found by words; the search that needs a vector says what failed."""
    ada = memory.key("ada")
    slow.broken = RuntimeError("no route to the model")
    item_id = ada.add("green tea", id="x")
    assert item_id == "x"
    assert ada.get("x") is not None
    with pytest.raises(EmbedderFailed, match=r"letters.*no route") as caught:
        ada.search("tea")
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(EmbedderFailed, match="no route"):
        memory.settle()
    batch = ada.batch()
    with batch, pytest.raises(EmbedderFailed):
        batch.search(f"draft {batch.add('draft', id='y')}")
    ada.delete("y")
    assert memory.stats().pending == 2
    slow.broken = None
    assert found(ada.search("tea")) == ["green tea"]
    assert memory.settle()
    assert memory.stats().pending == 0


def test_an_embedder_in_the_commit_that_raises_refuses_the_add() -> None:
    """One that runs inside the commit takes the commit with it: nothing is there in part."""
    quick = Letters()
    with Memory.open(embedder=quick) as memory:
        ada = memory.key("ada")
        quick.broken = ValueError("bad")
        with pytest.raises(EmbedderFailed, match="bad"):
            ada.add_many(["a", "b"])
        with pytest.raises(EmbedderFailed, match="bad"):
            ada.set("s", capacity=1).add("a")
        assert ada.list() == []
        assert ada.sets() == []
        quick.broken = None
        ada.add("c")
        quick.broken = ValueError("bad")
        with pytest.raises(EmbedderFailed, match="bad"):
            ada.search("c")


@pytest.mark.parametrize("rows", [0, 2])
def test_an_embedder_that_answers_wrongly_is_told(slow: Letters, rows: int) -> None:
    """Too few rows, too many: nothing of it is stored."""

    class Wrong(Letters):
        def embed(self, texts):
            return super().embed(["x"] * rows)

    with Memory.open(embedder=Wrong(instant=False)) as memory:
        memory._engine.worker._stop.set()
        memory.key("ada").add("x")
        with pytest.raises(EmbedderFailed, match=str(rows)):
            memory.settle()
        with pytest.raises(EmbedderFailed, match=str(rows)):
            memory.key("ada").search("x")
        assert memory.stats().pending == 1


def test_questions_are_embedded_once(memory: Memory, slow: Letters) -> None:
    """The vectors of the last 256 questions are kept; blank ones have none."""
    ada = memory.key("ada")
    ada.add("green tea")
    for _ in range(3):
        ada.search("tea")
        ada.search("  ")
        ada.search("")
    assert slow.asked.count("tea") == 1
    assert "" not in slow.asked
    for n in range(REMEMBERED):
        ada.search(f"question {n}")
    ada.search("question 255")
    ada.search("tea")
    assert slow.asked.count("question 255") == 1
    assert slow.asked.count("tea") == 2


def test_the_past_is_searched_as_it_was(memory: Memory) -> None:
    """as_of: deleted items are there, later ones are not, and scores are those of then."""
    ada = memory.key("ada")
    ada.add("green tea", id="a")
    ada.add("black tea", id="b")
    memory.settle()
    before = ada.search("green tea")
    then = memory.stats().store.commits
    ada.delete("a")
    ada.update("b", "white wine")
    ada.add("green tea with milk")
    memory.settle()
    past = ada.search("green tea", as_of=then)
    assert [(h.item.id, h.item.text) for h in past] == [("a", "green tea"), ("b", "black tea")]
    assert [h.score for h in past] == pytest.approx([h.score for h in before])
    assert found(ada.search("tea", as_of=then, where={"$id": "b"})) == ["black tea"]
    assert ada.search("tea", as_of=0) == ()
    assert found(ada.search("green tea", limit=1)) == ["green tea with milk"]


def test_the_past_says_partial_too(memory: Memory) -> None:
    """Versions that were retired before anybody embedded them are found by words."""
    ada = memory.key("ada")
    ada.add("green tea", id="a")
    then = memory.stats().store.commits
    ada.update("a", "white wine")
    hits = ada.search("tea", as_of=then)
    assert found(hits) == ["green tea"]
    assert hits.partial
    memory.settle()
    assert not ada.search("tea", as_of=then).partial


def test_several_sets_are_searched_together(memory: Memory) -> None:
    """All of the key, or those named, each once; unknown ones are empty; order is by score."""
    ada = memory.key("ada")
    ada.set("a").add("green tea", id="1")
    ada.set("b").add("green tea", id="2")
    ada.set("c").add("red wine", id="3")
    assert [h.item.id for h in ada.search("green tea", limit=2)] == ["1", "2"]
    assert [h.item.set_name for h in ada.search("green tea", limit=2)] == ["a", "b"]
    assert {h.item.id for h in ada.search("tea", sets=["b", "none", "b"])} == {"2"}
    assert ada.search("tea", sets=[]) == ()
    assert ada.search("tea", sets=["none"]) == ()
    assert ada.sets() == ["a", "b", "c"]


def test_signals_are_stored_with_a_set(memory: Memory) -> None:
    """They weigh its searches, until others are passed; sets that differ go by the defaults."""
    ada = memory.key("ada")
    notes = ada.set("notes", signals=Signals(importance=5.0))
    notes.add("green tea", id="low", importance=0.0)
    notes.add("a car", id="high", importance=1.0)
    assert [h.item.id for h in notes.search("green tea")] == ["high", "low"]
    assert notes.search("green tea")[0].parts["importance"] == pytest.approx(5.0)
    assert notes.search("green tea", signals=Signals())[0].item.id == "low"
    assert ada.search("green tea")[0].item.id == "high"
    ada.set("plain").add("green tea too", id="plain")
    assert ada.search("green tea")[0].item.id == "low"
    notes.redefine(signals=Signals(importance=0.0))
    assert notes.search("green tea")[0].item.id == "low"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda ada: ada.search(7), InvalidInput),
        (lambda ada: ada.search(None), InvalidInput),
        (lambda ada: ada.search("x", limit=0), InvalidInput),
        (lambda ada: ada.search("x", limit=1001), InvalidInput),
        (lambda ada: ada.search("x", limit=True), InvalidInput),
        (lambda ada: ada.search("x", sets=[""]), InvalidInput),
        (lambda ada: ada.search("x", as_of=-1), InvalidInput),
        (lambda ada: ada.search("x", where={"a": {"like": 1}}), InvalidInput),
    ],
)
def test_bad_questions_are_refused(memory: Memory, call, error) -> None:
    """Also of a key that has nothing yet."""
    with pytest.raises(error):
        call(memory.key("ada"))
    memory.key("bob").add("x")
    with pytest.raises(error):
        call(memory.key("bob"))


def test_half_a_character_in_a_question_is_read_as_the_character_of_replacement(
    memory: Memory,
) -> None:
    """As other systems' doors store it; the question of a user is answered."""
    ada = memory.key("ada")
    assert list(ada.search("green \ud800 tea")) == []
    ada.add("green \ufffd tea", id="x")
    assert [hit.item.id for hit in ada.search("green \ud800 tea")] == ["x"]


def test_an_old_handle_of_a_space_that_was_embedded_anew_is_refused(tmp_path: Path) -> None:
    """Search, add, update, batch, settle: it cannot mix vectors of two embedders."""
    path = tmp_path / "app.db"
    old = Letters(instant=False)
    with Memory.open(path, embedder=old) as memory:
        memory._engine.worker._stop.set()
        ada = memory.key("ada")
        ada.add("green tea", id="x")
        memory.settle()
        ada.search("tea")
        assert Memory.reindex(path, embedder=Letters(name="other")) == 1
        with pytest.raises(EmbedderConflict, match=r"other.*letters"):
            ada.search("tea")
        with pytest.raises(EmbedderConflict):
            ada.search("tea")
        for call in (
            lambda: ada.add("y"),
            lambda: ada.update("x", "y"),
            lambda: ada.set("new").add_many(["y"]),
            lambda: ada.add("y", idempotency_key="k"),
            lambda: memory.knowledge.set("s").add("y"),
        ):
            with pytest.raises(EmbedderConflict, match="reindex"):
                call()
        with pytest.raises(EmbedderConflict), ada.batch() as b:
            b.add("y")
        assert [item.text for item in ada.list()] == ["green tea"]
        ada.short_term.set("a", 1)  # the exact tree has no vectors
    with Memory.open(path, embedder=Letters(name="other")) as memory:
        assert found(memory.key("ada").search("tea")) == ["green tea"]
        assert memory.key("ada").short_term.get("a") == 1

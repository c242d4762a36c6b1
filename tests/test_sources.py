"""Items that say what they were made of: linked to it, or refused."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from alveus import (
    Agent,
    InputEvent,
    Item,
    KeyBatch,
    KeyMemory,
    LocalRunner,
    Memory,
    MemorySet,
    RunnerContext,
    Trim,
    action,
)
from alveus.errors import InvalidInput, NotFound
from alveus.sets import origins
from alveus.sets.admission import Size
from alveus.transfer import Load, Selection, Source, export_lines
from doors import texts

MADE = Item("Ada travels light.", id="made", sources=("a", "b"))


@pytest.fixture(params=["ram", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    path = ":memory:" if request.param == "ram" else tmp_path / "m.db"
    with Memory.open(path, embedder="words", knowledge="lore") as memory:
        yield memory


@pytest.fixture
def ada(memory: Memory) -> KeyMemory:
    ada = memory.key("ada")
    ada.set("n").add_many([Item("No luggage.", id="a"), Item("One bag.", id="b")])
    return ada


def in_a_batch(ada: KeyMemory, do: Callable[[KeyBatch], object]) -> None:
    with ada.batch() as batch:
        do(batch)


class Learns(Agent):
    @action(InputEvent)
    def learn(self, event: InputEvent, ctx: RunnerContext) -> None:
        ctx.long_term_memory.set("n").add(MADE)


def in_a_run(memory: Memory, ada: KeyMemory) -> None:
    with LocalRunner(Learns(), memory, name="n") as runner:
        runner.handle("ada", "go")


def upsert(ada: KeyMemory) -> None:
    ada.set("n").add("Draft.", id="made")
    ada.set("n").add(MADE, on_existing="update")


ADDS: dict[str, Callable[[Memory, KeyMemory], object]] = {
    "add": lambda _, ada: ada.set("n").add(MADE),
    "add_many": lambda _, ada: ada.set("n").add_many([MADE, "another"]),
    "upsert": lambda _, ada: upsert(ada),
    "new upsert": lambda _, ada: ada.set("n").add(MADE, on_existing="update"),
    "batch": lambda _, ada: in_a_batch(ada, lambda batch: batch.set("n").add(MADE)),
    "run": in_a_run,
    "ruled": lambda _, ada: (
        ada.set("n").redefine(admission=[Size(max_chars=999)]) and ada.set("n").add(MADE)
    ),
    "ruled upsert": lambda _, ada: (
        ada.set("n").redefine(admission=[Size(max_chars=999)]) and upsert(ada)
    ),
}


@pytest.mark.parametrize(("most", "nodes", "cut"), [(3, 3, False), (2, 2, True)])
def test_a_lineage_that_is_too_large_says_that_it_is_cut(
    ada: KeyMemory, monkeypatch: pytest.MonkeyPatch, most: int, nodes: int, cut: bool
) -> None:
    """One that has just room enough is whole."""
    monkeypatch.setattr(origins, "MOST_NODES", most)
    notes = ada.set("n")
    notes.add(MADE)
    graph = notes.lineage("made")
    assert (len(graph.nodes), graph.cut) == (nodes, cut)


@pytest.mark.parametrize("door", ADDS)
def test_an_item_is_linked_to_the_sources_that_it_names(
    memory: Memory, ada: KeyMemory, door: str
) -> None:
    """By every door: sources, lineage, export, and forgetting see the same."""
    notes = ada.set("n")
    ADDS[door](memory, ada)
    item = notes.get("made")
    assert item is not None
    assert item.sources == ("a", "b")
    assert [source.id for source in notes.sources("made")] == ["a", "b"]
    assert {node.id for node in notes.lineage("made").nodes} == {"made", "a", "b"}
    notes.update("made", importance=0.5)
    assert len(notes.sources("made")) == 2
    exported = [line for line in export_lines(memory, Selection()) if '"made"' in line]
    assert '"linked":[["ada","n","a"],["ada","n","b"]]' in exported[0]
    assert notes.forget("a").derived == 1
    assert notes.get("made") is None
    assert notes.get("b") is not None
    assert MADE.value not in texts(notes.history("made"))


def test_an_exported_item_is_linked_again(memory: Memory, ada: KeyMemory) -> None:
    """What an add linked is linked where the file is imported, whatever its order."""
    ada.set("n").add(MADE)
    found = list(export_lines(memory, Selection()))
    with Memory.open(embedder="words") as other:
        file = Source("f.jsonl", io.BytesIO("\n".join(found).encode()))
        assert Load(other).run(file, "alveus").unlinked == 0
        notes = other.key("ada").set("n")
        assert [source.id for source in notes.sources("made")] == ["a", "b"]
        assert notes.forget("b").derived == 1


def test_sources_are_looked_for_near_first(memory: Memory, ada: KeyMemory) -> None:
    """In the same set; else in another one of the key; else in knowledge."""
    notes, log, lore = ada.set("n"), ada.set("log"), memory.knowledge.set("k")
    log.add_many([Item("log a", id="a"), Item("log c", id="c")])
    lore.add_many([Item("lore c", id="c"), Item("lore d", id="d")])
    notes.add(Item("made", id="made", sources=("a", "c", "d")))
    assert {item.text for item in notes.sources("made")} == {"No luggage.", "log c", "lore d"}
    assert lore.forget("d").derived == 1
    assert notes.get("made") is None
    lore.add(Item("more", id="more", sources=("c",)))
    assert texts(lore.sources("more")) == ["lore c"]
    with ada.batch() as batch:  # what knowledge learns of a key
        batch.knowledge.set("k").add(Item("learned", id="learned", sources=("b",)))
    assert texts(lore.sources("learned")) == ["One bag."]
    assert notes.forget("b").derived == 1
    assert lore.get("learned") is None


def test_a_retired_source_is_one_too(ada: KeyMemory) -> None:
    """Who sums up items and deletes them is followed; the source does not come back by it."""
    notes = ada.set("n")
    notes.delete("a")
    notes.add(MADE)
    assert [source.id for source in notes.sources("made")] == ["a", "b"]
    notes.forget("made")
    assert [item.id for item in notes.list()] == ["b"]
    notes.add(MADE)
    notes.forget("a")
    assert [item.id for item in notes.list()] == ["b"]


def test_one_call_adds_sources_and_what_is_made_of_them(memory: Memory) -> None:
    """In this order, in one call and in one batch."""
    notes = memory.key("ada").set("n")
    first, last = Item("one", id="1"), Item("two", id="2", sources=("1",))
    with pytest.raises(NotFound, match="add that item first"):
        notes.add_many([last, first])
    notes.add_many([first, last])
    assert texts(notes.sources("2")) == ["one"]
    with memory.key("ada").batch() as batch:
        batch.set("m").add(replace(first, id="3"))
        batch.set("n").add(replace(last, id="4", sources=("3",)))
    assert texts(notes.sources("4")) == ["one"]


BAD: dict[str, tuple[object, type[Exception], str]] = {
    "nobody": (("a", "nobody"), NotFound, "'nobody', which is not an item of set 'n'"),
    "of another key": (("his",), NotFound, "'his', which is not an item of"),
    "itself": (("made",), InvalidInput, "names itself"),
    "in two sets": (("twice",), InvalidInput, "but the sets 'x', 'y' all have"),
    "a text": ("a", InvalidInput, "must be a tuple of ids"),
    "no id": ((7,), InvalidInput, "the id of a source"),
    "none": (None, InvalidInput, "must be a tuple of ids"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_source_that_cannot_be_linked_is_refused(
    memory: Memory, ada: KeyMemory, what: str
) -> None:
    """Nothing is stored that shows a source which forgetting would not follow."""
    sources, error, says = BAD[what]
    memory.key("bob").set("n").add("his", id="his")
    for name in ("x", "y"):
        ada.set(name).add("twice", id="twice")
    notes = ada.set("n")
    item = Item("made", id="made", sources=sources)  # pyright: ignore[reportArgumentType]  wrong on purpose
    adds: list[Callable[[], object]] = [
        lambda: notes.add(item),
        lambda: notes.add_many(["fine", item]),
        lambda: notes.add(item, on_existing="update"),
        lambda: in_a_batch(ada, lambda batch: batch.set("n").add(item)),
    ]
    for add in adds:
        with pytest.raises(error, match=says):
            add()
    assert [item.id for item in notes.list()] == ["a", "b"]


def test_what_replaces_an_item_keeps_its_sources(ada: KeyMemory) -> None:
    """An item stays linked to what it was made of, and goes on to name that."""
    notes = ada.set("n")
    notes.add(replace(MADE, sources=("a",)))
    notes.add(Item("Again.", id="made"), on_existing="update")
    notes.add(replace(MADE, sources=("b",)), on_existing="update")
    item = notes.get("made")
    assert item is not None
    assert item.sources == ("a", "b")
    assert [source.id for source in notes.sources("made")] == ["a", "b"]
    notes.update("made", "Once more.")
    notes.add(item, on_existing="update")  # as it was read, also where a source is gone
    notes.add(item, on_existing="keep")
    assert [source.id for source in notes.sources("made")] == ["a", "b"]
    assert notes.forget("b").derived == 1


def test_what_waits_in_a_quarantine_is_followed(ada: KeyMemory) -> None:
    """It is linked while it is held, and when it is released."""
    notes: MemorySet = ada.set("n")
    notes.redefine(admission=[Size(max_chars=20, verdict="quarantine")])
    long = Item("A text that is far longer than twenty characters.", id="l", sources=("a",))
    held = [notes.add(long), notes.add(replace(long, id="m", value="Also a text that is long."))]
    assert len(notes.quarantine) == 2
    notes.quarantine.release(held[0])
    assert [source.id for source in notes.sources("l")] == ["a"]
    assert notes.forget("a").derived == 3  # with what is left of it in the quarantine
    assert (notes.get("l"), len(notes.quarantine)) == (None, 0)


def test_undo_brings_links_back(ada: KeyMemory) -> None:
    """An item that a compaction retired is linked again to what it was made of."""
    notes = ada.set("n")
    notes.add(MADE)
    done = notes.compact(Trim(n=3))
    assert done is not None
    notes.undo(done.id)
    assert [source.id for source in notes.sources("made")] == ["a", "b"]
    assert notes.forget("a").derived == 1

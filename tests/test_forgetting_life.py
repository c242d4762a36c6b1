"""What else an erased item could live on in: compactions to come, runners at work, RAM."""

from __future__ import annotations

import gc
from dataclasses import replace
from types import FunctionType, MethodType, ModuleType
from typing import Any

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, Summarize, action
from alveus.store import Begin, Create, Erasure, Put, QueuedInput, Replace, Step
from alveus.store.ram import RamStore
from alveus.testing import ADA, NOTES, NOW, add, batch, record, write
from waiting import LIMIT_S

CANARY = "sesame-4711"


def test_what_comes_back_is_compacted_again():
    """Sources that put a set over its mark are summed up anew, without what was forgotten."""
    with Memory.open(":memory:", embedder="words") as memory:
        notes = memory.key("ada").set("notes", capacity=8, compaction=Summarize(n=6, limit=1))
        for n in range(9):
            notes.add(f"The word of box {n} is {CANARY if n == 2 else 'plain'}.", id=f"{n}")
        assert memory.settle()
        done = notes.compactions()[0]
        summary = notes.get(done.added[0])
        assert summary is not None
        assert "2" in summary.sources
        receipt = notes.forget("2")
        assert receipt.derived == 1
        assert receipt.restored == done.retired - 1
        for n in range(9, 9 + done.retired):
            notes.add(f"The word of box {n} is plain.", id=f"{n}")
        assert memory.settle()
        later = notes.compactions()[0]
        assert later.id != done.id
        assert len(notes) <= 8
        kept = [version for item in notes for version in notes.history(item.id or "")]
        assert all(CANARY not in f"{item.text} {item.value}" for item in kept)


def test_a_set_over_its_mark_is_seen_to_without_an_add():
    """Nobody has to add to a set to which many items came back."""
    with Memory.open(":memory:", embedder="words") as memory:
        notes = memory.key("ada").set("notes", capacity=8, compaction=Summarize(n=6))
        for n in range(9):
            notes.add(f"The word of box {n} is plain.", id=f"{n}")
        assert memory.settle()
        for n in range(9, 13):
            notes.add(f"The word of box {n} is plain.", id=f"{n}")
        assert memory.settle()
        assert len(notes) == 8
        assert notes.forget("2").restored == 5
        assert memory.settle()
        assert len(notes) <= 8
        assert len(notes.compactions()) > 1


class Teller(Agent):
    """Tells what it knows, and takes note of it."""

    @action(InputEvent)
    def tell(self, event, ctx):
        known = ctx.short_term_memory.get("word")
        if event.input is not None:
            ctx.short_term_memory.set("word", event.input)
        ctx.send_event(OutputEvent(known))


def test_a_runner_at_work_brings_nothing_back():
    """What it kept of the key's tree under an earlier lease is not read again."""
    with Memory.open(":memory:", embedder="words") as memory:
        with LocalRunner(Teller(), memory) as runner:
            runner.submit("ada", CANARY).result(LIMIT_S)
            assert memory.forget("ada").changed
            assert runner.submit("ada", None).result(LIMIT_S) == (None,)
        assert memory.key("ada").short_term.to_dict() == {}


def test_a_ram_store_holds_nothing_that_was_erased():
    """Neither in rows nor in its journal: whoever looks through the process finds nothing."""
    store = RamStore()
    _fill(store)
    assert CANARY in _texts(store)
    store.erase(Erasure(ADA, NOW, "one", whole_key=True))
    store.scrub(now=NOW)
    assert not [text for text in _texts(store) if CANARY in text]


def test_a_ram_store_holds_nothing_of_erased_items():
    """The values of versions go from its journal too."""
    store = RamStore()
    write(store, add("i"), add("j"))
    write(store, Replace(NOTES, 1, record("i", CANARY)))
    write(store, Replace(NOTES, 2, record("i", "plain")))
    store.erase(Erasure(ADA, NOW, "one", items=[(NOTES, ["i"])]))
    assert not [text for text in _texts(store) if CANARY in text]
    assert [item.record.id for item in store.page(NOTES)] == ["j"]


def _fill(store: RamStore) -> None:
    """Put the secret wherever a key can have one."""
    write(store, Create(("box",)), Put(("box", "word"), CANARY), add("i"))
    write(store, Put(("box", "word"), "newer"), Replace(NOTES, 1, record("i", CANARY)))
    run = store.accept("helper", [QueuedInput(ADA, CANARY, NOW)])[0].run
    assert run is not None
    lease = store.acquire_lease(ADA, "worker")
    assert lease is not None
    told = Step(run, 0, "go", sent=CANARY, outputs=[CANARY], begin=Begin(NOW, ("go",)), done=True)
    made = batch(Put(("word",), CANARY), epoch=lease.epoch, base=store.head(ADA), result=CANARY)
    store.commit(replace(made, run=told))
    store.release_lease(lease)


def _texts(store: RamStore) -> set[str]:
    """Return every text that can be reached from a store."""
    seen: dict[int, Any] = {}
    stack: list[Any] = [store]
    while stack:
        found = stack.pop()
        if id(found) in seen or isinstance(found, (type, ModuleType, FunctionType, MethodType)):
            continue
        seen[id(found)] = found
        stack.extend(gc.get_referents(found))
    return {found for found in seen.values() if isinstance(found, str)}

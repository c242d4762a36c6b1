"""What was forgotten is in no file: looked for byte by byte, by a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, RunnerContext, action
from alveus.errors import RunParked
from alveus.search.index import set_loader
from alveus.store.sqlite import SqliteStore
from file_scan import scan
from forgetting_worker import LARGE
from planting import Planter
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("forgetting_worker.py")

DIGESTS = {"event id", "idempotency key", "query, of no run"}
"""Kinds of which a store keeps a digest, or nothing, from the start."""


class Other:
    """Another process at the same store."""

    def __init__(self, mode: str, path: Path, *words: str) -> None:
        command = [sys.executable, str(WORKER), mode, str(path), *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def go_on(self) -> None:
        """Have it do the rest, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        assert self._line() == "closed"
        assert self.process.wait(LIMIT_S) == 0


@contextmanager
def other(mode: str, path: Path, *words: str) -> Generator[Other]:
    """Start another process; end it with the block."""
    started = Other(mode, path, *words)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def test_nothing_forgotten_is_in_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all canaries none is found, whole or in part; where nobody cleaned, all are."""
    monkeypatch.setattr(set_loader, "LARGE", LARGE)
    folder, backup = tmp_path / "store", tmp_path / "backup.db"
    folder.mkdir()
    path = folder / "app.db"
    with Memory.open(path, embedder="words", durability="normal") as memory:
        memory.key("kept").add("Stays by the window.", id="kept")
        planter = Planter(memory)
        while len(planter.canaries) < COUNTS.canaries:
            planter.plant()
        memory.backup(backup)
        memory.knowledge.search("window")
        kept = [c for kind, some in planter.planted.items() if kind not in DIGESTS for c in some]
        assert scan(planter.canaries, folder).keys() >= set(kept), "planted, and not found"
        with other("cache", path, *planter.keys[:3]) as busy:
            assert list((folder / "app.db.alveus" / "index").glob("*.seg"))
            _forget_all(memory, planter)
            assert scan(planter.canaries, folder) == {}
            assert str(busy.process.pid) in str([r.out_of_reach for r in memory.receipts(limit=1)])
            busy.go_on()
        assert scan(planter.canaries, folder) == {}
        _check_rest(memory)
    assert scan(planter.canaries, folder) == {}
    assert scan(planter.canaries, folder, backup).keys() >= set(kept), "the scan finds nothing"


def _forget_all(memory: Memory, planter: Planter) -> None:
    for key in planter.keys:
        assert memory.forget(key, scrub="later").state == "pending"
    assert {receipt.state for receipt in memory.scrub()} == {"scrubbed"}
    receipts = zip(memory.receipts(limit=1_000), reversed(planter.keys), strict=True)
    assert all(receipt.verify(memory.store, key=key) for receipt, key in receipts)


def _check_rest(memory: Memory) -> None:
    """Assert that nothing else went."""
    assert list(memory.keys()) == ["kept"]
    assert [item.text for item in memory.key("kept").list()] == ["Stays by the window."]
    assert [item.text for item in memory.knowledge.set("book").list()] == ["Something new."]
    assert isinstance(memory.store, SqliteStore)
    assert memory.store.problems() == []


def test_items_that_match_are_in_no_file(tmp_path: Path) -> None:
    """By `where=`, over all sets of a key, with what was derived; the rest of it stays."""
    path = tmp_path / "store" / "app.db"
    path.parent.mkdir()
    with Memory.open(path, embedder="words") as memory:
        planter = Planter(memory)
        mine = memory.key("ada")
        for i in range(20):
            mine.set(f"set {i % 3}").add(planter.make("text"), metadata={"secret": True})
            mine.set(f"set {i % 3}").add(f"kept {i}", metadata={"secret": False})
        assert len(scan(planter.canaries, path.parent)) == 20
        receipt = mine.forget(where={"secret": True})
        assert (receipt.state, receipt.counts["items"]) == ("scrubbed", 20)
        assert scan(planter.canaries, path.parent) == {}
        assert sum(len(mine.set(f"set {i}")) for i in range(3)) == 20


def test_a_reader_holds_the_scrub_up_and_is_named(tmp_path: Path) -> None:
    """The receipt is pending, and says which process; once that is done, a scrub completes it."""
    path = tmp_path / "store" / "app.db"
    path.parent.mkdir()
    with Memory.open(path, embedder="words") as memory:
        planter = Planter(memory)
        key = planter.plant()
        with other("read", path) as reader:
            receipt = memory.forget(key)
            assert receipt.state == "pending"
            assert any(f"process {reader.process.pid}" in words for words in receipt.blocked_by)
            assert memory.forget(key).state == "pending"
            assert memory.key(key).sets() == []
            reader.go_on()
        assert memory.receipt(receipt.id).state == "pending"
        assert [done.state for done in memory.scrub()] == ["scrubbed"]
        assert memory.receipt(receipt.id).blocked_by == ()
        assert scan(planter.canaries, path.parent) == {}


class Written(Event):
    said: str


class Slow(Agent):
    @action(InputEvent)
    def write(self, event: InputEvent, ctx: RunnerContext) -> None:
        ctx.long_term_memory.set("notes").add(str(event.input), id="told")
        ctx.send_event(Written(str(event.input)))

    @action(Written)
    def fail(self, event: Written, ctx: RunnerContext) -> None:
        raise ValueError("no")


def test_what_a_later_scrub_erases_is_rewritten_again(tmp_path: Path) -> None:
    """Records of a run that ended after the first one, and what was forgotten since."""
    path = tmp_path / "store" / "app.db"
    path.parent.mkdir()
    with Memory.open(path, embedder="words") as memory:
        planter = Planter(memory)
        notes = memory.key("ada").set("notes")
        with LocalRunner(Slow, memory) as runner, pytest.raises(RunParked):
            runner.handle("ada", planter.make("input"))
        receipt = notes.forget("told")
        assert (receipt.state, len(receipt.open)) == ("pending", 1)
        assert scan(planter.canaries, path.parent)
        notes.add(planter.make("text"), id="later")
        assert notes.forget("later").state == "scrubbed"
        assert len(scan(planter.canaries, path.parent)) == 1
        with LocalRunner(Slow, memory) as runner:
            runner.runs.discard(receipt.open[0])
        assert [done.state for done in memory.scrub()] == ["scrubbed"]
        assert scan(planter.canaries, path.parent) == {}

"""What stores go through while a disk is recorded: a step after the other, each acknowledged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

from click.testing import CliRunner

from alveus import Agent, Event, InputEvent, Item, LocalRunner, Memory, OutputEvent, action
from alveus.cli.app import alveus
from alveus.embed import Embedder
from alveus.sets.compaction import Trim
from alveus.sets.forgetting import Receipt
from compacting import ticking
from disk_log import DiskLog
from doors import Letters
from made_up_step import as_before


@dataclass
class Work:
    """A store on a recorded disk, and what was promised of it.

    Attributes:
        copies: Files that were acknowledged as written, by the number of the op since when.
        forgotten: Receipts, what must be in no file since they are "scrubbed", and the number of
            the op since when they are; None: not yet.
    """

    log: DiskLog
    chance: random.Random
    size: int
    durability: Literal["full", "normal"] = "full"
    copies: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])
    forgotten: dict[str, tuple[list[bytes], int | None]] = field(
        default_factory=dict[str, tuple[list[bytes], int | None]]
    )

    def __post_init__(self) -> None:
        self.path = self.log.root / "app.db"
        self.embedder: Embedder | str = Letters()
        self._clock = ticking()

    def open(self, **settings: Any) -> Memory:
        """Open the store, and note that."""
        memory = Memory.open(
            self.path,
            embedder=self.embedder,
            durability=self.durability,
            clock=self._clock,
            **settings,
        )
        self.note("opened")
        return memory

    def note(self, text: str) -> None:
        """Note that a call returned."""
        self.log.note(text)

    def canary(self) -> str:
        """Return a text that is nowhere else."""
        return f"canary-{self.chance.getrandbits(96):024x}"

    def forgot(self, receipt: Receipt, *canaries: str) -> None:
        """Note that something was forgotten."""
        self.note(f"forgot, {receipt.state}")
        since = len(self.log.ops) if receipt.state == "scrubbed" else None
        self.forgotten[receipt.id] = ([canary.encode() for canary in canaries], since)

    def scrubbed(self, memory: Memory) -> None:
        """Scrub, and note which receipts are complete."""
        done = memory.scrub()
        self.note("scrubbed")
        for receipt in done:
            if receipt.state == "scrubbed":
                canaries, since = self.forgotten[receipt.id]
                self.forgotten[receipt.id] = (canaries, since or len(self.log.ops))

    def copied(self, path: Path) -> None:
        """Note that a file was written that is to stay."""
        self.note(f"wrote {path.name}")
        self.copies[path.name] = (len(self.log.ops), path.read_bytes())


def _change(memory: Memory, chance: random.Random, step: int) -> str:
    """Change something, in one commit; return what was done."""
    ada, notes = memory.key("ada"), memory.key("ada").set("notes")
    ids = [str(item.id) for item in notes.list(limit=20)]
    what = chance.choice(["add", "add", "update", "delete", "tree", "batch", "knowledge", "again"])
    if what in {"update", "delete"} and not ids:
        what = "add"
    match what:
        case "add":
            text = f"note {step} {'x' * chance.randrange(3000)}"
            notes.add_many([Item(text, metadata={"step": step})] * chance.choice([1, 10]))
        case "update":
            notes.update(chance.choice(ids), f"changed {step}")
        case "delete":
            notes.delete(chance.choice(ids))
        case "tree":
            ada.short_term.set(f"a.b{chance.randrange(5)}", step)
        case "batch":
            with ada.batch(idempotency_key=f"step-{step}") as batch:
                batch.short_term.append("log", step)
                batch.set("log").add(f"step {step}")
                batch.add(f"about step {step}", importance=0.5)
        case "knowledge":
            memory.knowledge.set("book").add(f"page {step}", id=f"page-{step}")
        case _:
            notes.add(f"request {step}", idempotency_key=f"request-{step // 2}-{step % 2}")
    return f"{what} {step}"


def changes(work: Work) -> None:
    """Adds, updates, deletes, values, batches; now and then the store is closed and opened."""
    for part in range(4):
        with work.open() as memory:
            for step in range(work.size):
                work.note(_change(memory, work.chance, part * work.size + step))
            memory.key("ada").search("note")
        work.note("closed")


def threads(work: Work) -> None:
    """Threads whose commits share a transaction; two handles on one file."""
    with work.open() as memory, work.open() as other:
        for turn in range(work.size):
            hands = [
                threading.Thread(target=(memory, other)[n % 2].key(f"k{n}").add, args=(f"{turn}",))
                for n in range(4)
            ]
            for hand in hands:
                hand.start()
            for hand in hands:
                hand.join()
            work.note(f"turn {turn}")


class Packed(Event):
    """What the first action sends to the second."""

    parcel: str


def wrap(what: str) -> str:
    """Wrap it."""
    return f"parcel of {what}"


class Shop(Agent):
    """Two actions, a durable call, sensory and exact memory, items and outputs."""

    @action(InputEvent)
    def pack(self, event: InputEvent, ctx: Any) -> None:
        """Pack a parcel."""
        parcel = ctx.durable(wrap, event.input)
        ctx.short_term_memory.append("parcels", event.input)
        ctx.sensory_memory.set("parcel", parcel)
        ctx.send_event(Packed(parcel))

    @action(Packed)
    def send(self, event: Packed, ctx: Any) -> None:
        """Send it."""
        ctx.long_term_memory.set("log").add(f"Sent {event.parcel}.")
        ctx.short_term_memory.increment("sent")
        ctx.send_event(OutputEvent(event.parcel))


def runs(work: Work) -> None:
    """Inputs of two keys, handled one after the other and submitted together."""
    with work.open() as memory, LocalRunner(Shop, memory) as runner:
        for turn in range(work.size):
            key = f"k{turn % 2}"
            assert runner.handle(key, f"{turn}", event_id=f"{key} {turn}")
            work.note(f"handled {turn}")


def compactions(work: Work) -> None:
    """Sets that are compacted as they grow, and compactions that are undone."""
    with work.open() as memory:
        notes = memory.key("ada").set("notes", capacity=8, compaction=Trim(n=4), execution="sync")
        for step in range(work.size):
            notes.add(f"note {step}")
            work.note(f"add {step}")
            done = notes.compactions()
            if done and step % 5 == 0 and done[0].undone is None:
                notes.undo(done[0].id)
                work.note("undone")


def forgetting(work: Work) -> None:
    """Canaries in items, values, names and runs; forgotten one by one, now and later."""
    for turn in range(max(2, work.size // 6)):
        with work.open() as memory:
            _forget_some(work, memory, turn)
        work.note("closed")


def _forget_some(work: Work, memory: Memory, turn: int) -> None:
    kept, ada = memory.key("kept").set("notes"), memory.key(f"ada{turn}")
    kept.add_many([Item(f"stays {turn} {n}") for n in range(30)])
    marks = [work.canary() for _ in range(6)]
    ada.set("notes").add(f"By the window {marks[0]}.", id="i", metadata={"m": marks[1]})
    ada.set("notes").update("i", marks[2])
    ada.short_term.set("a", marks[3])
    ada.short_term.set(marks[4], 1)
    kept.add(f"in between {marks[5]}", id=f"i{turn}", metadata={"m": marks[5]})
    work.note("planted")
    kept.search("stays", limit=3)  # seals an index, where sets are large
    work.note("searched")
    work.forgot(kept.forget(f"i{turn}"), marks[5])
    kept.add(f"after {turn}")
    work.note("add")
    scrub: Literal["now", "later"] = work.chance.choice(["now", "later"])
    work.forgot(ada.forget(scrub=scrub), *marks[:5])
    kept.add(f"later {turn}")
    work.note("add")
    work.scrubbed(memory)


def searches(work: Work) -> None:
    """A set that grows, with an index beside the store that is made anew as it does."""
    with work.open() as memory:
        notes = memory.key("ada").set("notes")
        for turn in range(max(3, work.size // 4)):
            notes.add_many([Item(f"note {turn} {n}") for n in range(12)])
            work.note("add")
            assert notes.search("note", limit=3)
            work.note("searched")


def copies(work: Work) -> None:
    """Backups and exports beside a store that goes on, restored at the end; repairs."""
    root, work.embedder = work.log.root, "words"  # which the command line knows
    for turn in range(max(1, work.size // 8)):
        with work.open() as memory:
            for step in range(4):
                work.note(_change(memory, work.chance, turn * 4 + step))
            memory.backup(root / f"copy{turn}.db")
        work.copied(root / f"copy{turn}.db")
        _command("export", "--db", str(work.path), str(root / f"lines{turn}"))
        work.copied(root / f"lines{turn}")
        Memory.restore(work.path, root / f"copy{work.chance.randrange(turn + 1)}.db")
        work.note("restored")
        with work.open() as memory:
            work.note(_change(memory, work.chance, turn * 4 + 900))
        Memory.repair(work.path)
        work.note("repaired")


def _command(*words: str) -> None:
    done = CliRunner().invoke(alveus, words)
    assert done.exit_code == 0, done.output


def checkpoints(work: Work) -> None:
    """A log that is moved into the database and begun anew, files that shrink; two handles."""
    with work.open() as memory, work.open() as other:
        notes = memory.key("ada").set("notes", retention="purge")
        notes.add("x")
        for step in range(3 * work.size):
            if step % 7 == 0:
                memory.sweep()
                work.note("swept")
                if step % 2:
                    notes.clear()
                    work.note("cleared")
                memory.shrink()
                work.note("shrunk")
            work.note(_change((memory, other)[step % 2], work.chance, step))


def openings(work: Work) -> None:
    """A store that is made, and opened again."""
    for _ in range(2):
        with work.open():
            pass
        work.note("closed")
    with work.open() as memory:
        memory.key("ada").add("x")
        work.note("add")


def migration(work: Work) -> None:
    """A store of the schema before the made-up step, which is opened."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "made.db"
        with Memory.open(made, embedder=work.embedder) as memory:
            for step in range(work.size):
                _change(memory, work.chance, step)
        as_before(made)
        work.path.write_bytes(made.read_bytes())
    work.log.settle()
    work.note("there")
    for part in range(2):
        with work.open() as memory:
            work.note(_change(memory, work.chance, 900 + part))
        work.note("closed")


Scenario: TypeAlias = Callable[[Work], None]
SCENARIOS: dict[str, Scenario] = {
    f.__name__: f
    for f in (
        changes,
        threads,
        runs,
        compactions,
        forgetting,
        searches,
        copies,
        checkpoints,
        openings,
        migration,
    )
}

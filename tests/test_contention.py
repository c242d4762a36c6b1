"""Processes and threads in each other's way: nobody starves, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NoReturn, cast

import apsw
import numpy as np
import pytest

from alveus import Limits, Memory
from alveus.errors import (
    AlveusError,
    DuplicateItem,
    ForkedStore,
    StaleRun,
    StoreClosed,
    Unavailable,
)
from alveus.store import (
    Add,
    Batch,
    Commit,
    Define,
    Definition,
    Replace,
    Retire,
    SetRef,
    commit_queue,
)
from alveus.store.commit_queue import CommitQueue, CommitTicket
from alveus.store.sql.transaction import Transaction
from alveus.store.sqlite import SqliteStore
from alveus.store.sqlite.locks import WriteLock
from alveus.testing.batches import ADA, NOTES, add, batch, record
from alveus.testing.reads import Follower
from doors import Letters
from harness.store.store_machine import play_threads, replay
from scale import COUNTS
from waiting import LIMIT_S, rounds, wait_until

ENOUGH = 50
"""Writes of each process at least, before they are compared: a machine is fair in the long run."""

OTHER = SetRef(ADA, "other")


def refused_together(store: SqliteStore) -> list[object]:
    """Return the answers to two batches of one group, each of which adds what is there."""
    return [*store.commit_many([batch(add("ada's")), batch(add("bob's"))])]


def test_a_leader_lets_those_of_the_last_group_come_again(monkeypatch) -> None:
    """Once: where nobody came, the next one leads at once."""
    groups: list[list[str]] = []
    threads: list[threading.Thread] = []

    def commit(group: list[CommitTicket]) -> None:
        groups.append([ticket.work for ticket in group])
        if groups == [["a"]]:
            come("b", "c")
        for ticket in group:
            ticket.settle(None)

    def come(*names: str) -> None:
        waiting = len(queue._waiting) + len(names)
        for name in names:
            threads.append(threading.Thread(target=queue.do, args=[CommitTicket(name)]))
            threads[-1].start()
        wait_until(lambda: len(queue._waiting) == waiting)

    def let_go_first(duration: float) -> None:
        assert duration == 0
        groups.append([])
        come(*coming.pop(0))

    queue, coming = CommitQueue(commit), [("e",), ()]
    monkeypatch.setattr(commit_queue.time, "sleep", let_go_first)
    for name in ("a", "d", "f", "g"):
        queue.do(CommitTicket(name))
        for thread in threads:
            thread.join(LIMIT_S)
    assert [sorted(group) for group in groups] == [
        *(["a"], ["b", "c"]),
        *([], ["d", "e"]),
        *([], ["f"]),
        ["g"],
    ]


def test_the_errors_of_a_group_tell_nothing_of_each_other(tmp_path: Path) -> None:
    with closing(SqliteStore.open(tmp_path / "memory.db")) as store:
        assert all(isinstance(one, Commit) for one in refused_together(store))
        for error, other in zip(refused_together(store), ("bob's", "ada's"), strict=True):
            assert isinstance(error, DuplicateItem)
            assert other not in "".join(traceback.format_exception(error))


def test_what_sqlite_refuses_of_a_group_is_told_as_that(tmp_path: Path) -> None:
    """Also to those of the group that it is not about."""

    def refused(_: Transaction) -> NoReturn:
        raise apsw.ConstraintError("a broken index")

    with closing(SqliteStore.open(tmp_path / "memory.db")) as store:
        group = [CommitTicket(refused, (), raises=True), CommitTicket(refused, (), raises=True)]
        with pytest.raises(Unavailable, match="a broken index"):
            store._commit_group(group)
        assert isinstance(store.commit(batch(add("first"))), Commit)


WRITER = """
import os, sys, threading
from alveus import Limits, Memory
path, what, name, enough, wait_s = *sys.argv[1:4], *map(int, sys.argv[4:])
with Memory.open(path, embedder="words", wait_s=wait_s) as memory:
    os.write(1, b"ready\\n")
    sys.stdin.readline()
    key, done, over = memory.key(name), 0, threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.is_set():
        if what == "add":
            key.add(f"{name} {done}")
        else:
            key.short_term.increment("n")
        done += 1
        if done == enough:
            os.write(1, b"enough\\n")
    print(done, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


class Writers:
    """Processes that begin together, and tell how often they wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._children: list[subprocess.Popen[str]] = []

    def run(self, what: str, names: list[str]) -> list[int]:
        """Let one process per name write for a while, until each has; return what each told."""
        for name in names:
            command = [sys.executable, "-c", WRITER, str(self._path), what, name]
            command += [str(ENOUGH), str(LIMIT_S)]
            pipe = subprocess.PIPE
            self._children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        for child in self._children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        time.sleep(COUNTS.contention_s)  # noqa: TID251 - how much is written, not what comes of it
        for child in self._children:
            assert child.stdout is not None
            assert child.stdout.readline() == "enough\n"
        for child in self._children:
            assert child.stdin is not None
            child.stdin.close()
            child.stdin = None
        return [int(child.communicate(timeout=LIMIT_S)[0]) for child in self._children]

    def end(self) -> None:
        """Leave none behind."""
        for child in self._children:
            child.kill()
            child.communicate()


@pytest.fixture
def writers(path: Path) -> Iterator[Writers]:
    made = Writers(path)
    yield made
    made.end()


def together(count: int, work: Callable[[int], None]) -> None:
    """Run *work* in threads that begin together; raise what any of them raised."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait(LIMIT_S)
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(begin, number) for number in range(count)]:
            done.result(LIMIT_S)


def test_nobody_starves_among_processes(path: Path, writers: Writers) -> None:
    """Four write as fast as they can: each gets more than a tenth of the most, and all is there."""
    names = [f"writer {n}" for n in range(4)]
    counts = writers.run("add", names)
    assert min(counts) > max(counts) / 10, counts
    with Memory.open(path) as memory:
        assert [len(memory.key(name).list()) for name in names] == counts
        assert memory.stats().store.commits == sum(counts)
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


def test_two_processes_increment_one_counter(path: Path, writers: Writers) -> None:
    """Every increment that was acknowledged counts once."""
    counts = writers.run("increment", ["ada", "ada"])
    assert min(counts) >= ENOUGH
    with Memory.open(path) as memory:
        assert memory.key("ada").short_term.get("n") == sum(counts)


def test_threads_share_their_fsyncs(path: Path) -> None:
    """Sixteen add at once: everything acknowledged is there, and the first adds in two groups."""
    with Memory.open(path, embedder="static") as memory:
        done: list[list[str]] = [[memory.key(f"k{n}").add("first")] for n in range(3)]
        done += [[] for _ in range(16 - len(done))]
        store = memory.store
        assert isinstance(store, SqliteStore)
        queue = store.commit_queue
        groups: list[int] = []
        together_first = queue.commit_group

        def counted(group) -> None:
            groups.append(len(group))
            if len(groups) == 1:
                wait_until(lambda: len(group) + len(queue._waiting) == 16)
            together_first(group)

        queue.commit_group = counted

        def work(number: int) -> None:
            for _ in rounds(COUNTS.contention_s):
                done[number].append(memory.key(f"k{number % 3}").add(f"{number}"))

        together(16, work)
        total = sum(map(len, done))
        assert all(done)
        assert memory.stats().store.commits == total == 3 + sum(groups)
        assert sum(groups[:2]) >= 16, "who comes during a commit shares the next one"
        found = {item.id for n in range(3) for item in memory.key(f"k{n}").list()}
        assert found == {item_id for ids in done for item_id in ids}
        assert store.problems() == []


def test_an_add_that_nothing_hinders_is_prepared_once(path: Path) -> None:
    """An add is embedded with the group that it came to, and not once more for itself."""
    embedder = Letters()
    with Memory.open(path, embedder=embedder) as memory:
        for n in range(16):
            memory.key(f"k{n}").add("first")

        def work(number: int) -> None:
            for n in range(10):
                memory.key(f"k{number}").add(f"{number} {n}")

        together(16, work)
    assert sorted(embedder.asked) == sorted(
        [
            *("first" for _ in range(16)),
            *(f"{number} {n}" for number in range(16) for n in range(10)),
        ]
    )


def test_what_one_of_many_adds_cannot_do_concerns_it_alone(path: Path) -> None:
    """Texts that cannot be stored, ids that are taken, keys that are full: all others go on."""
    with Memory.open(path, embedder="static", limits=Limits(items=15)) as memory:
        for n in range(4):
            memory.key(f"k{n}").add("first", id="taken")
        answers: list[list[str]] = [[] for _ in range(16)]

        def tried(number: int, n: int) -> str:
            bad = ("half a pair: \ud800", None), ("again", "taken")
            text, item_id = dict(enumerate(bad)).get((number + n) % 4, (f"item {number} {n}", None))
            try:
                memory.key(f"k{number % 4}").add(text, id=item_id)
            except AlveusError as error:
                return type(error).__name__
            return "added"

        def work(number: int) -> None:
            answers[number] += [tried(number, n) for n in range(10)]

        together(16, work)
        wanted = {0: {"InvalidValue"}, 1: {"DuplicateItem"}}
        for number, told in enumerate(answers):
            for n, answer in enumerate(told):
                assert answer in wanted.get((number + n) % 4, {"added", "KeyFull"})
        for n in range(4):
            found = {item.value for item in memory.key(f"k{n}").list()}
            assert len(found) == 1 + sum(told.count("added") for told in answers[n::4]) == 15


def test_an_add_that_breaks_breaks_alone(path: Path) -> None:
    """What is passed may raise when it is read: whoever passed it is told, and nobody else."""

    class Broken(dict[str, object]):
        def items(self) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]: on purpose
            raise LookupError("broken")

        __iter__ = keys = items  # pyright: ignore[reportAssignmentType]: on purpose

    with Memory.open(path, embedder="static") as memory:
        memory.key("ada").add("first")
        broken = [0] * 8

        def work(number: int) -> None:
            for n in range(10):
                metadata = Broken(a=1) if (number + n) % 2 else {"a": n}
                try:
                    memory.key("ada").add(f"{number} {n}", metadata=metadata)
                except LookupError:
                    broken[number] += 1

        together(8, work)
        assert sum(broken) == 40
        assert len(memory.key("ada").list()) == 41


def test_a_child_waits_for_no_thread_of_its_parent(path: Path) -> None:
    """A fork in the middle of other threads' adds: an add of the child is refused at once."""
    with Memory.open(path, embedder="static") as memory:
        memory.key("ada").add("first")
        # As where another thread leads.
        queue = cast("SqliteStore", memory.store).commit_queue
        queue._leading[None] = CommitTicket(None)
        if not (child := os.fork()):
            try:
                memory.key("ada").add("in the child")
            except ForkedStore:
                os._exit(7)
            os._exit(1)
        queue._leading.clear()
        ended: list[int] = []
        wait_until(lambda: ended.extend(os.waitpid(child, os.WNOHANG)) or ended[-2] == child)
        assert os.waitstatus_to_exitcode(ended[-1]) == 7


def test_an_embedder_may_add(path: Path) -> None:
    """What is embedded for an add may itself be noted by an add: nobody waits for himself."""

    class Noting:
        name, dimensions, instant = "noting", 2, True
        memory: Memory | None = None

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            if self.memory is not None and "seen" not in texts[0]:
                self.memory.key("log").add(f"seen {len(texts)}")
            return np.tile(np.array([[1.0, 0.0]], np.float32), (len(texts), 1))

    embedder = Noting()
    with Memory.open(path, embedder=embedder) as memory:
        memory.key("log").add("seen nothing yet")
        memory.key("ada").add("first")
        embedder.memory = memory
        memory.key("ada").add("second")

        def work(number: int) -> None:
            memory.key("ada").add_many([f"{number} {i}" for i in range(5)])

        together(8, work)
        assert len(memory.key("ada").list()) == 42
        assert len(memory.key("log").list()) > 2


def settled(store: SqliteStore, *batches: Batch) -> list[object]:
    """Return what becomes of batches that share a transaction, each of a thread of its own."""
    group = [CommitTicket(None, [b]) for b in batches]
    store._commit_group(group)
    return [ticket.error or cast("list[Commit]", ticket.answer)[0] for ticket in group]


def test_a_group_is_as_its_batches_one_by_one(path: Path) -> None:
    """Each sees what those before it did, though rows are gathered and inserted together."""
    with closing(SqliteStore.open(path)) as store:
        many = [add(f"{n}", to=OTHER) for n in range(20)]
        answers = settled(
            store,
            batch(Define(NOTES, Definition(capacity=3)), add("a"), add("b"), op=b"1", result=1),
            batch(add("c"), Replace(NOTES, 1, record("a", "new"))),
            batch(add("later"), op=b"1", result=2),
            batch(*many[:10]),
            batch(Retire(OTHER, "3", 1), add("x", to=OTHER)),
            batch(add("3", "again", to=OTHER), *many[10:]),
            batch(add("d")),
        )
        assert [(a.number, a.adopted) for a in answers if isinstance(a, Commit)] == [
            (1, False), (2, False), (1, True), (3, False), (4, False), (5, False), (6, False)
        ]  # fmt: skip
        assert [item.record.id for item in store.page(NOTES)] == ["b", "c", "d"]
        assert [item.version for item in store.versions(NOTES, "a")] == [1, 2]
        assert [item.version for item in store.versions(OTHER, "3")] == [1, 2]
        effects = [store.effects(n) for n in range(1, 7)]
        assert [e and len(e.begun_items) for e in effects] == [2, 2, 10, 1, 11, 1]
        assert [info.items for info in store.set_infos(ADA)] == [3, 21]
        follower = Follower()
        follower.catch_up(store, limit=3)
        assert follower.agrees_with(store)
        assert store.problems() == []


def test_what_is_refused_in_a_group_concerns_it_alone(path: Path) -> None:
    """Also an id that was said to be fresh, and shows to be taken when all is inserted."""
    with closing(SqliteStore.open(path)) as store:
        store.commit(batch(add("a")))
        fresh = [Add(NOTES, record(name), fresh=True) for name in ("b", "a")]
        answers = settled(
            store,
            batch(add("c")),
            batch(add("a")),
            batch(*fresh),
            batch(add("d"), add("c")),
            batch(add("e")),
        )
        refused = [str(a) if isinstance(a, DuplicateItem) else None for a in answers]
        assert [a and a.partition(";")[0][-3:] for a in refused] == [
            None, "'a'", "'a'", "'c'", None
        ]  # fmt: skip
        assert [a.number for a in answers if isinstance(a, Commit)] == [2, 3]
        assert [item.record.id for item in store.page(NOTES)] == ["a", "c", "e"]
        assert [info.items for info in store.set_infos(ADA)] == [3]
        assert store.problems() == []


@pytest.mark.parametrize("url", [":memory:", "app.db"])
def test_threads_increment_one_counter(tmp_path: Path, monkeypatch, url: str) -> None:
    """Sixteen of them, one key: the sum is exact, no update is lost."""
    monkeypatch.chdir(tmp_path)
    each = max(5, COUNTS.random_ops // 100)
    with Memory.open(url, embedder="words", durability="normal", wait_s=LIMIT_S) as memory:

        def work(number: int) -> None:
            counter = memory.key("ada").short_term
            for _ in range(each):
                counter.increment("n")
                counter.append("log", number)

        together(16, work)
        tree = memory.key("ada").short_term
        assert tree.get("n") == 16 * each
        assert sorted(tree.get("log")) == sorted(list(range(16)) * each)


@pytest.mark.parametrize("url", [":memory:", "app.db"])
def test_one_request_of_many_threads_is_done_once(tmp_path: Path, monkeypatch, url: str) -> None:
    """The same idempotency key at the same moment: one wins, all are told the same."""
    monkeypatch.chdir(tmp_path)
    with Memory.open(url, embedder=Letters(), wait_s=LIMIT_S) as memory:
        for n in range(10):
            told: list[str] = []

            def work(_: int, n: int = n, told: list[str] = told) -> None:
                ada = memory.key("ada")
                told.append(ada.add("x", idempotency_key=f"add {n}"))
                assert ada.short_term.once(f"inc {n}").increment("n") == n + 1
                with ada.batch(idempotency_key=f"batch {n}") as b:
                    b.add(f"batch {n}", id=f"b{n}")
                    b.short_term.set(f"done {n}", True)

            together_or_repeated(8, work)
            assert len(set(told)) == 1
        assert len(memory.key("ada").list()) == 20
        assert memory.key("ada").short_term.get("n") == 10


def together_or_repeated(count: int, work: Callable[[int], None]) -> None:
    """Run *work* in threads; one whose tree moved meanwhile repeats it, as it was told."""

    def patient(number: int) -> None:
        while True:
            try:
                return work(number)
            except StaleRun:
                continue

    together(count, patient)


def test_readers_are_in_nobodys_way(path: Path) -> None:
    """While threads write pairs in one commit, every read sees whole pairs, and search goes on."""
    stop = threading.Event()
    with Memory.open(path, embedder=Letters(), durability="normal") as memory:
        ada = memory.key("ada")

        def pair(number: int) -> None:
            with ada.batch() as b:
                b.add_many([f"{number} left", f"{number} right"])
                b.short_term.set("n", number)

        def write() -> None:
            number = 0
            while not stop.is_set():
                pair(number := number + 1)

        def look(before: int) -> int:
            number = ada.short_term.get("n")
            pairs, odd = divmod(len(ada.list()), 2)
            assert (odd, pairs > number >= before) == (0, True)
            assert ada.search("0 left", limit=1)[0].item.text == "0 left"
            return number

        def read(_: int) -> None:
            seen = 0
            for _ in rounds(COUNTS.contention_s):
                seen = look(seen)

        pair(0)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            together(4, read)
        finally:
            stop.set()
            writer.join(LIMIT_S)


@pytest.mark.parametrize("threads", [2, 8])
def test_what_threads_did_can_be_replayed(path: Path, threads: int) -> None:
    """Random operations of several threads, committed again one by one in RAM, do the same."""
    store = SqliteStore.open(path, durability="normal")
    try:
        played = play_threads(store, batches=COUNTS.random_ops // 2, threads=threads, seed=7)
        assert played.answered
        replay(store, played)
        assert store.problems() == []
    finally:
        store.close()


def test_sets_with_a_capacity_hold_it_among_threads(path: Path) -> None:
    """Trimmed or refused, never over: also when all add at once."""
    with Memory.open(path, embedder="words", durability="normal") as memory:
        refused: list[AlveusError] = []

        def work(number: int) -> None:
            for n in range(10):
                ada = memory.key("ada")
                ada.set("trim", capacity=7).add(f"{number} {n}")
                try:
                    ada.set("reject", capacity=7, compaction="reject").add(f"{number} {n}")
                except AlveusError as error:
                    refused.append(error)
                assert len(ada.set("trim")) <= 7
                assert len(ada.set("reject")) <= 7

        together(8, work)
        assert len(memory.key("ada").set("trim").list()) == 7
        assert len(memory.key("ada").set("reject").list()) == 7
        assert len(refused) == 80 - 7


def test_two_interrupts_in_a_row_leave_nobody_leading(monkeypatch):
    """The second comes while the first has the next one lead: all who come then would wait."""
    interrupts, step_down = [KeyboardInterrupt, KeyboardInterrupt], CommitQueue._step_down

    def commit_group(group):
        if len(interrupts) == 2:
            raise interrupts.pop()
        for ticket in group:
            ticket.settle(ticket.work)

    def interrupted(queue, ticket):
        if ticket.stopped is not None and interrupts:
            raise interrupts.pop()
        step_down(queue, ticket)

    monkeypatch.setattr(CommitQueue, "_step_down", interrupted)
    queue = CommitQueue(commit_group)
    with pytest.raises(KeyboardInterrupt):
        queue.do(CommitTicket(1))
    assert not interrupts
    assert not queue._leading
    assert queue.do(CommitTicket(2)) == 2


class WatchedLock(WriteLock):
    """Tells that it begins to wait."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, wait_s=LIMIT_S)
        self.waits = threading.Event()

    def _take(self, descriptor: int, deadline: float) -> None:
        self.waits.set()
        super()._take(descriptor, deadline)


def test_a_writer_that_waits_as_its_file_is_let_go_is_told_so(tmp_path: Path):
    """The end of the last handle waits for nobody, and closes what the writer is waiting for."""
    lock, other = WatchedLock(tmp_path), WriteLock(tmp_path, wait_s=LIMIT_S)
    with other, ThreadPoolExecutor() as pool:
        waiting = pool.submit(lock.__enter__)
        assert lock.waits.wait(LIMIT_S)
        lock.abandon()
        with pytest.raises(StoreClosed, match="open it again"):
            waiting.result(LIMIT_S)
    other.close()

"""Ctrl-C, and every signal whose handler raises: a call stops, and the memory goes on."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType

import pytest

import alveus
from alveus import Memory
from alveus.errors import StoreBusy, Unavailable
from alveus.store.commit_queue import CommitQueue, CommitTicket
from alveus.store.sqlite import SqliteStore, connection, database_file, locks, store
from alveus.values import forks
from alveus.values.forks import FORKS, Flag, HandleLock
from doors import Letters
from scale import COUNTS
from waiting import LIMIT_S, wait_until

# An interrupt of a finalizer is told, and goes nowhere.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FILES = str(Path(alveus.__file__).parent), contextlib.__file__, threading.__file__
"""Where calls are interrupted."""


class Interrupt(KeyboardInterrupt):
    """What the handler of Ctrl-C raises."""


class Interrupter:
    """Raises at one of the points at which Python calls the handler of a signal.

    These are the returns from functions in C; beginnings of functions are others, but CPython 3.11
    does not bear an exception of a profiler there.
    """

    def __init__(self, point: int, files: tuple[str, ...] = FILES) -> None:
        self.point, self.files, self.passed, self.where = point, files, 0, ""

    def profile(self, frame: FrameType, event: str, function: object) -> None:
        """See `sys.setprofile`."""
        if event == "c_return" and frame.f_code.co_filename.startswith(self.files):
            self.arrive(frame, getattr(function, "__name__", ""))

    def arrive(self, frame: FrameType, after: str) -> None:
        """Count a point; raise if it is the one."""
        self.passed += 1
        if self.passed == self.point:
            self.where = f"{after} in {frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise Interrupt

    def call(self, work: Callable[[], object]) -> None:
        """Call *work*, and interrupt it."""
        profile = self.profile  # kept: where it raises as garbage is collected, CPython 3.11 calls
        sys.setprofile(profile)  # it once more, and else let go of it before
        try:
            work()
        except Interrupt:
            pass
        finally:
            sys.setprofile(None)


def points(work: Callable[[], object], number: int, files: tuple[str, ...] = FILES) -> range:
    """Return about *number* of the points of *work*, at even distances."""
    counting = Interrupter(0, files)
    counting.call(work)
    return range(1, counting.passed + 1, max(1, counting.passed // number))


def add(memory: Memory) -> None:
    memory.key("ada").set("a").add("a zebra")


def put(memory: Memory) -> None:
    memory.key("ada").short_term.set("x", 1)


def change_together(memory: Memory) -> None:
    with memory.key("ada").batch() as batch:
        batch.short_term.increment("together")
        batch.set("a").add("a zebra")
        batch.set("b").add("a zebra")


def search(memory: Memory) -> None:
    ada = memory.key("ada")
    ada.set("a").add("a zebra")
    ada.search("zebra", sets=["a", "b"])


def compact(memory: Memory) -> None:
    full = memory.key("ada").set("full", capacity=2)
    full.add("x")
    full.compact()


def open_and_close(memory: Memory) -> None:
    with Memory.open(memory.store.location, embedder=memory.embedder, durability="normal"):
        pass


def settle(memory: Memory) -> None:
    memory.key("ada").set("a").add("a zebra")
    assert memory.settle(LIMIT_S)


CALLS = [add, put, change_together, search, compact, open_and_close, settle]


def problem_of(memory: Memory) -> str:
    """Return what is wrong for a thread that was not interrupted: nothing, or in words."""
    ada = memory.key("ada")
    ada.short_term.set("x", 2)
    ada.set("full", capacity=2).add("y")
    change_together(memory)
    found = {hit.item.id for hit in ada.search("zebra", sets=["a", "b"], limit=1_000)}
    there = {item.id for name in "ab" for item in ada.set(name).list()}
    pairs = ada.short_term.get("together", 0), len(ada.set("b"))
    if found != there:
        return f"{len(found)} of {len(there)} are found"
    return "" if pairs[0] == pairs[1] else f"a part of a batch was committed: {pairs}"


def answer_of_another(work: Callable[[], object], interrupter: Interrupter) -> object:
    """Return what another thread gets from *work*, which may wait, but not for good."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
    thread.start()
    wait_until(lambda: not thread.is_alive(), f"all wait since {interrupter.where}")
    (answer,) = answers
    return answer


@pytest.mark.parametrize("embeds", ["never", "in the background"])
@pytest.mark.parametrize("work", CALLS, ids=lambda call: call.__name__)
def test_an_interrupt_anywhere_leaves_all_able_to_go_on(
    tmp_path: Path, work: Callable[[Memory], None], embeds: str
) -> None:
    """No lock stays held, no queue stops, no batch is there in part, and search finds all."""
    embedder = "words" if embeds == "never" else Letters(instant=False)
    memory = Memory.open(tmp_path / "app.db", embedder=embedder, durability="normal")
    for _ in range(2):  # what is made once is made
        work(memory)
        assert not answer_of_another(lambda: problem_of(memory), Interrupter(0))
    for point in points(lambda: work(memory), COUNTS.interrupts):
        interrupter = Interrupter(point)
        interrupter.call(lambda: work(memory))
        problem = answer_of_another(lambda: problem_of(memory), interrupter)
        assert not problem, interrupter.where
        for name in "ab":
            memory.key("ada").set(name).clear()
        memory.key("ada").short_term.set("together", 0)
    assert isinstance(memory.store, SqliteStore)
    assert memory.store.problems() == []
    memory.close()


def scrub(memory: Memory) -> None:
    gone = memory.key("ada").set("gone")
    gone.forget(gone.add("a zebra"), scrub="now")


def shrink(memory: Memory) -> None:
    assert isinstance(memory.store, SqliteStore)
    memory.store.shrink()


def sync(memory: Memory) -> None:
    assert isinstance(memory.store, SqliteStore)
    memory.store.sync()


class Kept(Interrupter):
    """Keeps what it raises, and with it all that was in use then."""

    error: Interrupt

    def call(self, work: Callable[[], object]) -> None:
        """See `Interrupter.call`."""
        profile = self.profile  # kept, as there
        sys.setprofile(profile)
        try:
            work()
        except Interrupt as error:
            self.error = error
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("work", [scrub, shrink, sync], ids=lambda call: call.__name__)
def test_no_lock_stays_held_while_an_interrupt_is_kept(
    tmp_path: Path, work: Callable[[Memory], None]
) -> None:
    """As by whoever logs it later: another thread writes, and nobody is inside SQLite."""
    memory = Memory.open(tmp_path / "app.db", embedder="words", durability="normal", wait_s=0)
    files = database_file.__file__, store.__file__, forks.__file__, contextlib.__file__
    work(memory)
    for point in points(lambda: work(memory), COUNTS.interrupts, files):
        interrupter = Kept(point, files)
        interrupter.call(lambda: work(memory))
        answer_of_another(lambda: put(memory), interrupter)
        assert not forks.FORKS._inside, interrupter.where
    memory.close()


class TwoThreads:
    """Passes one piece of work in, which is interrupted, while another thread's waits."""

    def __init__(self) -> None:
        self.queue = CommitQueue(self.commit)
        self.leads = Flag()

    def commit(self, group: list[CommitTicket]) -> None:
        """Settle all, once the second waits."""
        if group[0].work == "first":
            self.leads.set()
            wait_until(lambda: self.queue._waiting)
        for ticket in group:
            ticket.settle(ticket.work)

    def second(self) -> None:
        """Pass the other piece of work in, after the first."""
        assert self.leads.wait(LIMIT_S)
        with suppress(Unavailable):  # it was of the group that was interrupted
            assert self.queue.do(CommitTicket("second")) == "second"

    def play(self, interrupter: Interrupter) -> None:
        """Interrupt the first; the second, and who comes after them, has to be answered."""
        second = threading.Thread(target=self.second, daemon=True)
        second.start()
        interrupter.call(lambda: self.queue.do(CommitTicket("first")))
        self.leads.set()
        wait_until(lambda: not second.is_alive(), f"the second waits since {interrupter.where}")
        assert (
            answer_of_another(lambda: self.queue.do(CommitTicket("third")), interrupter) == "third"
        )


class Starved:
    """The mutex of a queue, for whose blocks a named thread has no memory.

    They fail as they begin, or else as they end, which leaves the mutex held.
    """

    def __init__(self, mutex: HandleLock, *, ends: bool) -> None:
        self._mutex, self._ends = mutex, ends
        self.failed = 0

    def _fail(self) -> None:
        if threading.current_thread().name == "starved":
            self.failed += 1
            raise MemoryError

    def __enter__(self) -> None:
        if not self._ends:
            self._fail()
        self._mutex.__enter__()

    def __exit__(self, *_raised: object) -> None:
        if self._ends:
            self._fail()
        self._mutex.__exit__(None, None, None)

    def let_go(self) -> None:
        """See `HandleLock.let_go`."""
        self._mutex.let_go()


@pytest.mark.parametrize("ends", [False, True], ids=["as they begin", "as they end"])
@pytest.mark.parametrize("waits", [False, True], ids=["comes after", "waits"])
def test_the_next_one_leads_though_the_leader_has_no_memory_to_hand_over(
    waits: bool, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it tries: who waits, or comes after it, takes over."""
    threads = TwoThreads()
    second = threading.Thread(target=threads.second, daemon=True)
    if waits:
        second.start()
    else:
        threads.queue.commit_group = _settle_all
    starved = Starved(threads.queue._mutex, ends=ends)
    monkeypatch.setattr(threads.queue, "_mutex", starved)

    def work() -> None:
        with suppress(MemoryError):
            threads.queue.do(CommitTicket("first"))

    leader = threading.Thread(target=work, name="starved", daemon=True)
    leader.start()
    wait_until(lambda: not leader.is_alive(), "it waits for itself")
    assert starved.failed
    threads.leads.set()
    if not waits:
        second.start()
    wait_until(lambda: not second.is_alive(), "the second waits")
    assert (
        answer_of_another(lambda: threads.queue.do(CommitTicket("third")), Interrupter(0))
        == "third"
    )


def _settle_all(group: list[CommitTicket]) -> None:
    for ticket in group:
        ticket.settle(ticket.work)


def test_an_interrupt_of_an_opening_or_closing_keeps_no_file_in_use(tmp_path: Path) -> None:
    """A restore, during which nobody may have the file open, follows each of them."""
    path, saved = tmp_path / "app.db", tmp_path / "saved.db"

    def work() -> None:
        with Memory.open(path, embedder="words", durability="normal") as memory:
            memory.key("ada").short_term.set("x", 1)

    work()
    with Memory.open(path) as memory:
        memory.backup(saved)
    files = locks.__file__, database_file.__file__, forks.__file__
    for point in points(work, 1_000, files):
        interrupter = Interrupter(point, files)
        interrupter.call(work)
        gc.collect()
        try:
            Memory.restore(path, saved)
        except StoreBusy:
            pytest.fail(f"{path} stays in use after {interrupter.where}")


def test_a_reader_that_has_no_memory_to_leave_is_not_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look up how the gate is left takes memory: else every fork would wait for it."""

    class Gate:
        enter = FORKS.enter

        @property
        def leave(self) -> object:
            raise MemoryError

    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        assert isinstance(memory.store, SqliteStore)
        monkeypatch.setattr(connection, "FORKS", Gate())
        with suppress(MemoryError), memory.store.reader():
            assert FORKS._inside
        assert not FORKS._inside
        monkeypatch.undo()


def test_the_next_one_leads_wherever_the_leader_is_interrupted() -> None:
    """A thread waits in the queue while the one that leads is interrupted, at each point."""
    for point in count(1):
        interrupter = Interrupter(point)
        TwoThreads().play(interrupter)
        if not interrupter.where:
            break
    assert point > 5

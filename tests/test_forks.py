"""Forks, threads and processes: what was acknowledged is there, whoever forked, closed or died."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import http.client
import inspect
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import IO, Any, cast

import apsw
import numpy as np
import pytest

from alveus import Agent, AsyncMemory, InputEvent, Item, LocalRunner, Memory, action, errors
from alveus.agents.storage import FairLock
from alveus.agents.windows import Observation, Priority
from alveus.embed import Vectors, open_embedder
from alveus.errors import AlveusError, ForkedStore, NotPicklable, StoreClosed, Unavailable, Unusable
from alveus.memory.remote.connection import ServerAddress, ServerConnection
from alveus.sets.admission import Candidate, Verdict, admission_rule
from alveus.sets.compaction import CompactionPlan
from alveus.store.commit_queue import CommitTicket
from alveus.store.sql.database import reads
from alveus.store.sqlite import SqliteStore, locks, schema
from alveus.values import forks
from alveus.values.forks import FORKS, HandleLock
from alveus.values.ids import new_id
from alveus.values.lazy import lazy_attribute
from forks_tried import TRIED
from scale import COUNTS

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HERE = Path(__file__).parent

LIMIT_S = 120
"""How long a test waits for other processes."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


def opened(path: Path) -> Memory:
    return Memory.open(path, embedder="words", durability="normal")


def in_child(work: Callable[[], object]) -> int:
    """Do *work* in a forked child; return 0, or what tells what went wrong in it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            work()
            code = 0
        except ForkedStore:
            code = 7
        except BaseException:  # noqa: BLE001 - the edge of a process: it answers by its exit code
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def add_in_child(path: Path, text: str) -> Callable[[], None]:
    def work() -> None:
        with opened(path) as memory:
            memory.key("ada").add(text)

    return work


def check(path: Path, acknowledged: set[str]) -> None:
    """Assert that every item is there whose id was told, and that the file is sound."""
    with opened(path) as memory:
        keys = list(memory.keys())
        found = {item.id for key in keys for item in memory.key(key).list()}
        assert acknowledged <= found, f"lost: {sorted(acknowledged - found)}"
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


def texts(path: Path) -> list[str | None]:
    with opened(path) as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []
        return [item.text for item in memory.key("ada").list()]


# --- at random -----------------------------------------------------------------------------------


def test_nothing_is_lost_whatever_forks_closes_and_dies(tmp_path: Path) -> None:
    """Trials of fork_worker.py: every process says what it was acknowledged, and all is there."""
    command = [sys.executable, str(HERE / "fork_worker.py")]
    acknowledged = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        for seed in range(COUNTS.forks):
            place = tmp_path / str(seed)
            place.mkdir()
            worker.stdin.write(f"{place}/app.db {seed}\n".encode())
            worker.stdin.flush()
            told = json.loads(worker.stdout.readline())
            said = [line.split(" ", 1) for line in told["said"]]
            errors = [json.loads(words) for kind, words in said if kind == "error"]
            assert not errors, f"seed {seed}: {errors[0]}"
            assert not told["hung"], f"seed {seed}"
            ids = {words for kind, words in said if kind == "ack"}
            check(place / "app.db", ids)
            acknowledged += len(ids)
            shutil.rmtree(place)
        worker.stdin.close()
    assert acknowledged > COUNTS.forks


# --- one order of events each --------------------------------------------------------------------


def test_the_parent_closes_first(path: Path) -> None:
    """The child opens its own before the parent closes, and writes after; it is killed then."""
    closed_read, closed_write = os.pipe()
    opened_read, opened_write = os.pipe()
    memory = opened(path)
    memory.key("ada").add("before")
    child = os.fork()
    if child == 0:
        try:
            own = opened(path)
            own.key("ada").add("1")
            os.write(opened_write, b".")
            os.read(closed_read, 1)
            own.key("ada").add("2")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.read(opened_read, 1)
    memory.close()
    os.write(closed_write, b".")
    os.waitpid(child, 0)
    for end in (closed_read, closed_write, opened_read, opened_write):
        os.close(end)
    assert texts(path) == ["before", "1", "2"]


def read_once(path: Path) -> None:
    with path.open("rb"):
        pass


def copy_all(path: Path) -> None:
    for place in list(path.parent.glob("app.db*")):
        if place.is_file():
            shutil.copy(place, path.parent / f"copy of {place.name}")


def open_with_sqlite3(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM item").fetchone() == (1,)


@pytest.mark.parametrize("look", [read_once, copy_all, open_with_sqlite3])
def test_other_code_opens_the_files(path: Path, look: Callable[[Path], None]) -> None:
    """Closing any descriptor of a file drops a process's POSIX locks: others close meanwhile."""
    looked, closed = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            memory = opened(path)
            memory.key("ada").add("1")
            look(path)
            os.write(looked[1], b".")
            os.read(closed[0], 1)
            memory.key("ada").add("3")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(looked[1])
    assert os.read(looked[0], 1) == b"."
    add_in_child(path, "2")()
    os.write(closed[1], b".")
    os.waitpid(child, 0)
    for end in (looked[0], *closed):
        os.close(end)
    assert texts(path) == ["1", "2", "3"]


def shrink_when_told(path: Path, told: int, done: int) -> None:
    """Empty the log, in a child that is forked now, once *told* says so."""
    if os.fork() == 0:
        try:
            os.read(told, 1)
            with opened(path) as memory:
                assert isinstance(memory.store, SqliteStore)
                memory.store.shrink()
            os.write(done, b".")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)


def test_what_is_cut_while_it_is_read_is_read_again(path: Path) -> None:
    """Other code closes a file, which ends the lock of who reads; another process cuts the log."""
    told, done = os.pipe(), os.pipe()
    cuts = 1

    @reads
    def read(store: SqliteStore, db: Any) -> list[str]:
        nonlocal cuts
        with store._snapshot(db):
            db.execute("SELECT 1 FROM note").fetchall()
            if cuts:
                cuts -= 1
                read_once(Path(f"{path}-shm"))
                os.write(told[1], b".")
                assert os.read(done[0], 1) == b"."
            return [text[:1] for (text,) in db.execute("SELECT text FROM item ORDER BY row")]

    with opened(path) as memory:
        for number in range(5):
            memory.key("ada").add(f"{number}" * 20_000)
        shrink_when_told(path, told[0], done[1])
        assert isinstance(memory.store, SqliteStore)
        assert read(memory.store) == list("01234")
        assert not cuts
    os.wait()
    for end in (*told, *done):
        os.close(end)


@pytest.mark.parametrize("code", ["SHORT_READ", "DELETE_NOENT", "RDLOCK", "READ"])
def test_an_opening_whose_file_is_cut_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """A few times, and only where that helps."""
    opened(path).close()
    error = apsw.exception_for(getattr(apsw, f"SQLITE_IOERR_{code}"))
    errors_left = [error] * 4
    check = schema.check

    def cut(db: Any, place: Path) -> int:
        if errors_left:
            raise errors_left.pop()
        return check(db, place)

    monkeypatch.setattr(schema, "check", cut)
    if code == "READ":
        with pytest.raises(Unavailable, match="could not be used: SQLITE_IOERR_READ: "):
            opened(path)
        assert len(errors_left) == 3
        return
    opened(path).close()
    errors_left += [error] * 9
    with pytest.raises(Unavailable):
        opened(path)


def test_a_new_file_is_guarded_before_its_log_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else other code that closes it lets the next process begin the index of the log anew."""
    migrate, guarded = schema.migrate, list[bool]()

    def watched(db: Any, *, from_version: int) -> None:
        guarded.append(any(guard._log >= 0 for guard in locks._guards.values()))
        migrate(db, from_version=from_version)

    monkeypatch.setattr(schema, "migrate", watched)
    opened(path).close()
    assert guarded == [locks._SET_LOCK is not None]


def test_a_log_that_was_taken_away_is_not_written(path: Path) -> None:
    """What is written into a deleted write-ahead log would be lost without a word."""
    memory = opened(path)
    memory.key("ada").add("1")
    Path(f"{path}-wal").unlink()
    with pytest.raises(Unusable, match="was deleted or replaced"):
        memory.key("ada").add("2")
    memory.close()


def test_a_fork_waits_for_who_is_inside(path: Path) -> None:
    """A thread is in the middle of a transaction: the fork comes after its commit."""
    inside = threading.Event()
    with opened(path) as memory:
        store = memory.store
        assert isinstance(store, SqliteStore)
        memory.key("ada").add("before")

        def write() -> None:
            with store.writing() as db:
                db.execute("INSERT INTO note (name, text) VALUES ('x', 'y')")
                inside.set()
                while not FORKS._forking:
                    time.sleep(0.001)  # noqa: TID251 - until a fork waits for this thread

        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(LIMIT_S)
        assert in_child(add_in_child(path, "child")) == 0
        thread.join(LIMIT_S)
        assert store.note("x") == "y"
        memory.key("ada").add("after")
    assert texts(path) == ["before", "child", "after"]


@pytest.mark.parametrize("own", [False, True], ids=["another thread", "the thread itself"])
def test_a_fork_that_cannot_wait_any_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool
) -> None:
    """The child can neither trust nor free SQLite's locks: it opens nothing, and harms nothing."""
    monkeypatch.setattr(forks, "FORK_WAIT_S", 0.0)
    inside, forked = threading.Event(), threading.Event()
    codes: list[int] = []
    with opened(path) as memory:
        store = memory.store
        assert isinstance(store, SqliteStore)

        def write() -> None:
            with store.writing() as db:
                db.execute("INSERT INTO note (name, text) VALUES ('x', 'y')")
                inside.set()
                if own:
                    codes.append(in_child(add_in_child(path, "child")))
                else:
                    assert forked.wait(LIMIT_S)

        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(LIMIT_S)
        if not own:
            codes.append(in_child(add_in_child(path, "child")))
        forked.set()
        thread.join(LIMIT_S)
        assert codes == [7]
        assert store.note("x") == "y"
        memory.key("ada").add("after")
    assert texts(path) == ["after"]


def test_a_child_that_leaves_its_parents_transaction_commits_nothing(path: Path) -> None:
    """The block ends in both processes; only the parent's is a commit."""
    with opened(path) as memory:
        store = memory.store
        assert isinstance(store, SqliteStore)
        parent = os.getpid()
        try:
            with store.writing() as db:
                db.execute("INSERT INTO note (name, text) VALUES ('x', 'y')")
                child = os.fork()
        except BaseException as error:
            if os.getpid() != parent:
                os._exit(7 if isinstance(error, ForkedStore) else 99)
            raise
        if os.getpid() != parent:
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert store.note("x") == "y"
        assert store.problems() == []


def test_a_fork_that_python_does_not_see(path: Path) -> None:
    """No hook runs, as in a program in C that embeds Python: the first use in the child tells."""

    def parent() -> None:
        memory = opened(path)
        ada = memory.key("ada")
        ada.add("before")
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            os._exit(unseen(path, memory))
        assert os.waitpid(child, 0)[1] == 0
        ada.add("after")
        memory.close()

    assert in_child(parent) == 0
    assert texts(path) == ["before", "child", "after"]


def unseen(path: Path, inherited: Memory) -> int:
    ada = inherited.key("ada")
    for number, call in enumerate([lambda: ada.add("never"), ada.list, lambda: ada.search("be")]):
        try:
            call()
        except ForkedStore:
            continue
        return number + 1
    inherited.close()
    add_in_child(path, "child")()
    return 0


def test_a_child_makes_ids_of_its_own(tmp_path: Path) -> None:
    """The random part of an id is given once, however the process was forked."""
    new_id()
    made = tmp_path / "made in the child"
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        made.write_text(" ".join(new_id()[19:] for _ in range(600)))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    ids = {new_id()[19:] for _ in range(600)} | set(made.read_text().split())
    assert len(ids) == 1200


def test_a_child_that_c_forked_waits_for_no_thread_that_led(path: Path) -> None:
    """Nobody leads there, though somebody did at the fork."""

    def parent() -> None:
        memory = opened(path)
        ada = memory.key("ada")
        ada.add("before")
        queue = cast("Any", memory.store).commit_queue
        queue._leading[None] = CommitTicket(None)
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            try:
                ada.add("never", id="named")
            except ForkedStore:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        queue._leading.clear()
        memory.close()

    assert in_child(parent) == 0


@pytest.mark.parametrize("kind", [forks._new_process_page, forks._ProcessIdPage])
def test_a_process_knows_that_it_is_a_child(kind: Callable[[], Any]) -> None:
    """By a page that the kernel wipes, or by its number."""
    here = kind()
    assert here[0]
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        os._exit(bool(here[0]))
    assert os.waitpid(child, 0)[1] == 0


class Forking:
    """An embedder, a clock and a strategy that fork, once each."""

    name, dimensions, instant = "forking", 4, True

    def __init__(self, path: Path) -> None:
        self.path, self.codes = path, dict[str, int]()

    def fork(self, where: str) -> None:
        if where not in self.codes:
            self.codes[where] = 99
            self.codes[where] = in_child(add_in_child(self.path, where))

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.fork("embedder")
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


RULE_FORKS: list[Forking] = []


@admission_rule
def forking_rule(item: Item, candidate: Candidate) -> Verdict:
    """Accept, after a fork."""
    RULE_FORKS[-1].fork("rule")
    return Verdict("accept")


def test_a_fork_in_what_the_user_gave(path: Path) -> None:
    """No code of the user's runs inside SQLite: a child that is forked there can open its own."""
    other = path.with_name("other.db")
    forking = Forking(other)
    add_in_child(other, "first")()

    def clock() -> datetime:
        forking.fork("clock")
        return datetime.now(UTC)

    def strategy(items: Sequence[Item], _tokens: int | None) -> CompactionPlan:
        forking.fork("compaction")
        return CompactionPlan(retire=[str(items[0].id)])

    RULE_FORKS.append(forking)
    with Memory.open(path, embedder=forking, clock=clock, admission=[forking_rule]) as memory:
        full = memory.key("ada").set("few", capacity=2, compaction=strategy, execution="sync")
        for number in range(4):
            full.add(f"item {number}")
        memory.key("ada").search("item", sets=["few"])
    assert forking.codes == dict.fromkeys(("embedder", "clock", "rule", "compaction"), 0)
    assert texts(other)[0] == "first"
    assert len(texts(other)) == 1 + len(forking.codes)


# --- what a child inherits -----------------------------------------------------------------------


def test_a_child_has_none_of_its_parents_files_open(path: Path) -> None:
    """Neither the database nor a lock: nothing that its parent's death would not free."""
    with opened(path) as memory:
        memory.key("ada").add("x")
        memory.key("ada").search("x")

        def look() -> None:
            listing = Path("/proc/self/fd")
            links = [str(entry.readlink()) for entry in listing.iterdir() if entry.exists()]
            assert not [link for link in links if link.startswith(str(path))]

        assert in_child(look) == 0


@pytest.mark.parametrize("reentrant", [False, True])
def test_nobody_waits_for_a_thread_that_is_not_there(*, reentrant: bool) -> None:
    """A lock of an inherited handle that another thread held is told as that, not waited for."""
    lock = HandleLock(reentrant=reentrant)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            assert done.wait(LIMIT_S)

    def take() -> None:
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(LIMIT_S)
    assert in_child(take) == 7
    assert in_child(lock.acquire) == 7
    assert not lock.acquire(blocking=False)
    assert lock.locked()  # as conditions of Python 3.14 ask
    done.set()
    thread.join(LIMIT_S)
    assert not lock.locked()
    assert lock.acquire()
    lock.release()


def test_a_child_computes_what_another_thread_was_computing() -> None:
    """`functools.cached_property` of Python 3.11 would wait for a lock for ever."""
    begun, done = threading.Event(), threading.Event()

    class Lazy:
        @lazy_attribute
        def number(self) -> int:
            begun.set()
            assert done.wait(LIMIT_S)
            return 5

    thread = threading.Thread(target=lambda: Lazy().number)
    thread.start()
    assert begun.wait(LIMIT_S)

    def work() -> None:
        done.set()
        other = Lazy()
        assert other.number == 5
        assert vars(other) == {"number": 5}

    try:
        assert in_child(work) == 0
    finally:
        done.set()
        thread.join(LIMIT_S)


@pytest.mark.parametrize("kept", [False, True])
def test_a_window_is_not_waited_for_in_the_child(path: Path, *, kept: bool) -> None:
    """Another thread of the parent was changing it, and is not there to be done."""
    observation = Observation("Where is the key?", "Under the mat.")
    with ExitStack() as opening:
        memory = opening.enter_context(opened(path)).key("ada") if kept else None
        window = opening.enter_context(closing(Priority(2, memory=memory)))
        with window._turn:  # pyright: ignore[reportPrivateUsage] - as another thread holds it
            assert in_child(lambda: window.commit(observation)) == 7
        window.commit(observation)
        assert len(window.observations()) == 1


def test_a_layer_is_not_awaited_in_the_child() -> None:
    lock = FairLock()

    async def hold_and_fork() -> int:
        async with lock:
            return in_child(lambda: take().send(None))

    async def take() -> None:
        async with lock:
            pass

    assert asyncio.run(hold_and_fork()) == 7


class Waiting(Agent):
    """Has an action that lasts until the test lets it end."""

    begun, done = threading.Event(), threading.Event()

    @action(InputEvent)
    def wait(self, event: object, ctx: object) -> None:
        """Wait for the test."""
        del event, ctx
        self.begun.set()
        assert self.done.wait(LIMIT_S)


def test_a_runner_of_the_parent_is_not_waited_for(path: Path) -> None:
    """Nor a ticket of it: its threads are not in the child."""
    with opened(path) as memory, LocalRunner(Waiting, memory) as runner:
        ticket = runner.submit("ada", "x")
        assert Waiting.begun.wait(LIMIT_S)
        try:
            assert in_child(ticket.result) == 7
            assert in_child(lambda: asyncio.run(ticket.aresult())) == 7
            assert in_child(runner.serve) == 7
            assert in_child(runner.run_until_idle) == 7
            assert in_child(lambda: runner.__exit__(None, None, None)) == 0
        finally:
            Waiting.done.set()
        ticket.result()


def test_a_clock_that_another_thread_was_looking_at_is_not_waited_for(path: Path) -> None:
    """A memory with a clock of the user's looks at it before it looks at the store."""
    with Memory.open(path, embedder="words", clock=lambda: datetime.now(UTC)) as memory:
        clock = memory.engine.clock
        for held in (clock, clock._elapsed):  # pyright: ignore[reportPrivateUsage] - as another thread holds it
            with held._lock:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - of both
                assert in_child(lambda: memory.key("ada").add("x")) == 7


def test_an_embedder_of_both_serves_in_the_child(path: Path) -> None:
    """Bundled embedders are there once per process; a lock that was held does not stay so."""
    embedder = open_embedder("static")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with embedder._lock:  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - of `Static`
            held.set()
            assert done.wait(LIMIT_S)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(LIMIT_S)

    def work() -> None:
        with Memory.open(path, durability="normal", embedder=embedder) as memory:
            memory.key("ada").add("a seat by the window")
            assert len(memory.key("ada").search("chair")) == 1

    try:
        assert in_child(work) == 0
    finally:
        done.set()
        thread.join(LIMIT_S)


@pytest.mark.parametrize("python_sees", [True, False])
def test_calls_of_asyncio_are_answered_in_the_child(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, python_sees: bool
) -> None:
    """The threads that make them are its parent's; an inherited memory is told as that."""
    if not python_sees:
        monkeypatch.setattr(forks.ForkGate, "after_in_child", lambda _self: None)

    async def use() -> None:
        memory = await AsyncMemory.open(path, embedder="words", durability="normal")
        ada = await memory.key("ada")
        await ada.add("of the parent")  # a thread is there by now
        inherited.extend([memory, ada])

    async def use_in_child() -> None:
        memory, ada = inherited
        with pytest.raises(ForkedStore):
            await ada.add("of the child")
        await memory.close()
        with pytest.raises(StoreClosed):
            await ada.add("of the child")

    async def use_again() -> None:
        memory, ada = inherited
        await ada.add("of the parent again")
        await memory.close()

    inherited: list[Any] = []
    asyncio.run(use())
    assert in_child(lambda: asyncio.run(asyncio.wait_for(use_in_child(), LIMIT_S))) == 0
    asyncio.run(use_again())
    assert texts(path) == ["of the parent", "of the parent again"]


# --- what is sent to other processes -------------------------------------------------------------


def sent(thing: object) -> Any:
    """Return what another process gets."""
    return cast("Any", ForkingPickler).loads(ForkingPickler.dumps(thing))


SAMPLES: dict[str, object] = {
    "str": "x", "int": 3, "float": 0.5, "bool": True, "object": "x", "Path": Path("x"),
    "None": None, "Sequence[str]": ["x"], "Sequence[int]": [3],
}  # fmt: skip
"""Arguments of errors, by what they are annotated as."""


def example(kind: type[AlveusError]) -> AlveusError:
    """Return an error of this kind."""
    if not any(inspect.isfunction(vars(base).get("__init__")) for base in kind.__mro__):
        return kind("a message")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    given = {p.name: SAMPLES[p.annotation.partition(" | ")[0]] for p in parameters}
    return kind(**given)


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AlveusError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_reaches_another_process_as_it_was(kind: type[AlveusError]) -> None:
    """With its message and its attributes: what a worker raises breaks no pool."""
    error = example(kind)
    error.add_note("a note")
    for got in (sent(error), copy.copy(error), copy.deepcopy(error)):
        assert type(got) is kind
        assert (str(got), got.args, vars(got)) == (str(error), error.args, vars(error))


class Listener(Agent):
    """Does nothing."""

    @action(InputEvent)
    def listen(self, event: object, ctx: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize("url", ["app.db", ":memory:"])
def test_an_open_memory_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Nor what belongs to it, nor what connects to a server: one error says what to do."""
    monkeypatch.chdir(tmp_path)

    async def opened_and_closed() -> list[Any]:
        async with await AsyncMemory.open(url, embedder="words") as memory:
            return [memory, memory.knowledge]

    mine: list[Any] = [ServerConnection(ServerAddress("http://localhost:1", None, 1))]
    with Memory.open(url, embedder="words") as memory, LocalRunner(Listener(), memory) as runner:
        ada = memory.key("ada")
        mine += [memory, ada, memory.knowledge, ada.set("notes"), ada.short_term, ada.blocks]
        mine += [ada.batch(), ada.conversation("talk"), ada.facts, ada.quarantine]
        mine += [memory.store, runner, runner.submit("ada", 1)]
        mine += asyncio.run(opened_and_closed())
        for one in mine:
            for way in (sent, copy.deepcopy):
                with pytest.raises(NotPicklable, match="open it in the other process"):
                    way(one)


# --- pools and servers ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"][: COUNTS.fork_kinds])
def test_process_pools(path: Path, method: str) -> None:
    """A process with a memory and a thread that writes has a pool do jobs, and closes first."""
    command = [sys.executable, str(HERE / "pool_worker.py")]
    found = subprocess.run(
        [*command, str(path), method, str(COUNTS.fork_jobs)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT_S,
    )
    done = set(json.loads(found.stdout))
    assert {f"job-{number}" for number in range(COUNTS.fork_jobs)} < done
    check(path, done)


def gunicorn(path: Path, *options: str) -> set[str]:
    """Workers are replaced after some requests, and one is killed: what was answered is there."""
    command = [sys.executable, "-m", "gunicorn", "-w", "2", "-b", "127.0.0.1:0", "served_app:wsgi"]
    command += ["--no-control-socket", "--max-requests", "10", *options]
    with subprocess.Popen(
        command, cwd=path.parent, env=served_env(path), stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        port = port_of(server.stderr)
        drain = threading.Thread(target=server.stderr.read)
        drain.start()
        done: set[str] = set()
        killed = False
        try:
            for number in range(COUNTS.fork_jobs):
                answer = ask(port, f"job-{number}")
                if answer is None:  # the worker was replaced, or killed, as it came
                    continue
                done.add(answer[0])
                if number >= COUNTS.fork_jobs // 3 and not killed:
                    os.kill(answer[1], signal.SIGKILL)
                    killed = True
        finally:
            server.terminate()
            server.wait(LIMIT_S)
            drain.join(LIMIT_S)
    assert killed
    assert len(done) > COUNTS.fork_jobs // 2
    return done


def served_env(path: Path) -> dict[str, str]:
    return {**os.environ, "ALVEUS_TEST_STORE": str(path), "PYTHONPATH": str(HERE)}


def port_of(lines: IO[str]) -> int:
    for line in lines:
        found = re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", line)
        if found:
            return int(found[1])
    pytest.fail("gunicorn did not come up")


def ask(port: int, item: str) -> tuple[str, int] | None:
    """Return what the application answers; None: it did not, and may have done it or not."""
    server = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    with closing(server), suppress(OSError, http.client.HTTPException):
        server.request("POST", f"/{item}")
        answer = server.getresponse()
        assert answer.status == 200
        done, process = answer.read().decode().split()
        return done, int(process)
    return None


SENT = """
import json, sys
import served_app
sent = [served_app.app.send_task("remember", (number,)) for number in range(int(sys.argv[1]))]
print(json.dumps([result.get(timeout=100, interval=0.02) for result in sent]))
"""


def celery(path: Path) -> set[str]:
    """The prefork pool replaces its processes as it works; the program that sends has a memory."""
    broker = path.parent / "broker"
    for name in ("queue", "results", "control"):
        (broker / name).mkdir(parents=True)
    env = {**served_env(path), "ALVEUS_TEST_BROKER": str(broker)}
    command = [sys.executable, "-m", "celery", "-A", "served_app", "worker", "--pool", "prefork"]
    command += ["--concurrency", "2", "--max-tasks-per-child", "5", "--loglevel", "error"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    with (
        (path.parent / "log").open("wb") as log,
        subprocess.Popen(command, cwd=path.parent, env=env, stdout=log, stderr=log) as worker,
    ):
        try:
            found = subprocess.run(
                [sys.executable, "-c", SENT, str(COUNTS.fork_jobs)],
                stdout=subprocess.PIPE,
                check=True,
                env=env,
                timeout=LIMIT_S,
            )
        finally:
            worker.terminate()
            worker.wait(LIMIT_S)
    done = json.loads(found.stdout)
    assert {item for item, _ in done} == {f"task-{number}" for number in range(COUNTS.fork_jobs)}
    assert len({process for _, process in done}) > (COUNTS.fork_jobs - 1) // 10
    return {item for item, _ in done}


SERVERS: dict[str, Callable[[Path], set[str]]] = {
    "gunicorn --preload": lambda path: gunicorn(path, "--preload"),
    "gunicorn": gunicorn,
    "celery": celery,
}


@pytest.mark.parametrize("server", [*SERVERS][: COUNTS.fork_kinds])
def test_servers(path: Path, server: str) -> None:
    """What processes of a server were acknowledged is there, whenever they came and went."""
    check(path, SERVERS[server](path))


def test_what_the_page_says_was_tried() -> None:
    """Each row of its table is a test of this file."""
    assert all(callable(globals()[row.test]) for row in TRIED)

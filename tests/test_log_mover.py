"""A long write-ahead log is moved by a thread, while others write, fork, close, scrub and die."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

import warm
from alveus import Memory
from alveus.store.sqlite import SqliteStore, database_file, locks, log_mover, maintenance
from alveus.store.sqlite.connection import connect
from scale import COUNTS
from waiting import LIMIT_S, wait_until

PAGES = 80
"""What is a long log here."""

LONG = "word " * 2_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have little make a long log."""
    monkeypatch.setattr(database_file, "CHECKPOINT_PAGES", PAGES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory.open(path, embedder="words") as opened:
        yield opened


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Have the thread wait before it moves anything."""
    hold = Held(log_mover.connect)
    monkeypatch.setattr(log_mover, "connect", hold.connect)
    yield hold
    hold.go_on.set()


class Held:
    """Opens a connection only when told to."""

    def __init__(self, connect: Callable[[Path], apsw.Connection]) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._connect = connect

    def connect(self, path: Path) -> apsw.Connection:
        self.begun.set()
        assert self.go_on.wait(LIMIT_S)
        return self._connect(path)


def store_of(memory: Memory) -> SqliteStore:
    assert isinstance(memory.store, SqliteStore)
    return memory.store


def write_until(memory: Memory, done: Callable[[], bool]) -> int:
    """Add one item after the other until *done*; return how many."""
    number = 0
    while not done():
        memory.key("ada").add(LONG)
        number += 1
        assert number < 1_000
    return number


def moved_items(path: Path) -> int:
    """Return how many items the file, which nobody writes, holds without its log.

    -1: not even their table.
    """
    with closing(connect(path, read_only=True, immutable=True)) as db:
        try:
            return db.execute("SELECT count(*) FROM item").get
        except apsw.SQLError:
            return -1


def test_a_long_log_is_moved_beside_the_writer_and_then_begun_anew(memory: Memory, path: Path):
    """All that it held when the thread began is in the file then; the rest goes by a commit."""
    mover = store_of(memory)._mover
    begun = write_until(memory, lambda: mover._thread is not None)
    mover.wait()
    assert moved_items(path) >= begun
    log = Path(f"{path}-wal")
    for number in range(200):
        memory.key("eve").add(LONG, id=f"{number}")
        mover.wait()
    assert log.stat().st_size < 3 * PAGES * 4_120
    assert store_of(memory).problems() == []
    assert len(memory.key("eve").list()) == 200


def test_others_write_and_read_while_it_is_at_work(memory: Memory, held: Held):
    """As many commits as they like: the log is as long as they make it, and then moved."""
    mover = store_of(memory)._mover
    write_until(memory, held.begun.is_set)
    for number in range(100):
        memory.key("eve").add(LONG, id=f"{number}")
    assert mover.is_at_work
    assert len(memory.key("eve").search("word", limit=100)) == 100
    held.go_on.set()
    mover.wait()
    memory.key("eve").add("last")
    memory.key("eve").add("begins the log anew")
    mover.wait()
    assert store_of(memory).problems() == []


def test_closing_waits_for_it(path: Path, held: Held):
    """What closes last then moves all, and takes the log away."""
    memory = Memory.open(path, embedder="words")
    count = write_until(memory, held.begun.is_set)
    closing_it = threading.Thread(target=memory.close)
    closing_it.start()
    closing_it.join(0.05)  # it cannot end: the thread that it waits for is held
    assert closing_it.is_alive()
    held.go_on.set()
    closing_it.join(LIMIT_S)
    assert not Path(f"{path}-wal").exists()
    assert moved_items(path) == count


def test_a_memory_that_is_closed_elsewhere_goes_on(path: Path, held: Held):
    """Another handle of the same file writes on, and its log is moved."""
    memory, other = (Memory.open(path, embedder="words") for _ in range(2))
    count = write_until(memory, held.begun.is_set)
    memory.close()
    held.go_on.set()
    with other:
        mover = store_of(other)._mover

        def is_moved() -> bool:
            mover.wait()
            return moved_items(path) >= 2 * count

        more = write_until(other, is_moved)
        assert len(other.key("ada").list()) == count + more
        assert store_of(other).problems() == []


def test_a_fork_waits_for_it(memory: Memory, held: Held):
    """And its child opens the store, and writes."""
    count = write_until(memory, held.begun.is_set)
    wait_until(lambda: bool(log_mover.FORKS._inside))
    threading.Timer(0.05, held.go_on.set).start()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with Memory.open(store_of(memory).location, embedder="words") as own:
                own.key("child").add("from the child")
                code = 0 if len(own.key("ada").list()) == count else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert held.go_on.is_set()
    assert [item.text for item in memory.key("child").list()] == ["from the child"]
    assert store_of(memory).problems() == []


def test_a_scrub_waits_for_it(memory: Memory, path: Path, held: Held):
    """Nothing of what was forgotten is left, and no reader is blamed."""
    memory.key("ada").add("a quagga", id="canary")
    write_until(memory, held.begun.is_set)
    threading.Timer(0.05, held.go_on.set).start()
    receipt = memory.key("ada").set("default").forget("canary", scrub="now")
    assert (receipt.state, receipt.blocked_by) == ("scrubbed", ())
    for file in (path, Path(f"{path}-wal")):
        assert b"quagga" not in file.read_bytes()


LOCKS = {
    "SQLite's": ("{}-shm", "fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)"),
    "alveus's": ("{}.alveus/moving", "fcntl.flock(file, fcntl.LOCK_EX)"),
}
"""Of who moves the log: on which file they are, and how they are taken."""


@contextmanager
def moving_elsewhere(path: Path, whose: str) -> Iterator[subprocess.Popen[str]]:
    """Have another process hold such a lock, until told to end."""
    file, take = LOCKS[whose]
    code = (
        "import fcntl, os, sys\n"
        "file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        f"{take}\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    given = [sys.executable, "-c", code, file.format(path)]
    with subprocess.Popen(
        given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("whose", LOCKS)
def test_a_scrub_waits_for_another_process_that_moves_the_log(
    memory: Memory, path: Path, whose: str, monkeypatch
):
    """As long as it waits for readers; then the receipt is pending, and the next scrub does it."""
    ada = memory.key("ada").set("default")
    ada.add("a quagga", id="canary")
    ada.add("a second quagga", id="second")
    with moving_elsewhere(path, whose) as process:
        assert process.stdin is not None
        threading.Timer(0.2, process.stdin.close).start()
        monkeypatch.setattr(maintenance, "READERS_MS", LIMIT_S * 1_000)
        assert ada.forget("canary", scrub="now").state == "scrubbed"
    with moving_elsewhere(path, whose):
        monkeypatch.setattr(maintenance, "READERS_MS", 20)
        receipt = ada.forget("second", scrub="now")
        assert receipt.state == "pending"
        assert receipt.blocked_by
        write_until(memory, lambda: store_of(memory)._mover._thread is not None)
    assert [done.state for done in memory.scrub()] == ["scrubbed"]
    assert store_of(memory).problems() == []


def test_the_writer_moves_the_log_itself_where_there_is_no_thread(
    memory: Memory, path: Path, monkeypatch
):
    """As where the system gives no more threads, or Python is ending."""
    monkeypatch.setattr(log_mover, "began", lambda _thread: False)
    write_until(memory, lambda: moved_items(path) > 0)
    assert store_of(memory)._mover._thread is None
    assert store_of(memory).problems() == []


def test_a_reader_that_stays_lets_the_log_grow_until_it_ends(memory: Memory, path: Path):
    """Its state is not taken from under it; after it all is moved."""
    store = store_of(memory)
    memory.key("ada").add("first", id="first")
    with store.reader() as db, store._snapshot(db):
        before = db.execute("SELECT count(*) FROM item").get
        for number in range(60):
            memory.key("eve").add(LONG, id=f"{number}")
            store._mover.wait()
        assert db.execute("SELECT count(*) FROM item").get == before
        assert moved_items(path) < 61
    memory.key("eve").add("after it")
    store._mover.wait()
    memory.key("eve").add("and all is moved")
    store._mover.wait()
    assert moved_items(path) >= 62
    assert store.problems() == []


def test_a_file_that_was_replaced_is_left_alone(memory: Memory, path: Path, held: Held):
    """What is at the path by then may have a log of its own."""
    write_until(memory, held.begun.is_set)
    moved = path.with_name("moved.db")
    path.rename(moved)
    path.write_bytes(b"something else")
    held.go_on.set()
    store_of(memory)._mover.wait()
    assert path.read_bytes() == b"something else"
    assert moved_items(moved) == -1
    path.unlink()
    moved.rename(path)
    memory.key("ada").add("goes on")
    assert store_of(memory).problems() == []


def test_one_at_a_time_moves_the_log(path: Path):
    """Whoever has the file open; not longer, though a child may have the descriptor."""
    first, second = (log_mover.LogMover(path, path.parent) for _ in range(2))
    with first.moving() as alone, second.moving() as other:
        assert (alone, other) == (True, False)
        descriptor = os.dup(first._lock)  # as a child has that was forked in C
    with second.moving() as other:
        assert other
    os.close(descriptor)
    first.close()
    with first.moving() as alone:
        assert not alone


def test_the_log_is_moved_though_the_folder_was_deleted(memory: Memory, path: Path):
    """It can be dropped at any time; what is needed of it is made again."""
    mover = store_of(memory)._mover
    shutil.rmtree(f"{path}.alveus")
    write_until(memory, lambda: mover._thread is not None)
    mover.wait()
    assert moved_items(path) > 0
    assert store_of(memory).problems() == []


def test_no_descriptor_is_needed_to_move_it(memory: Memory, path: Path, monkeypatch):
    """The process may be at its limit of files: the writer moves the log itself then."""
    taken: list[int] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    now = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (now + 8, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(400):  # forty times as long a log
            memory.key("ada").add(LONG)
        assert Path(f"{path}-wal").stat().st_size < 10 * PAGES * 4_120
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert store_of(memory).problems() == []


def test_nobody_else_moves_the_log_meanwhile(memory: Memory, path: Path, held: Held):
    """Not even where SQLite's own locks of this process have ended."""
    write_until(memory, held.begun.is_set)
    before = moved_items(path)
    os.close(os.open(f"{path}-shm", os.O_RDONLY))
    code = WRITING.replace("10_000", "50").replace('("ada", "eve")', '("bob",)')
    given = [sys.executable, "-c", code, str(path), "normal", "other"]
    warm.run(given, stdout=subprocess.DEVNULL, check=True)
    assert moved_items(path) == before
    held.go_on.set()
    store_of(memory)._mover.wait()
    assert moved_items(path) > before
    assert len(memory.key("bob").list()) == 50
    assert store_of(memory).problems() == []


def test_the_file_is_guarded_until_it_ends(path: Path, held: Held):
    """Though its memory is collected: else another process took itself for the only one."""
    memory = Memory.open(path, embedder="words")
    write_until(memory, held.begun.is_set)
    thread = store_of(memory)._mover._thread
    assert thread is not None
    del memory

    def is_collected() -> bool:
        gc.collect()  # does nothing where another thread is at it
        return [list(guard.users) for guard in locks._guards.values()] == [[thread]]

    wait_until(is_collected)
    held.go_on.set()
    thread.join(LIMIT_S)
    assert not locks._guards
    with Memory.open(path, embedder="words") as again:
        assert store_of(again).problems() == []


WRITING = f"""
import os, sys, threading
from alveus import Memory
from alveus.store.sqlite import database_file
database_file.CHECKPOINT_PAGES = {PAGES}
memory = Memory.open(sys.argv[1], embedder="words", durability=sys.argv[2])
def write(key):
    for number in range(10_000):
        memory.key(key).add("word " * 2_000, id=f"{{sys.argv[3]}}-{{number}}")
        os.write(1, f"{{key}} {{sys.argv[3]}}-{{number}}\\n".encode())
for key in ("ada", "eve"):
    threading.Thread(target=write, args=(key,)).start()
"""


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_killed_at_any_moment_all_that_was_told_is_there(path: Path, durability: str):
    """The file is sound, whoever was moving its log."""
    told: set[tuple[str, ...]] = set()
    seeded = random.Random(durability)
    for number in range(max(4, COUNTS.kills // 6)):
        code = [sys.executable, "-c", WRITING, str(path), durability, str(number)]
        with warm.Popen(code, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(seeded.randrange(1, 120)):
                told.add(tuple(child.stdout.readline().split()))
            child.send_signal(signal.SIGKILL)
            told.update(tuple(line.split()) for line in child.stdout if line.endswith("\n"))
        with Memory.open(path, embedder="words") as memory:
            there = {(k, item.id) for k in ("ada", "eve") for item in memory.key(k).list()}
            assert told <= there
            assert store_of(memory).problems() == []

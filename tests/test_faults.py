"""What goes wrong outside: full disks, missing rights, damaged files, forks, dead owners."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from alveus import KeyMemory, Memory
from alveus.errors import (
    AlveusError,
    EmbedderFailed,
    ForkedStore,
    NotAStore,
    NotFound,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    Unavailable,
    Unsupported,
    Unusable,
)
from alveus.search.index import set_loader
from alveus.store import Scope
from alveus.store.sql.writer import PendingRows
from alveus.store.sqlite import SqliteStore, locks
from alveus.store.sqlite.connection import CallSubject, as_alveus_error
from alveus.store.sqlite.locks import file_system, refuse_unsupported
from doors import Letters
from hardship import DROP_RIGHTS, closed_folder, shut, small_disk
from waiting import LIMIT_S, SHORT_S, wait_until

HEAD = """
import os, resource, signal, sys, time
sys.path.insert(0, {here!r})
from doors import Letters
from alveus import Memory, errors
from alveus.store.sqlite import checksums
path = sys.argv[1]
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
with Memory.open(embedder=Letters()) as warm:  # imports, while files can be read
    checksums.vfs()
    warm.key("a").add("x"); warm.key("a").search("x")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def start(path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Give what starts a Python process; all of them are gone when the test ends."""
    children: list[subprocess.Popen[str]] = []

    def run(code: str, place: Path = path) -> subprocess.Popen[str]:
        head = HEAD.format(here=str(Path(__file__).parent))
        child = subprocess.Popen(
            [sys.executable, "-c", head + code, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def texts(memory: Memory, key: str = "ada") -> list[str | None]:
    return [item.text for item in memory.key(key).list()]


# --- no room ------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["any", "pretended"])
def disk(request, tmp_path: Path) -> Iterator[Path]:
    """Give a folder on a disk of its own, of 2 MB; a mounted one where that is allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, mount=request.param):
        yield folder


def fill(memory: Memory, *, prefix: str) -> list[str]:
    """Add until there is no room; return the ids that were acknowledged."""
    done: list[str] = []

    def write() -> None:
        while True:
            name = f"{prefix} {len(done)}"
            done.append(memory.key("ada").add("word " * 2_000, id=name))

    with pytest.raises(StoreFull, match="free some room"):
        write()
    return done


def test_a_full_disk_loses_nothing(disk: Path) -> None:
    """StoreFull; what was acknowledged is there, reads go on, and writes too once there is room."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    with Memory.open(disk / "app.db", embedder="words") as memory:
        ada = memory.key("ada")
        done = fill(memory, prefix="first")
        with pytest.raises(StoreFull):
            ada.short_term.set("big", "x" * 100_000)
        assert sorted(str(item.id) for item in ada.list()) == sorted(done)
        assert len(ada.search("word", limit=1000)) == len(done)
        ballast.unlink()
        done += fill(memory, prefix="second")
        assert len(done) > 10
        assert sorted(str(item.id) for item in ada.list()) == sorted(done)
    with Memory.open(disk / "app.db", mode="ro") as memory:
        assert {item.id for item in memory.key("ada").list()} == set(done)
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


def test_a_full_disk_puts_a_scrub_off(disk: Path) -> None:
    """What is forgotten is gone from every read; the receipt says what the scrub waits for."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    with Memory.open(disk / "app.db", embedder="words") as memory:
        notes = memory.key("ada").set("notes")
        notes.add_many(["word " * 2_000 for _ in range(25)])
        notes.add("a secret", id="secret")
        receipt = notes.forget("secret", scrub="now")
        assert (receipt.changed, receipt.state) == (True, "pending")
        assert "free some room" in " ".join(receipt.blocked_by)
        assert notes.get("secret") is None
        with pytest.raises(StoreFull):
            memory.scrub()
        ballast.unlink()
        assert [done.state for done in memory.scrub()] == ["scrubbed"]


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_opening_a_store_on_a_full_disk_says_so(disk: Path, mode) -> None:
    """SQLite, which makes the index of the log then, does not tell why it could not."""
    with Memory.open(disk / "app.db", embedder="words") as memory:
        memory.key("ada").add("x")
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.tell() < 2_000_000:
            file.write(b"x" * 4096)
    told = pytest.raises(StoreFull, match="the disk is full; free some room")
    with told if disk.is_mount() else nullcontext():  # the other disk has room for all but a log
        Memory.open(disk / "app.db", mode=mode).close()
    ballast.unlink()
    with Memory.open(disk / "app.db", mode=mode) as memory:
        assert texts(memory) == ["x"]


def test_closing_a_memory_where_nothing_can_be_written_is_no_error(path: Path, start) -> None:
    """All that was committed is in the log: only who holds the lock cannot be written down."""
    child = start("""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
taken = len(os.listdir("/proc/self/fd"))
memory = Memory.open(path, embedder="words")
memory.key("ada").add("x")
memory.key("ada").search("x")  # when it was read last waits to be written
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
memory.close()
say("closed", len(os.listdir("/proc/self/fd")) - taken)
""")
    assert line(child) == "closed 0"
    assert child.wait(LIMIT_S) == 0
    with Memory.open(path) as memory:
        assert texts(memory) == ["x"]
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


def test_a_search_answers_while_nobody_can_write(path: Path) -> None:
    """What cannot be embedded now stays pending: the answer is partial, and says so."""
    with (
        Memory.open(path, embedder=Letters(instant=False), wait_s=SHORT_S) as memory,
        Memory.open(path, embedder=Letters(instant=False)) as other,
    ):
        memory._engine.worker._stop.set()
        memory.key("ada").add("green tea")
        assert isinstance(other.store, SqliteStore)
        with other.store.writing():
            hits = memory.key("ada").search("tea")
            assert [hit.item.text for hit in hits] == ["green tea"]
            assert hits.partial
        assert not memory.key("ada").search("tea").partial


@pytest.mark.parametrize("log_pages", [4_000, 60], ids=["in the log", "as the log is moved"])
def test_a_limit_of_a_file_is_no_loss_either(path: Path, start, log_pages: int) -> None:
    """StoreFull says that no larger file may be written: what was told is there, and no more.

    A commit that stands is not refused because the log cannot be moved into the file after it.
    """
    child = start(
        f"from alveus.store.sqlite import database_file as f; f.CHECKPOINT_PAGES = {log_pages}"
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Memory.open(path, embedder="words") as memory:
    resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, resource.RLIM_INFINITY))
    done = 0
    try:
        while True:
            memory.key("ada").add("word " * 2_000, id=str(done))
            done += 1
    except errors.Unavailable as error:
        say(done, type(error).__name__, "ulimit -f" in str(error))
    say(len(memory.key("ada").list()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    memory.key("ada").add("more")
"""
    )
    done, *told = line(child).split()
    assert int(done) > 3
    assert told == ["StoreFull", "True"]
    assert line(child) == done
    assert child.wait(LIMIT_S) == 0
    with Memory.open(path) as memory:
        assert len(texts(memory)) == int(done) + 1
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


def test_too_many_open_files_are_told_as_that(path: Path, start) -> None:
    """However few are left: Unavailable and what to do, nothing lost, nothing left open."""
    child = start("""
import gc
gc.disable()  # a file that only it would close is left open
def opened():
    return Memory.open(path, embedder=Letters(instant=False))
with opened() as memory:
    memory.key("ada").add("first")
most = resource.getrlimit(resource.RLIMIT_NOFILE)
taken = len(os.listdir("/proc/self/fd")) - 1  # one of them read the list
done, told = 1, 0
for free in range(16):
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + free, most[1]))
    try:
        with opened() as memory:
            ada = memory.key("ada")
            calls = {"list": ada.list, "search": lambda: ada.search("first"),
                     "settle": memory.settle, "add": lambda: ada.add("more"),
                     "backup": lambda: memory.backup(f"{path} {free}")}
            for name, call in calls.items():
                try:
                    call()
                    done += name == "add"
                except errors.AlveusError as error:
                    assert type(error) is errors.Unavailable, repr(error)
                    assert "too many files" in str(error) and "ulimit -n" in str(error), error
                    told += 1
    except errors.Unavailable as error:
        assert "too many files" in str(error) and "ulimit -n" in str(error), error
        told += 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert len(os.listdir("/proc/self/fd")) - 1 == taken, free
with opened() as memory:
    say(told > 5, done > 1, len(memory.key("ada").list()) == done, memory.settle(),
        memory.store.problems())
""")
    assert line(child) == "True True True True []"
    assert child.wait(LIMIT_S) == 0


# --- no rights ----------------------------------------------------------------------------------


def test_who_may_not_write_can_read(start) -> None:
    """Writing is StoreReadOnly, which names mode="ro"; that opens, also beside a writer."""
    with closed_folder() as shared:
        place = shared / "app.db"
        with Memory.open(place, embedder="words") as memory:
            memory.key("ada").add("x")
        shut(shared, place)
        code = """
for _ in range(2):
    try:
        Memory.open(path)
    except errors.StoreReadOnly as error:
        say("refused", "mode='ro'" in str(error))
    with Memory.open(path, mode="ro") as memory:
        say([item.text for item in memory.key("ada").list()])
        try:
            memory.key("ada").add("y")
        except errors.StoreReadOnly:
            say("read-only")
"""
        child = start(DROP_RIGHTS + code, place)
        for expected in ("refused True", "['x']", "read-only") * 2:
            assert line(child) == expected
        assert child.wait(LIMIT_S) == 0
        shared.chmod(0o755)
        place.chmod(0o644)
        with Memory.open(place) as memory:
            assert texts(memory) == ["x"]


def test_a_read_only_file_system_is_told_what_to_do_about() -> None:
    """There nobody lacks rights: it is SQLite that cannot make its log beside the database."""
    error = as_alveus_error(
        apsw.CantOpenError("unable to open database file"), CallSubject("app.db")
    )
    assert isinstance(error, StoreReadOnly)
    assert "the right to write its folder, or open it with mode='ro'" in str(error)


def test_who_may_not_even_read_is_not_sent_to_read(start) -> None:
    """Advice fits what was asked: nobody is told to read what he may not, nor what he did ask."""
    with closed_folder() as shared:
        place = shared / "app.db"
        with Memory.open(place, embedder="words") as memory:
            memory.key("ada").add("x")
        place.chmod(0o000)
        code = """
for mode in ("rw", "ro"):
    try:
        Memory.open(path, mode=mode)
    except errors.StoreReadOnly as error:
        say(mode, "mode='ro'" in str(error), "its file cannot be read" in str(error))
"""
        child = start(DROP_RIGHTS + code, place)
        assert line(child) == "rw False True"
        assert line(child) == "ro False True"
        assert child.wait(LIMIT_S) == 0


LOOK = """
for _ in sys.stdin:
    say(len(ada.list()), len(ada.search("tea", limit=50)), memory.store.stats().items)
"""


def test_a_reader_that_may_write_nothing_sees_what_others_write(start) -> None:
    """Also what is written after it found the store at rest, beside the writer and after it."""
    with closed_folder() as shared:
        place = shared / "app.db"
        with Memory.open(place, embedder="words") as memory:
            memory.key("ada").add("green tea")
        shut(shared, place)
        opened = "memory = Memory.open(path, mode='ro'); ada = memory.key('ada'); say('open')"
        child = start(f"{DROP_RIGHTS}\n{opened}\n{LOOK}", place)
        assert line(child) == "open"
        assert looked(child) == "1 1 1"
        shared.chmod(0o755)
        place.chmod(0o644)
        with Memory.open(place) as memory:
            memory.key("ada").add("black tea")
            assert looked(child) == "2 2 2"
        assert looked(child) == "2 2 2"
        with Memory.open(place) as memory:
            memory.forget("ada")
        assert looked(child) == "0 0 0"


def looked(child: subprocess.Popen[str]) -> str:
    """Have a process that runs `LOOK` look; return what it sees."""
    assert child.stdin is not None
    print(file=child.stdin, flush=True)
    return line(child)


def test_a_reader_of_a_file_it_may_not_write_leaves_none_beside_it(start) -> None:
    """Its log would have its rights, or be its own, and keep the owner from writing."""
    with closed_folder() as shared:
        place = shared / "app.db"
        with Memory.open(place, embedder="words") as memory:
            memory.key("ada").add("x")
        place.chmod(0o444)
        shared.chmod(0o777)
        code = """
with Memory.open(path, mode="ro") as memory:
    say(len(memory.key("ada").list()))
"""
        child = start(DROP_RIGHTS + code, place)
        assert line(child) == "1"
        assert child.wait(LIMIT_S) == 0
        assert {each.name for each in shared.iterdir()} == {"app.db", "app.db.alveus"}


def test_a_file_that_is_written_to_while_it_is_read_as_one_at_rest_is_told(path: Path) -> None:
    """What was read of it may be of two states; the next read is of one."""
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
    store = SqliteStore.open(path, read_only=True, still=True)
    reading = store.reader()
    reading.__enter__()
    with Memory.open(path) as memory:
        memory.key("ada").add("y")
        memory.shrink()
    with pytest.raises(StoreBusy, match="changed while it was read"):
        reading.__exit__(None, None, None)
    assert store.stats().items == 2
    store.close()


def test_a_reader_searches_beside_a_folder_that_is_closed_to_it(start) -> None:
    """The folder beside a store is for its owner alone, and holds nothing that a search needs."""
    with closed_folder() as shared:
        place = shared / "app.db"
        with Memory.open(place, embedder="words") as memory:
            memory.key("ada").add("green tea")
        beside = Path(f"{place}.alveus")
        (beside / "index").mkdir()
        beside.chmod(0o000)
        shut(shared, place)
        code = """
with Memory.open(path, mode="ro") as memory:
    say(len(memory.key("ada").search("tea")), memory.stats().pending)
"""
        child = start(DROP_RIGHTS + code, place)
        assert line(child) == "1 0"
        assert child.wait(LIMIT_S) == 0
        beside.chmod(0o700)


def test_what_has_to_remove_index_files_is_refused_before_it_changes_anything(start) -> None:
    """Who may write a store but not the index beside it: one error, which names that folder."""
    with closed_folder() as shared:
        place = shared / "app.db"
        with Memory.open(place, embedder="words") as memory:
            memory.key("ada").add("late", expire_at=datetime(2020, 1, 1, tzinfo=UTC))
            memory.backup(shared / "backup.db")
        index = Path(f"{place}.alveus") / "index"
        index.mkdir()
        (index / "1.seg").touch()
        index.chmod(0o755)
        for folder in (shared, index.parent):
            folder.chmod(0o777)
        for file in (place, shared / "backup.db", *index.parent.iterdir()):
            if file.is_file():
                file.chmod(0o666)
        code = """
def told(call):
    try:
        call()
    except errors.StoreReadOnly as error:
        return f"{path}.alveus/index holds files to delete" in str(error)
with Memory.open(path) as memory:
    before = memory.stats().store.commits
    say(told(memory.shrink), memory.stats().store.commits - before)
say(told(lambda: Memory.repair(path)))
say(told(lambda: Memory.restore(path, path.replace("app", "backup"))))
"""
        child = start("import encodings.ascii, shutil" + DROP_RIGHTS + code, place)
        assert [line(child) for _ in range(3)] == ["True 0", "True", "True"]
        assert child.wait(LIMIT_S) == 0
        assert (index / "1.seg").exists()
        with Memory.open(place) as memory:
            memory.shrink()
        assert not (index / "1.seg").exists()


def test_what_root_makes_beside_a_store_is_its_owners(path: Path, monkeypatch) -> None:
    """Else nobody but root could write the store after ``sudo alveus``; SQLite does the same."""
    given: set[Path] = set()

    def chown(place: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert (user, group, follow_symlinks) == (os.getuid(), os.getgid(), False)
        given.add(Path(place))

    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add_many([f"green tea {number}" for number in range(20)])
    beside = Path(f"{path}.alveus")
    shutil.rmtree(beside)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(set_loader, "LARGE", 10)
    Memory.reindex(path, embedder="static")
    with Memory.open(path) as memory:
        memory.key("ada").search("tea")
        memory.store.acquire_lease(Scope("default", "bob"), "worker")
        made = {beside, *beside.rglob("*")}
        assert {each.name for each in made} > {"lock", "turn", "log", "index", "owners", "reindex"}
        assert len([*beside.glob("index/*.seg")]) == len([*beside.glob("owners/*")]) == 1
    renamed = {each.with_suffix(".seg") for each in given if each.suffix == ".new"}
    assert made <= given | renamed | {beside / "log"}


def test_what_may_not_be_written_is_named(path: Path, monkeypatch) -> None:
    """A log or a lock that somebody else left, or where a copy was to go: not the store itself."""
    path.touch()
    closed = Path(f"{path}-shm")
    closed.touch()
    monkeypatch.setattr(os, "access", lambda place, kind: kind != os.W_OK or place != str(closed))
    error = as_alveus_error(apsw.ReadOnlyError("read-only"), CallSubject(str(path)))
    assert f"the right to write {closed}, or open it with mode='ro'" in str(error)
    copy = "/elsewhere/copy.db.part"
    error = as_alveus_error(PermissionError(13, "Permission denied", copy), CallSubject(str(path)))
    assert isinstance(error, StoreReadOnly)
    assert str(error).startswith(f"{copy}: Permission denied; ")


def failed_write(code: int) -> apsw.IOError:
    error: Any = apsw.IOError("disk I/O error")
    error.extendedresult = code
    return error


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.ENOSPC, "no space"), 0),
        (OSError(errno.EDQUOT, "quota"), 0),
        (OSError(errno.EFBIG, "too large"), 0),
        (apsw.FullError("full"), 0),
        *[(apsw.SQLITE_IOERR_WRITE, n) for n in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)],
        (apsw.SQLITE_IOERR_FSYNC, errno.ENOSPC),
        (apsw.SQLITE_IOERR_SHMSIZE, errno.ENOSPC),
        (apsw.SQLITE_IOERR_TRUNCATE, errno.EDQUOT),
    ],
)
def test_whatever_hinders_more_to_be_written_is_the_store_being_full(error, number) -> None:
    """A full disk, a quota, a limit of files; in the database, its log, or a file beside it."""
    if isinstance(error, int):
        error = failed_write(error)
    assert isinstance(as_alveus_error(error, CallSubject("app.db", errno=number)), StoreFull)


def test_a_disk_that_fails_is_not_full() -> None:
    """Freeing room would not help."""
    found = as_alveus_error(
        failed_write(apsw.SQLITE_IOERR_WRITE), CallSubject("app.db", errno=errno.EIO)
    )
    assert not isinstance(found, StoreFull)
    assert isinstance(found, Unavailable)


def test_files_are_readable_by_their_owner_alone(path: Path) -> None:
    """The database, its log, locks, owners, backups: 0600, folders 0700, whatever the umask."""
    before = os.umask(0)
    try:
        with Memory.open(path, embedder=Letters(instant=False)) as memory:
            memory.key("ada").add("x")
            memory.settle()
            memory.store.acquire_lease(Scope("default", "ada"), "me")
            memory.backup(path.with_name("copy.db"))
            places = [place for place in path.parent.rglob("*") if place != path.parent]
            assert len(places) >= 7
            for place in places:
                expected = 0o700 if place.is_dir() else 0o600
                assert place.stat().st_mode & 0o777 == expected, place
    finally:
        os.umask(before)


# --- something else -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *itertools.product(["text", "folder", "sqlite", "header"], ["rw", "ro"]),
        ("empty", "ro"),  # opened to be written, it becomes a store: the next test
    ],
)
def test_what_is_no_store_is_refused_and_left_alone(path: Path, kind: str, mode) -> None:
    """A text, a folder, another program's file: not a byte of it changes."""
    if kind == "text":
        path.write_text("Dear diary, " * 1000)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sqlite":
        db = apsw.Connection(str(path))
        db.execute("CREATE TABLE theirs (x)")
        db.close()
    elif kind == "header":
        path.write_bytes(b"SQLite format 3\0" + bytes(range(84)))
    else:
        path.touch()
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(NotAStore, match=r"app\.db"):
        Memory.open(path, mode=mode)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """Nothing is in it that could be lost."""
    path.touch()
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
    with Memory.open(path, mode="ro") as memory:
        assert texts(memory) == ["x"]


def damage(path: Path, *, keep: int | None = None, garbage: tuple[int, int] | None = None) -> None:
    """Cut a file short, or write garbage into it."""
    content = bytearray(path.read_bytes())
    if keep is not None:
        content = content[:keep]
    if garbage is not None:
        start, end = garbage
        content[start:end] = b"\xa5" * (end - start)
    path.write_bytes(content)


@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
@pytest.mark.parametrize("how", ["cut", "garbage"])
def test_a_damaged_file_is_told(path: Path, how: str, part: float, mode) -> None:
    """Cut off or overwritten: StoreDamaged, or right answers from what is sound."""
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add_many([f"text {n} " * 40 for n in range(400)])
        expected = texts(memory)
    size = path.stat().st_size
    at = int(size * part)
    damage(path, keep=at if how == "cut" else None, garbage=(at, size) if how != "cut" else None)
    told = 0
    try:
        with Memory.open(path, embedder="words", mode=mode) as memory:
            ada = memory.key("ada")
            for call in (
                lambda: texts(memory),
                lambda: [hit.item.text for hit in ada.search("text", limit=1000)],
                memory.stats,
                lambda: ada.add("y"),
            ):
                try:
                    answer = call()
                except AlveusError as error:
                    told += isinstance(error, StoreDamaged)
                else:
                    if isinstance(answer, list):
                        assert set(answer) <= {*expected, "y"}
            if told == 0:
                assert isinstance(memory.store, SqliteStore)
                told = len(memory.store.problems())
    except StoreDamaged:
        told = 1
    assert told


def test_files_on_a_network_are_refused(tmp_path: Path) -> None:
    """The longest mount point that leads to a path says what it lies on."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:5 / /home rw - nfs4 server:/home rw\n"
        "31 30 0:6 / /home/ada/local\\040disk rw shared:7 master:2 - xfs /dev/sdb rw\n"
        "32 22 0:7 / /mnt/s3 rw - fuse.s3fs s3fs rw\n"
    )
    for place, kind in {
        "/var/app.db": "ext4",
        "/home/ada/app.db": "nfs4",
        "/homes/app.db": "ext4",
        "/home/ada/local disk/app.db": "xfs",
        "/mnt/s3/app.db": "fuse.s3fs",
        "/mnt/s3": "fuse.s3fs",
    }.items():
        assert file_system(Path(place), mounts) == kind
    assert file_system(Path("/x"), tmp_path / "none") is None
    assert file_system(tmp_path) is not None


@pytest.mark.parametrize("place", ["/proc/app.db", "/proc/self/app.db", "/sys/app.db"])
def test_what_shows_the_kernel_is_refused(place: str) -> None:
    """There is no such thing as a file of one's own: said so, and what to do."""
    with pytest.raises(Unsupported, match=r"app\.db is on \w+, which .* put the store on a disk"):
        Memory.open(place)


def test_a_network_file_system_is_named(tmp_path: Path, monkeypatch) -> None:
    """The error says which one, and what to do."""

    monkeypatch.setattr(locks, "file_system", lambda path: "nfs4")
    with pytest.raises(Unsupported, match=r"nfs4.*local disk"):
        Memory.open(tmp_path / "app.db")
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unsupported, match="WSL"):
        refuse_unsupported(tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- others -------------------------------------------------------------------------------------


def test_a_busy_store_names_its_holder(path: Path, start) -> None:
    """Waiting is bounded; the message says which process writes; reads go on; then so do writes."""
    Memory.open(path, embedder="words").close()
    child = start("""
with Memory.open(path) as memory, memory.store.writing():
    say("holding")
    sys.stdin.readline()
say("let go")
""")
    assert line(child) == "holding"
    with pytest.raises(StoreBusy, match=str(child.pid)):
        Memory.open(path, wait_s=SHORT_S)
    with Memory.open(path, mode="ro") as memory:
        assert texts(memory) == []
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert line(child) == "let go"
    with Memory.open(path, wait_s=SHORT_S) as memory, memory.store.writing():  # pyright: ignore[reportAttributeAccessIssue] - it is a file
        failed: list[BaseException] = []

        def write() -> None:
            try:
                memory.key("ada").add("x")
            except StoreBusy as error:
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join(LIMIT_S)
        assert "another thread" in str(failed[0])


def test_closing_under_writers_is_told_as_that(path: Path) -> None:
    """Threads that write while a memory is closed get through, or are told that it was closed."""
    for _ in range(10):
        memory = Memory.open(path, embedder="words", durability="normal")
        done: list[str] = []
        errors: list[BaseException] = []

        def write(
            memory: Memory = memory, done: list[str] = done, errors: list[BaseException] = errors
        ) -> None:
            try:
                while True:
                    done.append(memory.key("ada").add("x"))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is looked at
                errors.append(error)  # noqa: B023 - bound by the except above

        threads = [threading.Thread(target=write) for _ in range(6)]
        for thread in threads:
            thread.start()
        wait_until(lambda done=done: len(done) >= 6)
        memory.close()
        for thread in threads:
            thread.join(LIMIT_S)
        assert {type(error) for error in errors} == {StoreClosed}, errors
        with Memory.open(path, mode="ro") as reader:
            known = {item.id for item in reader.key("ada").list()}
            assert known.issuperset(done)


def test_a_forked_child_is_told_and_its_parent_unharmed(path: Path, start) -> None:
    """Every call in the child is ForkedStore, closing is fine, and it can open its own."""
    child = start("""
memory = Memory.open(path, embedder="words")
ada = memory.key("ada")
ada.add("before", id="x")
ada.search("before")
if os.fork() == 0:
    for call in (lambda: ada.add("y"), ada.list, lambda: ada.search("x"), lambda: ada.get("x"),
                 lambda: ada.short_term.set("a", 1), lambda: ada.short_term.get("a"),
                 memory.stats, lambda: list(memory.keys()), lambda: ada.batch().__enter__(),
                 lambda: memory.backup(path + ".copy"), lambda: memory.sweep()):
        try:
            call()
            say("answered")
        except errors.ForkedStore as error:
            assert "open it again" in str(error)
    memory.close()
    with Memory.open(path) as own:
        own.key("ada").add("child")
    say("child done")
    os._exit(0)
os.wait()
ada.add("after")
say([item.text for item in ada.list()], memory.store.problems())
memory.close()
with Memory.open(path) as again:
    say(len(again.key("ada").list()))
""")
    assert line(child) == "child done"
    assert line(child) == "['before', 'child', 'after'] []"
    assert line(child) == "3"
    assert child.wait(LIMIT_S) == 0


def test_a_forked_child_that_stays_holds_no_lock(path: Path, start) -> None:
    """Its parent is killed in the middle of a write: others write, and take its keys, at once."""
    child = start("""
from alveus.store import Scope
memory = Memory.open(path, embedder="words")
memory.key("ada").add("told")
memory.store.acquire_lease(Scope("default", "ada"), "parent")
with memory.store.writing() as db:
    db.execute("DELETE FROM item")
    if os.fork() == 0:
        sys.stdin.readline()
        os._exit(0)
    say("forked")
    sys.stdin.readline()
""")
    assert line(child) == "forked"
    child.send_signal(signal.SIGKILL)
    child.wait(LIMIT_S)
    with Memory.open(path, wait_s=LIMIT_S) as memory:
        memory.key("ada").add("x")
        assert texts(memory) == ["told", "x"]
        lease = memory.store.acquire_lease(Scope("default", "ada"), "heir")
        assert lease is not None
        assert lease.epoch == 2


def test_a_memory_in_ram_does_not_fork_either() -> None:
    """The child has a copy that would quietly go its own way."""
    with Memory.open(embedder="words") as memory:
        memory.key("ada").add("x")
        child = os.fork()
        if not child:
            try:
                memory.key("ada").add("y")
            except ForkedStore:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert texts(memory) == ["x"]


def test_leases_of_the_dead_are_taken_over_at_once(path: Path, start) -> None:
    """Killed with -9: no clock, no waiting; while it lives, nobody else gets its key."""
    ada = Scope("default", "ada")
    child = start("""
from alveus.store import Scope
memory = Memory.open(path, embedder="words")
say(memory.store.acquire_lease(Scope("default", "ada"), "child").epoch)
sys.stdin.readline()
""")
    assert line(child) == "1"
    with Memory.open(path) as memory:
        assert memory.store.acquire_lease(ada, "me") is None
        assert [lease.owner for lease in memory.stats().leases] == ["child"]
        child.send_signal(signal.SIGKILL)
        child.wait(LIMIT_S)
        lease = memory.store.acquire_lease(ada, "me")
        assert lease is not None
        assert (lease.owner, lease.epoch) == ("me", 2)
        memory.store.release_lease(lease)
        other = memory.store.acquire_lease(ada, "other")
        assert other is not None
        assert other.epoch == 3


# --- copies -------------------------------------------------------------------------------------


def test_a_backup_is_one_moment_of_a_store_that_is_written(path: Path) -> None:
    """Writers go on; the copy has all of some commit and nothing of later ones."""
    stop = threading.Event()
    with Memory.open(path, embedder="words", durability="normal") as memory:
        ada = memory.key("ada")
        ada.add_many(["x" * 3000] * 1500)

        def write() -> None:
            number = 0
            while not stop.is_set():
                with ada.batch() as b:
                    b.set("pairs").add_many([f"{number} a", f"{number} b"])
                    b.short_term.set("n", number)
                number += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for n in range(3):
                memory.backup(path.with_name(f"copy {n}.db"))
        finally:
            stop.set()
            thread.join(LIMIT_S)
        last = ada.short_term.get("n")
    for n in range(3):
        with Memory.open(path.with_name(f"copy {n}.db"), embedder="words") as copy:
            assert isinstance(copy.store, SqliteStore)
            assert copy.store.problems() == []
            number = copy.key("ada").short_term.get("n")
            pairs = copy.key("ada").set("pairs").list()
            assert len(pairs) == (0 if number is None else 2 * (number + 1))
            assert number is None or number <= last
            copy.key("ada").add("goes on")


def test_a_backup_that_fails_leaves_nothing(path: Path) -> None:
    """It appears whole, or not at all; one that was interrupted is begun anew."""
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
        with pytest.raises(AlveusError):
            memory.backup(path.parent / "no folder" / "copy.db")
        copy = path.with_name("copy.db")
        copy.with_name("copy.db.part").write_text("left behind by a kill")
        copy.with_name("copy.db.part-journal").write_text("and this too")
        memory.backup(copy)
    with Memory.open(copy) as memory:
        assert texts(memory) == ["x"]
    assert list(path.parent.glob("copy.db.part*")) == []


def test_restoring_into_nothing_makes_the_store(path: Path) -> None:
    """A backup becomes a store where there is none; the backup stays as it is."""
    with Memory.open(path, embedder=Letters()) as memory:
        memory.key("ada").add("green tea")
        memory.backup(path.with_name("copy.db"))
    before = path.with_name("copy.db").read_bytes()
    Memory.restore(path.with_name("new.db"), path.with_name("copy.db"))
    with Memory.open(path.with_name("new.db"), embedder=Letters()) as memory:
        assert [hit.item.text for hit in memory.key("ada").search("tea")] == ["green tea"]
        memory.key("ada").add("more")
    assert path.with_name("copy.db").read_bytes() == before


KILLED_RESTORE = """
import itertools, shutil
from datetime import UTC, datetime
from alveus.search.index import set_loader as sealing
sealing.LARGE = 20  # so that the set has a sealed file, which a restore makes wrong
now = datetime(2026, 1, 1, tzinfo=UTC)
whole = os.path.dirname(path)

def opened(place):
    return Memory.open(place, embedder="words", clock=lambda: now)

def write(memory, word):  # the same commits, rows, ids and times, whatever the word
    for n in range(30):
        memory.key("ada").add(f"{word} {n}", id=str(n))

def found(memory, word):
    return len(memory.key("ada").search(word, limit=100))

with opened(path) as memory:
    memory.key("ada").add("first")
    memory.backup(f"{whole}/backup")
    write(memory, "lemon")
    assert found(memory, "lemon") == 30
assert os.listdir(f"{path}.alveus/index")

def killed_at(event):
    events = itertools.count()
    def trace(frame, kind, _):
        if frame.f_code.co_name not in ("restore", "_alone"):
            return None
        if kind == "line" and next(events) == event:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    Memory.restore(f"{whole}/it/app.db", f"{whole}/backup")
    sys.settrace(None)
    os._exit(0)

ends = []
for event in itertools.count():
    shutil.copytree(whole, f"{whole}/it")
    child = os.fork()
    if not child:
        killed_at(event)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with opened(f"{whole}/it/app.db") as memory:
        texts = [item.text for item in memory.key("ada").list()]
        if len(texts) == 1:
            write(memory, "melon")
            assert (found(memory, "lemon"), found(memory, "melon")) == (0, 30), event
        else:
            assert len(texts) == found(memory, "lemon") + 1 == 31, event
        assert memory.store.problems() == [], event
        ends.append(len(texts))
    shutil.rmtree(f"{whole}/it")
    if status == 0:
        break
say(ends == sorted(ends, reverse=True), ends[0], ends[-1])
"""


def test_a_restore_that_is_killed_anywhere_is_all_or_nothing(path: Path, start) -> None:
    """All from before, or all of the backup, whose index then knows nothing of before."""
    child = start(KILLED_RESTORE)
    assert line(child) == "True 31 1"
    assert child.wait(LIMIT_S) == 0


def test_nothing_is_opened_where_nothing_is(path: Path) -> None:
    """Read-only makes no file; a missing folder is not made."""
    for place in (path, path / "deeper"):
        with pytest.raises(NotFound):
            Memory.open(place, mode="ro")
    with pytest.raises((NotFound, StoreReadOnly)):
        Memory.open(path.parent / "none" / "app.db")
    assert list(path.parent.iterdir()) == []


def test_a_file_that_was_taken_away_is_not_written(tmp_path: Path) -> None:
    """What returned is durable: a commit into a deleted or replaced file would not be."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("one")
        path.rename(tmp_path / "moved.db")
        with pytest.raises(Unusable, match="moved, deleted or replaced"):
            memory.key("ada").add("two")
        (tmp_path / "moved.db").rename(path)
        memory.key("ada").add("two")


def test_a_collected_memory_leaves_no_descriptors(tmp_path: Path) -> None:
    """Nor locks: the next one writes at once."""
    listing = Path("/proc/self/fd")
    Memory.open(tmp_path / "app.db", embedder="words").close()
    before = len(list(listing.iterdir()))
    for number in range(3):
        memory = Memory.open(tmp_path / "app.db", embedder="words")
        memory.key("ada").add(f"n{number}")
        del memory
        gc.collect()
    assert len(list(listing.iterdir())) <= before + 1


def test_an_empty_file_becomes_private(tmp_path: Path) -> None:
    """A store is readable by its owner alone, also where the file was there before."""
    path = tmp_path / "app.db"
    path.touch(mode=0o644)
    path.chmod(0o644)
    Memory.open(path, embedder="words").close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_end_of_the_stack_harms_no_store(path: Path) -> None:
    """A write that fails at any depth of its own calls holds no lock, and no transaction open."""

    def at_depth(left: int, call: Callable[[], object]) -> object:
        return call() if not left else at_depth(left - 1, call)

    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    before, added = sys.getrecursionlimit(), 0
    with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
        notes = memory.key("ada").set("notes")
        notes.add("warm")
        sys.setrecursionlimit(depth + 200)
        try:
            for left in range(100, 196):
                try:
                    at_depth(left, lambda: notes.add("deep"))
                    added += 1
                except RecursionError:
                    notes.add("after")
        finally:
            sys.setrecursionlimit(before)
        assert 0 < added < 96
        assert sum(item.text == "deep" for item in notes.list()) >= added
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []


def test_the_end_of_one_stack_keeps_no_other_thread_waiting(path: Path) -> None:
    """Who runs out of stack while it commits for others leaves them able to go on."""

    def at_depth(left: int, call: Callable[[], object]) -> object:
        return call() if not left else at_depth(left - 1, call)

    over, before = threading.Event(), sys.getrecursionlimit()
    added = [0] * 3
    with Memory.open(path, embedder="static", durability="normal") as memory:
        notes = memory.key("ada").set("notes")
        notes.add("warm")

        def work(number: int) -> None:
            while not over.is_set():
                with suppress(Unavailable):  # whoever committed for it had no stack left
                    notes.add("other")
                added[number] += 1

        others = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(3)]
        for each in others:
            each.start()
        sys.setrecursionlimit(500)
        try:
            for left in range(250, 498):
                with suppress(RecursionError, EmbedderFailed):  # one inside an embedder is its own
                    at_depth(left, lambda: notes.add("deep"))
        finally:
            sys.setrecursionlimit(before)
        for number in range(3):
            wait_until(lambda n=number, least=added[number]: added[n] > least + 2)
        over.set()
        for each in others:
            each.join(LIMIT_S)
        assert not any(each.is_alive() for each in others)


@pytest.mark.parametrize("fails_in", ["add_commit", "flush"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), StoreBusy("test")], ids=repr)
def test_the_next_commit_has_nothing_of_one_that_failed(
    path: Path, monkeypatch: pytest.MonkeyPatch, fails_in: str, error: BaseException
) -> None:
    """What gathers rows serves many commits, and is dropped where one fails."""

    def fail(*_: object) -> None:
        raise error

    def lose(ada: KeyMemory) -> None:
        with ada.batch() as batch:
            batch.short_term.set("lost", 1)
            batch.set("lost").add("lost")

    with Memory.open(path, embedder="words") as memory:
        ada = memory.key("ada")
        ada.set("notes").add("before")
        with monkeypatch.context() as patched:
            patched.setattr(PendingRows, fails_in, fail)
            with pytest.raises(type(error)):
                ada.set("notes").add("lost")
            with pytest.raises(type(error)):
                lose(ada)
        ada.set("notes").add("after")
        assert [item.text for item in ada.set("notes").list()] == ["before", "after"]
        assert ada.short_term.get("lost") is None
        assert ada.sets() == ["notes"]
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []

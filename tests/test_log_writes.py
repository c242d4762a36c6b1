"""A log whose frames are gathered holds what SQLite alone would have written, at each moment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus.store.sqlite import checksums
from alveus.store.sqlite.checksums import function_table, vfs_address
from alveus.store.sqlite.connection import connect
from compiling import compiled_in

GATHERS = "alveus-log"
INSERT = "INSERT INTO page VALUES (?, randomblob(?))"


class Calls(apsw.VFS):
    """Stands between the gathered writes and the system; notes those to a log, or refuses one."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []
        self.refuses = -1
        self.module: Any = None
        self.vfs = "counted"
        super().__init__("counted", "unix")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """See SQLite's VFS."""
        return CountedFile("unix", name, flags, self if flags[0] & apsw.SQLITE_OPEN_WAL else None)


class CountedFile(apsw.VFSFile):
    """A file of `Calls`."""

    def __init__(self, base: str, name: Any, flags: list[int], calls: Calls | None) -> None:
        super().__init__(base, name, flags)
        self._calls = calls

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """See SQLite's io methods."""
        if self._calls is not None:
            self._calls.writes.append((offset, len(data)))
            if self._calls.refuses == 0:
                raise apsw.FullError("no room")
            self._calls.refuses -= 1
        super().xWrite(data, offset)


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> Iterator[Calls]:
    """The system beneath a VFS that gathers, compiled of its source as it is now.

    Without a compiler files are opened by what is beneath it.
    """
    checksums.vfs()  # what this process gathers by rests below that, and needs its name no more
    compiled: Any = compiled_in(tmp_path_factory.mktemp("native"))
    if GATHERS in apsw.vfs_names():
        apsw.unregister_vfs(GATHERS)
    below = Calls()
    table = function_table()
    if compiled is not None and table is not None:
        gathers = compiled.gathering(table, vfs_address(table, below.vfs))
        below.module, below.vfs = compiled, GATHERS
        assert gathers == vfs_address(table, GATHERS)
    yield below
    if compiled is not None:
        apsw.unregister_vfs(GATHERS)
    below.unregister()


@pytest.fixture
def db(calls: Calls, tmp_path: Path) -> Iterator[apsw.Connection]:
    """An empty table behind a log, of whose writes none is noted."""
    with closing(opened(tmp_path / "a.db", calls.vfs)) as connection:
        calls.writes.clear()
        yield connection


def opened(
    path: Path, vfs: str, *, size: int = 4096, cache: int = 200, sync: str = "NORMAL"
) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=vfs)
    for pragma in (
        f"page_size={size}",
        "journal_mode=WAL",
        f"synchronous={sync}",
        "wal_autocheckpoint=0",
        f"cache_size={cache}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE IF NOT EXISTS page (number INTEGER PRIMARY KEY, data BLOB)")
    return connection


def rows(connection: apsw.Connection) -> list[Any]:
    return connection.execute("SELECT number, length(data) FROM page ORDER BY number").fetchall()


def test_a_transaction_is_one_write(calls: Calls, db: apsw.Connection):
    """However many pages it changed; what is too long for one takes as few as can be."""
    if calls.vfs != GATHERS:
        return
    for number in range(3):
        calls.writes.clear()
        db.execute(INSERT, (number, 40_000))
        ((_, size),) = calls.writes
        assert size % 4120 == 0
        assert size > 40_000
    calls.writes.clear()
    db.execute(INSERT, (9, 1_000_000))
    assert len(calls.writes) == -(-sum(size for _, size in calls.writes) // (31 * 4120))


def test_the_first_frame_after_those_of_others_goes_by_itself(
    calls: Calls, db: apsw.Connection, tmp_path: Path
):
    """This connection does not know then whether SQLite writes a frame again."""
    if calls.vfs != GATHERS:
        return
    db.execute(INSERT, (1, 40_000))
    with closing(opened(tmp_path / "a.db", "unix")) as other:
        other.execute(INSERT, (2, 40_000))
        calls.writes.clear()
        db.execute(INSERT, (3, 40_000))
        assert [size for _, size in calls.writes[:2]] == [24, 4096]
        assert len(calls.writes) == 3
        assert rows(other) == [(n, 40_000) for n in (1, 2, 3)]


def test_what_was_undone_is_not_written_over_what_others_committed(calls: Calls, tmp_path: Path):
    """A large transaction was written in parts; the last ones were gathered, and not written."""
    path = tmp_path / "a.db"
    with closing(opened(path, calls.vfs, cache=10)) as db, closing(opened(path, "unix")) as other:
        if calls.module is not None:
            calls.module.drop_undone(function_table(), db.sqlite3_pointer())
        for count in range(1, 60):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            db.execute("BEGIN")
            db.executemany(INSERT, [(10_000 + n, 3_000) for n in range(count)])
            db.execute("ROLLBACK")
            other.execute("BEGIN")
            other.executemany(INSERT, [(count * 100 + n, 3_000) for n in range(70)])
            other.execute("COMMIT")
            db.execute(INSERT, (-count, 3_000))
            assert len(rows(db)) == len(rows(other)) == 71 * count
            assert other.pragma("integrity_check") == "ok"


def test_every_connection_of_a_store_that_writes_drops_what_it_undid(tmp_path: Path):
    """Whoever made it."""
    path = tmp_path / "a.db"
    path.touch()
    with closing(connect(path)) as db, closing(connect(path)) as other:
        for connection in (db, other):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA cache_size = 10")
        db.execute("CREATE TABLE page (number INTEGER PRIMARY KEY, data BLOB)")
        for count in range(1, 60):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            db.execute("BEGIN")
            db.executemany(INSERT, [(10_000 + n, 3_000) for n in range(count)])
            db.execute("ROLLBACK")
            with other:
                other.executemany(INSERT, [(count * 100 + n, 3_000) for n in range(70)])
            db.execute(INSERT, (-count, 3_000))
            assert other.pragma("integrity_check") == "ok"


@pytest.mark.parametrize("which", range(4))
def test_a_write_that_fails_undoes_its_transaction(
    calls: Calls, db: apsw.Connection, tmp_path: Path, which
):
    """SQLite is told before anybody could read the frames, and can write again."""
    db.execute(INSERT, (1, 5_000))
    calls.refuses = which
    try:
        with pytest.raises(apsw.FullError):
            db.execute(INSERT, (2, 500_000))
    finally:
        calls.refuses = -1
    assert rows(db) == [(1, 5_000)]
    db.execute(INSERT, (3, 70_000))
    with closing(opened(tmp_path / "a.db", "unix")) as other:
        assert rows(other) == [(1, 5_000), (3, 70_000)]
        assert other.pragma("integrity_check") == "ok"


def test_a_log_that_is_synced_grows_in_advance(calls: Calls, db: apsw.Connection, tmp_path: Path):
    """By what it holds, up to 512 KB: the commits after that need no new length."""
    if calls.vfs != GATHERS:
        return
    log = tmp_path / "a.db-wal"
    db.execute("PRAGMA synchronous=FULL")
    db.execute(INSERT, (1, 100_000))
    held = sum(calls.writes[0])
    assert log.stat().st_size == 2 * held
    calls.writes.clear()
    db.execute(INSERT, (2, 20_000))
    ((offset, _),) = calls.writes
    assert offset == held
    assert log.stat().st_size == 2 * held
    db.execute(INSERT, (3, 5_000_000))
    assert {size for _, size in calls.writes[-8:]} == {2**16}
    assert log.stat().st_size == sum(calls.writes[-9]) + 2**19
    with closing(opened(tmp_path / "a.db", "unix")) as other:
        assert rows(other) == [(1, 100_000), (2, 20_000), (3, 5_000_000)]


def test_a_disk_without_room_for_more_takes_the_commit(calls: Calls, db: apsw.Connection):
    """What is only to be quick gives the room back, and does not ask again."""
    if calls.vfs != GATHERS:
        return
    log = Path(f"{db.filename}-wal")
    db.execute("PRAGMA synchronous=FULL")
    calls.refuses = 2
    try:
        with pytest.raises(apsw.FullError):  # SQLite goes on; apsw tells what the VFS raised
            db.execute(INSERT, (1, 100_000))
    finally:
        calls.refuses = -1
    committed, *_ = calls.writes
    assert log.stat().st_size == sum(committed)
    db.execute(INSERT, (2, 100_000))
    assert log.stat().st_size == sum(calls.writes[-1])
    assert rows(db) == [(1, 100_000), (2, 100_000)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 12), st.sampled_from([0, 3_000, 90_000])),
        st.tuples(st.just("delete"), st.integers(0, 12)),
        st.sampled_from(
            [
                ("BEGIN",),
                ("COMMIT",),
                ("ROLLBACK",),
                ("SAVEPOINT s",),
                ("ROLLBACK TO s",),
                ("others",),
                ("read",),
                *(
                    (f"PRAGMA wal_checkpoint({mode})",)
                    for mode in ("PASSIVE", "RESTART", "TRUNCATE")
                ),
            ]
        ),
    ),
    max_size=25,
)


def done(connection: apsw.Connection, step: tuple[Any, ...]) -> str:
    """Do a step; return what it was refused with."""
    try:
        match step:
            case ("insert", *_):
                connection.execute(
                    "INSERT OR REPLACE INTO page VALUES (?, randomblob(?))", step[1:]
                )
            case ("delete", number):
                connection.execute("DELETE FROM page WHERE number = ?", (number,))
            case ("others",):
                pass
            case ("read",):
                rows(connection)
            case (sql,):
                connection.execute(sql).fetchall()
    except apsw.Error as error:
        return str(error)
    return ""


@given(
    STEPS,
    st.sampled_from([512, 4096, 65536]),
    st.sampled_from([2, 2000]),
    st.sampled_from(["NORMAL", "FULL"]),
)
def test_whatever_is_done_others_read_it_once_it_is_committed(
    calls: Calls, tmp_path_factory, steps, size, cache, sync
):
    """Transactions of any length, that spill or are rolled back, moved logs, writers in turns."""
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as folder:
        path = Path(folder, "a.db")
        ours = opened(path, calls.vfs, size=size, cache=cache, sync=sync)
        alone = opened(Path(folder, "b.db"), "unix", size=size, cache=cache)
        other = opened(path, "unix")
        for number, step in enumerate(steps):
            assert done(ours, step) == done(alone, step)
            if ours.in_transaction:
                continue
            if step == ("others",):
                for connection in (other, alone):
                    connection.execute(INSERT, (100 + number, 5_000))
            assert rows(other) == rows(alone) == rows(ours)
        for connection in (ours, alone, other):
            connection.close()
        with closing(apsw.Connection(str(path), vfs="unix")) as again:
            assert again.pragma("integrity_check") == "ok"

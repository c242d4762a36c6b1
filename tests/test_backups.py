"""Backups that break off: their parts go, or are told of, and never become a backup."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli.app import alveus
from alveus.errors import StoreBusy, Unavailable
from alveus.store.sqlite import SqliteStore
from test_interrupts import Interrupter, points
from waiting import LIMIT_S


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


def test_a_backup_that_cannot_end_takes_its_part_away(path: Path) -> None:
    """What it had written is gone; the next one finds the path free."""
    copy = path.with_name("copy.db")
    with Memory.open(path, embedder="words") as memory:
        store = memory.store
        assert isinstance(store, SqliteStore)
        memory.key("ada").add("x")
        copy.mkdir()
        with pytest.raises(Unavailable, match="directory"):
            store.backup(copy)
        assert list(path.parent.glob("copy.db.part*")) == []
        copy.rmdir()
        memory.backup(copy)


def test_a_backup_does_not_disturb_another_to_the_same_path(path: Path) -> None:
    """The second one is told, and what the first has written stays."""
    copy = path.with_name("copy.db")
    part = copy.with_name("copy.db.part")
    with Memory.open(path, embedder="words") as memory, part.open("wb") as first:
        memory.key("ada").add("x")
        first.write(b"what another process has written so far")
        first.flush()
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match=r"another process is writing .*copy\.db;"):
            memory.backup(copy)
        assert part.read_bytes() == b"what another process has written so far"


def test_a_backup_holds_nothing_that_was_forgotten_before(path: Path) -> None:
    """Also where the scrub is still to come; all else is there, and can be scrubbed too."""
    copy = path.with_name("copy.db")
    with Memory.open(path, embedder="words") as memory:
        for number in range(100):
            memory.key("ada").add(f"canary {number} " * 50, id=f"canary {number}")
        memory.key("bob").add("what stays", id="stays")
        assert memory.forget("ada", scrub="later").state == "pending"
        memory.backup(copy)
        assert b"canary" in path.with_name("app.db-wal").read_bytes()
    assert b"canary" not in copy.read_bytes()
    assert {each.name for each in path.parent.glob("copy.db*")} == {"copy.db"}
    with Memory.open(copy) as memory:
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []
        assert [item.id for item in memory.key("bob").list()] == ["stays"]
        assert [done.state for done in memory.scrub()] == ["scrubbed"]


@pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_keeps_no_later_backup_away(path: Path) -> None:
    """Wherever one is interrupted: it holds no lock after that, and the next one is made."""
    copy = path.with_name("copy.db")
    with Memory.open(path, embedder="words") as memory:

        def back_up() -> None:
            copy.unlink(missing_ok=True)
            memory.backup(copy)

        for point in points(back_up, number=1_000):
            interrupter = Interrupter(point)
            interrupter.call(back_up)
            back_up()
            assert copy.exists(), interrupter.where


KILLED_BACKUP = """
import os, sys
from alveus import Memory

memory = Memory.open(sys.argv[1], mode="ro")
sys.addaudithook(lambda event, _found: os.kill(os.getpid(), 9) if event == "os.rename" else None)
memory.backup(sys.argv[2])
"""


def test_what_a_killed_backup_left_is_named_and_swept(path: Path) -> None:
    """By doctor, until the next backup to the same path, which is whole."""
    copy = path.with_name("copy.db")
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("x")
    words = [sys.executable, "-c", KILLED_BACKUP, str(path), str(copy)]
    assert subprocess.run(words, timeout=LIMIT_S, check=False).returncode == -9
    assert not copy.exists()
    told = CliRunner().invoke(alveus, ["doctor", "--db", str(path)])
    assert "copy.db.part is of a backup or an export" in told.stdout
    assert told.exit_code == 0
    with Memory.open(path) as memory:
        memory.backup(copy)
    assert list(path.parent.glob("copy.db.part*")) == []
    assert "copy.db.part" not in CliRunner().invoke(alveus, ["doctor", "--db", str(path)]).stdout


def test_a_backup_can_be_written_while_it_is_read(tmp_path: Path) -> None:
    """A reader holds no lock on a file without a log; it sees what that writer adds."""
    path = tmp_path / "monday.db"
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        memory.key("ada").add("x")
        memory.backup(path)
    before = sorted(place.name for place in tmp_path.iterdir())
    with Memory.open(path, mode="ro") as reader:
        assert [item.text for item in reader.key("ada").list()] == ["x"]
        assert sorted(place.name for place in tmp_path.iterdir()) == before
        with Memory.open(path) as writer:
            for text in ("y", "z"):
                writer.key("ada").add(text)
                assert [item.text for item in reader.key("ada").list()][-1] == text
            with pytest.raises(StoreBusy):  # it reads the log by now
                Memory.repair(path)
        assert len(reader.key("ada").search("x y z")) == 3
    assert Memory.repair(path) == []

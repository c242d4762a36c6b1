"""A write-ahead log belongs to one file, and is never laid over another that was moved there."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

import warm
from alveus import Memory
from alveus.errors import Unusable
from alveus.store.sqlite import SqliteStore
from waiting import LIMIT_S

WRITES = """
import os, signal, sys
from alveus import Memory
with Memory.open(sys.argv[1], embedder="words") as memory:
    tree = memory.key("ada").short_term
    for number in range(int(sys.argv[2])):
        tree.set(f"{sys.argv[3]}{number}", number)
    if sys.argv[4] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""

LATE = 20


def write(path: Path, count: int, name: str, *, end: str = "closed") -> None:
    """Have a process write so many values to a file, and close it or be killed."""
    done = warm.run(
        [sys.executable, "-c", WRITES, str(path), str(count), name, end],
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == (-signal.SIGKILL if end == "killed" else 0)


def names(path: Path) -> set[str]:
    """Return what is in the tree, and hold the file to all its promises."""
    with Memory.open(path, embedder="words") as memory:
        assert isinstance(memory.store, SqliteStore)
        assert not memory.store.problems()
        return set(memory.key("ada").short_term.names())


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path]:
    """The files of a memory with a hundred values, and of another with five."""
    paths = tmp_path / "app.db", tmp_path / "other.db"
    for path, count, name in zip(paths, (100, 5), ("old", "new"), strict=True):
        write(path, count, name)
    return paths


OLD, NEW, ALL_LATE = (
    {f"{name}{number}" for number in range(count)}
    for name, count in (("old", 100), ("new", 5), ("late", LATE))
)


def test_what_is_moved_to_the_place_of_an_open_file_is_left_as_it_is(
    moved: tuple[Path, Path],
) -> None:
    """The log is empty when the first file is closed; and that one has all that was written."""
    path, other = moved
    kept = path.with_name("kept.db")
    with Memory.open(path, embedder="words") as memory:
        tree = memory.key("ada").short_term
        for number in range(LATE):
            tree.set(f"late{number}", number)
        path.rename(kept)
        other.rename(path)
        with pytest.raises(Unusable, match="was moved, deleted or replaced"):
            tree.set("x", 1)
    assert names(kept) == OLD | ALL_LATE
    assert names(path) == NEW


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_what_is_moved_to_the_place_of_a_killed_file_is_not_opened(
    moved: tuple[Path, Path], mode: Literal["rw", "ro"]
) -> None:
    """Until its log is away: as in the error. The file itself is not touched."""
    path, other = moved
    kept, whole = path.with_name("kept.db"), other.read_bytes()
    write(path, LATE, "late", end="killed")
    path.rename(kept)
    other.rename(path)
    with pytest.raises(
        Unusable, match=r"was replaced by another file, but .*app\.db-wal still holds"
    ):
        Memory.open(path, embedder="words", mode=mode)
    assert path.read_bytes() == whole
    for suffix in ("wal", "shm"):
        Path(f"{path}-{suffix}").rename(f"{kept}-{suffix}")
    assert names(path) == NEW
    assert names(kept) == OLD | ALL_LATE


def test_what_a_killed_process_wrote_goes_with_no_new_file(moved: tuple[Path, Path]) -> None:
    """A file that is gone leaves its log, which a new file at its path would have SQLite delete."""
    path, _ = moved
    write(path, LATE, "late", end="killed")
    kept = path.rename(path.with_name("kept.db"))
    with pytest.raises(Unusable, match="is gone, but"):
        Memory.open(path, embedder="words")
    kept.rename(path)
    assert names(path) == OLD | ALL_LATE


def test_a_killed_file_opens_as_before(moved: tuple[Path, Path]) -> None:
    """Where it lies, and copied with its log, and where the note cannot be read."""
    path, _ = moved
    write(path, LATE, "late", end="killed")
    copy = path.with_name("copy")
    shutil.copytree(path.parent, copy)
    (copy / "app.db.alveus" / "log").write_text("1 2")
    shutil.copytree(path.parent, path.with_name("second"))
    for place in (path, copy / "app.db", path.with_name("second") / "app.db"):
        assert names(place) == OLD | ALL_LATE


def test_a_closed_file_may_be_replaced(moved: tuple[Path, Path]) -> None:
    """There is no log then, and no note of one, whoever makes the next."""
    path, other = moved
    assert not (path.with_name("app.db.alveus") / "log").exists()
    other.replace(path)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("SELECT * FROM node").fetchall()
    assert names(path) == NEW

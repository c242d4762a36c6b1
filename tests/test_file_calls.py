"""What a commit asks of files by compiled code is what Python says of them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alveus.store.sqlite import file_calls
from compiling import compiled_of, hatch_build

NAME = b"42                  "

HOLD = """
import fcntl, os, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module", params=["Python", "C"])
def calls(request, tmp_path_factory):
    """The functions as they are in both; of Python twice where there is no compiler."""
    compiled = None
    if request.param == "C":
        compiled = compiled_of(hatch_build.SOURCES[4], tmp_path_factory.mktemp("file_calls"))
    if compiled is None:
        return file_calls._identity, file_calls._take_at_once
    return compiled.identity, compiled.take_at_once


@pytest.fixture
def locks(tmp_path: Path):
    """Two open files, and their paths."""
    paths = [tmp_path / "turn", tmp_path / "lock"]
    opened = [os.open(path, os.O_CREAT | os.O_RDWR, 0o600) for path in paths]
    yield opened, paths
    for descriptor in opened:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether another open file has the lock."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_file_is_told_from_others(calls, tmp_path: Path) -> None:
    identity, _ = calls
    path = tmp_path / "é \udcff.db"
    assert identity(path) is None
    path.touch()
    found = path.stat()
    for given in (path, str(path), os.fsencode(path)):
        assert identity(given) == (found.st_dev, found.st_ino)
    (tmp_path / "link").symlink_to(path)
    assert identity(tmp_path / "link") == (found.st_dev, found.st_ino)


def test_a_place_that_cannot_be_looked_at_is_an_error(calls, tmp_path: Path) -> None:
    """With its name, as Python has it."""
    identity, _ = calls
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError) as error:
        identity(file / "inside")
    assert error.value.filename == str(file / "inside")
    with pytest.raises(OSError, match="name too long"):
        identity("x" * 5000)
    with pytest.raises(ValueError, match="null"):
        identity("a\0b")


def test_a_lock_is_taken_where_nobody_has_it(calls, locks) -> None:
    """The file says who has it, and the next one may wait in turn."""
    _, take_at_once = calls
    (turn, lock), (turn_path, path) = locks
    assert take_at_once(turn, lock, NAME) is True
    assert path.read_bytes() == NAME
    assert is_held(path)
    assert not is_held(turn_path)


@pytest.mark.parametrize("held", [0, 1])
def test_a_lock_that_another_process_has_or_waits_for_is_left_to_it(calls, locks, held) -> None:
    _, take_at_once = calls
    (turn, lock), paths = locks
    command = [sys.executable, "-c", HOLD, str(paths[held])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert take_at_once(turn, lock, NAME) is False
        assert not is_held(paths[1 - held])
        other.communicate()
    assert paths[1].read_bytes() == b""
    assert take_at_once(turn, lock, NAME) is True


def test_a_file_that_is_closed_is_an_error(calls, locks) -> None:
    _, take_at_once = calls
    (turn, lock), _ = locks
    closed = os.open(os.devnull, os.O_RDONLY)
    os.close(closed)
    for descriptors in ((closed, lock), (turn, closed)):
        with pytest.raises(OSError, match="Bad file descriptor"):
            take_at_once(*descriptors, NAME)

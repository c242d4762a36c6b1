"""Which tests coverage watches: those that reach what no other reaches, and those that are new.

To watch a test doubles what it takes. `tests/unwatched.txt` names those that take a while and
reach nothing by themselves: `tools/unwatched_tests.py` writes it, by what is noted here.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverage import Coverage

UNWATCHED = frozenset((Path(__file__).parent / "unwatched.txt").read_text(encoding="utf-8").split())

GROWTH = os.environ.get("ALVEUS_TEST_GROWTH")
"""A folder: each process notes there what its tests reach; then all are watched."""

BY_FILE = "ALVEUS_TEST_FILES" in os.environ
"""Coverage records which files of tests reach a line (`tools/flip_comparisons.py`)."""


def name_of(nodeid: str) -> str:
    """Return how the list names the test of *nodeid*, whatever its parameters."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def is_coverage(trace: object) -> bool:
    """Return whether what watches is coverage, and no debugger."""
    return type(trace).__module__.partition(".")[0] == "coverage"


@contextmanager
def watching(nodeid: str) -> Iterator[None]:
    """Have coverage watch a test or not, for the length of the block."""
    if BY_FILE and is_coverage(sys.gettrace()):
        _name_context(nodeid.partition("::")[0])
    if GROWTH is not None:
        with _noted(nodeid, Path(GROWTH)):
            yield
    elif is_coverage(here := sys.gettrace()) and name_of(nodeid) in UNWATCHED:
        in_new_threads = threading.gettrace()
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType] - as `gettrace` returns it
        try:
            yield
        finally:
            sys.settrace(here)
            threading.settrace(in_new_threads)  # pyright: ignore[reportArgumentType] - the same
    else:
        yield


def write_down() -> None:
    """Have coverage write what it saw, and watch no more.

    It does so as a process ends; but a worker of pytest-xdist is killed if that takes ten seconds,
    as it does on a busy machine.
    """
    if is_coverage(sys.gettrace()):
        coverage = _current()
        coverage.stop()
        coverage.save()


@functools.lru_cache(maxsize=1)  # again only when the file changes: each time writes what was seen
def _name_context(file: str) -> None:
    """Have coverage record the lines that are reached from here on for a file of tests."""
    _current().switch_context(file)


@contextmanager
def _noted(nodeid: str, folder: Path) -> Iterator[None]:
    """Write down how many steps of alveus a test is the first to take, and its seconds of CPU."""
    before, cpu = _reached(), time.process_time()  # noqa: TID251 - it is written down, not judged
    yield
    cpu = time.process_time() - cpu  # noqa: TID251 - the same
    with (folder / f"{os.getpid()}.tsv").open("a", encoding="utf-8") as lines:
        lines.write(f"{_reached() - before}\t{cpu:.4f}\t{nodeid}\n")


def _reached() -> int:
    collected: Any = _current()._collector  # pyright: ignore[reportPrivateUsage] - to read data is slow
    return sum(map(len, collected.data.values()))


def _current() -> Coverage:
    from coverage import Coverage  # not every environment of the tests has it

    coverage = Coverage.current()
    assert coverage is not None, "run this under coverage"
    return coverage

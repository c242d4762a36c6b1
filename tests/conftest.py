"""What holds for every test: how examples are made up, that nobody uses the network, a memory."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import signal
import socket
import zlib
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from alveus import KeyMemory, Memory
from alveus.embed import Embedder
from doors import Clock, Letters
from scale import COUNTS, SCALE
from scaled import is_scaled
from waiting import LIMIT_S
from watching import watching, write_down

SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").split())
"""What takes long, as `tools/slow_tests.py` has found."""

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

settings.register_profile(
    SCALE,
    max_examples=COUNTS.fuzz_examples,
    deadline=None,  # two shared cores say nothing about the code
    print_blob=True,  # a failure found elsewhere is repeated with @reproduce_failure
    # The everyday run and CI judge a change, so they try the same examples each time;
    # a full run on a developer's machine goes looking for new ones, and remembers what it found.
    derandomize=SCALE == "quick" or IN_CI,
    database=None if IN_CI or SCALE == "quick" else settings().database,
    suppress_health_check=[
        HealthCheck.too_slow,  # the same two cores
        HealthCheck.differing_executors,  # a contract is inherited by every backend, on purpose
    ],
)
settings.load_profile(SCALE)

# A shell ignores Ctrl-C for what it starts with `&`, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

RAM = Path("/dev/shm")  # noqa: S108 - pytest makes folders there that only their owner may enter
"""Where files lie in RAM."""

ROOM = 1 << 30
"""Bytes that are to be free there: what an everyday run has there at once takes a tenth of it."""

# Half of an everyday run would be spent waiting for a disk. A process that is killed loses as
# little in RAM; at full scale, the files of all that is killed lie on a disk.
if SCALE == "quick" and RAM.is_dir() and shutil.disk_usage(RAM).free > ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM))

SHARE = os.environ.get("ALVEUS_TEST_SHARE")
"""`1/2` and `2/2`, in two processes that run half of the files each; None runs all."""

# What tests start is not measured: it runs what is tested here as well, starts a third slower for
# it, and a Ctrl-C that comes while coverage holds its lock would stop it for good.
if SHARE or "PYTEST_XDIST_WORKER" in os.environ:  # the workers themselves were started with these
    for _name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        del os.environ[_name]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave a file of tests out, if it is not in the share of this process.

    Two processes of their own take half a minute less than two workers of pytest-xdist: each
    collects its files only, and reports ten thousand results to nobody.
    """
    if SHARE is None or collection_path.is_dir():
        return None
    number, _, shares = SHARE.partition("/")
    is_here = zlib.crc32(collection_path.name.encode()) % int(shares) + 1 == int(number)
    return None if is_here else True


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what takes long, and what does more at full scale; the rest is not run again there."""
    asks_what_is_scaled = "scaled" in str(config.getoption("markexpr"))  # to find out takes seconds
    for item in items:
        if item.nodeid.partition("[")[0].removeprefix("tests/") in SLOW:
            item.add_marker(pytest.mark.slow)
        if (
            asks_what_is_scaled
            and isinstance(item, pytest.Function)
            and (
                is_scaled(cast("ModuleType", item.module), item.obj, item.cls)
                or is_hypothesis_test(item.obj)
            )
        ):
            item.add_marker(pytest.mark.scaled)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have coverage watch a test, unless others reach the same."""
    with watching(item.nodeid):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have a worker of pytest-xdist say what it covered, while it is waited for."""
    if hasattr(session.config, "workerinput"):
        write_down()


def pytest_collection_finish() -> None:
    """Leave what collecting made alone: each full collection of garbage would look through it."""
    gc.collect()
    gc.freeze()


def _is_here(host: object) -> bool:
    if host in {None, "", "localhost", b"localhost"}:
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _refuse(host: object) -> None:
    if not _is_here(host):
        message = f"a test reached for the network: {host!r}; alveus works without one"
        raise RuntimeError(message)


class _Socket(socket.socket):
    """Connects to this machine only.

    Not an audit hook: one in Python lets other threads in while a thread that is measured starts,
    and that thread dies of it (CPython 3.11: "another trace function is being installed").
    """

    def connect(self, address: Any) -> None:
        if isinstance(address, tuple):
            _refuse(address[0])
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        if isinstance(address, tuple):
            _refuse(address[0])
        return super().connect_ex(address)


def _getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
    _refuse(host)
    return _look_up(host, *args, **options)


_look_up = socket.getaddrinfo
socket.getaddrinfo = _getaddrinfo
socket.socket = _Socket


# --- a memory, in RAM and on a file; a module may have another clock, embedder or memory ---------


@pytest.fixture
def clock() -> Callable[[], datetime]:
    return Clock()


@pytest.fixture
def embedder() -> Embedder | str:
    return Letters()


@pytest.fixture(params=["ram", "file"])
def memory(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: Callable[[], datetime],
    embedder: Embedder | str,
) -> Iterator[Memory]:
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder=embedder, clock=clock, wait_s=LIMIT_S, timezone="UTC") as memory:
        yield memory


@pytest.fixture
def ram(clock: Callable[[], datetime], embedder: Embedder | str) -> Iterator[Memory]:
    with Memory.open(embedder=embedder, clock=clock, wait_s=LIMIT_S, timezone="UTC") as memory:
        yield memory


@pytest.fixture
def ada(memory: Memory) -> KeyMemory:
    return memory.key("ada")

"""The contract of runners inside a job of Flink, on keyed state.

A law makes agents of its own, of functions that see what is around them, so it runs in the process
where Flink runs the operator, in a thread beside it. What a law submits goes through the job: out
to the job's source, by key to the operator, which loads the copy of the exact memory from keyed
state, hands the input to the runner, and tells keyed state what runs have changed.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
from concurrent.futures import Future
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alveus import LocalRunner
from alveus.runs.runner.flink.hot_tree import HotRecords, HotTree
from alveus.runs.task import RunnerHooks
from alveus.state.committed_tree import LeasedTree
from harness.runner.contract import RunnerContract
from test_runner import OnDisk
from waiting import LIMIT_S

LOOK_MS = 5
"""How often keyed state is told what runs have changed."""


class Door:
    """Where inputs leave the laws for the job: a socket that its source reads.

    Attributes:
        told, loaded: Records that keyed state was told, and that were taken out of it.
    """

    def __init__(self) -> None:
        self.told = self.loaded = 0
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[LawRunner, partial, Future]] = {}
        self._laws: dict[str, list[LawRunner]] = {}
        self._source: socket.socket | None = None

    def open(self, port: int) -> None:
        """Go to whoever hands on to the source of the job what is sent."""
        self._source = socket.create_connection(("127.0.0.1", port))

    def close(self) -> None:
        """End the job's input."""
        assert self._source is not None
        self._source.close()

    def send(self, runner: LawRunner, accept: partial) -> list:
        """Have the operator accept inputs; return their tickets."""
        answer = Future()
        assert self._source is not None
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = runner, accept, answer
            self._source.sendall(f"{runner.law}\t{number}\n".encode())
        return answer.result(LIMIT_S).result()

    def take(self, number: int) -> tuple[LawRunner, partial, Future]:
        """Return what came to the operator under that number."""
        with self._lock:
            return self._waiting.pop(number)

    def enter(self, runner: LawRunner) -> None:
        """Note a runner of a law."""
        self._laws.setdefault(runner.law, []).append(runner)

    def leave(self, law: str) -> None:
        """Note that a law is over."""
        self._laws.pop(law, None)

    def runners(self, law: str) -> list[LawRunner] | None:
        """Return the runners of a law; None: it is over."""
        return self._laws.get(law)


DOOR = Door()


class LawRunner(LocalRunner):
    """A runner whose inputs come through the job, and whose trees are read from keyed state."""

    def __init__(self, agent, memory, law, **options):
        self.law, self.lives = law, True
        self._records: dict[str, HotRecords] = {}
        super().__init__(agent, memory, hooks=RunnerHooks(self._tree), **options)
        DOOR.enter(self)

    def _tree(self, ledger, scope, epoch):
        records = self._records.get(scope.key)
        if records is None:  # what another runner was given, as in `Subtask`
            return LeasedTree(ledger, scope, epoch)
        return HotTree(ledger, scope, epoch, records)

    def _accept(self, inputs, **options):
        return DOOR.send(self, partial(super()._accept, inputs, **options))

    def load(self, inputs, state) -> None:
        """Take the copies of the keys of inputs out of keyed state."""
        for key in {queued.scope.key for queued in inputs} - self._records.keys():
            start = f"{json.dumps(key)} "
            mine = [(name, text) for name, text in state.items() if name.startswith(start)]
            self._records[key] = HotRecords((name[len(start) :], text) for name, text in mine)
            DOOR.loaded += len(mine)

    def tell(self, state) -> None:
        """Bring keyed state up to what runs have changed."""
        for key, records in list(self._records.items()):
            for name, text in records.drain().items():
                DOOR.told += 1
                if text is None:
                    state.remove(f"{json.dumps(key)} {name}")
                else:
                    state.put(f"{json.dumps(key)} {name}", text)


class TestInFlink(OnDisk, RunnerContract):
    """The contract of runners holds in a job; the tests of `test_flink_jobs` run it there."""

    @pytest.fixture(autouse=True)
    def _law(self, path):
        self.law = str(path)
        yield
        DOOR.leave(self.law)

    def runner(self, agent, memory, **options):
        return LawRunner(agent, memory, self.law, **options)

    def crash(self, runner, memory, path):
        runner.lives = False  # what it does from now on comes into no checkpoint
        return super().crash(runner, memory, path)


class Report:
    """What became of each law."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed[report.nodeid] = report.longreprtext
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

    def write(self, folder: Path) -> None:
        """Leave it for the test that asked for it."""
        found = {"passed": self.passed, "failed": self.failed}
        found |= {"told": DOOR.told, "loaded": DOOR.loaded}
        (folder / "report.json").write_text(json.dumps(found))


def hold_laws(folder: Path, port: int) -> None:
    """Run every law, in a thread of the operator's process, then end the job."""
    DOOR.open(port)
    report = Report()
    where = [f"--basetemp={folder / 'laws'}", f"--rootdir={folder}", "--noconftest"]
    plain = ["-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:timeout", "-s", "-q"]
    with (folder / "laws.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        try:
            pytest.main([f"{__file__}::TestInFlink", *where, *plain, "-c", "/dev/null"], [report])
        finally:
            report.write(folder)
            DOOR.close()


def run_job(folder: Path) -> None:
    """Run the job; return when all laws were held to it."""
    from pyflink.common import Types
    from pyflink.datastream import DataStream

    from alveus.runs.runner.flink.job import environment
    from alveus.runs.runner.flink.settings import FlinkSettings
    from flink_operator import KeepLaws

    laws, source = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    threading.Thread(target=_hand_on, args=(laws, source), daemon=True).start()
    own = {
        "python.pythonpath": str(Path(__file__).parent),
        "execution.buffer-timeout.interval": "1 ms",
    }
    env = environment(FlinkSettings("laws", parallelism=1, interval_s=1, overrides=own), [])
    java: Any = getattr(env, "_j_stream_execution_environment")  # noqa: B009 - Python has no socket source
    inputs: Any = DataStream
    stream = inputs(java.socketTextStream("localhost", source.getsockname()[1], "\n", 0))
    stream.key_by(law_of, key_type=Types.STRING()).process(
        KeepLaws(str(folder), laws.getsockname()[1]), output_type=Types.STRING()
    ).print()
    env.execute("laws")


def _hand_on(laws: socket.socket, source: socket.socket) -> None:
    """Hand on what laws send to the source of the job, until they end."""
    with laws.accept()[0] as one, source.accept()[0] as other:
        while data := one.recv(1 << 16):
            other.sendall(data)


def law_of(line: str) -> str:
    """Return the law that an input is of."""
    return line.partition("\t")[0]


if __name__ == "__main__":
    import flink_laws

    flink_laws.run_job(Path(sys.argv[1]))  # workers import it by this name

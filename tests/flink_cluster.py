"""A real cluster of Flink on this machine: a job manager and task managers, as processes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pyflink

from waiting import wait_until

HOME = Path(pyflink.__file__).parent

CONFIG = """\
jobmanager.rpc.address: localhost
jobmanager.bind-host: localhost
jobmanager.rpc.port: {rpc}
jobmanager.memory.process.size: 1000m
rest.address: localhost
rest.port: {rest}
taskmanager.bind-host: localhost
taskmanager.host: localhost
taskmanager.numberOfTaskSlots: 1
taskmanager.memory.process.size: 1200m
taskmanager.memory.segment-size: 4kb
taskmanager.network.memory.buffers-per-channel: 1
taskmanager.network.memory.floating-buffers-per-gate: 2
heartbeat.interval: 500
heartbeat.timeout: 5000
slot.request.timeout: 120000
resourcemanager.taskmanager-registration.timeout: 120 s
io.tmp.dirs: {folder}/tmp
"""


class Cluster:
    """One job manager and some task managers, of one slot each."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self.folder = folder
        for name in ("conf", "log", "tmp"):
            (folder / name).mkdir(parents=True)
        self.rest = _free_port()
        text = CONFIG.format(rpc=_free_port(), rest=self.rest, folder=folder)
        (folder / "conf" / "config.yaml").write_text(text)
        for name in ("log4j-cli.properties", "log4j-console.properties", "log4j.properties"):
            (folder / "conf" / name).write_text((HOME / "conf" / name).read_text())
        self._manager = self._start("jobmanager")
        self.workers = [self._start("taskmanager") for _ in range(workers)]
        wait_until(self._is_up, "the cluster did not come up")

    @property
    def jobmanager(self) -> str:
        """Its REST server, as ``alveus flink submit`` takes it."""
        return f"localhost:{self.rest}"

    def _start(self, kind: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "FLINK_HOME": str(HOME),
            "FLINK_CONF_DIR": str(self.folder / "conf"),
            "FLINK_LOG_DIR": str(self.folder / "log"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        with (self.folder / "log" / f"{kind}.out").open("ab") as log:
            return subprocess.Popen(
                ["bash", str(HOME / "bin" / f"{kind}.sh"), "start-foreground"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ask(self, path: str) -> dict:
        """Return what the REST server says; not so often that this is what keeps it busy."""
        time.sleep(0.03)  # noqa: TID251 - who asks asks again
        place = f"http://localhost:{self.rest}/{path}"
        with urllib.request.urlopen(place, timeout=30) as answer:
            return json.load(answer)

    def _is_up(self) -> bool:
        with suppress(OSError):
            return self.ask("overview")["taskmanagers"] == len(self.workers)
        return False

    def is_running(self, job: str) -> bool:
        """Whether each part of a job is at work."""
        told = self.ask(f"jobs/{job}")
        assert told["state"] not in ("FAILED", "CANCELED", "FINISHED"), told["state"]
        return told["state"] == "RUNNING" and all(
            part["status"] == "RUNNING" for part in told["vertices"]
        )

    def checkpoints(self, job: str) -> int:
        """Return how many checkpoints of a job were completed."""
        return self.ask(f"jobs/{job}/checkpoints")["counts"]["completed"]

    def state(self, job: str) -> str:
        """Say how a job stands: what its parts do, and why it was restarted the last time."""
        parts = {part["name"]: part["status"] for part in self.ask(f"jobs/{job}")["vertices"]}
        causes = self.ask(f"jobs/{job}/exceptions?maxExceptions=1")["exceptionHistory"]["entries"]
        tails = [
            f"{path.name}:\n{''.join(path.read_text().splitlines(keepends=True)[-30:])}"
            for path in sorted((self.folder / "log").glob("*task*.log"))
        ]
        return "\n".join([str(parts), *[each["stacktrace"][:3000] for each in causes], *tails])

    def keep_up(self) -> None:
        """Start another task manager for each that ended by itself, as a cluster does."""
        for number, process in enumerate(self.workers):
            if process.poll() is not None:
                self.kill_worker(number)

    def kill_worker(self, number: int) -> None:
        """Kill a task manager with all its processes, and start another one."""
        _kill_group(self.workers[number])
        self.workers[number] = self._start("taskmanager")

    def kill_python(self) -> int:
        """Kill the Python workers of the task managers; return how many there were."""
        killed = 0
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            with suppress(OSError):
                words = (process / "cmdline").read_bytes()
                if (
                    b"pyflink.fn_execution" in words
                    and str(self.folder).encode() in (process / "environ").read_bytes()
                ):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed += 1
        return killed

    def cancel(self, job: str) -> None:
        """End a job."""
        request = urllib.request.Request(
            f"http://localhost:{self.rest}/jobs/{job}?mode=cancel", method="PATCH"
        )
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - the same

    def remove(self) -> None:
        """Kill all of it."""
        for process in (*self.workers, self._manager):
            _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _free_port() -> int:
    """Return a port below those that the system gives, which another cluster may be given first."""
    while True:
        port = random.SystemRandom().randrange(12_000, 30_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port

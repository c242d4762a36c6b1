"""Worker processes that tests kill, and what these said before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import warm


class Victim:
    """A worker process that says ``ready``, then ``done <step>`` after each step.

    Attributes:
        children: The processes that it has said it started.
    """

    worker = "crash_worker.py"

    def __init__(self, path: Path | str, mode: str, name: str, start: int) -> None:
        self.mode, self.name, self.start = mode, name, start
        self.children: list[int] = []
        script = Path(__file__).with_name(self.worker)
        command = [sys.executable, str(script), str(path), mode, name, str(start)]
        self.process = warm.Popen(command, stdout=subprocess.PIPE)
        self.lines = self.process.stdout
        assert self.lines is not None
        assert self.lines.readline() == b"ready\n", "the worker did not come up"

    def kill(self) -> int:
        """Kill it now; return the last step that it acknowledged, or the one before its first."""
        self.process.send_signal(signal.SIGKILL)
        assert self.lines is not None
        self.process.wait()
        os.set_blocking(self.lines.fileno(), False)  # a child left behind may hold the other end
        with self.lines:
            written = self.lines.read() or b""
        words = [line.split() for line in written.decode().splitlines()]
        self.children += [int(number) for word, number in words if word == "child"]
        steps = [int(number) for word, number in words if word == "done"]
        return max(steps, default=self.start - 1)

"""The settings of Flink that alveus needs, each with the reason; all can be overridden."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.runs.runner.flink.checkpoints import TIMEOUT_S, latest
from alveus.runs.runner.flink.subtask import Mode
from alveus.values.lazy_dataclass import dataclass

EXECUTION_MODE = "python.execution-mode"


class Setting(NamedTuple):
    """A setting of Flink, and why alveus sets it."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class FlinkSettings:
    """What a job is run with.

    Attributes:
        name: Of the job; its checkpoints are in the folder of that name.
        mode: "concurrent": keys side by side, a slow action holds up its own key alone.
            "synchronous": one input after the other in each parallel part.
        checkpoints: Where Flink keeps checkpoints: a folder, or a URL that Flink can write to.
        interval_s: Time between checkpoints.
        parallelism: Parallel parts of the job; None: what the cluster has as its default.
        overrides: Settings of Flink by name; they go before all others.
        cluster: Host and port of the job manager; None: Flink runs here, for one job.
    """

    name: str = "agent"
    mode: Mode = "concurrent"
    checkpoints: str | None = None
    interval_s: float = 5.0
    parallelism: int | None = None
    overrides: Mapping[str, str] | None = None
    cluster: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be used."""
        if self.mode not in ("concurrent", "synchronous"):
            raise InvalidInput(
                f"mode must be 'concurrent' or 'synchronous', not {short_repr(self.mode)}"
            )
        if type(self.interval_s) not in (int, float) or not 0.01 <= self.interval_s <= 86_400:  # noqa: PLR2004 - a day
            raise InvalidInput(
                f"interval_s must be a number of seconds from 0.01 to a day, not "
                f"{short_repr(self.interval_s)}"
            )
        if self.parallelism is not None and (
            type(self.parallelism) is not int or self.parallelism < 1
        ):
            raise InvalidInput(
                f"parallelism must be a whole number from 1, not {short_repr(self.parallelism)}"
            )
        for name, value in (self.overrides or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
                raise InvalidInput(
                    f"settings of Flink are texts by name, not {short_repr(name)}: "
                    f"{short_repr(value)}"
                )
        self._check_mode()

    def _check_mode(self) -> None:
        thread = (self.overrides or {}).get(EXECUTION_MODE, "thread") == "thread"
        if self.mode == "concurrent" and not thread:
            raise InvalidInput(
                f"the concurrent operator needs {EXECUTION_MODE}: thread. Flink's process mode "
                "loses timers that are set while a checkpoint is taken, and after a restart keys "
                "would wait for ever; use mode='synchronous' there"
            )

    @property
    def checkpoints_url(self) -> str | None:
        """Where Flink keeps the checkpoints of the job, as a URL."""
        place, name = self.checkpoints, quote(self.name, safe="")
        if place is None:
            return None
        return f"{flink_path(place)}/{name}"

    @property
    def local_checkpoints(self) -> str | None:
        """The folder of the checkpoints, if it is one of this machine."""
        url = self.checkpoints_url
        return url.removeprefix("file://") if url and url.startswith("file:///") else None

    def resumed(self, checkpoint: str | None) -> FlinkSettings:
        """Return settings by which a job goes on from a checkpoint.

        Args:
            checkpoint: Its folder, or "latest": the last complete one, if there is one; None: the
                job begins anew.
        """
        if checkpoint == "latest":
            if self.local_checkpoints is None:
                raise InvalidInput(
                    "the latest checkpoint is found in a folder of this machine only; name it: "
                    "resume='s3://…/chk-17'"
                )
            checkpoint = latest(self.local_checkpoints)
        if checkpoint is None:
            return self
        return self.with_overrides({"execution.state-recovery.path": flink_path(checkpoint)})

    def at(self, jobmanager: str | None) -> FlinkSettings:
        """Return settings by which a job is sent to a cluster: ``host:port`` of its REST server.

        None: it runs in this process, and processes that this one starts.
        """
        if jobmanager is None:
            return self.with_overrides({"rest.bind-port": "0"})
        host, _, port = jobmanager.rpartition(":")
        if not host or not port.isdigit():
            raise InvalidInput(
                f"a cluster is named by host:port of its job manager, not {short_repr(jobmanager)}"
            )
        return replace(self, cluster=(host, int(port)))

    def with_overrides(self, settings: Mapping[str, str]) -> FlinkSettings:
        """Return the same with more settings; those that were given before stand."""
        return replace(self, overrides={**settings, **(self.overrides or {})})

    def all(self) -> list[Setting]:
        """Return every setting, the overridden ones too."""
        settings = {each.name: each for each in self._defaults()}
        for name, value in (self.overrides or {}).items():
            settings[name] = Setting(name, value, "given")
        return list(settings.values())

    def _defaults(self) -> list[Setting]:
        interval = f"{round(self.interval_s * 1000)} ms"
        settings = [
            Setting("python.executable", sys.executable, "workers need the packages of this one"),
            Setting("python.client.executable", sys.executable, "the same, for the job's main"),
            Setting(
                EXECUTION_MODE,
                "thread",
                "4 to 5 times as fast as process mode, whose timers can be lost",
            ),
            Setting(
                "python.fn-execution.bundle.size",
                "20",
                "process mode: a checkpoint waits for the inputs of a bundle",
            ),
            Setting(
                "python.fn-execution.bundle.time",
                "20",
                "process mode: an input waits so many milliseconds at most for its bundle",
            ),
            Setting("execution.checkpointing.interval", interval, "how much is done again at most"),
            Setting(
                "execution.checkpointing.min-pause",
                f"{round(self.interval_s * 500)} ms",
                "the next checkpoint is not begun at once while one is slow",
            ),
            Setting(
                "execution.checkpointing.timeout",
                f"{round(TIMEOUT_S * 1000)} ms",
                "what is pruned rests on how long a checkpoint may take",
            ),
            Setting("execution.checkpointing.mode", "EXACTLY_ONCE", "outputs are not sent twice"),
            Setting(
                "execution.checkpointing.unaligned.enabled",
                "true",
                "a checkpoint does not wait for inputs that queue before a slow action",
            ),
            Setting(
                "execution.checkpointing.aligned-checkpoint-timeout",
                "100 ms",
                "never 0: then a checkpoint overtakes files that were just assigned to a busy "
                "source, and after a restart nobody reads them",
            ),
            Setting(
                "execution.checkpointing.externalized-checkpoint-retention",
                "RETAIN_ON_CANCELLATION",
                "a job that was killed or cancelled goes on from its last checkpoint",
            ),
            Setting("execution.checkpointing.num-retained", "3", "the last one may be damaged"),
            Setting(
                "taskmanager.memory.segment-size",
                "4kb",
                "few inputs wait in buffers, where a checkpoint has to store them",
            ),
            Setting("taskmanager.network.memory.buffers-per-channel", "1", "the same"),
            Setting("taskmanager.network.memory.floating-buffers-per-gate", "2", "the same"),
            Setting("restart-strategy.type", "exponential-delay", "a store may be away for long"),
            Setting("restart-strategy.exponential-delay.initial-backoff", "200 ms", "the same"),
            Setting("restart-strategy.exponential-delay.max-backoff", "10 s", "the same"),
            Setting(
                "restart-strategy.exponential-delay.reset-backoff-threshold",
                "1 min",
                "a job that was up for so long is restarted at once again",
            ),
            Setting(
                "restart-strategy.exponential-delay.attempts-before-reset-backoff",
                "20",
                "a job that never gets up fails, and says why, after some minutes",
            ),
            Setting("state.backend.type", "hashmap", "rocksdb for more keys than RAM has room for"),
        ]
        if self.checkpoints_url is not None:
            settings.append(
                Setting(
                    "execution.checkpointing.dir",
                    self.checkpoints_url,
                    "checkpoints survive the job's processes",
                )
            )
        return settings


def flink_path(place: str) -> str:
    """Return a path, or a URL, as Flink takes it: with a scheme, and with nothing quoted."""
    return place.rstrip("/") if "://" in place else f"file://{Path(place).absolute()}"


def find_interpreter() -> None:
    """Put the folder of this interpreter first on PATH: thread mode starts what it finds there."""
    folder = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    if path.split(os.pathsep)[0] != folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{path}"

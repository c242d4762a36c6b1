"""The settings of a Flink job, and functions that find its complete checkpoints.

`settings.toml` lists the settings that alveus chooses, each with the reason; a user can override
all of them.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import quote

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_number, choice, counted

Mode: TypeAlias = Literal["concurrent", "synchronous"]

EXECUTION_MODE, CHECKPOINTS = "python.execution-mode", "execution.checkpointing.dir"

TIMEOUT_S = 600.0
"""The longest time in seconds that a checkpoint may take: Flink aborts one that takes longer."""

MARGIN_S = 60.0
"""The largest expected difference, in seconds, between the clocks of a cluster's machines."""

_CHECKPOINT = re.compile(r"chk-([0-9]+)")


class Setting(NamedTuple):
    """A setting of Flink, and why alveus sets it."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class FlinkSettings:
    """The settings of a job.

    Attributes:
        name: The name of the job, and of the folder of its checkpoints.
        mode: With "concurrent", different keys run side by side, and a slow action delays only its
            key. With "synchronous", each parallel part runs one input after the other.
        checkpoints: The folder of checkpoints, or a URL that Flink can write to.
        interval_s: The seconds between checkpoints.
        parallelism: The number of parallel parts of the job; None means Flink's default.
        overrides: Settings of Flink by name, which override all others.
        cluster: The host and port of the job manager, or None if Flink runs in this process.
    """

    name: str = "agent"
    mode: Mode = "concurrent"
    checkpoints: str | None = None
    interval_s: float = 5.0
    parallelism: int | None = None
    overrides: Mapping[str, str] | None = None
    cluster: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if a setting cannot be used."""
        choice(self.mode, "mode", *get_args(Mode))
        checked_number(self.interval_s, "interval_s", least=0.01, most=86_400)
        if self.parallelism is not None:
            counted(self.parallelism, "parallelism")
        for name, value in (self.overrides or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
                raise InvalidInput(
                    f"a setting of Flink must be a text with a name, not {short_repr(name)}: "
                    f"{short_repr(value)}"
                )
        thread = (self.overrides or {}).get(EXECUTION_MODE, "thread") == "thread"
        if self.mode == "concurrent" and not thread:
            raise InvalidInput(
                f"the concurrent operator needs {EXECUTION_MODE}: thread, because Flink's "
                "process mode can lose timers. For process mode, pass mode='synchronous'"
            )

    @property
    def checkpoints_url(self) -> str | None:
        """The URL of the folder in which Flink keeps the checkpoints of the job."""
        if self.checkpoints is None:
            return None
        return f"{flink_path(self.checkpoints)}/{quote(self.name, safe='')}"

    @property
    def local_checkpoints(self) -> str | None:
        """The folder of the checkpoints, or None if it is not on this machine or not set."""
        url = self.checkpoints_url
        return url.removeprefix("file://") if url and url.startswith("file:///") else None

    def resumed(self, checkpoint: str | None) -> FlinkSettings:
        """Return settings with which a job continues from a checkpoint.

        Args:
            checkpoint: The folder of the checkpoint, or "latest" for the last complete checkpoint.
                With None, or if no checkpoint is complete, the job begins anew.

        Raises:
            InvalidInput: *checkpoint* is "latest", and the checkpoints are not on this machine.
        """
        if checkpoint == "latest":
            if self.local_checkpoints is None:
                raise InvalidInput(
                    "the latest checkpoint can be found only in a folder of this machine; pass "
                    "its path: resume='s3://…/chk-17'"
                )
            checkpoint = latest(self.local_checkpoints)
        if checkpoint is None:
            return self
        return self.with_overrides({"execution.state-recovery.path": flink_path(checkpoint)})

    def at(self, jobmanager: str | None) -> FlinkSettings:
        """Return settings that send a job to a cluster.

        Args:
            jobmanager: The ``host:port`` of the cluster's REST server. With None, the job runs in
                this process and its children.

        Raises:
            InvalidInput: *jobmanager* is not a host and a port.
        """
        if jobmanager is None:
            return self.with_overrides({"rest.bind-port": "0"})
        host, _, port = jobmanager.rpartition(":")
        if not host or not port.isdigit():
            raise InvalidInput(
                f"jobmanager must be host:port of the job manager, not {short_repr(jobmanager)}"
            )
        return replace(self, cluster=(host, int(port)))

    def with_overrides(self, settings: Mapping[str, str]) -> FlinkSettings:
        """Return these settings with more overrides. An existing override of a name stays."""
        return replace(self, overrides={**settings, **(self.overrides or {})})

    def all(self) -> list[Setting]:
        """Return the settings that alveus chooses, and the overrides, which replace these."""
        settings = {each.name: each for each in self._defaults()}
        for name, value in (self.overrides or {}).items():
            settings[name] = Setting(name, value, "given")
        return list(settings.values())

    def _defaults(self) -> list[Setting]:
        values = {
            "python": sys.executable,
            "interval_ms": round(self.interval_s * 1000),
            "pause_ms": round(self.interval_s * 500),
            "timeout_ms": round(TIMEOUT_S * 1000),
            "checkpoints": self.checkpoints_url,
        }
        text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
        settings = [Setting(**each) for each in tomllib.loads(text)["settings"]]
        return [
            each._replace(value=each.value.format_map(values))
            for each in settings
            if each.name != CHECKPOINTS or self.checkpoints_url is not None
        ]


def flink_path(path: str) -> str:
    """Return a path or URL in the form that Flink takes: with a scheme, and without quoting."""
    return path.rstrip("/") if "://" in path else f"file://{Path(path).absolute()}"


def find_interpreter() -> None:
    """Put the folder of this interpreter first on PATH, where Flink's thread mode finds Python."""
    folder = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    if path.split(os.pathsep)[0] != folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{path}"


# --- checkpoints that are complete ----------------------------------------------------------


def covered_until(folder: str) -> int | None:
    """Return a time in microseconds: every complete checkpoint covers the runs that ended before.

    Return None if the folder has no complete checkpoint. A job that continues from a checkpoint
    does not send inputs again whose runs had ended when the checkpoint began. A checkpoint is
    complete when its metadata exist, and it began at most `TIMEOUT_S` earlier. The folder may have
    checkpoints of several jobs, also of ended jobs, because a job may continue from any of them.
    """
    oldest = min(_complete(Path(folder)), default=None)
    return None if oldest is None else round((oldest[0] - TIMEOUT_S - MARGIN_S) * 1_000_000)


def latest(folder: str) -> str | None:
    """Return the path of the last complete checkpoint in *folder*, or None if there is none."""
    found = max(_complete(Path(folder)), default=None)
    return None if found is None else str(found[2])


def _complete(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield the time of completion, number and folder of each complete checkpoint in *folder*."""
    for entry in folder.glob("*/chk-*"):
        named = _CHECKPOINT.fullmatch(entry.name)
        try:
            if named is not None:
                yield (entry / "_metadata").stat().st_mtime, int(named[1]), entry
        except FileNotFoundError:  # incomplete, or just removed
            continue

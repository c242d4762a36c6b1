"""Messages and plans of DB-GPT's agents, and ids of their conversations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from fornix.errors import InvalidInput

_NUMBERED = re.compile(r"(.+)_(\d+)", re.DOTALL)


def parse_conv_id(conv_id: str) -> tuple[str, int | None]:
    """Return the conversation that an id is of, and the number of the round at its end, if any."""
    found = _NUMBERED.fullmatch(conv_id)
    return (conv_id, None) if found is None else (found[1], int(found[2]))


class Status(StrEnum):
    """How far a task of a plan is."""

    TODO = "todo"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    FAILED = "failed"
    COMPLETE = "complete"


def _now() -> datetime:
    return datetime.now(UTC)


class _Fields:
    """To a dict and back."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Return one of a dict; what is missing has its default.

        Raises:
            InvalidInput: A field that has no default is missing, or one is unknown.
        """
        known = {one.name for one in fields(cls)}  # pyright: ignore[reportArgumentType] - dataclasses
        if unknown := sorted(set(d) - known):
            raise InvalidInput(f"a {cls.__name__} has no {unknown[0]!r}")
        try:
            return cls(**d)
        except TypeError as error:
            raise InvalidInput(f"a {cls.__name__} needs more: {error}") from error


@dataclass
class GptsMessage(_Fields):
    """A message from one agent to another."""

    conv_id: str
    sender: str
    receiver: str
    role: str
    content: str
    rounds: int = 0
    is_success: bool = True
    app_code: str | None = None
    app_name: str | None = None
    current_goal: str | None = None
    context: str | None = None
    review_info: str | None = None
    action_report: str | None = None
    model_name: str | None = None
    resource_info: str | None = None
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)


@dataclass
class GptsPlan(_Fields):
    """A task of a plan, by its number in the conversation."""

    conv_id: str
    sub_task_num: int
    sub_task_content: str | None = None
    sub_task_title: str | None = None
    sub_task_agent: str | None = None
    resource_name: str | None = None
    rely: str | None = None
    agent_model: str | None = None
    retry_times: int = 0
    max_retry_times: int = 5
    state: str = Status.TODO.value
    result: str | None = None

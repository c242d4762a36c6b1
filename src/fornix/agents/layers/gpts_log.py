"""Where messages and plans are kept: sets of the key that a conversation is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self, cast

from fornix.agents.storage import LayerStorage, aware
from fornix.errors import InvalidInput, NotFound, StaleItem
from fornix.memory.memory import Memory
from fornix.sets import MemorySet
from fornix.store.items import Item

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


class _GptsFields:
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
class GptsMessage(_GptsFields):
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
class GptsPlan(_GptsFields):
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


MESSAGES, PLANS = "gpts_messages", "gpts_plans"

_TIMES = ("created_at", "updated_at")


class _Log:
    """What both have: a store, in which each conversation is a key.

    Args:
        memory: A memory of fornix; None: RAM.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        self._given = memory is not None
        self._memory = memory

    def __repr__(self) -> str:
        kept = repr(self._memory) if self._given else "RAM, until this process ends"
        return f"<{type(self).__name__} in {kept}>"

    @property
    def memory(self) -> Memory:
        """The store."""
        if self._memory is None:
            self._memory = Memory.open(embedder="words")
        return self._memory

    @property
    def opened(self) -> bool:
        """Whether there is a store: one was given, or RAM was used."""
        return self._memory is not None

    def _set(self, conv_id: str, name: str) -> MemorySet:
        place = LayerStorage(self.memory.key(conv_id))
        return MemorySet(place.writer(), place.ref(name), {})


class GptsMessageMemory(_Log):
    """Messages, in the order they were appended."""

    def append(self, message: GptsMessage) -> None:
        """Keep a message; durable when it returns, or with the batch of the action at work."""
        self.append_many([message])

    def append_many(self, messages: Sequence[GptsMessage]) -> None:
        """Keep messages, those of one conversation in one commit."""
        for conv_id in dict.fromkeys(message.conv_id for message in messages):
            items = [_item(message) for message in messages if message.conv_id == conv_id]
            self._set(conv_id, MESSAGES).add_many(items)

    def get_by_conv_id(self, conv_id: str) -> list[GptsMessage]:
        """Return the messages of a conversation."""
        return [_message(item) for item in self._set(conv_id, MESSAGES)]

    def get_by_agent(self, conv_id: str, agent: str) -> list[GptsMessage]:
        """Return what an agent sent or received."""
        return [m for m in self.get_by_conv_id(conv_id) if agent in (m.sender, m.receiver)]

    def get_between_agents(
        self, conv_id: str, agent1: str, agent2: str, current_goal: str | None = None
    ) -> list[GptsMessage]:
        """Return what two agents said to each other; with *current_goal* only what was for that."""
        pair = {(agent1, agent2), (agent2, agent1)}
        found = [m for m in self.get_by_conv_id(conv_id) if (m.sender, m.receiver) in pair]
        return [m for m in found if current_goal is None or m.current_goal == current_goal]

    def get_last_message(self, conv_id: str) -> GptsMessage | None:
        """Return the message that was appended last, or None."""
        last = self._set(conv_id, MESSAGES).recent(1)
        return _message(last[0]) if last else None

    def delete_by_conv_id(self, conv_id: str) -> int:
        """Delete the messages of a conversation, and of no other; return how many there were."""
        return self._set(conv_id, MESSAGES).clear()


def _item(message: GptsMessage) -> Item:
    value = message.to_dict() | {n: aware(getattr(message, n)).isoformat() for n in _TIMES}
    return Item(value, text=message.content, session=message.conv_id)


def _message(item: Item) -> GptsMessage:
    value = dict(cast("dict[str, Any]", item.value))
    return GptsMessage.from_dict(value | {n: datetime.fromisoformat(value[n]) for n in _TIMES})


class GptsPlansMemory(_Log):
    """Plans: tasks by their numbers."""

    def batch_save(self, plans: Sequence[GptsPlan]) -> None:
        """Keep tasks, those of one conversation in one commit.

        Raises:
            DuplicateItem: The conversation has a task of this number.
        """
        for conv_id in dict.fromkeys(plan.conv_id for plan in plans):
            items = [
                Item(plan.to_dict(), str(plan.sub_task_num), plan.sub_task_content or "")
                for plan in plans
                if plan.conv_id == conv_id
            ]
            self._set(conv_id, PLANS).add_many(items)

    def get_by_conv_id(self, conv_id: str) -> list[GptsPlan]:
        """Return the tasks of a conversation, by number."""
        found = [GptsPlan.from_dict(item.value) for item in self._set(conv_id, PLANS)]
        return sorted(found, key=lambda plan: plan.sub_task_num)

    def get_by_conv_id_and_num(self, conv_id: str, task_item_nums: Sequence[int]) -> list[GptsPlan]:
        """Return the tasks that have these numbers."""
        wanted = set(task_item_nums)
        return [plan for plan in self.get_by_conv_id(conv_id) if plan.sub_task_num in wanted]

    def get_todo_plans(self, conv_id: str) -> list[GptsPlan]:
        """Return the tasks that are to be done, or done again."""
        due = (Status.TODO, Status.RETRYING)
        return [plan for plan in self.get_by_conv_id(conv_id) if plan.state in due]

    def complete_task(self, conv_id: str, task_item_num: int, result: str) -> None:
        """Note that a task is done.

        Raises:
            NotFound: There is no such task.
        """
        self._change(conv_id, task_item_num, {"state": Status.COMPLETE.value, "result": result})

    def update_task(  # noqa: PLR0913, PLR0917 - DB-GPT's signature
        self,
        conv_id: str,
        task_item_num: int,
        state: str,
        retry_times: int,
        agent: str | None = None,
        model: str | None = None,
        result: str | None = None,
    ) -> None:
        """Note how far a task is; what is None stays.

        Raises:
            NotFound: There is no such task.
        """
        given = {"sub_task_agent": agent, "agent_model": model, "result": result}
        named = {name: value for name, value in given.items() if value is not None}
        changes = {"state": Status(state).value, "retry_times": retry_times, **named}
        self._change(conv_id, task_item_num, changes)

    def _change(self, conv_id: str, number: int, changes: dict[str, Any]) -> None:
        tasks = self._set(conv_id, PLANS)
        while True:
            item = tasks.get(str(number))
            if item is None:
                raise NotFound(f"conversation {conv_id!r} has no task {number}")
            try:
                tasks.update(
                    str(number), item.value | changes, text=item.text, if_version=item.version
                )
            except StaleItem:
                continue
            return

    def remove_by_conv_id(self, conv_id: str) -> int:
        """Delete the tasks of a conversation, and of no other; return how many there were."""
        return self._set(conv_id, PLANS).clear()

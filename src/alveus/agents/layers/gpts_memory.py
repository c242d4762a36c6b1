"""The log of conversations in an agent's memory: messages, plans, and channels of views.

A view is a conversation as it is shown to a person.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeVar, cast

from alveus.agents.storage import SWEEP_EVERY, LayerStorage, Waiters, aware
from alveus.errors import InvalidInput, NotFound, StaleItem
from alveus.memory.memory import Memory
from alveus.sets import MemorySet
from alveus.store.items import Item
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_kind, counted

R = TypeVar("R")

DONE = "[DONE]"
"""The last view of a channel."""

VIEWS = 64
"""The most views in a channel. A view shows the whole conversation, so the oldest is dropped."""

CONVERSATIONS = 1_000
"""The most conversations in RAM. The least recently used conversation is deleted first.

The limit also applies to channels, in any memory.
"""

HUMAN = frozenset(("Human", "User"))

_NUMBERED = re.compile(r"(.+)_(\d+)", re.DOTALL)


def parse_conv_id(conv_id: str) -> tuple[str, int | None]:
    """Split an id such as ``chat_2`` into the conversation, ``chat``, and the round, 2.

    Without a number at the end, the round is None.
    """
    found = _NUMBERED.fullmatch(conv_id)
    return (conv_id, None) if found is None else (found[1], int(found[2]))


class Status(StrEnum):
    """The status of a task of a plan."""

    TODO = "todo"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    FAILED = "failed"
    COMPLETE = "complete"


def _now() -> datetime:
    return datetime.now(UTC)


class FieldsAsDict:
    """A dataclass of plain values that converts to a dict and back."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return {one.name: getattr(self, one.name) for one in self._fields()}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Return an object with the fields of a dict. Missing fields have their defaults.

        Raises:
            InvalidInput: A field is unknown, or a field without a default is missing.
        """
        if unknown := sorted(set(d) - {one.name for one in cls._fields()}):
            raise InvalidInput(f"{cls.__name__} has no field {unknown[0]!r}; remove it")
        for one in cls._fields():
            if one.name not in d and one.default is one.default_factory is MISSING:
                raise InvalidInput(f"{cls.__name__} needs the field {one.name!r}")
        return cls(**d)

    @classmethod
    def _fields(cls) -> tuple[Field[Any], ...]:
        return fields(cls)  # pyright: ignore[reportArgumentType] - dataclasses


@dataclass
class GptsMessage(FieldsAsDict):
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
class GptsPlan(FieldsAsDict):
    """A task of a plan. `sub_task_num` is the number of the task in the conversation."""

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


_TIMES = ("created_at", "updated_at")


class _Log:
    """A log in a memory. Each conversation is a key.

    Args:
        memory: A memory of alveus. None means RAM.
    """

    set_name: ClassVar[str]

    def __init__(self, memory: Memory | None = None) -> None:
        self._given, self._memory, self._changes = memory is not None, memory, 0

    def __repr__(self) -> str:
        kept = repr(self._memory) if self._given else "RAM, until this process ends"
        return f"<{type(self).__name__} in {kept}>"

    @property
    def memory(self) -> Memory:
        """The memory of alveus."""
        if self._memory is None:
            self._memory = Memory.open(embedder="words")
        return self._memory

    @property
    def opened(self) -> bool:
        """True if the log's memory is open: a memory was passed, or RAM was used."""
        return self._memory is not None

    def _set(self, conv_id: str) -> MemorySet:
        options = {} if self._given else {"retention": "purge"}  # RAM keeps no history
        return LayerStorage(self.memory.key(conv_id)).set(self.set_name, options)

    def _add(self, items: Iterable[tuple[str, Item]]) -> None:
        """Store items, each with the id of its conversation, in one commit per conversation."""
        by_conversation: dict[str, list[Item]] = {}
        for conv_id, item in items:
            by_conversation.setdefault(conv_id, []).append(item)
        for conv_id, added in by_conversation.items():
            self._set(conv_id).add_many(added)

    def _changed(self) -> None:
        """Sweep RAM every `SWEEP_EVERY` changes."""
        self._changes += 1
        if not self._given and not self._changes % SWEEP_EVERY:
            self.memory.sweep()

    def _emptied(self, conv_id: str) -> int:
        done = self._set(conv_id).clear()
        self._changed()
        return done


class GptsMessageMemory(_Log):
    """Messages, in the order they were appended."""

    set_name: ClassVar[str] = "gpts_messages"

    def append(self, message: GptsMessage) -> None:
        """Store a message. It is durable on return, or, in an action, with the action's commit."""
        self.append_many([message])

    def append_many(self, messages: Sequence[GptsMessage]) -> None:
        """Store messages, with one commit per conversation."""
        self._add((message.conv_id, _item(message)) for message in messages)

    def get_by_conv_id(self, conv_id: str) -> list[GptsMessage]:
        """Return the messages of a conversation."""
        return [_message(item) for item in self._set(conv_id)]

    def get_by_agent(self, conv_id: str, agent: str) -> list[GptsMessage]:
        """Return the messages that an agent sent or received."""
        return [m for m in self.get_by_conv_id(conv_id) if agent in (m.sender, m.receiver)]

    def get_between_agents(
        self, conv_id: str, agent1: str, agent2: str, current_goal: str | None = None
    ) -> list[GptsMessage]:
        """Return the messages between two agents, optionally only those with *current_goal*."""
        pair = {(agent1, agent2), (agent2, agent1)}
        found = [m for m in self.get_by_conv_id(conv_id) if (m.sender, m.receiver) in pair]
        return [m for m in found if current_goal is None or m.current_goal == current_goal]

    def get_last_message(self, conv_id: str) -> GptsMessage | None:
        """Return the message that was appended last, or None."""
        last = self._set(conv_id).recent(1)
        return _message(last[0]) if last else None

    def delete_by_conv_id(self, conv_id: str) -> int:
        """Delete the messages of this conversation only. Return their number."""
        return self._emptied(conv_id)


def _item(message: GptsMessage) -> Item:
    value = message.to_dict() | {n: aware(getattr(message, n)).isoformat() for n in _TIMES}
    return Item(value, text=message.content, session=message.conv_id)


def _message(item: Item) -> GptsMessage:
    value = dict(cast("dict[str, Any]", item.value))
    return GptsMessage.from_dict(value | {n: datetime.fromisoformat(value[n]) for n in _TIMES})


class GptsPlansMemory(_Log):
    """Plans: the tasks of conversations, by their numbers."""

    set_name: ClassVar[str] = "gpts_plans"

    def batch_save(self, plans: Sequence[GptsPlan]) -> None:
        """Store tasks, with one commit per conversation.

        Raises:
            DuplicateItem: The conversation has a task with this number.
        """
        self._add(
            (
                plan.conv_id,
                Item(plan.to_dict(), str(plan.sub_task_num), plan.sub_task_content or ""),
            )
            for plan in plans
        )

    def get_by_conv_id(self, conv_id: str) -> list[GptsPlan]:
        """Return the tasks of a conversation, sorted by number."""
        found = [GptsPlan.from_dict(item.value) for item in self._set(conv_id)]
        return sorted(found, key=lambda plan: plan.sub_task_num)

    def get_by_conv_id_and_num(self, conv_id: str, task_item_nums: Sequence[int]) -> list[GptsPlan]:
        """Return the tasks that have these numbers."""
        wanted = set(task_item_nums)
        return [plan for plan in self.get_by_conv_id(conv_id) if plan.sub_task_num in wanted]

    def get_todo_plans(self, conv_id: str) -> list[GptsPlan]:
        """Return the tasks to do, or to do again."""
        due = (Status.TODO, Status.RETRYING)
        return [plan for plan in self.get_by_conv_id(conv_id) if plan.state in due]

    def complete_task(self, conv_id: str, task_item_num: int, result: str) -> None:
        """Set a task to complete.

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
        """Set the state of a task. Arguments that are None change nothing.

        Raises:
            InvalidInput: The state is unknown.
            NotFound: There is no such task.
        """
        if state not in [*Status]:
            raise InvalidInput(f"the state of a task must be {', '.join(Status)}, not {state!r}")
        given = {"sub_task_agent": agent, "agent_model": model, "result": result}
        named = {name: value for name, value in given.items() if value is not None}
        changes = {"state": Status(state).value, "retry_times": retry_times, **named}
        self._change(conv_id, task_item_num, changes)

    def _change(self, conv_id: str, number: int, changes: dict[str, Any]) -> None:
        tasks = self._set(conv_id)
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
            self._changed()
            return

    def remove_by_conv_id(self, conv_id: str) -> int:
        """Delete the tasks of this conversation only. Return their number."""
        return self._emptied(conv_id)


class Channel:
    """A queue of views with the calls of `asyncio.Queue`, for any thread and event loop.

    After `DONE`, puts are ignored, and every get returns `DONE`.

    Args:
        with_marks: True for views in Markdown, False for lists of dicts.
        start_round: The first round to be shown.
    """

    def __init__(self, *, with_marks: bool = True, start_round: int = 0) -> None:
        self.with_marks, self.start_round = with_marks, start_round
        self._mutex = HandleLock()
        self._views: deque[Any] = deque(maxlen=VIEWS)
        self._waiters = Waiters()
        self._done = False

    def put_nowait(self, view: object) -> None:
        """Add a view. A queue with `VIEWS` views drops the oldest."""
        with self._mutex:
            if self._done:
                return
            if view == DONE:
                self._done = True
            else:
                self._views.append(view)
            self._wake()

    async def put(self, view: object) -> None:
        """See `put_nowait`."""
        self.put_nowait(view)

    async def get(self) -> Any:  # noqa: ANN401 - whatever was put
        """Return the oldest view, or `DONE`. Wait for a view if the queue is empty."""
        while True:
            with self._mutex:
                if self._views or self._done:
                    return self._views.popleft() if self._views else DONE
                turn = self._waiters.join()
            await self._waiters.wait(turn, self._pass_on)

    def get_nowait(self) -> Any:  # noqa: ANN401 - whatever was put
        """Return the oldest view, or `DONE`.

        Raises:
            asyncio.QueueEmpty: There are no views.
        """
        with self._mutex:
            if self._views:
                return self._views.popleft()
            if self._done:
                return DONE
            raise asyncio.QueueEmpty

    def qsize(self) -> int:
        """Return the number of views."""
        return len(self._views)

    def empty(self) -> bool:
        """Return whether there are no views."""
        return not self._views

    def _wake(self) -> None:
        """Wake the task that waits longest, or all tasks after `DONE`.

        The caller holds the mutex.
        """
        while self._waiters.wake() and self._done:
            pass

    def _pass_on(self) -> None:
        with self._mutex:
            self._wake()


class GptsMemory:
    """Messages and plans of conversations, and a channel of views for each.

    Args:
        plans_memory: Stores plans. None means that *memory* stores them.
        message_memory: Stores messages. None means that *memory* stores them.
        executor: Accepted as in DB-GPT, and not used.
        memory: A memory of alveus, in which each conversation is a key. None means RAM, which keeps
            the conversations used last.
        conversations: The most conversations in RAM, and the most channels.

    Attributes:
        plans_memory: Stores plans.
        message_memory: Stores messages.
    """

    def __init__(
        self,
        plans_memory: GptsPlansMemory | None = None,
        message_memory: GptsMessageMemory | None = None,
        executor: object = None,
        *,
        memory: Memory | None = None,
        conversations: int = CONVERSATIONS,
    ) -> None:
        del executor
        self.plans_memory = plans_memory or GptsPlansMemory(memory)
        self.message_memory = message_memory or GptsMessageMemory(memory)
        self._is_ram = memory is None and plans_memory is None and message_memory is None
        self._most = counted(conversations, "conversations", least=1)
        self._keeps_all = not self._is_ram
        self._used: OrderedDict[str, None] = OrderedDict()
        self._channels: OrderedDict[str, Channel] = OrderedDict()

    def __repr__(self) -> str:
        return f"<GptsMemory: {self.message_memory!r}, {self.plans_memory!r}>"

    def kept_in(self, memory: Memory) -> GptsMemory:
        """Return a log that is stored in *memory* and shares the channels of this log.

        If this log was made with a memory, return this log. If this log is unused, it is stored in
        *memory* from now on as well.
        """
        if not self._is_ram:
            return self
        if not self.message_memory.opened:
            self.plans_memory = GptsPlansMemory(memory)
            self.message_memory = GptsMessageMemory(memory)
            self._keeps_all = True
        kept = GptsMemory(memory=memory, conversations=self._most)
        kept._channels = self._channels
        return kept

    async def init(
        self,
        conv_id: str,
        enable_vis_message: bool = True,  # noqa: FBT001, FBT002 - DB-GPT's signature
        history_messages: Sequence[GptsMessage] | None = None,
        start_round: int = 0,
    ) -> None:
        """Open the channel of a conversation. If there are too many channels, close the oldest.

        Args:
            enable_vis_message: True for views in Markdown, False for lists of dicts.
            history_messages: Earlier messages. They are stored if the conversation has no messages.
            start_round: The first round to be shown.
        """
        self.clear(conv_id)
        while len(self._channels) >= self._most:
            self._channels.popitem(last=False)[1].put_nowait(DONE)
        self._channels[conv_id] = Channel(with_marks=enable_vis_message, start_round=start_round)
        if history_messages and not await self.get_messages(conv_id):
            await self._call(conv_id, lambda: self.message_memory.append_many(history_messages))

    def queue(self, conv_id: str) -> Channel | None:
        """Return the channel of a conversation, or None if it has no channel."""
        return self._channels.get(conv_id)

    async def append_message(self, conv_id: str, message: GptsMessage) -> None:
        """Store a message, and show the conversation in its channel, if any."""
        await self.keep_message(conv_id, message)
        await self.push_message(conv_id)

    async def keep_message(self, conv_id: str, message: GptsMessage) -> None:
        """Store a message without showing it; see `push_message`.

        Raises:
            InvalidInput: The argument is not a message, or belongs to another conversation.
        """
        checked_kind(message, GptsMessage, "the message of a conversation must be a GptsMessage")
        if message.conv_id != conv_id:
            raise InvalidInput(
                f"the message belongs to conversation {message.conv_id!r}, not {conv_id!r}"
            )
        await self._call(conv_id, lambda: self.message_memory.append(message))

    async def get_messages(self, conv_id: str) -> list[GptsMessage]:
        """Return the messages of a conversation. An unknown conversation has none."""
        return await self._call(conv_id, lambda: self.message_memory.get_by_conv_id(conv_id))

    async def get_agent_messages(self, conv_id: str, agent_role: str) -> list[GptsMessage]:
        """Return the messages that an agent sent or received."""
        log = self.message_memory
        return await self._call(conv_id, lambda: log.get_by_agent(conv_id, agent_role))

    async def get_agent_history_memory(self, conv_id: str, agent_role: str) -> list[Any]:
        """Return the action reports in an agent's answers, which are every second message."""
        messages = await self.get_agent_messages(conv_id, agent_role)
        reports = [message.action_report for message in messages[1::2]]
        return [found for report in reports if (found := _parsed(report)) is not None]

    async def push_message(self, conv_id: str, temp_msg: str | None = None) -> None:
        """Show the conversation in its channel, if any.

        *temp_msg* is shown below the conversation, and not stored.
        """
        self._use(conv_id)
        channel = self._channels.get(conv_id)
        if channel is None:
            return
        start = channel.start_round
        shown = [m for m in await self.get_messages(conv_id) if m.rounds >= start]
        views = [_view(message) for message in shown if message.sender not in HUMAN]
        if not channel.with_marks:
            channel.put_nowait([*views, {"markdown": temp_msg}] if temp_msg else views)
            return
        parts = [f"**{v['sender']}** to {v['receiver']}:\n\n{v['markdown']}" for v in views]
        channel.put_nowait("\n\n".join([*parts, temp_msg] if temp_msg else parts))

    async def complete(self, conv_id: str) -> None:
        """End the channel of a conversation. Readers get the views in the channel, then `DONE`."""
        channel = self._channels.get(conv_id)
        if channel is not None:
            channel.put_nowait(DONE)

    async def chat_messages(self, conv_id: str) -> AsyncIterator[Any]:
        """Yield the views of a conversation, until it is complete.

        Raises:
            NotFound: The conversation has no channel.
        """
        channel = self._channels.get(conv_id)
        if channel is None:
            raise NotFound(f"conversation {conv_id!r} has no channel; open one with init()")
        while (view := await channel.get()) != DONE:
            yield view

    def clear(self, conv_id: str) -> bool:
        """Remove the channel of a conversation, and return whether there was one. Messages stay.

        Readers of the channel get the views in it, then `DONE`.
        """
        channel = self._channels.pop(conv_id, None)
        if channel is not None:
            channel.put_nowait(DONE)
        return channel is not None

    def _use(self, conv_id: str) -> None:
        if self._keeps_all:
            return
        self._used[conv_id] = None
        self._used.move_to_end(conv_id)
        while len(self._used) > self._most:
            oldest, _ = self._used.popitem(last=False)
            self.message_memory.delete_by_conv_id(oldest)
            self.plans_memory.remove_by_conv_id(oldest)
            self.clear(oldest)

    async def _call(self, conv_id: str, work: Callable[[], R]) -> R:
        """Call *work*, and return its result.

        *work* runs in a thread, or in this task if the call only adds to the batch of an action.
        """
        return await LayerStorage(self.message_memory.memory.key(conv_id)).call(lambda _: work())


def _view(message: GptsMessage) -> dict[str, Any]:
    report = _parsed(message.action_report)
    done = cast("dict[str, Any]", report).get("content") if isinstance(report, dict) else None
    return {
        "sender": message.sender,
        "receiver": message.receiver,
        "model": message.model_name,
        "markdown": done or message.content,
    }


def _parsed(report: str | None) -> Any:  # noqa: ANN401 - whatever JSON it is
    if not report:
        return None
    try:
        return json.loads(report)
    except (ValueError, RecursionError):
        return None

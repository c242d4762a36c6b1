"""The log of conversations that an agent's memory comes with: messages, plans, and a channel."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from fornix.agents.layers.gpts_log import (
    GptsMessage,
    GptsMessageMemory,
    GptsPlan,
    GptsPlansMemory,
    Status,
    parse_conv_id,
)
from fornix.agents.storage import LayerStorage
from fornix.errors import NotFound
from fornix.memory.memory import Memory
from fornix.sets.batch import Draft
from fornix.values.storable import counted

DONE = "[DONE]"
"""What ends a channel."""

VIEWS = 64
"""Views that wait in a channel at most. Each shows the whole conversation, so the oldest may go."""


class Channel:
    """Views, oldest first; has the calls of `asyncio.Queue`, and is of no event loop.

    Any thread may put and any loop may get. After `DONE` nothing is taken, and everybody who gets
    is told of it.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._views: deque[Any] = deque(maxlen=VIEWS)
        self._waiting: deque[Future[None]] = deque()
        self._done = False

    def put_nowait(self, view: object) -> None:
        """Have a view wait; more than `VIEWS` do not."""
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
        """Return the oldest view, or `DONE`, when there is one."""
        while True:
            try:
                return self.get_nowait()
            except asyncio.QueueEmpty:
                await self._put_or_done()

    def get_nowait(self) -> Any:  # noqa: ANN401 - whatever was put
        """Return the oldest view, or `DONE`.

        Raises:
            asyncio.QueueEmpty: There is none.
        """
        with self._mutex:
            if self._views:
                return self._views.popleft()
            if self._done:
                return DONE
            raise asyncio.QueueEmpty

    def qsize(self) -> int:
        """Return how many views wait."""
        return len(self._views)

    def empty(self) -> bool:
        """Return whether none waits."""
        return not self._views

    async def _put_or_done(self) -> None:
        mine: Future[None] = Future()
        with self._mutex:
            if self._views or self._done:
                return
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancel():  # a view came for this one, which does not take it
                with self._mutex:
                    self._wake()
            raise

    def _wake(self) -> None:
        """Have one who waits look again, or, when it is done, all."""
        while self._waiting:
            first = self._waiting.popleft()
            if first.set_running_or_notify_cancel():
                first.set_result(None)
                if not self._done:
                    return


__all__ = [
    "GptsMemory",
    "GptsMessage",
    "GptsMessageMemory",
    "GptsPlan",
    "GptsPlansMemory",
    "Status",
    "parse_conv_id",
]

R = TypeVar("R")

CONVERSATIONS = 1_000
"""Conversations that are kept where they are kept in RAM; the one used longest ago goes first.

As many have a channel, wherever they are kept.
"""

HUMAN = frozenset(("Human", "User"))


class GptsMemory:
    """Messages and plans of conversations, and a channel to watch each by.

    Args:
        plans_memory: Where plans are kept; None: in *memory*.
        message_memory: Where messages are kept; None: in *memory*.
        executor: Taken because DB-GPT takes it; nothing runs in it.
        memory: A memory of fornix, in which each conversation is a key; None: RAM, which keeps
            the last *conversations*.
        conversations: How many RAM keeps, and how many may have a channel.
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
        self._plans = plans_memory or GptsPlansMemory(memory)
        self._messages = message_memory or GptsMessageMemory(memory)
        self._own_ram = memory is None and plans_memory is None and message_memory is None
        self._most = counted(conversations, "conversations", least=1)
        self._keeps_all = not self._own_ram
        self._used: OrderedDict[str, None] = OrderedDict()
        self._channels: OrderedDict[str, Channel] = OrderedDict()
        self._with_marks: dict[str, bool] = {}
        self._start: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<GptsMemory: {self._messages!r}, {self._plans!r}>"

    @property
    def plans_memory(self) -> GptsPlansMemory:
        """Where plans are kept."""
        return self._plans

    @property
    def message_memory(self) -> GptsMessageMemory:
        """Where messages are kept."""
        return self._messages

    def kept_in(self, memory: Memory) -> GptsMemory:
        """Return this log, kept in *memory* unless it was given a place of its own.

        It has the channels of this one; and this one, if nothing is in it yet, is kept there too.
        """
        if not self._own_ram:
            return self
        if not self._messages.opened:
            self._plans, self._messages = GptsPlansMemory(memory), GptsMessageMemory(memory)
            self._keeps_all = True
        kept = GptsMemory(memory=memory, conversations=self._most)
        kept._channels, kept._with_marks = self._channels, self._with_marks
        kept._start = self._start
        return kept

    async def init(
        self,
        conv_id: str,
        enable_vis_message: bool = True,  # noqa: FBT001, FBT002 - DB-GPT's signature
        history_messages: Sequence[GptsMessage] | None = None,
        start_round: int = 0,
    ) -> None:
        """Open the channel of a conversation.

        Args:
            enable_vis_message: Views are Markdown; else lists of dicts.
            history_messages: What was said before; kept, if nothing is kept of the conversation.
            start_round: The first round to be shown.
        """
        self._open(conv_id)
        self._with_marks[conv_id], self._start[conv_id] = enable_vis_message, start_round
        if history_messages and not await self.get_messages(conv_id):
            await self._call(conv_id, lambda: self._messages.append_many(history_messages))

    def _open(self, conv_id: str) -> None:
        """Open a channel; where there are too many, end the one that was opened longest ago."""
        others = [known for known in self._channels if known != conv_id]
        kept = others[max(0, len(others) + 1 - self._most) :]
        for known in [name for name in self._channels if name not in kept]:
            self._channels[known].put_nowait(DONE)
            self.clear(known)
        self._channels[conv_id] = Channel()

    def queue(self, conv_id: str) -> Channel | None:
        """Return the channel of a conversation; None: it has none."""
        return self._channels.get(conv_id)

    async def append_message(self, conv_id: str, message: GptsMessage) -> None:
        """Keep a message, and show the conversation in its channel, if it has one."""
        await self.keep_message(conv_id, message)
        await self.push_message(conv_id)

    async def keep_message(self, conv_id: str, message: GptsMessage) -> None:
        """Keep a message, and leave it to `push_message` to show it."""
        await self._call(conv_id, lambda: self._messages.append(message))

    async def get_messages(self, conv_id: str) -> list[GptsMessage]:
        """Return the messages of a conversation; of an unknown one none."""
        return await self._call(conv_id, lambda: self._messages.get_by_conv_id(conv_id))

    async def get_agent_messages(self, conv_id: str, agent_role: str) -> list[GptsMessage]:
        """Return what an agent sent or received."""
        return await self._call(conv_id, lambda: self._messages.get_by_agent(conv_id, agent_role))

    async def get_agent_history_memory(self, conv_id: str, agent_role: str) -> list[Any]:
        """Return the action reports of what an agent answered: of every second message."""
        messages = await self.get_agent_messages(conv_id, agent_role)
        reports = [message.action_report for message in messages[1::2]]
        return [found for report in reports if (found := _parsed(report)) is not None]

    async def push_message(self, conv_id: str, temp_msg: str | None = None) -> None:
        """Show the conversation in its channel; with *temp_msg* below it, which is not kept."""
        self._use(conv_id)
        channel = self._channels.get(conv_id)
        if channel is None:
            return
        start = self._start[conv_id]
        shown = [m for m in await self.get_messages(conv_id) if m.rounds >= start]
        views = [_view(message) for message in shown if message.sender not in HUMAN]
        if not self._with_marks[conv_id]:
            channel.put_nowait([*views, {"markdown": temp_msg}] if temp_msg else views)
            return
        parts = [f"**{v['sender']}** to {v['receiver']}:\n\n{v['markdown']}" for v in views]
        channel.put_nowait("\n\n".join([*parts, temp_msg] if temp_msg else parts))

    async def complete(self, conv_id: str) -> None:
        """End the channel of a conversation: who watches it gets what waits, and is done."""
        channel = self._channels.get(conv_id)
        if channel is not None:
            channel.put_nowait(DONE)

    async def chat_messages(self, conv_id: str) -> AsyncIterator[Any]:
        """Yield the views of a conversation, until it is complete.

        Raises:
            NotFound: It has no channel.
        """
        channel = self._channels.get(conv_id)
        if channel is None:
            raise NotFound(f"conversation {conv_id!r} has no channel; init() opens one")
        while (view := await channel.get()) != DONE:
            yield view

    def clear(self, conv_id: str) -> bool:
        """Close the channel of a conversation; return whether it had one. Its messages stay."""
        self._with_marks.pop(conv_id, None)
        self._start.pop(conv_id, None)
        return self._channels.pop(conv_id, None) is not None

    def _use(self, conv_id: str) -> None:
        if self._keeps_all:
            return
        self._used[conv_id] = None
        self._used.move_to_end(conv_id)
        while len(self._used) > self._most:
            oldest, _ = self._used.popitem(last=False)
            self._messages.delete_by_conv_id(oldest)
            self._plans.remove_by_conv_id(oldest)
            self.clear(oldest)

    async def _call(self, conv_id: str, work: Callable[[], R]) -> R:
        """Return what *work* returns; in a thread, unless it only adds to an action's batch."""
        writer = LayerStorage(self._messages.memory.key(conv_id)).writer()
        if isinstance(writer, Draft):
            with writer.mutex:
                return work()
        return await asyncio.to_thread(work)


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

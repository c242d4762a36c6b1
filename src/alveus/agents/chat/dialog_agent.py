"""Agents that reply to messages: AgentScope's `AgentBase` and `DialogAgent`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from alveus.agents.messages import MemoryBase, MessageBase, Msg, TemporaryMemory
from alveus.errors import InvalidInput
from alveus.llm import ChatModel, ask_text, checked_messages
from alveus.values.storable import checked_kind, checked_name


class AgentBase:
    """An agent that replies to messages, and remembers them; override `reply`.

    Args:
        name: The name on the agent's messages.
        memory: The agent's memory. None means a new `TemporaryMemory` in RAM.

    Raises:
        InvalidInput: The name or the memory cannot be used.
    """

    def __init__(self, name: str, *, memory: MemoryBase | None = None) -> None:
        what = f"the memory of agent {name!r} must be a MemoryBase, such as TemporaryMemory(…)"
        checked_kind(memory, MemoryBase | None, what)
        self.name = checked_name(name, "the name of an agent")
        self.memory = TemporaryMemory() if memory is None else memory

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} with {self.memory!r}>"

    def __call__(self, msg: Msg | None = None) -> Msg:
        """Return the result of `reply`."""
        return self.reply(msg)

    def observe(self, msg: Msg | None) -> None:
        """Remember a message without a reply."""
        self.memory.add(msg)

    def reply(self, msg: Msg | None = None) -> Msg:
        """Return a reply to *msg*, or to the remembered messages if *msg* is None."""
        raise NotImplementedError


class DialogAgent(AgentBase):
    """An agent that asks a model, with the messages it remembers, oldest first.

    The message and the answer are added to the agent's memory in one call, after the answer has
    arrived. A failed reply is not remembered.

    Args:
        name: The name on the agent's messages.
        sys_prompt: The system message to the model. "" means none.
        model: The model that answers.
        memory: As in `AgentBase`.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    def __init__(
        self, name: str, sys_prompt: str = "", *, model: ChatModel, memory: MemoryBase | None = None
    ) -> None:
        super().__init__(name, memory=memory)
        checked_kind(sys_prompt, str, f"the sys_prompt of agent {name!r} must be a str")
        what = f"the model of agent {name!r} must be a ChatModel, such as OpenAIChat(…)"
        checked_kind(model, ChatModel, what)
        self.sys_prompt, self.model = sys_prompt, model

    def reply(self, msg: Msg | None = None) -> Msg:
        """Return the model's answer to *msg*, or to the remembered messages if *msg* is None.

        If the memory has a message with the id of *msg* already, *msg* is not sent a second time.

        Raises:
            InvalidInput: The argument is not a message, or cannot be sent to a model.
            ModelFailed: The model did not answer. Nothing is remembered.
        """
        got = [] if msg is None else [_message(msg)]
        past = cast("list[dict[str, Any]]", self.memory.get_memory())
        known = {unit.get("id") for unit in past} - {None}
        messages = [*past, *(one for one in got if one.get("id") not in known)]
        asked: list[Mapping[str, Any]] = [Msg.from_items(unit) for unit in messages]
        if self.sys_prompt:
            asked.insert(0, {"role": "system", "content": self.sys_prompt})
        said = checked_messages(asked, images=self.model.takes_images)
        answer = Msg(self.name, ask_text(self.model, said))
        self.memory.add([*got, answer])
        return answer


def _message(msg: object) -> MessageBase:
    if isinstance(msg, MessageBase):
        return msg
    if isinstance(msg, Mapping):
        return Msg.from_dict(cast("Mapping[str, Any]", msg))
    raise InvalidInput(
        f"the message to an agent must be a Msg, not {type(msg).__name__}; pass Msg(name, text)"
    )

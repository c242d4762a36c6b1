"""Messages to a model and from it, in windows, prompts and conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
"""The speaker of a message: "system" instructs, "tool" answers a call."""

ROLES = ("system", "user", "assistant", "tool")

OBSERVATIONS = "observation"
"""The `item_type` of a set whose items are observations: a query and its reply."""

MESSAGES = "message"
"""The `item_type` of a set whose items are messages."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; an immutable value.

    Attributes:
        content: The text of the message.
        role: The kind of speaker.
        name: The name of the speaker, for models that take names.
        calls: Ids of the tool calls that the message asks for. A message that answers such a call
            belongs to this message: prompts show either both messages or none.
        answers: Ids of the tool calls that the message answers.
    """

    content: str
    role: Role = "user"
    name: str | None = None
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            kind = type(self.content).__name__
            raise InvalidInput(f"the content of a message must be a str, not {kind}; pass str(…)")
        if self.role not in ROLES:
            raise InvalidInput(
                f"the role of a message must be one of {', '.join(ROLES)}, not {self.role!r}"
            )
        for name in ("calls", "answers"):
            object.__setattr__(self, name, _ids(getattr(self, name), name))

    def __str__(self) -> str:
        return self.content

    @classmethod
    def stratum(cls, text: str) -> Self:
        """Return a message with the fixed instructions at the start of a window.

        A window never drops this message.
        """
        return cls(text, "system")

    @classmethod
    def of(cls, message: Message | str, role: Role) -> Message:
        """Return a message unchanged, and a text as a message with this role."""
        return message if isinstance(message, Message) else cls(message, role)

    def to_dict(self) -> dict[str, Value]:
        """Return the message as a storable value, without unset fields."""
        made: dict[str, Value] = {"role": self.role, "content": self.content}
        if self.name is not None:
            made["name"] = self.name
        if self.calls:
            made["calls"] = list(self.calls)
        if self.answers:
            made["answers"] = list(self.answers)
        return made

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> Self:
        """Return the message for which `to_dict` returned *value*.

        Raises:
            InvalidInput: *value* is not a message.
        """
        given = dict(value)
        unknown = [name for name in given if name not in cls.__dataclass_fields__]
        if unknown or "content" not in given:
            problem = f"has {unknown[0]!r}" if unknown else "has no content"
            raise InvalidInput(
                f"a message {problem}; the fields are {', '.join(cls.__dataclass_fields__)}"
            )
        return cls(**given)  # pyright: ignore[reportArgumentType] - each is checked on the way in

    def to_chat(self) -> dict[str, str]:
        """Return the message as `ChatModel.complete` takes it. Tool answers get the role "user"."""
        made = {"role": "user" if self.role == "tool" else self.role, "content": self.content}
        return made if self.name is None else made | {"name": self.name}


def _ids(given: object, what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput(f"the {what} of a message must be a list of ids, not {given!r}")
    listed = cast("Sequence[object]", given)
    if wrong := [one for one in listed if not isinstance(one, str) or not one]:
        raise InvalidInput(f"the {what} of a message must contain only ids, not {wrong[0]!r}")
    return tuple(cast("Sequence[str]", listed))

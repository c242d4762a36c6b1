"""A session of the OpenAI Agents SDK. The SDK is not imported: a session is a protocol.

The items of a session are items of a set, so searches cover them like any other items.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast

from alveus.errors import InvalidInput, SessionClosed, StoreClosed
from alveus.errors.short_repr import short_repr
from alveus.integrations.opened import OpenedMemory
from alveus.llm.answer_reader import is_thought, text_said
from alveus.memory.memory import Memory
from alveus.store.items import Item, valid_item
from alveus.values.ids import identity_key
from alveus.values.storable import checked_name, choice

Result = TypeVar("Result")

SessionItem: TypeAlias = dict[str, Any]
"""An item in the SDK's form: a message, a call of a tool, its output, …"""

_TEXTS = ("text", "transcript", "refusal", "name", "arguments", "output", "content", "summary")
"""Fields whose texts are searched, in reading order."""


class AlveusSession(OpenedMemory):
    """The history of a session, for `Runner.run(…, session=…)`. Safe between threads and loops.

    Each call is one commit, and durable when it returns. A cancelled task waits until the call has
    ended.

    Args:
        memory: A memory, or a path or a URL that the session opens, and closes with `close`.
        key: The owner of the session, such as a user. None means a separate key,
            ``openai_agents.session:ID``. The items are in the set ``session.ID`` of the key.
        clearing: How `clear_session` clears: "retire" deletes the items, and keeps their history
            for as long as the memory keeps it; "forget" erases them, and leaves a receipt.
        session_settings: The SDK's `SessionSettings`, or its fields as a dict, as in the SDK's
            sessions. Its `limit` is the default of `get_items`.

    Raises:
        InvalidInput: An argument has the wrong type, or a field of the settings is unknown.
    """

    def __init__(
        self,
        session_id: str,
        memory: Memory | str | Path,
        *,
        key: str | None = None,
        clearing: Literal["retire", "forget"] = "retire",
        session_settings: Any = None,  # noqa: ANN401 - the SDK's SessionSettings
    ) -> None:
        choice(clearing, "clearing", "retire", "forget")
        self.session_id = checked_name(session_id, "a session's id")
        session_key = identity_key("openai_agents.session", session_id)
        of = checked_name(session_key if key is None else key, "a key")
        super().__init__(memory)
        self._session_settings = _settings(session_settings)
        self._clearing = clearing
        self._items = self.memory.key(of).set(f"session.{session_id}")

    @property
    def session_settings(self) -> Any:  # noqa: ANN401 - the SDK's SessionSettings
        """The SDK's settings of the session. They may be assigned as a dict of their fields."""
        return self._session_settings

    @session_settings.setter
    def session_settings(self, given: Any) -> None:  # noqa: ANN401 - the same
        self._session_settings = _settings(given)

    async def get_items(self, limit: int | None = None) -> list[SessionItem]:
        """Return the items, oldest first. With a *limit*, return only the last items.

        Raises:
            InvalidInput: The limit, or the limit of the settings, is not a whole number.
        """
        if limit is None:
            limit = None if self._session_settings is None else self._session_settings.limit
        if limit is not None and type(limit) is not int:
            raise InvalidInput(f"limit must be a whole number or None, not {short_repr(limit)}")
        if limit is not None and limit <= 0:
            await self._check_open()
            return []
        newest = await self.awaited(lambda: self._items.list(newest_first=True, limit=limit))
        return [item.value for item in reversed(newest)]

    async def add_items(self, items: Sequence[SessionItem]) -> None:
        """Append items.

        Raises:
            InvalidInput: The argument is not a list of dicts.
        """
        if not isinstance(items, (list, tuple)) or not all(  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            isinstance(item, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance] - the same
            for item in items
        ):
            raise InvalidInput(f"add_items() needs a list of dicts, not {short_repr(items)}")
        made = [
            valid_item(Item(value=dict(item), text=_text(item), role=_role(item))) for item in items
        ]
        if not made:
            await self._check_open()
            return
        await self.awaited(lambda: self._items.add_many(made))

    async def awaited(self, call: Callable[[], Result]) -> Result:
        """See `OpenedMemory.awaited`.

        Raises:
            SessionClosed: The memory was closed.
        """
        try:
            return await super().awaited(call)
        except StoreClosed as error:
            raise SessionClosed(str(error)) from error

    async def _check_open(self) -> None:
        """Raise `SessionClosed` if the memory was closed, for calls that read and write nothing."""
        await self.awaited(lambda: self._items.list(limit=1))

    async def pop_item(self) -> SessionItem | None:
        """Delete the last item, and return it. No two callers get the same item."""
        popped = await self.awaited(lambda: self._items.pop(1))
        return popped[0].value if popped else None

    async def clear_session(self) -> None:
        """Delete all items; see the argument *clearing* of the class."""

        def clear() -> None:
            if self._clearing == "retire":
                self._items.clear()
            else:
                self._items.forget(where={})

        await self.awaited(clear)


def _settings(given: Any) -> Any:  # noqa: ANN401 - the SDK's SessionSettings
    """Return settings in the SDK's form: from a dict, or from None if the SDK is installed."""
    if hasattr(given, "resolve"):
        return given
    if not isinstance(given, Mapping | None):
        raise InvalidInput(f"session_settings must be a SessionSettings, not {short_repr(given)}")
    try:
        from agents.memory import SessionSettings
    except ImportError:
        if given is None:  # other programs may use the protocol without the SDK
            return None
        raise
    known = [one.name for one in dataclasses.fields(SessionSettings)]
    settings = cast("Mapping[str, Any]", given or {})
    if unknown := [name for name in settings if name not in known]:
        names = ", ".join(known)
        raise InvalidInput(f"session_settings has no field {unknown[0]!r}; its fields are: {names}")
    try:
        return SessionSettings(**settings)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"session_settings cannot be used: {problem}") from problem


def _role(item: Mapping[str, Any]) -> str | None:
    role = item.get("role")
    return role if isinstance(role, str) and role else None


def _text(item: Mapping[str, Any]) -> str:
    """Return the searchable text of an item, without the model's thoughts."""
    return text_said(_role(item), "\n".join(_texts_in(item)))


def _texts_in(part: object) -> list[str]:
    """Return the texts, calls and outputs in an item."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, dict):
        fields = cast("dict[str, object]", part)
        if is_thought(fields):
            return []
        return [text for name in _TEXTS for text in _texts_in(fields.get(name))]
    if isinstance(part, list):
        return [text for one in cast("list[object]", part) for text in _texts_in(one)]
    return [] if part is None else [json.dumps(part)]

"""Shared parts of all integrations: an opened memory, awaited calls, message items, quotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar

from alveus.llm.answer_reader import text_said
from alveus.memory.async_calls import CallExecutor
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.memory.prompt import Piece
from alveus.store.items import Item, valid_item
from alveus.text.budget import Budget
from alveus.values.storable import ValidText, choice, valid_text

Result = TypeVar("Result")

Deleting: TypeAlias = Literal["retire", "forget"]
"""How an integration deletes: "retire" deletes items and keeps their history for as long as the
memory keeps it; "forget" erases them and leaves a receipt.
"""


class OpenedMemory:
    """Holds a memory that was passed, or a memory that this object opens and closes.

    Args:
        memory: A memory, or the path or URL of a memory to open.
        deleting: How items are deleted; see `Deleting`.
    """

    def __init__(self, memory: Memory | str | Path, *, deleting: Deleting = "retire") -> None:
        self._deleting = choice(deleting, "deleting", "retire", "forget")
        self._closes_memory = not isinstance(memory, Memory)
        self.memory = memory if isinstance(memory, Memory) else Memory.open(memory)
        self.loop = CallExecutor()

    @property
    def sync(self) -> Self:
        """The object itself, for `alveus.memory.async_calls.awaited`."""
        return self

    def close(self) -> None:
        """Close the memory if this object opened it. Later calls raise `StoreClosed`."""
        self.loop.close()
        if self._closes_memory:
            self.memory.close()

    async def awaited(self, call: Callable[[], Result]) -> Result:
        """Return the result of *call*, run in a thread.

        A cancelled task waits until the call has ended.
        """
        return await self.loop.run(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Connected(OpenedMemory):
    """The base of a checkpointer and a store: the calls by which LangGraph's users open them."""

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:  # noqa: ANN401 - of Memory.open, and of the class
        """Open a memory at a path or a URL. Use it as ``with`` or ``async with``, or `close` it.

        Args:
            options: ``space`` and ``embedder`` of `Memory.open`. All other options are arguments of
                the class.
        """
        of_memory = {name: options.pop(name) for name in ("space", "embedder") if name in options}
        memory = Memory.open(conn_string, **of_memory)
        try:
            made = cls(memory, **options)
        except BaseException:
            memory.close()
            raise
        made._closes_memory = True
        return made

    def setup(self) -> None:
        """Do nothing: opening a memory creates its tables."""

    async def asetup(self) -> None:
        """Do nothing, see `setup`."""


class Dumpable(Protocol):
    """A pydantic model, without an import of pydantic."""

    def model_dump(self, *, mode: str = ..., exclude_none: bool = ...) -> dict[str, Any]:
        """Return the fields, as pydantic does."""
        ...

    @classmethod
    def model_validate(cls, obj: Any) -> Dumpable:  # noqa: ANN401 - pydantic's
        """Return a model from fields, as pydantic does."""
        ...


def plain_json(model: Dumpable, *, exclude_none: bool = False) -> ValidText[dict[str, Any]]:
    """Return a pydantic model as storable JSON, and the number of replaced characters.

    Characters that cannot be stored are replaced before pydantic makes JSON: for a field name with
    a lone surrogate, one version of pydantic raises an error and another writes three characters.
    """
    fields = valid_text(model.model_dump())
    if fields.replaced:
        model = type(model).model_validate(fields.value)
    return ValidText(model.model_dump(mode="json", exclude_none=exclude_none), fields.replaced)


def message_item(
    value: ValidText[dict[str, Any]],
    role: str | None,
    text: str,
    **fields: Any,  # noqa: ANN401 - of Item
) -> Item:
    """Return a message as an item. Search reads its text, without a model's thoughts.

    Args:
        value: The message as JSON, from which the framework's class can be restored.
        fields: Further fields of the item.
    """
    item = Item(value=value.value, text=text_said(role, text), role=role or None, **fields)
    return valid_item(item, in_value=value.replaced)


def quoted(
    key: KeyMemory,
    query: str,
    *,
    budget_tokens: int,
    options: Mapping[str, Any],
    hidden: str | None = None,
) -> str:
    """Return a quotation of a key's memory for a query, within a budget.

    If the search finds nothing, the result is a sentence with the reason, or "" if the budget is
    too small for the sentence.

    Args:
        options: Further arguments of `KeyMemory.context`.
        hidden: A set that is not quoted, unless *options* name the sets.
    """
    budget = Budget()
    chosen: dict[str, Any] = {"sets": [name for name in key.sets() if name != hidden], **options}
    prompt = key.context(
        query,
        budget_tokens=budget_tokens + budget.count(query) + budget.message_tokens,
        messages=None,
        **chosen,
    )
    first = prompt.messages[0]
    return first["content"] if first["role"] == "system" else ""


def shown_items(key: KeyMemory, query: str, *, options: Mapping[str, Any]) -> list[Piece]:
    """Return the items that a prompt of 1,000 tokens shows for a query, best first.

    Args:
        options: Further arguments of `KeyMemory.context`.
    """
    budget = Budget()
    tokens = 1_000 + budget.count(query) + budget.message_tokens
    made = key.context(query, budget_tokens=tokens, messages=None, knowledge=None, **options)
    items = [piece for piece in made.why if piece.shown and piece.part == "items"]
    return sorted(items, key=lambda piece: piece.rank)

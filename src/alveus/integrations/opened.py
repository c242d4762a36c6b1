"""What integrations have in common: a memory, who closes it, calls that are awaited, quotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from alveus.memory.async_calls import CallExecutor
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.text.budget import Budget
from alveus.values.storable import ValidText, valid_text

Result = TypeVar("Result")


class OpenedMemory:
    """A memory that was given, or opened by this object; closed for good by `close`.

    Args:
        memory: A memory, or a path or a URL at which one is opened.
    """

    def __init__(self, memory: Memory | str | Path) -> None:
        self._is_own = not isinstance(memory, Memory)
        self.memory = memory if isinstance(memory, Memory) else Memory.open(memory)
        self._calls = CallExecutor()

    def close(self) -> None:
        """Close the memory, if this object opened it. Later calls raise `StoreClosed`."""
        self._calls.close()
        if self._is_own:
            self.memory.close()

    async def awaited(self, call: Callable[[], Result]) -> Result:
        """Return what *call* returns, in a thread; who is cancelled waits until it has ended."""
        return await self._calls.run(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Dumpable(Protocol):
    """A model of pydantic, of which nothing is imported here."""

    def model_dump(self, *, mode: str = ..., exclude_none: bool = ...) -> dict[str, Any]:
        """Return the fields, as pydantic does."""
        ...

    @classmethod
    def model_validate(cls, obj: Any) -> Dumpable:  # noqa: ANN401 - pydantic's
        """Return a model of fields, as pydantic does."""
        ...


def plain_json(model: Dumpable, *, exclude_none: bool = False) -> ValidText[dict[str, Any]]:
    """Return a model of pydantic as JSON that can be stored, for the item that `valid_item` makes.

    Texts are replaced before pydantic makes JSON: of the name of a field with a lone surrogate one
    version of pydantic makes an error, and another one three characters.
    """
    fields = valid_text(model.model_dump())
    if fields.replaced:
        model = type(model).model_validate(fields.value)
    return ValidText(model.model_dump(mode="json", exclude_none=exclude_none), fields.replaced)


def quoted(key: KeyMemory, query: str, *, budget_tokens: int, options: Mapping[str, Any]) -> str:
    """Return what a prompt quotes of a key's memory for a query, within a budget.

    If nothing is found, it is a sentence that says why; "" if the budget has no room for it.

    Args:
        options: Of `KeyMemory.context`.
    """
    budget = Budget()
    prompt = key.context(
        query,
        budget_tokens=budget_tokens + budget.count(query) + budget.message_tokens,
        messages=None,
        **options,
    )
    first = prompt.messages[0]
    return first["content"] if first["role"] == "system" else ""

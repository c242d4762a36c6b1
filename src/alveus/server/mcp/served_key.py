"""The key of an MCP server, its tools, and the tools that each caller may use."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, cast

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.memory.keys import KeyMemory
from alveus.memory.memory_tools import READING, MemoryTools, ToolAnswer, ToolSchema, memory_tools
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import REPLACED, valid_text

TOOLS = ("remember", "recall", "context", "correct", "forget", "list", "explain")
"""The tools, in the order of the list that clients get."""

IDEMPOTENCY_KEY = "alveus/idempotency-key"
"""The field of a request's ``_meta`` with the client's idempotency key."""

LONGEST_KEY = 1_000
"""The longest idempotency key, in characters."""


@dataclass(frozen=True, slots=True)
class Asker:
    """The caller of a request.

    Attributes:
        refusal: A sentence that says why the caller may only read, and the remedy. None if the
            caller may write.
    """

    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a tool, as a client sent it.

    Attributes:
        connection: A random name of the connection, or None if the request has no connection.
        request_id: The client's id of the request.
    """

    tool: str
    arguments: Mapping[str, object]
    meta: Mapping[str, object]
    connection: str | None
    request_id: int | str | None

    @property
    def replaced(self) -> int:
        """The number of characters of the arguments that `valid_request` replaced."""
        count = self.meta.get(REPLACED, 0)
        return count if isinstance(count, int) else 0

    def call_id(self) -> str | None:
        """Return the idempotency key of the call, or None if it has none.

        A key that the client sent is valid across connections and crashes. Without such a key, the
        result is made of the connection, the request id, the tool and the arguments.

        Raises:
            InvalidInput: The client's key is invalid.
        """
        named = self.meta.get(IDEMPOTENCY_KEY)
        if named is not None:
            if not isinstance(named, str) or not 1 <= len(named) <= LONGEST_KEY:
                raise InvalidInput(
                    f"_meta[{IDEMPOTENCY_KEY!r}] must be a text of 1 to {LONGEST_KEY:,} "
                    f"characters, not {short_repr(named)}; nothing was changed"
                )
            return named
        if self.connection is None or self.request_id is None:
            return None
        kind = type(self.request_id).__name__  # 1 and "1" are two requests
        what = f"{self.tool} {sorted(self.arguments.items())!r}".encode("utf-8", "surrogatepass")
        return f"mcp {self.connection} {kind} {self.request_id} {sha256(what).hexdigest()}"


class ServedKey:
    """The key of a memory that MCP clients use. It is thread-safe."""

    def __init__(
        self, key: KeyMemory, *, set: str = "default", forget: Literal["delete", "erase"] = "delete"
    ) -> None:
        self.key = key
        self._all = memory_tools(key, set=set, blocks=(), only=TOOLS, forget=forget)
        self._reading = memory_tools(key, set=set, blocks=(), only=READING)

    def _tools(self, asker: Asker) -> MemoryTools:
        return self._all if asker.refusal is None else self._reading

    def schemas(self, asker: Asker) -> list[ToolSchema]:
        """Return the tools that a caller may use."""
        by_name = {schema.name: schema for schema in self._tools(asker).schemas}
        return [by_name[name] for name in TOOLS if name in by_name]

    def input_schema(self, tool: str) -> dict[str, object] | None:
        """Return the JSON Schema of a tool's arguments, or None if the tool does not exist."""
        return next((s.input_schema() for s in self._all.schemas if s.name == tool), None)

    def call(self, asked: Asked, asker: Asker) -> ToolAnswer:
        """Run a model's call once per `Asked.call_id`. The answer describes the model's mistakes.

        Raises:
            AlveusError: The store failed.
        """
        if asker.refusal is not None and asked.tool in {*TOOLS} - {*READING}:
            return ToolAnswer(f"{asked.tool} changes the memory. {asker.refusal}", is_error=True)
        try:
            call_id = asked.call_id()
        except InvalidInput as error:
            return ToolAnswer(str(error), is_error=True)
        answer = self._tools(asker).call(asked.tool, asked.arguments, call_id=call_id)
        reads = answer.is_error or asked.tool in READING
        return answer if reads else answer.noting(asked.replaced)


def valid_request(sent: object) -> object:
    """Return a JSON-RPC message whose ``arguments`` and ``clientInfo`` are made valid text.

    `mcp` would reject a message with an escaped lone surrogate. `valid_text` replaces invalid
    characters, and their number is added to ``_meta``. Names and ids do not change.
    """
    if not isinstance(sent, dict):
        return sent
    request = cast("dict[str, object]", sent)
    params = request.get("params")
    if not isinstance(params, dict):
        return request
    known = cast("dict[str, object]", params)
    said = {name: known[name] for name in ("arguments", "clientInfo") if name in known}
    valid, replaced = valid_text(said)
    if not replaced:
        return request
    meta = known.get("_meta")
    noted = cast("dict[str, object]", meta) if isinstance(meta, dict) else {}
    noted = {**noted, REPLACED: replaced}
    return {**request, "params": {**known, **valid, "_meta": noted}}

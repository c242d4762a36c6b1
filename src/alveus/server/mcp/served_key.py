"""What a server of MCP serves: one key, its tools, and who may use which of them."""

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
"""Names of the tools, in the order in which clients list them."""

IDEMPOTENCY_KEY = "alveus/idempotency-key"
"""The name in a request's ``_meta`` under which a client names a call, to repeat it safely."""

LONGEST_KEY = 1_000
"""Characters of an idempotency key."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks.

    Attributes:
        refusal: Why it may only read, as a whole sentence with what to do; None: it may write.
    """

    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a tool, as a client sent it.

    Attributes:
        connection: A random name of the connection; None: the request has none of its own.
        request_id: As the client numbered it.
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
        """Return under what name the call is done once; None: under none.

        That of the client, which holds across connections and crashes; else, within a connection,
        the number of the request, for the same tool and arguments.

        Raises:
            InvalidInput: What the client sent is no name.
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
    """One key of a memory, as clients of MCP may use it; thread-safe, as the key is."""

    def __init__(
        self, key: KeyMemory, *, set: str = "default", forget: Literal["delete", "erase"] = "delete"
    ) -> None:
        self.key = key
        self._all = memory_tools(key, set=set, blocks=(), only=TOOLS, forget=forget)
        self._reading = memory_tools(key, set=set, blocks=(), only=READING)

    def _tools(self, asker: Asker) -> MemoryTools:
        return self._all if asker.refusal is None else self._reading

    def schemas(self, asker: Asker) -> list[ToolSchema]:
        """Return the tools that somebody may use."""
        by_name = {schema.name: schema for schema in self._tools(asker).schemas}
        return [by_name[name] for name in TOOLS if name in by_name]

    def input_schema(self, tool: str) -> dict[str, object] | None:
        """Return the arguments of a tool as JSON Schema; None: there is no such tool."""
        return next((s.input_schema() for s in self._all.schemas if s.name == tool), None)

    def call(self, asked: Asked, asker: Asker) -> ToolAnswer:
        """Do what a model asks for, once by its `Asked.call_id`; mistakes are answered.

        Raises:
            AlveusError: The store cannot be used.
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


def valid_request(told: object) -> object:
    """Return a message of JSON-RPC whose arguments and client are text; see `valid_text`.

    `mcp` reads no message in which half a surrogate pair is escaped. The number of characters that
    were replaced is added to ``_meta``. Names and ids stay as they are.
    """
    if not isinstance(told, dict):
        return told
    request = cast("dict[str, object]", told)
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

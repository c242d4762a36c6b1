"""The caller of a request, and the memory that its token allows."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any, cast

from alveus.errors import AccessDenied, AlveusError, InvalidInput, StoreClosed
from alveus.memory.keys import KeyMemory, KnowledgeMemory
from alveus.memory.memory import Memory
from alveus.server.json_forms import without_sources
from alveus.server.tokens import ANYBODY, Access, Token, TokenFile
from alveus.values.lazy_dataclass import dataclass

MOST_SPACES = 64
"""The most spaces that are open at once. Opening another space closes an unused one."""

_USES = "alveus.uses"

SCHEMES = ("bearer ", "token ")
"""The schemes before a secret in the header ``Authorization``. Clients of mem0 use the second."""


class Unauthenticated(AlveusError):
    """A request has no token, or an unknown one."""


class Memories:
    """The memories of one store, one per space, opened at first use."""

    def __init__(self, open_space: Callable[[str], Memory]) -> None:
        self._open = open_space
        self._memories: OrderedDict[str, Memory] = OrderedDict()
        self._uses = Counter[str]()
        self._opening = threading.Lock()  # held while a space is opened or closed
        self._lock = threading.Lock()  # guards the fields; not held during open or close
        self._closed = False

    def of(self, space: str, uses: set[str] | None = None) -> Memory:
        """Return the memory of a space.

        Args:
            uses: The spaces that a request uses. *space* is added to them, and stays open until
                `end_uses`. If it is None, the space may be closed at any time.

        Raises:
            InvalidInput: The name is invalid, or too many other spaces are in use.
        """
        memory = self._in_use(space, uses)
        if memory is None:
            with self._opening:
                memory = self._in_use(space, uses)
                if memory is None:
                    self._make_room()
                    opened = self._open(space)
                    with self._lock:
                        self._memories[space] = opened
                        memory = self._noted(space, uses)
        return memory

    def _in_use(self, space: str, uses: set[str] | None) -> Memory | None:
        """Return the memory of a space and record its use, or None if the space is not open."""
        with self._lock:
            if self._closed:
                raise StoreClosed("the server is stopping")
            return self._noted(space, uses) if space in self._memories else None

    def _noted(self, space: str, uses: set[str] | None) -> Memory:
        """Return an open memory and record its use. The caller holds the lock."""
        self._memories.move_to_end(space)
        if uses is not None and space not in uses:
            uses.add(space)
            self._uses[space] += 1
        return self._memories[space]

    def _make_room(self) -> None:
        """Close the least recently used space, if too many are open."""
        with self._lock:
            if len(self._memories) < MOST_SPACES:
                return
            idle = next((space for space in self._memories if not self._uses[space]), None)
            if idle is None:
                raise InvalidInput(
                    f"this server has {MOST_SPACES} spaces in use and opens no more; try again "
                    "later, or start a second server for other spaces"
                )
            closing = self._memories.pop(idle)
        closing.close()

    def end_uses(self, uses: set[str]) -> None:
        """Record that a request that used these spaces has ended."""
        if not uses:
            return
        with self._lock:
            self._uses.subtract(uses)
            for space in uses:
                if not self._uses[space]:
                    del self._uses[space]

    def close(self) -> None:
        """Close all memories."""
        with self._opening:
            with self._lock:
                self._closed = True
                closing = [*self._memories.values()]
                self._memories.clear()
            for memory in reversed(closing):
                memory.close()


class RequestMemories:
    """The memories that a request uses. They stay open until the request ends."""

    def __init__(self, memories: Memories) -> None:
        self._memories, self._uses = memories, set[str]()

    def of(self, space: str) -> Memory:
        """See `Memories.of`."""
        return self._memories.of(space, self._uses)

    def end(self) -> None:
        """Allow the memories to be closed."""
        self._memories.end_uses(self._uses)


def memories_for(scope: MutableMapping[str, Any], memories: Memories) -> RequestMemories:
    """Return the memories that a request uses. Call `end_uses` when the request has ended."""
    found: RequestMemories = scope.setdefault(_USES, RequestMemories(memories))
    return found


def end_uses(scope: MutableMapping[str, Any]) -> None:
    """Record that a request and its response have ended."""
    used: RequestMemories | None = scope.get(_USES)
    if used is not None:
        used.end()


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, with the memories of the server.

    Attributes:
        timezone: The time zone of the caller. None means the time zone of the server.
    """

    token: Token
    memories: Memories | RequestMemories
    timezone: str | None = None

    def memory(self, space: str, access: Access) -> Memory:
        """Return the memory of a space.

        Raises:
            AccessDenied: The token does not allow the access.
        """
        self.token.check_space(space)
        self.token.check(access)
        memory = self.memories.of(space)
        return memory if self.timezone is None else memory.in_timezone(self.timezone)

    def whole(self, space: str) -> Memory:
        """Return the memory of a space, for calls on all of its keys.

        Raises:
            AccessDenied: The token is not "admin", or is limited to some keys.
        """
        memory = self.memory(space, "admin")
        if self.token.keys:
            raise AccessDenied(
                f"token {self.token.name!r} allows only keys that begin with "
                f"{self.token.keys!r}, but this request concerns all keys of a space"
            )
        return memory

    def all_spaces(self, space: str) -> Memory:
        """Return the memory of a space, for calls on all spaces of the store.

        Raises:
            AccessDenied: The token is not "admin", or is limited to some keys or one space.
        """
        memory = self.whole(space)
        if self.token.space is not None:
            raise AccessDenied(
                f"token {self.token.name!r} allows only space {self.token.space!r}, but this "
                "request concerns all spaces of the store"
            )
        return memory

    def key(self, space: str, key: str, access: Access) -> KeyMemory:
        """Return the memory of a key.

        Raises:
            AccessDenied: The token does not allow the access or the key.
        """
        memory = self.memory(space, access)
        self.token.check_key(key)
        return memory.key(key)

    def knowledge(self, space: str, access: Access) -> KnowledgeMemory:
        """Return the knowledge of a space. A token that is limited to keys may only read it."""
        memory = self.memory(space, access)
        if self.token.keys and access != "read":
            raise AccessDenied(
                f"token {self.token.name!r} allows only keys that begin with "
                f"{self.token.keys!r}, but this request concerns knowledge"
            )
        return memory.knowledge

    def owner(self, space: str, key: str | None, access: Access) -> KeyMemory | KnowledgeMemory:
        """Return the memory of a key, or the knowledge if *key* is None."""
        if key is None:
            return self.knowledge(space, access)
        return self.key(space, key, access)

    def shown(self, answer: dict[str, Any], space: str, key: str | None) -> dict[str, Any]:
        """Return the result of a call on a key or on knowledge, as the token may see it.

        Knowledge may be derived from items of any key, in any space that shares the knowledge. A
        token that is limited to some keys or to one space does not see the ids of these items.
        """
        whole = (None, self.memories.of(space).knowledge.name)
        if key is not None or (not self.token.keys and self.token.space in whole):
            return answer
        return cast("dict[str, Any]", without_sources(answer))


def caller_of(
    authorization: str | None,
    tokens: TokenFile | None,
    memories: Memories | RequestMemories,
    timezone: str | None = None,
) -> Caller:
    """Return the caller that the headers ``Authorization`` and ``Alveus-Timezone`` name.

    Raises:
        Unauthenticated: The server has tokens, and none of them has the secret in the header.
    """
    return Caller(token_of(authorization, tokens), memories, timezone)


def token_of(authorization: str | None, tokens: TokenFile | None) -> Token:
    """Return the token whose secret is in the header ``Authorization``.

    If the server has no tokens, return `ANYBODY`.

    Raises:
        Unauthenticated: The server has tokens, and none of them has the secret in the header.
    """
    if tokens is None:
        return ANYBODY
    given = authorization or ""
    scheme = next((each for each in SCHEMES if given[: len(each)].lower() == each), None)
    secret = "" if scheme is None else given[len(scheme) :]
    token = tokens.find(secret)
    if token is None:
        raise Unauthenticated(
            "a token is needed in the header Authorization: Bearer …; create one with alveus "
            "token new"
        )
    return token

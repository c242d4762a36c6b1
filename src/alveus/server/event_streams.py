"""Commits of all processes as server-sent events.

The id of an event is its commit number. A client that sends the last id back, as `EventSource` does
automatically, receives every event once.
"""

from __future__ import annotations

import json
from asyncio import sleep
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from alveus.errors import InvalidInput, NotFound, StoreClosed
from alveus.memory.memory import Memory
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.answers import StrictRoute
from alveus.server.callers import Caller, Unauthenticated, token_of
from alveus.server.routes import RESPONSES, Asking, sends
from alveus.sets.forgetting import ForgottenKeys, is_bare
from alveus.store import Scope
from alveus.store.times import FOREVER

EVENTS = "text/event-stream"

AT_ONCE = {"X-Accel-Buffering": "no"}
"""Makes nginx, and other proxies that read this header, forward events at once."""

FOLLOW_S = 0.25
"""How many seconds a stream waits between two checks for commits of other processes."""

ALIVE_S = 15.0
"""After how many seconds without an event a live stream sends the id of the last commit alone."""

MOST_LOOKED_AT = 200
"""The most commits that a stream reads at once."""

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=RESPONSES)

Position = Annotated[int | None, Query(ge=0, lt=1 << 62, description="The number of a commit.")]
LastEventId = Annotated[
    int | None,
    Header(ge=0, lt=1 << 62, description="The id of the last event that came; as `after`."),
]


class _FollowedKeys(NamedTuple):
    """The keys of a stream: one key or all keys with a prefix, with or without knowledge."""

    memory: Memory
    key: str | None
    prefix: str
    knowledge: bool

    def takes(self, scope: Scope) -> bool:
        """Return whether the stream includes commits of a scope."""
        if scope.key is None:
            return self.knowledge and scope.space == self.memory.knowledge.name
        if scope.space != self.memory.space:
            return False
        return scope.key.startswith(self.prefix) if self.key is None else scope.key == self.key

    def events(self, after: int) -> tuple[list[str], int, bool]:
        """Return the next events after commit *after*.

        Also return the number of the last commit read, and whether no newer commit exists.
        """
        store = self.memory.store
        looked_at = store.scopes_of_commits(after, limit=MOST_LOOKED_AT)
        found = [
            (number, done.scope, is_bare(done), json.dumps(forms.commit_fields(done)))
            for number, scope in looked_at
            if self.takes(scope) and (done := store.effects(number)) is not None
        ]
        # Read last: a key may be forgotten, and used again, while its commits are read.
        forgotten = ForgottenKeys(store, after=after)
        lines = [
            _event(number, fields)
            for number, scope, bare, fields in found
            if self.takes(scope) and not (bare and forgotten.cover(number, scope))
        ]
        upto = looked_at[-1][0] if looked_at else after
        return lines, upto, len(looked_at) < MOST_LOOKED_AT


def _followed(
    caller: Asking,
    space: asked.Space = asked.DEFAULT,
    key: asked.OptionalKey = None,
    prefix: str = "",
) -> _FollowedKeys:
    memory, prefix_of_token = caller.memory(space, "read"), caller.token.keys
    if key is not None:
        caller.token.check_key(key)
    elif not prefix_of_token.startswith(prefix):
        caller.token.check_key(prefix)
    reach = max(prefix, prefix_of_token, key=len)
    return _FollowedKeys(memory, key, reach, knowledge=key is None and not prefix)


async def _position(after: Position = None, last_event_id: LastEventId = None) -> int | None:
    return after if last_event_id is None else last_event_id


@router.get("/events", tags=["events"], responses=sends(EVENTS, each="CommitAnswer"))
def follow_events(
    caller: Asking,
    request: Request,
    followed: Annotated[_FollowedKeys, Depends(_followed)],
    begin: Annotated[int | None, Depends(_position)],
) -> Response:
    """Follow the commits of a key, of keys with a prefix, or of a whole space.

    Each event is a commit with its changes. Without a position, the stream starts now. Forgotten
    data is omitted.
    """
    if begin is not None and begin > (last := _last(followed.memory)):
        raise NotFound(
            f"there is no commit {begin} in this store, whose last commit is {last}; read the "
            "data again, and follow the stream without a position"
        )
    events = _events(followed, caller, request, begin)
    return StreamingResponse(events, media_type=EVENTS, headers=AT_ONCE)


@router.get("/commits", tags=["events"], responses=sends(EVENTS))
def follow_commits(
    caller: Asking, request: Request, space: asked.Space = asked.DEFAULT
) -> Response:
    """Follow the number of the store's last commit, as server-sent events."""
    memory = caller.memory(space, "read")

    def last(seen: int) -> tuple[list[str], int, bool]:
        number = _last(memory)
        return [] if number == seen else [_event(number, str(number))], number, True

    numbers = _stream(last, caller, request, -1)
    return StreamingResponse(numbers, media_type=EVENTS, headers=AT_ONCE)


async def _stream(
    read: Callable[[int], tuple[list[str], int, bool]], caller: Caller, request: Request, seen: int
) -> AsyncGenerator[str]:
    """Yield events until the client disconnects, its token changes, or the server stops.

    Args:
        read: Returns the next events after a commit, the number of the last commit read, and
            whether no newer commit exists.
        seen: The number of the commit after which the stream begins.
    """
    quiet_s = 0.0
    while True:
        try:
            lines, seen, is_all = await run_in_threadpool(read, seen)
        except StoreClosed:
            return
        if await _is_over(caller, request):  # a read may have waited for other streams
            return
        if lines:  # at once: only a second write shows that a client has gone
            yield "".join(lines)
        quiet_s = 0.0 if lines else quiet_s + FOLLOW_S
        if quiet_s > ALIVE_S:
            quiet_s = 0.0
            yield f"id: {seen}\n\n"  # a client that has gone is noticed by a write
        if is_all:
            await sleep(FOLLOW_S)


async def _events(
    followed: _FollowedKeys, caller: Caller, request: Request, begin: int | None
) -> AsyncGenerator[str]:
    try:
        seen = await run_in_threadpool(_last, followed.memory) if begin is None else begin
    except StoreClosed:
        return
    yield f"id: {seen}\n\n"  # no event, but gives the client a position to resume from
    async for lines in _stream(followed.events, caller, request, seen):
        yield lines


def _last(memory: Memory) -> int:
    return memory.store.commit_at(FOREVER)


async def _is_over(caller: Caller, request: Request) -> bool:
    """Return whether the server stops, the client disconnected, or its token has changed."""
    state = request.app.state
    try:
        token = token_of(request.headers.get("authorization"), state.tokens)
    except (Unauthenticated, InvalidInput, NotFound):  # the client's next request reports it
        return True
    return state.ends.is_set() or token != caller.token or await request.is_disconnected()


def _event(number: int, data: str) -> str:
    return f"event: commit\nid: {number}\ndata: {data}\n\n"

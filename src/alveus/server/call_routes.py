"""The routes of calls: single calls, and batches of one key committed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import AlveusError, Conflict, SetMoved, StaleItem, Unavailable, Unusable
from alveus.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory, Touched
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server import schemas
from alveus.server.answers import StrictRoute
from alveus.server.calls import CallBody, CallTarget
from alveus.server.routes import RESPONSES, Document, InKey, InOwner
from alveus.store import Scope

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=RESPONSES, tags=["calls"])

MOST_CALLS = 1_000
"""The most calls of one batch. A call of `add_many` counts as one."""


class BatchBody(BaseModel):
    """Calls that are committed together, or not at all."""

    model_config = ConfigDict(extra="forbid", strict=True)
    calls: Annotated[list[CallBody], Field(max_length=MOST_CALLS)]
    dry_run: Annotated[bool, Field(description="Commit nothing; return the last answer.")] = False
    base: Annotated[
        int | None,
        Field(ge=0, lt=1 << 62, description="Exact memory is read as it was after this commit."),
    ] = None
    has_read: Annotated[
        bool, Field(description="The calls depend on exact memory that a dry run read.")
    ] = False
    answered: Annotated[
        int, Field(ge=0, description="How many of the calls a dry run has answered.")
    ] = 0
    touched: Annotated[
        list[schemas.TouchedItem] | None,
        Field(description="As a dry run answered; if it differs by now, nothing is committed."),
    ] = None


class _DryRun(Exception):
    """Raised inside the block of a batch to leave the block without a commit."""


@router.post("/call", **schemas.answers(schemas.CallAnswer))
def make_call(
    at: InOwner, body: Annotated[CallBody, Body()], idempotency_key: asked.Repeatable = None
) -> Document:
    """Make one call on the memory of a key, or on knowledge. `call` is the call's Python name."""
    owner = at.open(body.access)
    if body.in_knowledge and not isinstance(owner, KnowledgeMemory):
        owner = at.caller.knowledge(at.space, body.access)
    once = idempotency_key if body.access == "write" else None
    token = at.caller.token
    answer = body.answer(CallTarget(owner, token, once, renews=token.may("write")))
    return at.caller.shown(answer, at.space, None if body.shows_knowledge else at.key)


@router.post("/batch", **schemas.answers(schemas.BatchAnswer))
def make_batch(at: InKey, body: BatchBody, idempotency_key: asked.Repeatable = None) -> Document:
    """Make several calls in one commit: all of them, or none if one is refused.

    A program that needs results between calls sends `dry_run` after each call, with all calls so
    far, one `Idempotency-Key`, and the `base` of the first response. At the end it sends the
    writing calls without `dry_run`, with `touched` of the last response.
    """
    memory = at.open("write")
    if any(call.in_knowledge and call.access == "write" for call in body.calls):
        at.caller.knowledge(at.space, "write")
    batch = _batch(memory, body.base, idempotency_key)
    answers: list[Document] = []
    with suppress(_DryRun), batch:
        to = CallTarget(batch, at.caller.token)
        answers += _answers(to, batch, body, partial(_is_repetition, memory, idempotency_key))
    done = batch.committed
    answers = [
        at.caller.shown(answer, at.space, None if call.shows_knowledge else at.key)
        for call, answer in zip(body.calls, answers, strict=False)
    ]
    return {
        "base": batch.base,
        "answers": answers[-1:] if body.dry_run else answers,
        "touched": [
            {"key": each.key, "set": each.set_name, "id": each.id, "version": each.version}
            for each in batch.touched
        ],
        "changes": batch.has_changes,
        "commit": None if done is None else forms.attributes(done, "number time adopted"),
    }


def _is_repetition(memory: KeyMemory, idempotency_key: str | None) -> bool:
    """Return whether a batch with this idempotency key was committed before.

    If so, the batch changes nothing now.
    """
    if idempotency_key is None:
        return False
    engine = memory.engine
    op = engine.op(Scope(memory.space, memory.key), idempotency_key)
    return engine.store.commit_of_op(op, request=None, label=idempotency_key) is not None


def _answers(
    to: CallTarget, batch: KeyBatch, body: BatchBody, is_repetition: Callable[[], bool]
) -> Iterator[Document]:
    """Make the calls of a batch and yield their results.

    Raises:
        _DryRun: All calls ran, and the batch is a dry run.
        StaleItem, SetMoved: The calls touch other item versions than the request names.
    """
    if body.has_read:
        batch.short_term.is_exist()
    for number, call in enumerate(body.calls):
        yield _answer(call, to, body if number < body.answered else None)
    if body.dry_run:
        raise _DryRun
    if body.touched is not None and not is_repetition():
        expected = [Touched(each.key, each.set, each.id, each.version) for each in body.touched]
        _compare(expected, batch.touched)


def _batch(memory: KeyMemory, base: int | None, idempotency_key: str | None) -> KeyBatch:
    scope, ttl = Scope(memory.space, memory.key), memory.short_term_ttl
    return KeyBatch(memory.engine, scope, ttl, idempotency_key, base=base)


def _answer(call: CallBody, to: CallTarget, again: BatchBody | None) -> Document:
    """Make a call in a batch, and return the result of the call.

    Args:
        again: The body of the request if an earlier dry run made this call too, else None.

    Raises:
        StaleItem, SetMoved: The call succeeded in the dry run but fails now: its items changed.
    """
    try:
        return call.answer(to)
    except (Conflict, Unavailable, Unusable):
        raise
    except AlveusError as error:
        if again is None or call.set_name is None:
            raise
        wanted = getattr(call, "id", None)
        for each in again.touched or ():
            if (each.set, each.id) == (call.set_name, wanted):
                raise StaleItem(each.id, expected=each.version, found=None) from error
        raise SetMoved(call.set_name) from error


def _compare(before: Sequence[Touched], now: Sequence[Touched]) -> None:
    """Refuse a batch that touches other items or versions than the request names.

    Raises:
        StaleItem: An item has another version.
        SetMoved: The batch touches other items.
    """
    for each, found in zip(before, now, strict=False):
        if each[:3] == found[:3] and each.version != found.version:
            raise StaleItem(each.id, expected=each.version, found=found.version)
        if each != found:
            raise SetMoved(each.set_name)
    if len(before) != len(now):
        raise SetMoved([*before, *now][-1].set_name)

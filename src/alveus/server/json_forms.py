"""JSON forms of a memory's data, for programs that use the command line or the server.

A value has the form of exports: bytes, NaN and large numbers are one-field objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from alveus.store.scope import is_hidden
from alveus.values import wire
from alveus.values.storable import REPLACED, moment
from alveus.values.times import format_time

if TYPE_CHECKING:
    from alveus.store import Effects, Run

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


def fields_of(thing: object) -> dict[str, Json]:
    """Return the result of a memory's call as JSON; see `alveus.memory.remote.codecs`.

    Times are ISO 8601 in UTC; the `time` of an item keeps its offset.
    """
    from alveus.memory.remote.codecs import to_json

    return to_json(type(thing), thing)


def replaced_field(replaced: int) -> dict[str, Json]:
    """Return a dict with the number of replaced characters, or an empty dict if it is 0."""
    return {REPLACED: replaced} if replaced else {}


def attributes(thing: object, names: str) -> dict[str, Json]:
    """Return the attributes of *thing* that *names* lists, as JSON. Times are ISO 8601."""
    return {name: _attribute(getattr(thing, name)) for name in names.split()}


def _attribute(found: object) -> Json:
    if isinstance(found, datetime):
        return format_time(found)
    return [*cast("tuple[Json]", found)] if isinstance(found, tuple) else cast("Json", found)


def without_sources(answer: Json) -> Json:
    """Return a response with the sources of all items removed."""
    if isinstance(answer, Mapping):
        if "sources" in answer and "set" in answer:  # an item, whose value may be anything
            return {**answer, "sources": []}
        return {name: without_sources(field) for name, field in answer.items()}
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return [without_sources(each) for each in answer]
    return answer


def error_of(row: Run) -> dict[str, Any] | None:
    """Return the stored error that parked a run, or None if the run has no error."""
    return None if row.error is None else cast("dict[str, Any]", wire.decode(row.error))


def run_fields(row: Run) -> dict[str, Json]:
    """Return the state of a run as JSON."""
    error = error_of(row)
    return {
        "run": row.id,
        "agent": row.agent,
        "key": row.scope.key,
        "number": row.number,
        "status": row.status,
        "accepted": format_time(moment(row.accepted)),
        "begun": None if row.now is None else format_time(moment(row.now)),
        "ended": None if row.ended is None else format_time(moment(row.ended)),
        "origin": row.origin,
        "error": error and {name: error[name] for name in ("action", "type", "message")},
    }


COMMIT_SHOWS = 20
"""The most paths, and the most items, that are listed per commit. All of them are counted."""


def commit_fields(done: Effects) -> dict[str, Json]:
    """Return a commit and its changes as JSON."""
    begun, put = done.begun_items, [path for path, _ in done.put_nodes]
    replaced = {(item.set, item.record.id) for item in begun}
    ended = [item for item in done.ended_items if (item.set, item.record.id) not in replaced]
    shown = [("written", item) for item in begun] + [("removed", item) for item in ended]
    return {
        "number": done.commit.number,
        "time": format_time(moment(done.commit.time)),
        "key": done.scope.key,
        "values": [list(path) for path in put[:COMMIT_SHOWS]],
        "values_set": len(put),
        "values_removed": len(done.removed_paths),
        "items": [
            {"kind": kind, "set": item.set.name, "id": item.record.id, "version": item.version}
            for kind, item in shown[:COMMIT_SHOWS]
            if not is_hidden(item.set)
        ],
        "items_written": len(begun),
        "items_removed": len(ended),
        "compactions": len(done.compactions),
        "undone": len(done.undone_compactions),
    }

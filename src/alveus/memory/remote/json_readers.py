"""What a server tells in JSON, as the values of alveus; and what is sent to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from alveus.sets.admission import Quarantined
from alveus.sets.forgetting import OutOfReach, Receipt
from alveus.sets.origins import Ancestor, CompactionInfo, Lineage
from alveus.state import NonValue
from alveus.state.tree_values import MISSING, Branch, Expiry
from alveus.store.items import Hit, Hits, Item
from alveus.store.records import check_item, request_json
from alveus.store.times import FOREVER, AsOf, ValidAt, checked_as_of, valid_time
from alveus.values import wire
from alveus.values.storable import Value, checked, microseconds, moment
from alveus.values.times import Zone, format_time, parse_time

if TYPE_CHECKING:
    from alveus.search.projection import MapPoints

Json: TypeAlias = Any
"""What `json.loads` gives, and `json.dumps` takes."""

TIMES = (
    "time", "created", "updated", "accessed", "until", "expire_at", "valid_from", "valid_to",
    "retired",
)  # fmt: skip
"""Fields of an item that are times."""

MICROSECOND = timedelta(microseconds=1)


def value_of(told: object) -> Value:
    """Return the storable value that JSON stands for."""
    return wire.decode_user_json(json.dumps(told))


def value_json(value: object, where: str = "value") -> Json:
    """Return a storable value as JSON.

    Raises:
        InvalidValue: It cannot be stored.
    """
    return wire_json(checked(value, where=where, nan=True))


def wire_json(value: Value) -> Json:
    """Return a value as JSON that the other side checks."""
    return json.loads(wire.encode(value))


def read_item(told: Mapping[str, Any]) -> Item:
    """Return the item that a server tells of."""
    known = {name: value for name, value in told.items() if name in _ITEM_FIELDS}
    for name in TIMES:
        known[name] = None if told[name] is None else parse_time(told[name])
    known["value"], known["metadata"] = value_of(told["value"]), value_of(told["metadata"])
    known["sources"] = tuple(told["sources"])
    return Item(**known, set_name=told["set"])


_ITEM_FIELDS = frozenset({field.name for field in fields(Item)})


def read_hits(told: Mapping[str, Any]) -> Hits:
    """Return the hits that a server tells of."""
    hits = [
        Hit(read_item(hit["item"]), hit["score"], hit["parts"], hit["relevance"])
        for hit in told["hits"]
    ]
    return Hits(
        hits,
        partial=told["partial"],
        reranker_failure=told["reranker_failure"],
        dated=told["dated"],
    )


def read_compaction(told: Mapping[str, Any]) -> CompactionInfo:
    """Return the compaction that a server tells of."""
    made: dict[str, Any] = dict(told)
    made.update({name: value_of(told[name]) for name in ("strategy", "notes")})
    made.update(time=parse_time(told["time"]), added=tuple(told["added"]))
    return CompactionInfo(**made)


def read_lineage(told: Mapping[str, Any]) -> Lineage:
    """Return the lineage that a server tells of."""
    nodes = [
        Ancestor(set_name=node["set"], **{n: v for n, v in node.items() if n != "set"})
        for node in told["nodes"]
    ]
    edges = [(derived, source) for derived, source in told["edges"]]
    return Lineage(tuple(nodes), tuple(edges), told["cut"])


def read_held(told: Mapping[str, Any]) -> Quarantined:
    """Return what a server tells of an item that is held."""
    item, since = read_item(told["item"]), parse_time(told["since"])
    return Quarantined(told["id"], item, told["set"], told["rule"], told["reason"], since)


def read_points(told: Mapping[str, Any]) -> MapPoints:
    """Return the points that a server tells of."""
    import numpy as np

    from alveus.search.projection import MapPoints

    return MapPoints(
        x=np.array(told["x"], np.float64),
        y=np.array(told["y"], np.float64),
        times=np.array(told["times"], np.int64).astype("datetime64[us]"),
        **{name: told[name] for name in told.keys() - {"x", "y", "times"}},
    )


def optional_time(told: str | None) -> datetime | None:
    """Return a time that may be none."""
    return None if told is None else parse_time(told)


def read_receipt(told: Mapping[str, Any]) -> Receipt:
    """Return the receipt that a server tells of."""
    fields = cast("dict[str, Any]", value_of(dict(told)))
    reach = [
        OutOfReach(each["what"], each["note"], tuple(each["paths"]), each["until"])
        for each in fields["out_of_reach"]
    ]
    return Receipt(
        **{name: fields[name] for name in _AS_TOLD},
        time=parse_time(fields["time"]),
        request=fields["request"],
        blocked_by=tuple(fields["blocked_by"]),
        open=tuple(fields["open"]),
        out_of_reach=tuple(reach),
    )


_AS_TOLD = ("id", "commit", "counts", "derived", "restored", "lost", "unread", "state")


def read_context(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the prompt that a server tells of, its pieces as dicts."""
    pieces = [dict(piece) for piece in told["why"]]
    for piece in pieces:
        piece["set_name"], piece["ids"] = piece.pop("set"), tuple(piece["ids"])
        piece["time"] = None if piece["time"] is None else parse_time(piece["time"])
    return {**told, "why": pieces}


def item_json(item: Item, given: frozenset[str] | None = None) -> dict[str, Any]:
    """Return an item as it is sent: what is not as by default.

    Args:
        given: Names of its fields that are sent, whatever they are.
    """
    check_item(item, given)
    plain = cast("dict[str, Any]", request_json(item))
    defaults = cast("dict[str, Any]", request_json(Item(value=None)))
    sent = {
        name: value
        for name, value in plain.items()
        if (value != defaults.get(name) if given is None else name in given)
    }
    for name in TIMES:
        if sent.get(name) is not None:
            sent[name] = format_time(cast("datetime", getattr(item, name)))
    if item.timezone is not None:
        at = datetime.now(UTC) if item.time is None else item.time
        sent["timezone"] = Zone.of(item.timezone).name(at)
    if sent.get("ttl") is not None:
        sent["ttl_s"] = sent.pop("ttl") / 1_000_000
    for name in ("value", "metadata"):
        if name in sent:
            sent[name] = value_json(sent[name])
    for name in given or ():
        sent.setdefault("ttl_s" if name == "ttl" else name, None)
    return sent


def as_of_text(as_of: AsOf | None, what: str = "as_of") -> str | None:
    """Return a moment of the past as it is sent."""
    return None if as_of is None else moment_text(as_of, what)


def moment_text(as_of: AsOf, what: str) -> str:
    """Return a moment of the past, which has to be given, as it is sent."""
    as_of = checked_as_of(as_of, what)
    if isinstance(as_of, int):
        return str(min(as_of, FOREVER))
    return time_text(as_of, what)


def valid_at_text(valid_at: ValidAt | None) -> str | None:
    """Return when something has to hold as it is sent."""
    valid_time(valid_at)
    if valid_at is None or isinstance(valid_at, str):
        return valid_at
    return time_text(valid_at, "valid_at")


def time_text(time: datetime, what: str) -> str:
    """Return a time as it is sent.

    Raises:
        InvalidTime: It has no zone.
    """
    return format_time(moment(microseconds(time, what)))


def expiry_json(expiry: Expiry) -> dict[str, Any]:
    """Return how long a write lasts as it is sent."""
    if isinstance(expiry, timedelta):
        return {"ttl_s": expiry.total_seconds()}
    return {} if expiry is None else {"expires_at": format_time(moment(expiry))}


def read_found(told: Mapping[str, Any]) -> Value | NonValue:
    """Return what was found in exact memory."""
    if told["found"] == "value":
        return value_of(told["value"])
    return NonValue.OBJECT if told["found"] == "object" else MISSING


def branch_nodes(branch: Branch, start: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return an object of exact memory as it is sent: a node for all below it."""
    nodes: list[dict[str, Any]] = []
    for name, field in branch.fields:
        path = (*start, name)
        if isinstance(field, Branch):
            nodes += [{"path": list(path)}, *branch_nodes(field, path)]
        else:
            nodes.append({"path": list(path), "value": value_json(field)})
    return nodes


def read_branch(nodes: list[dict[str, Any]]) -> Branch:
    """Return the object that nodes tell of: each object comes before its fields."""
    inside: dict[tuple[str, ...], list[tuple[str, Any]]] = {(): []}
    for node in nodes:
        path = tuple(node["path"])
        if "value" in node:
            inside[path[:-1]].append((path[-1], value_of(node["value"])))
        else:
            inside[path] = []
            inside[path[:-1]].append((path[-1], None))
    return _branch(inside, ())


def _branch(
    inside: Mapping[tuple[str, ...], list[tuple[str, Any]]], path: tuple[str, ...]
) -> Branch:
    return Branch(
        tuple(
            (name, _branch(inside, (*path, name)) if (*path, name) in inside else value)
            for name, value in inside[path]
        )
    )

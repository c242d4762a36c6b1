"""The forms in which what a memory holds is shown to programs: of the command line, of the server.

A value is as in exports: bytes, NaN and large numbers are objects of one field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from alveus.state.tree_values import Branch
from alveus.store.scope import is_hidden
from alveus.values import wire
from alveus.values.storable import REPLACED, Path, Value, moment
from alveus.values.times import format_time

if TYPE_CHECKING:
    from alveus.facts import Fact, Learning
    from alveus.memory.maintenance import Difference
    from alveus.memory.prompt.context import Context, Piece
    from alveus.sets.admission.quarantine import Quarantined
    from alveus.sets.forgetting import Receipt
    from alveus.sets.origins import CompactionInfo, Lineage
    from alveus.store import Effects, Run
    from alveus.store.items import Hits, Item

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

ITEM_ATTRIBUTES = (
    "importance speaker role session time created updated accessed sources compacted until "
    "expire_at valid_from valid_to version retired"
)


def wired(value: Value) -> Json:
    """Return a storable value as JSON: bytes, NaN and large numbers as one-field objects."""
    return cast("Json", json.loads(wire.encode(value)))


def replaced_field(replaced: int) -> dict[str, Json]:
    """Return what an answer says of characters that were no text; nothing of none."""
    return {REPLACED: replaced} if replaced else {}


def attributes(thing: object, names: str) -> dict[str, Json]:
    """Return the attributes of *thing* that *names* lists, as JSON; a moment is ISO 8601."""
    return {name: _attribute(getattr(thing, name)) for name in names.split()}


def _attribute(found: object) -> Json:
    if isinstance(found, datetime):
        return format_time(found)
    return [*cast("tuple[Json]", found)] if isinstance(found, tuple) else cast("Json", found)


def item_fields(item: Item) -> dict[str, Json]:
    """Return every field of an item, as JSON."""
    value, metadata = wired(item.value), wired(dict(item.metadata))
    return {
        "id": item.id,
        "set": item.set_name,
        "value": value,
        "text": item.text,
        "metadata": metadata,
        **attributes(item, ITEM_ATTRIBUTES),
    }


def without_sources(told: Json) -> Json:
    """Return an answer in which no item says of which others it was made."""
    if isinstance(told, Mapping):
        if "sources" in told and "set" in told:  # an item, whose value may be anything
            return {**told, "sources": []}
        return {name: without_sources(field) for name, field in told.items()}
    if isinstance(told, Sequence) and not isinstance(told, str):
        return [without_sources(each) for each in told]
    return told


def hits_fields(hits: Hits) -> dict[str, Json]:
    """Return the result of a search, as JSON."""
    return {
        "partial": hits.partial,
        "reranker_failure": hits.reranker_failure,
        "dated": hits.dated,
        "hits": [
            {
                "score": hit.score,
                "relevance": hit.relevance,
                "parts": dict(hit.parts),
                "item": item_fields(hit.item),
            }
            for hit in hits
        ],
    }


def context_fields(context: Context) -> dict[str, Json]:
    """Return a prompt and why it is as it is, as JSON."""
    fields = attributes(context, "messages text tokens budget_tokens partial reranker_failure more")
    return fields | {"why": [_piece(piece) for piece in context.why]}


def _piece(piece: Piece) -> dict[str, Json]:
    names = "part source text shown reason tokens rank ids time score"
    return attributes(piece, names) | {"set": piece.set_name, "parts": dict(piece.parts)}


def branch_nodes(branch: Branch, start: Path = ()) -> list[Json]:
    """Return an object of exact memory as JSON: a node for all below it, objects without value."""
    nodes: list[Json] = []
    for name, field in branch.fields:
        path = (*start, name)
        if isinstance(field, Branch):
            nodes += [{"path": list(path)}, *branch_nodes(field, path)]
        else:
            nodes.append({"path": list(path), "value": wired(field)})
    return nodes


def receipt_fields(receipt: Receipt) -> dict[str, Json]:
    """Return what was erased, and what keeps it, as JSON."""
    return {name: wired(value) for name, value in receipt.to_json().items()}


def error_of(row: Run) -> dict[str, Any] | None:
    """Return what is kept of the error that parked a run."""
    return None if row.error is None else cast("dict[str, Any]", wire.decode(row.error))


def run_fields(row: Run) -> dict[str, Json]:
    """Return how far a run is, as JSON."""
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


def compaction_fields(done: CompactionInfo) -> dict[str, Json]:
    """Return a compaction, as JSON."""
    fields = attributes(done, "id commit time by retired added erased undone")
    strategy, notes = wired(dict(done.strategy)), wired(dict(done.notes))
    return fields | {"strategy": strategy, "notes": notes}


def held_fields(held: Quarantined) -> dict[str, Json]:
    """Return an item in quarantine and why it is there, as JSON."""
    return {
        "id": held.id,
        "set": held.set_name,
        "rule": held.rule,
        "reason": held.reason,
        "since": format_time(held.since),
        "item": item_fields(held.item),
    }


def difference_fields(found: Difference) -> dict[str, Json]:
    """Return what changed between two moments, as JSON."""
    tree: list[Json] = [
        {
            "kind": change.kind,
            "path": _path(change.path),
            "before": wired(change.before),
            "after": wired(change.after),
        }
        for change in found.tree
    ]
    items: list[Json] = [
        {
            "kind": change.kind,
            "set": change.set_name,
            "id": change.id,
            "before": None if change.before is None else item_fields(change.before),
            "after": None if change.after is None else item_fields(change.after),
        }
        for change in found.items
    ]
    names = "key since until since_time until_time"
    return attributes(found, names) | {"tree": tree, "items": items}


def fact_fields(fact: Fact) -> dict[str, Json]:
    """Return a fact and what it rests on, as JSON."""
    return cast("dict[str, Json]", wired(fact.to_json()))


def learning_fields(learning: Learning) -> dict[str, Json]:
    """Return what a learning did, as JSON."""
    names = "id conversation model prompt messages added changed taken_back undone"
    return attributes(learning, names)


def _path(path: str | tuple[str, ...]) -> Json:
    return path if isinstance(path, str) else list(path)


def lineage_fields(found: Lineage) -> dict[str, Json]:
    """Return what an item was derived from, as JSON."""
    names = "id version text depth compacted retired erased"
    nodes = [attributes(node, names) | {"set": node.set_name} for node in found.nodes]
    return {"nodes": nodes, "edges": [list(edge) for edge in found.edges], "cut": found.cut}


COMMIT_SHOWS = 20
"""Paths, and items, that are named of one commit; of the others it is said how many there are."""


def commit_fields(done: Effects) -> dict[str, Json]:
    """Return a commit and what it changed, as JSON."""
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

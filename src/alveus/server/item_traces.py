"""The trace of an item: its sources, the items derived from it, and the runs that read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from alveus.errors import NotFound
from alveus.memory.memory import Memory
from alveus.server.json_forms import Json
from alveus.sets.set_compaction import MaySee
from alveus.store import Run, Scope, SetRef, Store, StoredItem
from alveus.store.erasing import ReadSet
from alveus.values.storable import moment
from alveus.values.times import format_time

MOST_RELATIVES = 200
"""The most related items on each side, nearest first."""

MOST_RUNS = 200
"""The most runs of a key that are searched, latest first."""

Links = Callable[[Sequence[int]], list[tuple[int, int]]]

Visible = Callable[[Sequence[int]], list[int]]


class _Side(NamedTuple):
    """Versions on one side of an item: their distances in steps, and the links between them."""

    depths: dict[int, int]
    pairs: set[tuple[int, int]]
    cut: bool


def relatives(memory: Memory, ref: SetRef, item_id: str, *, may_see: MaySee) -> dict[str, Json]:
    """Return an item's sources and the items derived from it, to any depth, as a graph.

    Nodes are versions, the item itself first. `depth` is positive for sources and negative for
    derived items. Edges are pairs of node indexes: (derived, source). Items derived for another key
    are counted, not named.

    Args:
        may_see: Decides which scopes are shown. A source of another scope is shown as erased, and
            nothing beyond it is shown.

    Raises:
        NotFound: The set never contained the item.
    """
    store = memory.store
    versions = [stored.row for stored in store.versions(ref, item_id)]
    if not versions:
        raise NotFound(f"set {ref.name!r} never had an item {item_id!r}")
    root = versions[-1]
    found: dict[int, StoredItem] = {}

    def visible(rows: Sequence[int]) -> list[int]:
        found.update((stored.row, stored) for stored in store.items_by_row(rows))
        return [row for row in rows if row in found and may_see(found[row].set.scope)]

    above = _walk(store.source_links, [root], visible, ends=1)
    below = _walk(store.derived_links, versions, visible, ends=0)
    shown = {root: 0} | {row: depth for row, depth in above.depths.items() if row != root}
    foreign = 0
    for row, depth in below.depths.items():
        stored = found.get(row)
        if stored is not None and stored.set.scope not in (
            ref.scope,
            Scope(memory.knowledge.name, None),
        ):
            foreign += 1
        elif row not in shown and row not in versions:
            shown[row] = -depth
    told = {row: found[row] for row in visible([*shown])}
    places = {row: place for place, row in enumerate(shown)} | dict.fromkeys(versions, 0)
    edges = {
        (places[a], places[b]) for a, b in above.pairs | below.pairs if {a, b} <= places.keys()
    }
    return {
        "nodes": [_node(told.get(row), depth) for row, depth in shown.items()],
        "edges": [[*edge] for edge in sorted(edges) if edge[0] != edge[1]],
        "cut": above.cut or below.cut,
        "foreign": foreign,
    }


def _walk(links: Links, rows: Sequence[int], visible: Visible, *, ends: int) -> _Side:
    """Follow links from *rows*, which have distance 0.

    Args:
        ends: The index of the farther row in a pair (row, source's row).
    """
    depths, pairs, level, depth = dict.fromkeys(rows, 0), set[tuple[int, int]](), rows, 0
    while level and len(depths) <= MOST_RELATIVES:
        depth += 1
        found = links(visible(level))
        pairs.update(found)
        level = sorted({pair[ends] for pair in found} - depths.keys())
        depths |= dict.fromkeys(level, depth)
    cut = len(depths) > MOST_RELATIVES
    kept = dict(list(depths.items())[:MOST_RELATIVES])
    return _Side(kept, pairs, cut)


def _node(stored: StoredItem | None, depth: int) -> dict[str, Json]:
    if stored is None:
        return {"erased": True, "depth": depth, "id": "", "set": "", "text": None, "version": 0}
    return {
        "erased": False,
        "depth": depth,
        "id": stored.record.id,
        "set": stored.set.name,
        "knowledge": stored.set.scope.key is None,
        "text": stored.record.text,
        "version": stored.version,
        "retired": stored.end_commit is not None,
        "compacted": stored.record.compacted,
    }


def readings(store: Store, ref: SetRef, item_id: str) -> list[dict[str, Json]]:
    """Return the steps of the last runs of the item's key that read the item, latest first."""
    runs = store.runs(ref.scope.space, key=ref.scope.key, limit=MOST_RUNS)
    return [told for run in runs for told in _readings_of(store, run, ref, item_id)]


def _readings_of(store: Store, run: Run, ref: SetRef, item_id: str) -> list[dict[str, Json]]:
    told: list[dict[str, Json]] = []
    for step in store.steps(run.id):
        read = ReadSet.of(step.read_set, run.scope)
        asked = [search.query for search in read.searches if (ref, item_id) in search.hits]
        if (ref, item_id) in read.item_refs():
            time = format_time(moment(store.time_of_commit(step.commit)))
            place: dict[str, Json] = {"run": run.id, "agent": run.agent, "action": step.action}
            told.append(place | {"queries": [*asked], "time": time})
    return told

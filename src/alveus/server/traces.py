"""The traces of a run and of an item, assembled from the store's records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, cast

from alveus.errors import NotFound
from alveus.memory.memory import Memory
from alveus.server.json_forms import Json
from alveus.sets.forgetting import refuse_forgotten
from alveus.sets.origins import MaySee
from alveus.state import MemoryKind, Overlay, PathCache, committed_tree
from alveus.state.paths import dotted
from alveus.store import DurableCall, Effects, Node, Run, Scope, SetRef, StepDone, Store, StoredItem
from alveus.store.erasing import ReadSet
from alveus.store.runs import ENDED
from alveus.values import wire
from alveus.values.storable import Path, Value, moment
from alveus.values.times import format_time
from alveus.values.wire import wired

Fields = dict[str, Json]


class Search(TypedDict):
    """A search that a step made, and its results.

    `knowledge` is the name of the searched knowledge. It is None if sets of the key were searched.
    """

    sets: list[str]
    knowledge: str | None
    query: str
    hits: list[Fields]


class Read(TypedDict):
    """The reads of a step. The values in `sensory` are known only until the run ends."""

    short_term: list[Fields]
    sensory: list[Fields]
    items: list[Fields]
    searches: list[Search]


class Wrote(TypedDict):
    """The writes of a step. `sensory` is None once the run has ended."""

    short_term: list[Fields]
    sensory: list[Fields] | None
    items: list[Fields]


class TraceStep(TypedDict):
    """A finished task of a run."""

    step: int
    action: str
    commit: int
    time: str | None
    skipped: Json
    read: Read
    wrote: Wrote
    calls: list[Fields]
    sent: list[Fields]
    outputs: list[Fields]


class OpenStep(TypedDict):
    """The next task, with the durable calls it has made already."""

    step: int
    calls: list[Fields]


def input_of(row: Run) -> Value:
    """Return the data of the event that began a run. For an `InputEvent`, return its input."""
    refuse_forgotten(row)
    fields = _event(wire.decode(row.event))
    data = cast("dict[str, Value]", fields["data"])
    return data["input"] if fields["event"] == "InputEvent" else data


class Trace:
    """The steps of one run, in order."""

    def __init__(self, memory: Memory, row: Run) -> None:
        self._store, self._row = memory.store, row
        self._steps = self._store.steps(row.id)
        self._outputs = self._store.run_outputs(row.id)

    def document(self) -> Fields:
        """Return the trace as JSON."""
        return {
            "input": wired(input_of(self._row)),
            "steps": cast("list[Json]", list(self.steps())),
            "open": cast("Json", self.unfinished()),
            "outputs": [_put_out(output.event) for output in self._outputs],
        }

    def unfinished(self) -> OpenStep | None:
        """Return the durable calls that the next task has already made.

        Return None if it has made none, or if the run has ended.
        """
        if self._row.status in ENDED:
            return None
        ordinal = len(self._steps)
        calls = [_call(call) for call in self._store.durable_calls(self._row.id, ordinal)]
        return OpenStep(step=ordinal, calls=calls) if calls else None

    def steps(self) -> Iterator[TraceStep]:
        """Yield the finished tasks."""
        now = self._row.now or self._row.accepted
        paths = PathCache(MemoryKind.SENSORY)
        sensory = Overlay.over(None, kind=MemoryKind.SENSORY, now=now, paths=paths)
        for step in self._steps:
            effects = self._store.effects(step.commit)
            read_set = ReadSet.of(step.read_set, self._row.scope)
            changed = cast("list[Any]", wire.decode(step.sensory)) if step.sensory else []
            yield TraceStep(
                step=step.ordinal,
                action=step.action,
                commit=step.commit,
                time=None if effects is None else format_time(moment(effects.commit.time)),
                skipped=None if step.skipped is None else wired(wire.decode(step.skipped)),
                read=self._read(read_set, step, sensory, now),
                wrote=Wrote(
                    short_term=[] if effects is None else list(_tree(effects)),
                    sensory=None if self._over else [_delta(delta) for delta in changed],
                    items=[] if effects is None else list(_items(effects)),
                ),
                calls=[_call(call) for call in self._store.durable_calls(step.run, step.ordinal)],
                sent=_sent(step),
                outputs=[_put_out(o.event) for o in self._outputs if o.ordinal == step.ordinal],
            )
            sensory.apply(committed_tree.deltas_from_json(cast("Value", changed)))

    @property
    def _over(self) -> bool:
        return self._row.status in ENDED

    # --- what was read ------------------------------------------------------------------------

    def _read(self, read_set: ReadSet, step: StepDone, sensory: Overlay, now: int) -> Read:
        scope, before = self._row.scope, step.commit - 1
        return Read(
            short_term=[
                _node(path, self._store.node(scope, path, at=before, now=now) if path else _ROOT)
                for path in read_set.short_term
            ],
            sensory=[
                {"path": _path(path)} if self._over else _node(path, sensory.node(path, now))
                for path in read_set.sensory
            ],
            items=[
                fields for ref, ids in read_set.items for fields in self._texts(ref, ids, before)
            ],
            searches=[
                Search(
                    sets=[ref.name for ref in search.sets],
                    knowledge=_knowledge(search.sets[0]),
                    query=search.query,
                    hits=[f for ref, one in search.hits for f in self._texts(ref, [one], before)],
                )
                for search in read_set.searches
            ],
        )

    def _texts(self, ref: SetRef, ids: Sequence[str], at: int) -> Iterator[Fields]:
        """Yield the texts of the items that have these ids, as of commit *at*."""
        for item_id, found in zip(ids, self._store.get(ref, ids, at=at), strict=True):
            text = None if found is None else _text(found)
            yield {"set": ref.name, "knowledge": _knowledge(ref), "id": item_id, "text": text}


# --- as JSON ----------------------------------------------------------------------------------

_ROOT = Node(is_object=True)


def _path(path: Path) -> Json:
    """Return a path as commands accept it: dotted, or a list if a name has a dot."""
    found = dotted(path)
    return found if isinstance(found, str) else [*found]


def _node(path: Path, node: Node | None) -> Fields:
    answer: Fields = {"path": _path(path)}
    if node is None:
        return answer | {"missing": True}
    return answer | ({"object": True} if node.is_object else {"value": wired(node.value)})


def _tree(effects: Effects) -> Iterator[Fields]:
    for path, node in effects.put_nodes:
        yield _node(path, node)
    for path in effects.removed_paths:
        yield {"path": _path(path), "removed": True}


def _delta(delta: list[Any]) -> Fields:
    """Return a change of sensory memory as JSON fields.

    *delta* has the form that `alveus.state.committed_tree` writes.
    """
    kind, path, *rest = delta
    answer: Fields = {"path": _path(tuple(path))}
    match kind:
        case "put":
            return answer | {"value": wired(rest[0])}
        case "create":
            return answer | {"object": True}
        case "refresh":
            return answer | {"expires": rest[0]}
        case _:
            return answer | {"cleared" if kind == "clear" else "removed": True}


def _items(effects: Effects) -> Iterator[Fields]:
    begun = {(each.set, each.record.id) for each in effects.begun_items}
    for each in effects.begun_items:
        yield _item("added" if each.version == 1 else "updated", each)
    for each in effects.ended_items:
        if (each.set, each.record.id) not in begun:
            yield _item("retired", each)


def _item(change: str, stored: StoredItem) -> Fields:
    return {
        "change": change,
        "set": stored.set.name,
        "knowledge": _knowledge(stored.set),
        "id": stored.record.id,
        "version": stored.version,
        "text": _text(stored),
    }


def _knowledge(ref: SetRef) -> str | None:
    return ref.scope.space if ref.scope.key is None else None


def _text(stored: StoredItem) -> Json:
    return stored.record.text


def _call(call: DurableCall) -> Fields:
    outcome = None if call.outcome is None else wired(wire.decode(call.outcome))
    name = "error" if call.status == "raised" else "result"
    return {
        "position": call.position,
        "function": call.name,
        "status": call.status,
        "attempts": call.attempts,
        name: outcome,
    }


def _sent(step: StepDone) -> list[Fields]:
    if step.sent is None:
        return []
    listed = cast("list[tuple[Value, list[str]]]", wire.decode(step.sent))
    return [_event_fields(event) | {"sets_off": [*actions]} for event, actions in listed]


def _put_out(event: str) -> Fields:
    return _event_fields(wire.decode(event))


def _event(stored: Value) -> dict[str, Value]:
    kind, event_id, _, data = cast("list[Value]", stored)
    return {"event": kind, "id": event_id, "data": data}


def _event_fields(stored: Value) -> Fields:
    return cast("Fields", wired(_event(stored)))


# --- items ----------------------------------------------------------------------------------------

MOST_RELATIVES = 200
"""The most versions that a graph of relatives shows on each side of the item: the nearest ones."""

MOST_RUNS = 200
"""The most runs of a key that are searched: the latest ones."""

Links = Callable[[Sequence[int]], list[tuple[int, int]]]

Visible = Callable[[Sequence[int]], list[int]]


class _Side(NamedTuple):
    """The versions on one side of an item: all its sources, or all that is derived from it.

    Attributes:
        depths: The distance of each version from the item, in links.
        pairs: The links between the versions.
        cut: True if farther versions were left out.
    """

    depths: dict[int, int]
    pairs: set[tuple[int, int]]
    cut: bool


def relatives(memory: Memory, ref: SetRef, item_id: str, *, may_see: MaySee) -> dict[str, Json]:
    """Return an item's sources and the items derived from it, to any depth, as a graph.

    Nodes are versions, the item itself first. `depth` is positive for sources and negative for
    derived items. Edges are pairs of node indexes: (derived, source). Derived items in other keys
    are not named. `foreign` is their number.

    Args:
        may_see: Decides which scopes are shown. A source in a scope that is not shown appears as
            erased, and its sources do not appear.

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
    answer = {row: found[row] for row in visible([*shown])}
    positions = {row: number for number, row in enumerate(shown)} | dict.fromkeys(versions, 0)
    edges = {
        (positions[a], positions[b])
        for a, b in above.pairs | below.pairs
        if {a, b} <= positions.keys()
    }
    return {
        "nodes": [_version_node(answer.get(row), depth) for row, depth in shown.items()],
        "edges": [[*edge] for edge in sorted(edges) if edge[0] != edge[1]],
        "cut": above.cut or below.cut,
        "foreign": foreign,
    }


def _walk(links: Links, rows: Sequence[int], visible: Visible, *, ends: int) -> _Side:
    """Follow links from *rows*, whose distance is 0, and return the versions found.

    Args:
        ends: 1 to follow links to sources, 0 to follow them back. A link is (row, source's row).
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


def _version_node(stored: StoredItem | None, depth: int) -> dict[str, Json]:
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
    """Return the steps that read an item, from the last `MOST_RUNS` runs of its key.

    The steps of the latest run are first.
    """
    runs = store.runs(ref.scope.space, key=ref.scope.key, limit=MOST_RUNS)
    return [answer for run in runs for answer in _readings_of(store, run, ref, item_id)]


def _readings_of(store: Store, run: Run, ref: SetRef, item_id: str) -> list[dict[str, Json]]:
    answer: list[dict[str, Json]] = []
    for step in store.steps(run.id):
        read = ReadSet.of(step.read_set, run.scope)
        asked = [search.query for search in read.searches if (ref, item_id) in search.hits]
        if (ref, item_id) in read.item_refs():
            time = format_time(moment(store.time_of_commit(step.commit)))
            fields: dict[str, Json] = {"run": run.id, "agent": run.agent, "action": step.action}
            answer.append(fields | {"queries": [*asked], "time": time})
    return answer

"""Reads all answers of a store, without the numbers that it chose, to compare stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

from alveus.errors import OutputsPruned
from alveus.store import (
    Compaction,
    Effects,
    Feature,
    Node,
    Run,
    Scope,
    SetRef,
    Store,
    StoredItem,
    StoredOutput,
)
from alveus.store.erasing import NO_SPACE
from alveus.store.scope import NameRange
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path

FAR = 1 << 60
"""A number above the numbers of all runs and outputs, and above the times of all commits."""

TASKS = 6
"""The number of tasks of each run whose durable calls are read."""


NAME_RANGES = (NameRange(), NameRange(limit=2, newest_first=True), NameRange(prefix="a", limit=3))
"""Ranges of names that `tree` also reads of each object."""


def lane_reads(
    store: Store, spaces: Sequence[str], commits: Mapping[int, int]
) -> dict[str, object]:
    """Return all answers of *store* about runs of *spaces*.

    Args:
        commits: A dict from commit numbers to positions in the order of commits.
    """
    found = sorted(
        (run for space in spaces for run in store.runs(space, limit=FAR)), key=lambda run: run.id
    )
    order = {run.id: number for number, run in enumerate(found)}
    seen: dict[str, object] = {}
    for run in found:
        seen[f"run {order[run.id]}"] = _run(store, run, order, commits)
    for agent, space in sorted({(run.agent, run.scope.space) for run in found}):
        seen[f"agent {agent} of {space}"] = _agent(store, agent, space, order)
    stats = store.stats()
    seen["runs"] = (stats.runs_waiting, stats.runs_parked, stats.runs_ended)
    return seen


def _run(
    store: Store, run: Run, order: Mapping[int, int], commits: Mapping[int, int]
) -> tuple[object, ...]:
    steps = [
        (s.ordinal, s.action, commits[s.commit], s.sent, s.sensory, s.read_set, s.skipped)
        for s in store.steps(run.id)
    ]
    calls = [
        (c.ordinal, c.position, c.name, c.digest, c.status, c.outcome, c.attempts)
        for ordinal in range(TASKS)
        for c in store.durable_calls(run.id, ordinal)
    ]
    # fmt: off
    return (
        run.agent, run.scope, run.number, run.status, run.event, run.accepted, run.now,
        run.actions, run.ended, run.error, None if run.origin is None else order.get(run.origin),
        store.run(run.id) == run, steps, calls, _outputs(store.run_outputs(run.id)),
    )
    # fmt: on


def _agent(store: Store, agent: str, space: str, order: Mapping[int, int]) -> tuple[object, ...]:
    runs = store.runs(space, agent=agent, limit=FAR)
    scopes = sorted({run.scope for run in runs}, key=repr)
    queues = [
        (scope, [order[run.id] for run in store.queued_runs(agent, scope, limit=FAR)])
        for scope in scopes
    ]
    listed = [
        [order[run.id] for run in store.runs(space, agent=agent, key=scope.key, status="parked")]
        for scope in scopes
    ]
    return (
        [order[run.id] for run in runs],
        queues,
        listed,
        store.waiting_lanes(agent, space, past_parked=False),
        store.waiting_lanes(agent, space, past_parked=True),
        _all_outputs(store, agent, space),
    )


def _all_outputs(store: Store, agent: str, space: str) -> tuple[bool, list[tuple[object, ...]]]:
    """Return whether outputs were pruned, and all remaining outputs."""
    try:
        return False, _outputs(store.outputs(agent, space, limit=FAR))
    except OutputsPruned as error:
        return True, _outputs(store.outputs(agent, space, after=error.floor, limit=FAR))


def _outputs(found: Sequence[StoredOutput]) -> list[tuple[object, ...]]:
    positions = [output.position for output in found]
    assert positions == sorted(set(positions)), "positions rise"
    return [(o.number, o.ordinal, o.key, o.event, o.time) for o in found]


FEW = 3
"""The most fields that are read together."""

PAGE = 3
"""The size of a page: small, so that small tests read several pages too."""


def comparable_node(node: Node) -> tuple[str, int | None]:
    """Return a node in a comparable form: NaN equals NaN, and 1, 1.0 and True differ."""
    return ("object" if node.is_object else wire.encode(node.value), node.expires)


def tree(
    store: Store, scope: Scope, *, now: int, at: int | None = None
) -> list[tuple[Path, tuple[str, int | None]]]:
    """Return the path of every node of an exact tree with its `comparable_node`.

    An object comes before its fields.
    """
    found: list[tuple[Path, tuple[str, int | None]]] = []
    stack: list[tuple[Path, Node]] = [((), Node(is_object=True))]
    while stack:
        path, node = stack.pop()
        if path:
            found.append((path, comparable_node(node)))
        fields = store.children(scope, path, at=at, now=now)
        names = store.field_names(scope, path, at=at, now=now)
        _check_few_fields(store, scope, path, at)
        assert names == [(name, child.expires) for name, child in fields]
        for chosen in NAME_RANGES:
            found_names = store.names_in_range(scope, path, chosen, at=at, now=now)
            assert found_names == chosen.choose(name for name, _ in names)
        stack.extend(((*path, name), child) for name, child in reversed(fields))
    return found


def _check_few_fields(store: Store, scope: Scope, path: Path, at: int | None) -> None:
    """Check that fields read together equal the fields read in order."""
    every = store.children(scope, path, at=at, now=0)
    found = store.few_fields(scope, path, at=at, most=FEW)
    assert (found is None) == (len(every) > FEW)
    for name, node in every if found is not None else ():
        few = (found or {})[name]
        assert few is None or comparable_node(few) == comparable_node(node)
    assert found is None or len(found) == len(every)


def commits(store: Store) -> list[int]:
    """Return the numbers of all commits."""
    last = store.commit_at(FAR)
    return [n for n in range(1, last + 1) if store.effects(n) is not None]


def pages(
    store: Store, ref: SetRef, *, newest_first: bool = False, at: int | None = None
) -> list[StoredItem]:
    """Return all items of a set, read page by page."""
    found: list[StoredItem] = []
    after = None
    while page := store.page(ref, after=after, limit=PAGE, newest_first=newest_first, at=at):
        order = [(item.record.time or 0, item.first) for item in page]
        stuck = after is not None and (order[0] >= after if newest_first else order[0] <= after)
        if stuck:
            raise AssertionError(f"a page past {after} of {ref} begins with {order[0]}")
        found.extend(page)
        after = order[-1]
    return found


class _CanonicalNames:
    """Names for commits and rows of one store that are equal in every store."""

    def __init__(self, store: Store) -> None:
        self.numbers = commits(store)
        self.effects = [e for n in self.numbers if (e := store.effects(n)) is not None]
        self.commits = {n: i for i, n in enumerate([0, *self.numbers])}
        ids = {(item.set, item.record.id) for e in self.effects for item in e.begun_items}
        self.versions = {key: store.versions(*key) for key in sorted(ids, key=repr)}
        self.rows = {v.row: v for versions in self.versions.values() for v in versions}
        self.firsts: dict[int, int] = {}
        for version in self.rows.values():
            earlier = self.firsts.get(version.first, version.version)
            self.firsts[version.first] = min(earlier, version.version)

    def item(self, item: StoredItem) -> tuple[object, ...]:
        return (
            item.set,
            item.version,
            self.firsts[item.first],
            self.commits[item.begin_commit],
            None if item.end_commit is None else self.commits[item.end_commit],
            item.created,
            item.updated,
            item.accessed if item.end_commit is None else None,
            item.record,
        )

    def row(self, row: int) -> tuple[object, ...]:
        version = self.rows[row]
        return (version.set, version.record.id, version.version, self.commits[version.begin_commit])

    def feature(self, feature: Feature) -> tuple[object, ...]:
        ended = None if feature.end_commit is None else self.commits[feature.end_commit]
        begun = self.commits[feature.begin_commit]
        first = self.firsts[feature.first]
        seen = feature._replace(row=0, first=first, begin_commit=begun, end_commit=ended)
        return (self.row(feature.row), seen)

    def compaction(self, done: Compaction) -> tuple[object, ...]:
        return (
            done.set,
            self.commits[done.commit],
            done.time,
            done.how,
            [self.row(row) for row in done.retired if row in self.rows],
            [self.row(row) for row in done.added if row in self.rows],
            done.erased,
            None if done.undo_commit is None else self.commits[done.undo_commit],
            done.purged,
        )

    def pairs(self, pairs: Sequence[tuple[int, int]]) -> list[object]:
        return [(self.row(row), self.row(source)) for row, source in pairs]

    def commit(self, effects: Effects) -> tuple[object, ...]:
        return (
            effects.scope,
            effects.commit.time,
            wire.encode(effects.commit.result),
            sorted((path, comparable_node(node)) for path, node in effects.put_nodes),
            sorted(effects.removed_paths),
            [self.item(replace(item, accessed=None)) for item in effects.begun_items],
            sorted(
                (self.item(replace(item, accessed=None)) for item in effects.ended_items), key=repr
            ),
        )


def reads(
    store: Store, *, now: int, at: Collection[int] | None = None, scopes: Iterable[Scope] = ()
) -> dict[str, object]:
    """Return all answers of *store*: a dict from question to answer.

    Two stores with the same batches in the same order give equal answers, whatever numbers the
    stores chose for commits, rows and sets.

    Args:
        now: The time of the reading.
        at: The commits at which the past is read, as positions from 1. None means all.
        scopes: Further scopes to read, even without an item or tree.
    """
    names = _CanonicalNames(store)
    wanted = range(1, len(names.numbers) + 1) if at is None else sorted(at)
    seen: dict[str, object] = {"commits": [names.commit(e) for e in names.effects]}
    seen["times"] = [names.commits[store.commit_at(e.commit.time)] for e in names.effects]
    seen["clock"] = [store.time_of_commit(n) for n in names.numbers] + [store.time_of_commit(0)]
    seen["expired"] = sorted((names.item(i) for i in store.expired_items(now=now)), key=repr)
    seen["spaces"] = store.spaces()
    for space in seen["spaces"]:
        seen[f"keys of {space}"] = store.keys(space)
    there = {e.scope for e in names.effects} | {ref.scope for ref, _ in names.versions}
    for scope in sorted({s for s in there if s.space != NO_SPACE} | set(scopes), key=repr):
        commit, time = store.history_start(scope)
        seen[f"floor of {scope}"] = names.commits.get(commit), time
        seen[f"head of {scope}"] = names.commits[store.head(scope)]
        seen[f"tree of {scope}"] = tree(store, scope, now=now)
        for i in wanted:
            seen[f"tree of {scope} at {i}"] = tree(store, scope, now=now, at=names.numbers[i - 1])
        for info in store.set_infos(scope):
            seen[f"{info.ref}"] = (
                info.definition,
                info.items,
                info.bytes,
                info.tokens,
                info.next_expiry,
                info.has_validity,
                names.commits.get(info.history_start),
                store.set_info(info.ref) == info,
                store.seq_and_sets([info.ref]) == (store.seq(), [info]),
                info in store.seq_and_sets(scope)[1],
            )
            for i in [None, *wanted]:
                seen[f"{info.ref} at {i}"] = _set_reads(store, names, info.ref, info.number, i)
                seen[f"out of time of {info.ref} at {i}"] = _out_of_time(
                    store, names, info.number, now, i
                )
            seen[f"compactions of {info.ref}"] = _compactions(store, names, info.ref)
    for key, versions in names.versions.items():
        seen[f"versions of {key}"] = [names.item(version) for version in versions]
        seen[f"get {key}"] = [item and names.item(item) for item in store.get(key[0], [key[1]])]
    seen["links"] = names.pairs(store.source_links(sorted(names.rows)))
    seen["derived"] = sorted(names.pairs(store.derived_links(sorted(names.rows))), key=repr)
    seen["stored"] = [names.item(i) for i in store.items_by_row(sorted(names.rows))]
    seen["pending"] = [
        (names.row(p.row), p.text, p.metadata) for p in store.pending_vectors(limit=FAR)
    ]
    numbers = [info.number for scope in there for info in store.set_infos(scope)]
    seen["unstaged"] = [names.row(p.row) for p in store.versions_to_stage(numbers, limit=FAR)]
    stats = store.stats()
    seen["stats"] = (stats.keys, stats.sets, stats.items, stats.item_versions, stats.pending)
    seen["oldest pending"] = (store.count_pending(), stats.oldest_pending)
    return seen | lane_reads(store, store.spaces(), names.commits)


def _set_reads(
    store: Store, names: _CanonicalNames, ref: SetRef, number: int, i: int | None
) -> object:
    at = None if i is None else names.numbers[i - 1]
    found = pages(store, ref, at=at)
    backwards = pages(store, ref, at=at, newest_first=True)
    again = store.get(ref, [item.record.id for item in found], at=at)
    return (
        [names.item(item) for item in found],
        [names.item(item) for item in backwards],
        [item and names.item(item) for item in again],
        [names.feature(feature) for feature in store.features(number, at=at)],
    )


def _out_of_time(
    store: Store, names: _CanonicalNames, number: int, now: int, i: int | None
) -> list[object]:
    """Return the rows that have expired at *now*, or are not valid at one of several times."""
    at = None if i is None else names.numbers[i - 1]
    moments = (None, now, now - 1_000_000)
    return [
        [
            names.row(row)
            for row in store.expired_or_invalid_rows(number, now=now, valid_at=valid_at, at=at)
        ]
        for valid_at in moments
    ]


def _compactions(store: Store, names: _CanonicalNames, ref: SetRef) -> list[object]:
    """Return the compactions of a set. Check that paged reads and single reads agree."""
    found: list[Compaction] = []
    before = None
    while page := store.compactions(ref, before=before, limit=PAGE):
        found += page
        before = page[-1].id
    if [store.compaction(done.id) for done in found] != found:
        raise AssertionError(f"paged reads and single reads of compactions of {ref} differ")
    return [names.compaction(done) for done in found]


def differences(ours: dict[str, object], theirs: dict[str, object]) -> list[str]:
    """Return a line for every question that two stores answered differently."""
    missing = object()
    return [
        f"{name}:\n   {ours.get(name)!r}\n   {theirs.get(name)!r}"
        for name in [*ours, *(n for n in theirs if n not in ours)]
        if ours.get(name, missing) != theirs.get(name, missing)
    ]


@dataclass
class Follower:
    """A copy of the live features of a store, updated only from the store's change log.

    Search keeps its index in the same way. Call `catch_up`, then `agrees_with`.
    """

    seq: int = 0
    live: dict[int, dict[int, Feature]] = field(default_factory=dict[int, dict[int, Feature]])

    def catch_up(self, store: Store, *, limit: int = 10_000) -> None:
        """Apply the changes since the last call.

        Raises:
            LookupError: The change log does not reach back to the last call.
        """
        while True:
            lines = store.changes(self.seq, limit=limit)
            if lines is None:
                raise LookupError("the change log no longer goes back to where this follower is")
            for line in lines:
                home = self.live.setdefault(line.set_number, {})
                home.pop(line.row, None)
                for feature in store.features_of(line.set_number, [line.row]):
                    if feature.end_commit is None:
                        home[line.row] = feature
                self.seq = line.seq
            if not lines:
                return

    def agrees_with(self, store: Store) -> bool:
        """Return whether every known set has exactly the known features."""
        return all(
            {f.row: f for f in store.features(number)} == home for number, home in self.live.items()
        )

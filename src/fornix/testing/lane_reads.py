"""What a store answers about runs, in words that do not depend on its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fornix.errors import OutputsPruned
from fornix.store import Output, Run, Store

FAR = 1 << 60
"""More than there are runs and outputs."""

TASKS = 6
"""Tasks of a run whose durable calls are read."""


def lane_reads(
    store: Store, spaces: Sequence[str], commits: Mapping[int, int]
) -> dict[str, object]:
    """Return all that *store* answers about runs of *spaces*; *commits* names commits."""
    found = sorted(
        (run for space in spaces for run in store.runs(space, limit=FAR)), key=lambda run: run.id
    )
    places = {run.id: place for place, run in enumerate(found)}
    told: dict[str, object] = {}
    for run in found:
        told[f"run {places[run.id]}"] = _run(store, run, places, commits)
    for agent, space in sorted({(run.agent, run.scope.space) for run in found}):
        told[f"agent {agent} of {space}"] = _agent(store, agent, space, places)
    stats = store.stats()
    told["runs"] = (stats.runs_waiting, stats.runs_parked, stats.runs_ended)
    return told


def _run(
    store: Store, run: Run, places: Mapping[int, int], commits: Mapping[int, int]
) -> tuple[object, ...]:
    steps = [
        (s.ordinal, s.action, commits[s.commit], s.sent, s.sensory, s.looked, s.skipped)
        for s in store.steps(run.id)
    ]
    calls = [
        (c.ordinal, c.position, c.name, c.digest, c.status, c.outcome, c.attempts)
        for ordinal in range(TASKS)
        for c in store.calls(run.id, ordinal)
    ]
    # fmt: off
    return (
        run.agent, run.scope, run.number, run.status, run.event, run.accepted, run.now,
        run.actions, run.ended, run.error, None if run.origin is None else places.get(run.origin),
        store.run(run.id) == run, steps, calls, _outputs(store.outputs_of(run.id)),
    )
    # fmt: on


def _agent(store: Store, agent: str, space: str, places: Mapping[int, int]) -> tuple[object, ...]:
    runs = store.runs(space, agent=agent, limit=FAR)
    scopes = sorted({run.scope for run in runs}, key=repr)
    queues = [
        (scope, [places[run.id] for run in store.queue(agent, scope, limit=FAR)])
        for scope in scopes
    ]
    listed = [
        [places[run.id] for run in store.runs(space, agent=agent, key=scope.key, status="parked")]
        for scope in scopes
    ]
    return (
        [places[run.id] for run in runs],
        queues,
        listed,
        store.lanes(agent, space, past_parked=False),
        store.lanes(agent, space, past_parked=True),
        _all_outputs(store, agent, space),
    )


def _all_outputs(store: Store, agent: str, space: str) -> tuple[bool, list[tuple[object, ...]]]:
    """Return whether some were pruned, and the outputs past those."""
    try:
        return False, _outputs(store.outputs(agent, space, limit=FAR))
    except OutputsPruned as error:
        return True, _outputs(store.outputs(agent, space, after=error.floor, limit=FAR))


def _outputs(found: Sequence[Output]) -> list[tuple[object, ...]]:
    positions = [output.position for output in found]
    assert positions == sorted(set(positions)), "positions rise"
    return [(o.number, o.ordinal, o.key, o.event, o.time) for o in found]

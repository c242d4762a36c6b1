"""What runs left in a memory, beside what they would have left undisturbed.

Tokens, strings that begin with ``~``, are compared by where they appear, not by what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from alveus import LocalRunner, Memory
from alveus.store import Run, Scope
from alveus.store.sqlite import SqliteStore
from alveus.values import wire
from runs_worker import CONSUMER, EMBEDDER, MAILBOX, World, agents, deliver, runners

Given = tuple[str, str, dict[str, Any], str | None]
"""An input: its agent, key and value, and its event id."""


def check(memory: Memory, world: Path, inputs: Sequence[Given], *, once: bool) -> None:
    """Assert that all inputs were run once, and left what an undisturbed run leaves.

    Args:
        once: Durable calls were made by one process at a time, so that they can be counted.
    """
    store = memory.store
    assert isinstance(store, SqliteStore)
    assert store.problems() == []
    with runners(memory, world) as by_name:
        for runner in by_name.values():
            deliver(memory, runner, wait_s=0)
    rows = {name: all_runs(memory, name) for name in by_name}
    for name in by_name:
        check_inputs([given for given in inputs if given[0] == name], rows[name])
        check_mail(memory, name, rows[name])
    for row in rows["Teller"] if once else ():
        check_calls(memory, row, World(world))
    for key in list(memory.keys()):
        lease = store.acquire_lease(Scope(memory.space, key), "whoever asks")
        assert lease is not None, "a lease is left"
        store.release_lease(lease)
    found = shape(memory, rows)
    assert_equal(undisturbed(world.with_suffix(".quiet"), rows), found)


def all_runs(memory: Memory, agent: str) -> list[Run]:
    """Return the runs of an agent, in the order their inputs were accepted."""
    found: list[Run] = []
    while page := memory.store.runs(
        memory.space, agent=agent, before=found[-1].id if found else None
    ):
        found += page
    return found[::-1]


def check_inputs(inputs: Sequence[Given], rows: Sequence[Run]) -> None:
    """Assert that each input has one run, which is done, and that these are numbered per key."""
    wanted = Counter((key, value["n"]) for _, key, value, _ in inputs)
    assert Counter((row.scope.key, sent(row)["n"]) for row in rows) == wanted
    assert max(wanted.values(), default=1) == 1
    assert {row.status for row in rows} <= {"done"}
    for key in {row.scope.key for row in rows}:
        numbers = [row.number for row in rows if row.scope.key == key]
        assert numbers == list(range(len(numbers)))


def sent(row: Run) -> dict[str, Any]:
    """Return the value that was submitted."""
    event: Any = wire.decode(row.event)
    return event[3]["input"]


def check_mail(memory: Memory, agent: str, rows: list[Run]) -> None:
    """Assert that the consumer carried every output once, in order."""
    positions = [output.position for row in rows for output in memory.store.run_outputs(row.id)]
    mail = memory.key(f"{MAILBOX} {agent}").set("mail").list()
    assert [item.metadata["position"] for item in mail] == sorted(positions)
    assert memory.store.consumer_position(agent, memory.space, CONSUMER) == max(
        positions, default=0
    )


def check_calls(memory: Memory, row: Run, world: World) -> None:
    """Assert that no durable call was made once it was complete, and reconciled ones once."""
    made: dict[str, list[str]] = {}
    for name, token, _ in world.calls():
        made.setdefault(name, []).append(token)
    for step in memory.store.steps(row.id):
        for call in memory.store.durable_calls(row.id, step.ordinal):
            assert call.status != "pending"
            token = next(text for text in texts(outcome(call.outcome)) if text.startswith("~"))
            name = next(name for name, tokens in made.items() if token in tokens)
            assert made[name][-1] == token, f"{name} was made again after it was complete"
            if not name.startswith("charge"):
                assert made[name] == [token], f"{name} was made twice, and has a reconciler"


def outcome(stored: str | None) -> Any:
    """Return what a durable call left, without the place that its error was raised at."""
    assert stored is not None
    return wire.decode(stored)


def texts(value: Any) -> Iterator[str]:
    """Yield the strings in a value, in an order that follows from its shape."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name in sorted(value):
            yield from texts(value[name])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)


def shape(memory: Memory, rows: dict[str, list[Run]]) -> Any:
    """Return all that runs left, with tokens named by where they first appear."""
    keys = sorted({row.scope.key or "" for each in rows.values() for row in each})
    found = {
        "runs": {name: [run_left(memory, row) for row in each] for name, each in rows.items()},
        "state": {key: memory.key(key).short_term.to_dict() for key in keys},
        "items": {
            key: {
                name: items_left(memory.key(key).set(name))
                for name in ("counts", "latest", "notes")
            }
            for key in keys
        },
        "knowledge": items_left(memory.knowledge.set("handbook")),
    }
    names: dict[str, str] = {}
    return renamed(found, names)


def run_left(memory: Memory, row: Run) -> Any:
    """Return what one run left."""
    steps: list[Any] = []
    for step in memory.store.steps(row.id):
        assert step.sensory is None, "sensory memory outlives its run"
        assert step.skipped is None
        events: Any = [] if step.sent is None else wire.decode(step.sent)
        calls = memory.store.durable_calls(row.id, step.ordinal)
        steps.append(
            {
                "place": [step.ordinal, step.action],
                "sent": [[kind, data, then] for [kind, _, _, data], then in events],
                "calls": [[c.name, c.status, c.attempts, outcome(c.outcome)] for c in calls],
            }
        )
    outputs: list[Any] = [wire.decode(o.event) for o in memory.store.run_outputs(row.id)]
    return {
        "key": row.scope.key,
        "number": row.number,
        "actions": list(row.actions or ()),
        "steps": steps,
        "outputs": [[kind, data] for kind, _, _, data in outputs],
    }


def items_left(items: Any) -> list[Any]:
    """Return the items of a set in an order that does not depend on tokens."""
    left = [
        [[m.get(n) for n in ("agent", "key", "run", "place")], item.text, item.version, m]
        for item in items.list()
        for m in [item.metadata]
    ]
    return sorted(left, key=lambda each: repr(each[0]))


def renamed(value: Any, names: dict[str, str]) -> Any:
    """Return a value with tokens replaced by the order in which they appear."""
    if isinstance(value, str):
        return names.setdefault(value, f"~{len(names)}") if value.startswith("~") else value
    if isinstance(value, dict):
        return {name: renamed(value[name], names) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [renamed(each, names) for each in value]
    return value


def undisturbed(world: Path, rows: dict[str, list[Run]]) -> Any:
    """Return what the same inputs leave, in the same order, if nobody is killed."""
    with Memory.open(":memory:", embedder=EMBEDDER) as memory:
        for name, agent in agents(world).items():
            with LocalRunner(agent, memory) as runner:
                for row in rows[name]:
                    runner.handle(row.scope.key or "", sent(row))
        return shape(memory, {name: all_runs(memory, name) for name in rows})


def assert_equal(wanted: Any, found: Any, where: str = "") -> None:
    """Assert that two values are equal; tell the first place where they are not."""
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() == found.keys():
        for name in wanted:
            assert_equal(wanted[name], found[name], f"{where}/{name[:20]}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for place, (one, other) in enumerate(zip(wanted, found, strict=True)):
            assert_equal(one, other, f"{where}/{place}")
    elif wanted != found:
        message = f"{where}: {str(wanted)[:300]} undisturbed, {str(found)[:300]} after kills"
        raise AssertionError(message)

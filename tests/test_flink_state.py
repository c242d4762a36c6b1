"""What Flink's keyed state holds of a key: its exact memory as records, and its inputs."""

from __future__ import annotations

import json
import random
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import InvalidInput
from alveus.runs.runner.flink import FlinkRunner, FlinkSettings
from alveus.runs.runner.flink.flink_runner import files_of, folders_of, reference_to
from alveus.runs.runner.flink.hot_tree import CHUNK_NAMES, MOST_NODES, HotRecords, HotTree
from alveus.runs.runner.flink.records import input_from, key_of, key_text
from alveus.runs.runner.flink.settings import MARGIN_S, TIMEOUT_S, covered_until, latest
from alveus.runs.runner.flink.subtask import FlinkJob, KeyState, Subtask
from alveus.runs.task import RunnerHooks
from alveus.store import Clear, Create, Delete, Put
from alveus.store.sqlite import SqliteStore
from alveus.testing import ADA, NOW, write
from harness.runner.contract import RunnerContract
from harness.store.contract import WholePersistentContract
from harness.store.store_machine import play_beside, store_machine
from scale import COUNTS
from test_runner import OnDisk
from tiered_store import TieredStore
from waiting import wait_until

# --- the records of a key -------------------------------------------------------------------------


def kill(store, owner):
    assert isinstance(store, SqliteStore)
    assert store._owners is not None
    store._owners.dismiss(owner)


class TestTiered(WholePersistentContract):
    """The contract of stores holds where hot keys are read from keyed state."""

    def open(self, path):
        return TieredStore.open(path)

    def kill_owner(self, store, owner):
        kill(store, owner)


TestTieredMachine = store_machine(TieredStore.open, kill_owner=kill, persistent=True).TestCase
TestTieredMachine.settings = settings(max_examples=COUNTS.store_walks)


@pytest.mark.parametrize("seed", range(3))
def test_tiers_agree_with_ram_batch_by_batch(tmp_path, seed):
    store = TieredStore.open(tmp_path / "memory.db", durability="normal")
    play_beside(store, batches=COUNTS.random_ops // 5, seed=seed)
    store.close()


class TestHotRunner(OnDisk, RunnerContract):
    """The contract of runners holds where trees are read from keyed state."""

    def runner(self, agent, memory, **options):
        records = {}

        def tree(ledger, scope, epoch):
            return HotTree(ledger, scope, epoch, records.setdefault(scope, HotRecords()))

        return LocalRunner(agent, memory, hooks=RunnerHooks(tree), **options)


@pytest.fixture
def store(tmp_path):
    made = SqliteStore.open(tmp_path / "memory.db", durability="normal")
    yield made
    made.close()


def hot(store, records):
    return HotTree(store, ADA, 1, records)


def test_an_object_has_its_names_in_chunks(store):
    """At most 256 in each; a chunk goes with its last name, and the order stays."""
    names = [f"n{number}" for number in range(600)]
    write(store, Create(("o",)), *(Put(("o", name), 1) for name in names))
    records = HotRecords()
    assert [name for name, _ in hot(store, records).children(("o",), NOW)] == names
    texts = records.drain()
    chunks = [json.loads(texts[f'n["o"]{i}'] or "") for i in range(3)]
    assert [len(chunk) for chunk in chunks] == [CHUNK_NAMES, CHUNK_NAMES, 600 - 2 * CHUNK_NAMES]
    tree = hot(store, records)
    gone = [Delete(("o", name)) for name in names[:CHUNK_NAMES]]
    tree.node((), NOW)
    tree.apply(gone, write(store, *gone).number)
    assert [name for name, _ in tree.children(("o",), NOW)] == names[CHUNK_NAMES:]
    assert records.drain()['n["o"]0'] is None


def test_a_large_tree_is_read_from_the_store_until_it_is_emptied(store):
    """It has one record, which says so."""
    names = [f"n{number}" for number in range(MOST_NODES + 1)]
    write(store, *(Put((name,), 1) for name in names))
    records = HotRecords()
    tree = hot(store, records)
    assert len(tree.children((), NOW)) == len(names)
    assert [name for name, text in records.drain().items() if text is not None] == [""]
    tree.apply([Put(("n0",), 2)], write(store, Put(("n0",), 2)).number)
    node = hot(store, records).node(("n0",), NOW)
    assert node is not None
    assert node.value == 2
    emptied = [Clear(()), Put(("a",), 1)]
    tree = hot(store, records)
    tree.apply(emptied, write(store, *emptied).number)
    assert [name for name, _ in hot(store, records).children((), NOW)] == ["a"]
    assert 'v["a"]' in records.drain()


def test_records_of_another_store_are_not_taken(store, tmp_path):
    """Though they are of a commit of that number."""
    records = HotRecords()
    write(store, Put(("a",), "mine"))
    assert hot(store, records).node(("a",), NOW) is not None
    other = SqliteStore.open(tmp_path / "other.db", durability="normal")
    write(other, Put(("b",), "yours"))
    tree = HotTree(other, ADA, 1, records)
    assert [name for name, _ in tree.children((), NOW)] == ["b"]
    other.close()


# --- a part of a job ------------------------------------------------------------------------------


class Half(Event):
    n: int
    token: str


@action(InputEvent)
def first(event, ctx):
    token = uuid.uuid4().hex
    memory = ctx.short_term_memory
    memory.set("log", [*memory.get("log", []), [event.input, token]])
    ctx.long_term_memory.add(token, id=f"item {event.input} {token}")
    ctx.send_event(Half(event.input, token))


@action(Half)
def second(event, ctx):
    ctx.send_event(OutputEvent([event.n, event.token]))


AGENT = Agent("pair", actions=[first, second])


class Pair(Agent):
    """An agent of a class of its own, with a setting."""

    def __init__(self, times=1):
        super().__init__("pairs", actions=[first, second])
        self.times = times


INPUTS = 300
"""Of a walk: each is in a list of its key, which is written anew by each run."""


class MapInRam(dict):
    """A map of keyed state."""

    def put(self, key, value):
        self[key] = value

    def remove(self, key):
        self.pop(key, None)


class Job:
    """What Flink does with a part of a job: inputs again from a checkpoint, and its outputs once.

    Attributes:
        sent: Outputs that are covered by a checkpoint.
    """

    def __init__(self, path, mode):
        self._job = FlinkJob("tests:AGENT", str(path), embedder="words", mode=mode, concurrency=4)
        self.inputs, self.sent, self.problems = [], [], []
        self._states: dict[str, Any] = {}
        self._begin()
        self.checkpoint()

    def _begin(self):
        self._part = Subtask(self._job, AGENT)
        self._emitted = []

    def _state(self, key):
        return self._states.setdefault(key, KeyState(MapInRam(), MapInRam()))

    def feed(self, key, value):
        self.inputs.append(input_from((key, value, f"event {value}"), None, None, None))

    def work(self, count):
        """Take so many inputs in."""
        for each in self.inputs[self._position : self._position + count]:
            self._take(self._part.take(each, self._state(each.key)))
            self._position += 1

    def look(self, *, wait=False):
        """Have a timer fire for each key that waits."""
        for key, state in self._states.items():
            if state.inputs:
                self._take(self._part.emit(key, state, wait=wait))

    def _take(self, emissions):
        for emission in emissions:
            (self.problems if emission.is_problem else self._emitted).append(
                json.loads(emission.line)
            )

    _position = 0

    def checkpoint(self):
        """Keep where it is: the outputs up to here are sent, once."""
        self.sent += self._emitted
        self._emitted = []
        copies = {
            key: (dict(state.exact), dict(state.inputs)) for key, state in self._states.items()
        }
        self._kept = self._position, copies

    def crash(self):
        """Lose all since the last checkpoint, and go on from there."""
        self._part.close()
        self._position, copies = self._kept
        self._states = {
            key: KeyState(MapInRam(exact), MapInRam(inputs))
            for key, (exact, inputs) in copies.items()
        }
        self._begin()

    def evict(self):
        for key, state in self._states.items():
            self._part.evict(key, state)

    def finish(self):
        self.work(len(self.inputs))
        wait_until(lambda: self.look() or not any(s.inputs for s in self._states.values()))
        self.checkpoint()
        self._part.close()


@pytest.mark.parametrize("mode", ["synchronous", "concurrent"])
def test_a_part_that_crashes_at_any_moment_loses_and_doubles_nothing(tmp_path, mode):
    """Inputs, checkpoints, evictions and crashes at random; each attempt has its own token."""
    dice = random.Random(7)
    job = Job(tmp_path / "memory.db", mode)
    for value in range(INPUTS):
        job.feed(f"key {dice.randrange(5)}", value)
        match dice.randrange(10):
            case 0:
                job.crash()
            case 1 | 2:
                job.checkpoint()
            case 3:
                job.evict()
            case 4:
                job.look()
            case _:
                job.work(dice.randrange(4))
    job.finish()
    assert sorted(line["output"][0] for line in job.sent) == list(range(len(job.inputs)))
    assert job.problems == []
    outputs = {line["output"][0]: line["output"][1] for line in job.sent}
    with Memory.open(tmp_path / "memory.db", embedder="words", mode="ro") as memory:
        for key in list(memory.keys()):
            log = memory.key(key).short_term.get("log")
            assert [n for n, _ in log] == [
                int(each.event_id.split()[1]) for each in job.inputs if each.key == key
            ]
            assert dict(log).items() <= outputs.items()
            assert {item.text for item in memory.key(key).list()} == {t for _, t in log}


def test_a_part_without_event_ids_would_run_inputs_twice(tmp_path):
    """Sabotage of what an adoption rests on: the walk above would see it."""
    job = Job(tmp_path / "memory.db", "synchronous")
    job.feed("ada", 1)
    job.work(1)
    job.crash()
    (again,) = job.inputs
    job.inputs = [again._replace(event_id="another")]
    job.finish()
    with Memory.open(tmp_path / "memory.db", embedder="words", mode="ro") as memory:
        assert len(memory.key("ada").short_term.get("log")) == 2


def test_a_parked_run_is_told_once_and_emitted_when_it_was_retried(tmp_path):
    """It stays in keyed state, over restarts too; what is behind it waits."""
    broken = [True]

    @action(InputEvent)
    def fragile(event, ctx):
        if broken and event.input == 0:
            raise RuntimeError("no model today")
        ctx.send_event(OutputEvent(event.input))

    agent = Agent("fragile", actions=[fragile])
    job = FlinkJob("tests:agent", str(tmp_path / "memory.db"), embedder="words", mode="synchronous")
    state = KeyState(MapInRam(), MapInRam())

    def take(part, value):
        given = input_from(("ada", value, f"event {value}"), None, None, None)
        return [*part.take(given, state)]

    part = Subtask(job, agent)
    (told,) = take(part, 0)
    assert told.is_problem
    assert json.loads(told.line)["error"] == "RunParked"
    assert take(part, 1) == []
    part.close()
    part = Subtask(job, agent)
    assert [*part.emit("ada", state)] == []
    broken.clear()
    (parked,) = part.runner.runs.list(status="parked")
    part.runner.runs.retry(parked.id)
    found = []
    wait_until(lambda: found.extend(part.emit("ada", state)) or len(found) == 2)
    assert [json.loads(emission.line)["output"] for emission in found] == [0, 1]
    assert not state.inputs
    part.close()


def test_an_input_that_nobody_can_run_is_a_problem(tmp_path):
    """An unknown event, or an id that another input has; the others go on."""
    job = FlinkJob("tests:AGENT", str(tmp_path / "memory.db"), embedder="words", mode="synchronous")
    part, state = Subtask(job, AGENT), KeyState(MapInRam(), MapInRam())
    records = [
        {"key": "ada", "id": "a", "value": 1},
        {"key": "ada", "id": "a", "value": 2},
        {"key": "ada", "id": "b", "event": "Nobody", "value": {}},
        {"key": "ada", "id": "c", "event": "Half", "value": {"n": 3, "token": "t"}},
    ]
    lines = [
        emission
        for record in records
        for emission in part.take(input_from(json.dumps(record), None, None, None), state)
    ]
    assert [json.loads(line.line).get("error") for line in lines] == [
        None,
        "IdempotencyConflict",
        "AgentChanged",
        None,
    ]
    part.close()


# --- records of streams ---------------------------------------------------------------------------


@given(
    st.one_of(
        st.text(min_size=1, max_size=20).filter(lambda t: max(t) < "\ud800"),
        st.integers(),
        st.booleans(),
        st.floats(allow_nan=False),
        st.binary(),
        st.sampled_from(["int:7", "str:", "bool:True", "bytes:00", "str:int:7"]),
    )
)
def test_keys_of_any_type_stay_apart_and_come_back(key):
    back = key_of(key_text(key))
    assert (type(back), back) == (type(key), key)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("nonsense", "a line of JSON"),
        ('{"key": "a", "value": 1}', "no 'id'"),
        ('{"value": 1, "id": "a"}', "no 'key'"),
        ('{"key": "a", "value": 1, "id": null}', "the id of an input"),
        ('{"key": "", "value": 1, "id": "a"}', "a key"),
        ('{"key": [], "value": 1, "id": "a"}', "a key must be a str"),
        ('{"key": "a", "value": 1, "id": ""}', "an event id"),
        ('{"key": "a", "value": 1, "id": "b", "event": "E"}', "a dict of its fields"),
        (("a", object(), "b"), "cannot be stored"),
        (("a",), "no 'value'"),
        (7, "no 'key'"),
    ],
)
def test_a_record_that_is_no_input_is_said_to_be_none(record, said):
    with pytest.raises(InvalidInput, match=said):
        input_from(record, None, None, None)


def test_parts_of_records_are_taken_by_functions():
    found = input_from(
        {"user": 7, "text": "hi", "offset": 12},
        lambda record: record["user"],
        lambda record: record["text"],
        lambda record: record["offset"],
    )
    assert found == ("int:7", "12", '[null,"hi"]')


# --- settings, agents, checkpoints ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"mode": "fast"}, "mode must be"),
        ({"interval_s": 0}, "interval_s must be"),
        ({"parallelism": 0}, "parallelism must be"),
        ({"overrides": {"python.execution-mode": "process"}}, "can lose timers"),
        ({"overrides": {"a": 1}}, "a text with a name"),
        ({"hot_for": timedelta(0)}, "hot_for must be"),
        ({"concurrency": 0}, "concurrency must be"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings_, said):
    with pytest.raises(InvalidInput, match=said):
        FlinkRunner(AGENT, "memory.db", **settings_)


def test_settings_are_listed_with_reasons_and_can_be_overridden(tmp_path):
    made = FlinkSettings(
        name="shop", checkpoints=str(tmp_path), overrides={"state.backend.type": "rocksdb"}
    )
    found = {each.name: each for each in made.at(None).resumed("latest").all()}
    assert all(each.reason for each in found.values())
    assert found["state.backend.type"].value == "rocksdb"
    assert found["execution.checkpointing.dir"].value == f"file://{tmp_path}/shop"
    assert "execution.state-recovery.path" not in found
    with pytest.raises(InvalidInput, match="host:port"):
        made.at("cluster")


def test_the_latest_complete_checkpoint_is_gone_on_from(tmp_path):
    """One without metadata is none; nothing that a kept one may need is pruned."""
    for number in (1, 2, 10):
        (tmp_path / "job" / f"chk-{number}").mkdir(parents=True)
        (tmp_path / "job" / f"chk-{number}" / "_metadata").touch()
    (tmp_path / "job" / "chk-11").mkdir()
    assert latest(str(tmp_path)) == str(tmp_path / "job" / "chk-10")
    first_one = (tmp_path / "job" / "chk-1" / "_metadata").stat().st_mtime
    assert covered_until(str(tmp_path)) == round((first_one - TIMEOUT_S - MARGIN_S) * 1_000_000)
    assert covered_until(str(tmp_path / "nowhere")) is None


def test_an_agent_travels_by_its_name_where_it_has_one(tmp_path):
    job = FlinkJob(reference_to(AGENT), "memory.db")
    assert job.agent.endswith("test_flink_state:AGENT")
    assert job.load_agent() is AGENT
    assert files_of(AGENT) == []  # it is in a package
    assert folders_of(AGENT) == [str(Path(__file__).parent.parent)]
    assert reference_to(Pair()).endswith("test_flink_state:Pair")
    with pytest.raises(InvalidInput, match="to a variable at the top of a module"):
        reference_to(Pair(2))
    nameless = Agent("nameless", actions=[first, second])
    with pytest.raises(InvalidInput, match="to a variable at the top of a module"):
        reference_to(nameless)
    with pytest.raises(InvalidInput, match="is not an agent"):
        FlinkJob("json:dumps", "memory.db").load_agent()


def test_what_no_checkpoint_covers_is_not_pruned(tmp_path):
    """A job that is restored asks for it again."""
    job = FlinkJob(
        "tests:AGENT",
        str(tmp_path / "memory.db"),
        embedder="words",
        mode="synchronous",
        checkpoints=str(tmp_path / "checkpoints"),
    )
    part, state = Subtask(job, AGENT), KeyState(MapInRam(), MapInRam())
    assert len([*part.take(input_from(("ada", 1, "a"), None, None, None), state)]) == 1
    assert part.runner.prune() == 0
    part.close()

"""Agents in real Flink jobs, whose processes are killed; make test-flink runs them.

Every attempt of an action leaves a token of its own in short-term memory, in items, in events and
outputs, and calls a durable function: whatever is lost, done twice or mixed shows.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from alveus import Memory
from harness.runner.contract import RunnerContract
from postgres_server import url_for
from scale import COUNTS
from waiting import wait_until

pytestmark = pytest.mark.flink

AGENT = f"{Path(__file__).parent / 'flink_agent.py'}:COUNTER"

KEYS = 12

AT_ONCE = (
    "-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.delay=50 ms",
    "-D", "restart-strategy.fixed-delay.attempts=1000000",
    "-D", "execution.checkpointing.timeout=2 min",
)  # fmt: skip
"""A job that is killed so often is not to wait longer each time, nor for a part that hangs."""

FLINK_S = 900
"""How long a test waits for Flink at most.

It may wait itself: 3 minutes for the data of a Python worker that was killed as it started (Beam's
`GrpcDataService`), and as long again until a task manager ends whose task cannot be cancelled.
"""


class Feed:
    """The files of inputs of a job: written one after the other, whole at once."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self._dice = folder, dice
        self.keys: dict[str, list[int]] = defaultdict(list)
        self.count = self._files = 0
        folder.mkdir(exist_ok=True)

    def add(self, count: int) -> None:
        """Add inputs."""
        lines: list[str] = []
        for _ in range(count):
            key = f"key {self._dice.randrange(KEYS)}"
            record = {"key": key, "value": self.count, "id": f"event {self.count}"}
            lines.append(json.dumps(record) + "\n")
            self.keys[key].append(self.count)
            self.count += 1
        hidden = self.folder / f".{self._files}"
        hidden.write_text("".join(lines))
        hidden.rename(self.folder / f"{self._files:06}.jsonl")
        self._files += 1


def outputs(folder: Path) -> list[dict]:
    """Return the outputs that are in finished files."""
    files = [p for p in folder.rglob("part-*.jsonl") if "problems" not in p.parts]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def problems(folder: Path) -> list[dict]:
    """Return what could not be run."""
    files = (folder / "problems").rglob("part-*.jsonl")
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def check(feed: Feed, found: list[dict], store: str) -> None:
    """Hold outputs, events, exact memory and items to each other: each input once.

    In which order, the source says: files are read side by side.
    """
    assert sorted(line["output"][0] for line in found) == list(range(feed.count))
    by_number = {line["output"][0]: line for line in found}
    asked = {line["output"][4] for line in found}
    assert len(asked) == len(found)
    with Memory.open(store, embedder="words", mode="ro") as memory:
        for key, inputs in feed.keys.items():
            log = memory.key(key).short_term.get("log")
            items = defaultdict(set)
            for item in memory.key(key).list(limit=100_000):
                _, number, _, token = (item.id or "").split()
                assert item.text == token
                items[int(number)].add(token)
            assert sorted(n for n, _ in log) == inputs
            for place, (n, token) in enumerate(log):
                line = by_number[n]
                assert line["output"][1:4] == [token, token, place + 1]
                assert (line["key"], line["number"]) == (key, place)
                assert items[n] == {token}
            assert len(items) == len(inputs)


def alveus(*words: object) -> list[str]:
    """Return the command of `alveus`."""
    return [sys.executable, "-m", "alveus", *map(str, words)]


def submit(cluster, feed: Feed, out: Path, *words: object, store: str, agent="COUNTER") -> str:
    """Send the job to a cluster; return its id."""
    place = AGENT.replace("COUNTER", agent)
    answer = subprocess.run(
        alveus(
            "flink", "submit", place, "--json", "--db", store, "--embedder", "words",
            "-i", feed.folder, "-o", out, "--watch", "--jobmanager", cluster.jobmanager,
            "--checkpoints", out.parent / "checkpoints", "--interval", 0.3, *AT_ONCE, *words,
        ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return json.loads(answer.stdout)["job"]


@pytest.fixture
def dice():
    return random.Random(15)


@pytest.fixture
def new_cluster(tmp_path):
    """Starts a cluster, whose processes have the environment that the test has by then."""
    from flink_cluster import Cluster

    with ExitStack() as stack:

        def start_cluster() -> Cluster:
            made = Cluster(tmp_path / "cluster", workers=2)
            stack.callback(made.remove)
            return made

        yield start_cluster


def _missing(feed: Feed, out: Path) -> str:
    found = {line["output"][0] for line in outputs(out)}
    missing = sorted(set(range(feed.count)) - found)
    return f"of {feed.count} outputs are missing: {missing}; problems: {problems(out)}"


def complete(cluster, job: str, feed: Feed, out: Path) -> None:
    """Wait until the outputs of all inputs are there, then end the job."""

    def is_complete() -> bool:
        cluster.keep_up()
        return len(outputs(out)) >= feed.count

    wait_until(is_complete, lambda: _missing(feed, out), limit_s=FLINK_S)
    before = cluster.checkpoints(job)
    wait_until(lambda: cluster.checkpoints(job) > before + 1, "no checkpoint", limit_s=FLINK_S)
    cluster.cancel(job)


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield lambda store: stack.enter_context(Memory.open(store, embedder="words"))


PROCESSES = ("--mode", "synchronous", "-D", "python.execution-mode=process", "--parallelism", 2)


def test_python_workers_are_killed(tmp_path, new_cluster, dice, opened):
    """The synchronous operator, in process mode, on PostgreSQL; both parts' workers at once."""
    cluster = new_cluster()
    store, feed, out = url_for(tmp_path), Feed(tmp_path / "in", dice), tmp_path / "out"
    memory = opened(store)
    feed.add(20)
    job = submit(cluster, feed, out, *PROCESSES, store=store)
    kills = 0
    while kills < COUNTS.flink_worker_kills:
        feed.add(12)
        wait_until_begun(memory, feed, dice.randrange(12), cluster, job)
        kills += cluster.kill_python()
    complete(cluster, job, feed, out)
    check(feed, outputs(out), store)
    assert problems(out) == []


def begun(memory: Memory) -> int:
    """Return how many runs have done their first action."""
    return sum(memory.key(key).short_term.get("count", 0) for key in list(memory.keys()))


def wait_until_begun(memory: Memory, feed: Feed, behind: int, cluster, job: str) -> None:
    """Wait until a job is up, and all inputs but so many have begun; say what hinders them."""

    def problem() -> str:
        logs = [memory.key(key).short_term.get("log", []) for key in feed.keys]
        missing = sorted({*range(feed.count)} - {number for log in logs for number, _ in log})
        return f"of {feed.count} inputs are not begun: {missing}; {cluster.state(job)}"

    def is_begun() -> bool:
        cluster.keep_up()
        return cluster.is_running(job) and begun(memory) >= feed.count - behind

    wait_until(is_begun, problem, limit_s=FLINK_S)


def test_task_managers_are_killed(tmp_path, new_cluster, dice, opened, monkeypatch):
    """The concurrent operator, whose actions are slow, on PostgreSQL."""
    monkeypatch.setenv("FLINK_AGENT_PAUSE_S", "0.1")
    cluster = new_cluster()
    store, feed, out = url_for(tmp_path), Feed(tmp_path / "in", dice), tmp_path / "out"
    memory = opened(store)
    feed.add(20)
    job = submit(cluster, feed, out, "--parallelism", 2, store=store)
    for kill in range(COUNTS.flink_kills):
        feed.add(30)
        wait_until_begun(memory, feed, dice.randrange(30), cluster, job)
        cluster.kill_worker(kill % 2)
    complete(cluster, job, feed, out)
    check(feed, outputs(out), store)
    assert problems(out) == []


@pytest.mark.parametrize("sabotage", ["nothing", "epoch"])
def test_a_task_manager_that_wakes_up_is_too_late(
    tmp_path, new_cluster, dice, opened, monkeypatch, sabotage
):
    """It is stopped in an action, until another one has the key and is at the same action.

    Without the epoch of leases, what the first one does then is kept: that is seen.
    """
    monkeypatch.setenv("FLINK_AGENT_SIGNS", str(tmp_path))
    monkeypatch.setenv("FLINK_AGENT_SABOTAGE", sabotage)
    cluster, store, out = new_cluster(), url_for(tmp_path), tmp_path / "out"
    memory, feed = opened(store), Feed(tmp_path / "in", dice)
    feed.add(1)
    (key,) = feed.keys
    job = submit(cluster, feed, out, "--parallelism", 1, store=store, agent="HOLDING")
    (first,) = begun_in(tmp_path, 1)
    os.killpg(os.getpgid(first), signal.SIGSTOP)
    (second,) = begun_in(tmp_path, 2) - {first}
    (tmp_path / f"go-{first}").touch()
    os.killpg(os.getpgid(first), signal.SIGCONT)
    wait_until((tmp_path / f"refused-{first}").exists, "it did not try to commit")
    if sabotage == "epoch":
        wait_until(lambda: memory.key(key).short_term.get("by", 0) == first, "it was not kept")
    (tmp_path / f"go-{second}").touch()
    complete(cluster, job, feed, out)
    kept = [line["output"] for line in outputs(out)]
    kept += [memory.key(key).short_term.get("by")]
    kept += [int(item.text.split()[1]) for item in memory.key(key).list()]
    assert kept == [second if sabotage == "nothing" else first] * 3


def begun_in(folder: Path, count: int) -> set[int]:
    """Return the processes that have begun the action, once they are so many."""
    wait_until(lambda: len([*folder.glob("begun-*")]) == count, "the action was not begun")
    return {int(sign.name.split("-")[1]) for sign in folder.glob("begun-*")}


def test_without_adoption_inputs_are_doubled_by_a_kill(
    tmp_path, new_cluster, dice, opened, monkeypatch
):
    """What holds the scenarios to account sees it."""
    monkeypatch.setenv("FLINK_AGENT_SABOTAGE", "adoption")
    cluster, store, out = new_cluster(), url_for(tmp_path), tmp_path / "out"
    memory, feed = opened(store), Feed(tmp_path / "in", dice)
    feed.add(40)
    job = submit(cluster, feed, out, *PROCESSES, "--interval", 600, store=store)
    wait_until(lambda: begun(memory) == feed.count, "it stands still")
    assert cluster.kill_python()
    feed.add(5)  # a worker that has nothing to do is not missed
    wait_until(lambda: begun(memory) > feed.count, "no input came again")
    cluster.cancel(job)
    with pytest.raises(AssertionError):
        check(feed, outputs(out), store)


def test_everything_is_killed_and_goes_on_with_other_parts(tmp_path, dice, opened):
    """A Flink of one process, on SQLite: after each kill with 2, 1, 2 … parts."""
    store, feed, out = str(tmp_path / "memory.db"), Feed(tmp_path / "in", dice), tmp_path / "out"
    memory = opened(store)
    feed.add(60)
    for kill in range(COUNTS.flink_kills):
        with start(store, feed, out, tmp_path, parallelism=2 - kill % 2) as job:
            wait_until(
                lambda n=feed.count, j=job: stopped(j) or begun(memory) > n - dice.randrange(40),
                "it stands still",
            )
            assert not stopped(job), "it ended by itself"
            os.killpg(job.pid, signal.SIGKILL)
        feed.add(40)
    with start(store, feed, out, tmp_path, parallelism=2) as job:
        wait_until(lambda: stopped(job) or len(outputs(out)) >= feed.count, "outputs are missing")
        os.killpg(job.pid, signal.SIGKILL)
    check(feed, outputs(out), store)


def stopped(job: subprocess.Popen[bytes]) -> bool:
    return job.poll() is not None


def start(store, feed: Feed, out: Path, folder: Path, *, parallelism: int, agent="COUNTER"):
    """Start a job that brings its own Flink."""
    place = AGENT.replace("COUNTER", agent)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            alveus(
                "flink", "run", place, "--db", store, "--embedder", "words", "-i", feed.folder,
                "-o", out, "--watch", "--checkpoints", folder / "checkpoints", "--interval", 0.3,
                "--parallelism", parallelism,
            ),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def test_every_promise_of_a_runner_is_kept_in_a_job(tmp_path):
    """The contract of runners, law by law; inputs come through the job, trees from keyed state."""
    script = Path(__file__).parent / "flink_laws.py"
    answer = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["failed"] == {}
    laws = {name.split("::")[-1].split("[")[0] for name in report["passed"]}
    assert laws == {name for name in dir(RunnerContract) if name.startswith("test_")}
    assert report["told"] > len(laws)
    assert report["loaded"] > 0


PROGRAMS = Path(__file__).parent / "flink_programs.py"


@pytest.mark.parametrize(
    ("agent", "record", "found"),
    [("E0", {"event": "MyEvent", "value": {}}, 1.0), ("E1", {"value": "hello"}, [2, 1])],
)
def test_the_programs_of_the_documents_run_on_flink(tmp_path, monkeypatch, agent, record, found):
    """Flink is killed between two actions of programs of Flink Agents: the first runs once."""
    monkeypatch.setenv("FLINK_KILL_MARK", str(tmp_path / "killed"))
    inputs = tmp_path / "in.jsonl"
    inputs.write_text(json.dumps({"key": "ada", "id": "one", **record}) + "\n")
    command = alveus(
        "flink", "run", f"{PROGRAMS}:{agent}", "--db", tmp_path / "memory.db", "-i", inputs,
        "-o", tmp_path / "out", "--checkpoints", tmp_path / "checkpoints", "--interval", 0.3,
        "--parallelism", 1,
    )  # fmt: skip
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode != 0
    assert (tmp_path / "killed").exists(), killed.stderr
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert [line["output"] for line in outputs(tmp_path / "out")] == [found]
    assert problems(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("submit", "--jobmanager", "localhost:1"), "no job manager of Flink answers"),
        (("run", "-D", "execution.checkpointing.interval=banana"), "banana"),
        (("run", "--resume", "nowhere"), "Cannot find checkpoint"),
    ],
)
def test_what_goes_wrong_is_one_clear_error(tmp_path, words, said):
    """Nothing of Java, or of Python, in between."""
    inputs = tmp_path / "in.jsonl"
    inputs.write_text('{"key": "ada", "value": 1, "id": "one"}\n')
    command, *more = words
    answer = subprocess.run(
        alveus(
            "flink", command, AGENT, "--db", tmp_path / "memory.db", "--embedder", "words",
            "-i", inputs, "-o", tmp_path / "out", "--json", *more,
        ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 1
    assert said in json.loads(answer.stderr.splitlines()[-1])["error"]["message"]
    assert "Traceback" not in answer.stderr


def test_the_example_answers_its_tickets(tmp_path):
    """By the one command on its page; the same agent as on one machine. Any path will do."""
    tmp_path = tmp_path / "a folder, 100% ä"
    tmp_path.mkdir()
    folder = Path(__file__).parent.parent / "examples" / "flink"
    agent, tickets = f"{folder / 'helpdesk.py'}:HELPDESK", folder / "tickets.jsonl"
    where = ("--embedder", "words", "-i", tickets)
    run(
        "flink", "run", agent, "--db", tmp_path / "flink.db", "-o", tmp_path / "answers",
        "--checkpoints", tmp_path / "checkpoints", *where,
    )  # fmt: skip
    alone = run("run", agent, "--db", tmp_path / "alone.db", "--json", *where)
    expected = [json.loads(line) for line in alone.splitlines()]
    found = {line["id"]: [line["output"]] for line in outputs(tmp_path / "answers")}
    assert found == {line["id"]: line["outputs"] for line in expected}
    assert found["t3"][0]["before"] == ["My kettle does not heat any more."]


def run(*words: object) -> str:
    """Return what a command of `alveus` prints."""
    answer = subprocess.run(alveus(*words), capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_a_slow_key_and_a_broken_one_hold_up_nobody_else(tmp_path, monkeypatch):
    """An action waits as long as a model may; another one fails, is mended and retried."""
    monkeypatch.setenv("FLINK_AGENT_SIGNS", str(tmp_path))
    store, folder, out = tmp_path / "memory.db", tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    values = [("slow", "wait"), ("broken", "fail"), ("broken", "next")]
    values += [(f"key {number}", "go") for number in range(20)]
    records = [{"key": key, "value": value, "id": f"{key} {value}"} for key, value in values]
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with start(
        str(store), Feed(folder, random.Random(0)), out, tmp_path, parallelism=1, agent="SIGNS"
    ) as job:
        try:
            wait_until(lambda: stopped(job) or len(outputs(out)) == 20, "others are held up")
            assert {line["output"] for line in outputs(out)} == {"go"}
            wait_until(lambda: stopped(job) or problems(out), "nothing was told")
            assert [line["id"] for line in problems(out)] == ["broken fail"]
            (tmp_path / "mended").touch()
            run("runs", "retry", "--all", "--db", store)
            (tmp_path / "answered").touch()
            wait_until(lambda: stopped(job) or len(outputs(out)) == 23, "it does not go on")
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert sorted(line["output"] for line in outputs(out)) == ["fail", *["go"] * 20, "next", "wait"]


SCRIPT = """
import sys
from alveus import Agent, Event, InputEvent, OutputEvent, action
from alveus.runs.runner.flink import FlinkRunner

class Half(Event):
    n: int

@action(InputEvent)
def halve(event, ctx):
    ctx.send_event(Half(event.input // 2))

@action(Half)
def tell(event, ctx):
    ctx.send_event(OutputEvent(event.n))

HALVER = Agent("halver", actions=[halve, tell])

if __name__ == "__main__":
    runner = FlinkRunner(HALVER, "memory.db", embedder="words", parallelism=1)
    env = runner.environment()
    stream = env.from_collection([("ada", n, f"{n}") for n in range(10)])
    outputs = runner.build(stream, event_id=lambda record: record[2])
    with outputs.execute_and_collect() as found:
        print(*sorted(found), sep="\\n")
"""


def test_a_script_puts_its_own_agent_between_a_source_and_a_sink(tmp_path):
    """Its events are classes of the script; the job is the user's own."""
    (tmp_path / "halve.py").write_text(SCRIPT)
    answer = subprocess.run(
        [sys.executable, "halve.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    assert sorted(line["output"] for line in found) == sorted(n // 2 for n in range(10))

"""Agents on the command line: run, recover, runs, replay; ended by Ctrl-C and kill -9."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from alveus import LocalRunner, Memory, Retain
from alveus.cli import alveus
from cli_agent import HELD, Counter
from test_cli import Shell, process, run
from waiting import LIMIT_S, wait_until

HERE = Path(__file__).parent
AGENT = f"{HERE / 'cli_agent.py'}:"
WORDS = ("--embedder", "words")


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path / "app.db")


def write(folder: Path, *lines: object, name: str = "in.jsonl") -> str:
    """Write a file of inputs; return its name."""
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def inputs(*pairs: tuple[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": value} for key, value in pairs]


def told(shell: Shell, *words: str) -> str:
    """What a command prints that shows a traceback, as it should."""
    result = CliRunner().invoke(alveus, ["--db", str(shell.db), *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def count(shell: Shell, key: str) -> int:
    return shell.json("get", "count", "-k", key)[0]


# --- run ----------------------------------------------------------------------------------------


def test_inputs_are_run_and_run_once(shell, tmp_path):
    """The same command again changes nothing and gives the same outputs."""
    file = write(tmp_path, *inputs(("ada", 1), ("bob", 1), ("ada", 2)))
    words = ("run", f"{AGENT}Counter", "--input", file, *WORDS)
    first = shell(*words).stdout
    assert "ada: {" in first
    assert "3 runs done, 3 outputs" in first
    found = shell.json(*words)
    assert [(t["line"], t["key"], t["repeated"], t["outputs"]) for t in found] == [
        (1, "ada", True, [{"count": 2}]),
        (2, "bob", True, [{"count": 2}]),
        (3, "ada", True, [{"count": 4}]),
    ]
    assert "3 accepted before and done" in shell(*words).stdout
    assert (count(shell, "ada"), count(shell, "bob")) == (2, 1)


def test_lines_may_be_put_behind_those_that_were_run(shell, tmp_path):
    """Ids follow from what stands before: what is new is run, the rest is not; --again is new."""
    lines = inputs(("ada", 1), ("ada", 1))
    words = ("run", f"{AGENT}Counter", *WORDS, "--input")
    shell(*words, write(tmp_path, *lines))
    assert count(shell, "ada") == 2
    shell(*words, write(tmp_path, *lines, *inputs(("ada", 1)), name="other.jsonl"))
    assert count(shell, "ada") == 3
    (tmp_path / "blank.jsonl").write_text("\n\n".join(json.dumps(line) for line in lines))
    shell(*words, str(tmp_path / "blank.jsonl"))
    assert count(shell, "ada") == 3
    shell(*words, write(tmp_path, *lines), "--again", "tuesday")
    assert count(shell, "ada") == 5


def test_ids_of_lines_are_event_ids(shell, tmp_path):
    """An id counts wherever it comes from; used for something else it is an error."""
    file = write(tmp_path, {"key": "ada", "value": 1, "id": "a"}, {"key": "ada", "value": 2})
    words = ("run", f"{AGENT}Counter", *WORDS, "--input")
    assert [t["id"] for t in shell.json(*words, file)] == ["a", None]
    with Memory.open(shell.db) as memory, LocalRunner(Counter, memory) as runner:
        assert runner.handle("ada", 1, event_id="a").repeated
    other = write(tmp_path, {"key": "ada", "value": 3, "id": "a"}, name="other.jsonl")
    assert "'a'" in shell(*words, other, code=1).stderr
    twice = [{"key": "ada", "value": 3, "id": "b"}, {"key": "ada", "value": 4, "id": "b"}]
    said = shell(*words, write(tmp_path, *twice, name="twice.jsonl"), code=1).stderr
    assert "twice.jsonl:2: line 1 has the same id 'b'" in said
    assert count(shell, "ada") == 2


def test_inputs_come_through_a_pipe(tmp_path):
    """Lines are run as they come, before the pipe ends; the same ids as from a file."""
    db = tmp_path / "app.db"
    lines = [json.dumps(line) + "\n" for line in inputs(("ada", 1), ("ada", 2))]
    with process("run", f"{AGENT}Counter", "-i", "-", "--json", *WORDS, db=db) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for number, line in enumerate(lines, start=1):
            child.stdin.write(line.encode())
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["number"] == number - 1
        child.stdin.close()
        assert child.wait(timeout=LIMIT_S) == 0
    code, out, _ = run("run", f"{AGENT}Counter", "-i", "-", db=db, stdin="".join(lines).encode())
    assert (code, b"2 accepted before and done" in out) == (0, True)


def test_outputs_go_to_a_file(shell, tmp_path):
    """The file appears when all is done, and is not replaced unasked."""
    file, out = write(tmp_path, *inputs(("ada", 1), ("ada", "fail"))), tmp_path / "out.jsonl"
    words = ("run", f"{AGENT}Counter", *WORDS, "-i", file, "-o", str(out))
    shell(*words, code=1)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0]["outputs"] == [{"count": 2}]
    assert lines[1]["error"]["type"] == "RunParked"
    assert "--force" in shell(*words, code=1).stderr
    (told,) = shell.json(*words, "--force", code=1)
    assert (told["done"], told["repeated"], told["failed"]) == (0, 1, 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"key": "ada"}', "has no field 'value'"),
        (b'{"value": 1}', "has no field 'key'"),
        (b'{"key": "ada", "value": 1, "event_id": "x"}', "has an unknown field 'event_id'"),
        (b'{"key": 1, "value": 1}', "a key"),
        (b'{"key": "", "value": 1}', "a key"),
        (b'{"key": "ada", "value": 1, "id": 7}', "an event id"),
        (b'{"key": "ada", "value": "\\ud800"}', "surrogate"),
        (b'{"key": "ada", "value": {"$int": "many"}}', "is not JSON that alveus reads"),
        (b"[1]", "not an object"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "nested deeper"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_run(shell, tmp_path, line, said):
    """A file is read to its end before its first input is run."""
    file = tmp_path / "in.jsonl"
    file.write_bytes(b'{"key": "ada", "value": 1}\n' + line + b"\n")
    words = ("run", f"{AGENT}Counter", *WORDS, "--input")
    told = shell(*words, str(file), code=1).stderr
    assert told.startswith(f"alveus: {file}:2: ")
    assert said in told
    assert not shell.db.exists()
    told = shell(*words, "-", stdin=file.read_bytes(), code=1).stderr
    assert told.splitlines()[1].startswith("alveus: stdin:2: ")


def test_an_agent_that_cannot_be_loaded_is_told_with_its_place(shell, tmp_path, monkeypatch):
    """One line: what is missing, what is there, or where importing it raised."""

    def said(agent, content=None):
        if content is not None:
            (tmp_path / "broken.py").write_text(content)
        told = shell("run", agent, "-i", "-", code=1).stderr
        assert told.count("\n") == 1
        return told

    monkeypatch.chdir(tmp_path)
    assert "there is no file nope.py" in said("nope.py:Counter")
    assert "its agents: Counter, Next, Slow, Idle" in said(f"{AGENT}Count")
    assert "has no action" in said(f"{AGENT}Idle")
    assert "not <module 'json'" in said(f"{AGENT}json")
    assert "no module 'broken'" in said("broken:Agent")
    broken = f"{tmp_path / 'broken.py'}:A"
    assert "broken.py:2 raised ZeroDivisionError" in said(broken, "x = 1\n1 / 0\n")
    assert "broken.py:1 raised ModuleNotFoundError: No module named 'nope" in said(
        broken, "import nope_nope\n"
    )
    assert "broken.py:3 raised SyntaxError" in said(broken, "\n\ndef\n")
    assert "raised SystemExit" in said("broken:A", "raise SystemExit(0)\n")
    odd = "class Odd(BaseException):\n    def __str__(self):\n        raise self\n\n"
    assert "broken.py:5 raised Odd: (no message" in said(broken, f"{odd}raise Odd\n")
    assert "broken.py:5 raised GeneratorExit" in said("broken:A", "\n" * 4 + "raise GeneratorExit")
    makes = "import alveus\n\nclass A(alveus.Agent):\n    def __init__(self):\n        exit(3)\n"
    assert "cannot be made" in said(broken, makes)
    assert "it has no Agent" in said(broken, "x = 1\n")
    assert "A cannot be made: " in said(
        broken,
        "from alveus import Agent\nclass A(Agent):\n    def __init__(self):\n        1 / 0\n",
    )
    assert not shell.db.exists()


def test_what_a_file_imports_from_beside_it_is_found(tmp_path):
    """An agent's own modules lie in its folder, wherever the command is run."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "words.py").write_text("GREETING = 'Hello'\n")
    (tmp_path / "agents" / "greeter.py").write_text(
        "from alveus import Agent, InputEvent, OutputEvent, action\n"
        "from words import GREETING\n\n"
        "class Greeter(Agent):\n"
        "    @action(InputEvent)\n"
        "    async def greet(self, event, ctx):\n"
        "        ctx.send_event(OutputEvent(f'{GREETING}, {ctx.key}'))\n"
    )
    words = ("run", f"{tmp_path / 'agents' / 'greeter.py'}:Greeter", "-i", "-", *WORDS)
    db = tmp_path / "app.db"
    code, out, err = run(*words, db=db, stdin=b'{"key": "ada", "value": 1}')
    assert (code, err) == (0, f"alveus: made {db}, space 'default'\n")
    assert out.startswith(b"ada: Hello, ada\n")


def test_outputs_that_were_pruned_are_no_error(shell, tmp_path):
    """Long after, the same command still knows what it did."""
    file = write(tmp_path, *inputs(("ada", 1), ("ada", 2)))
    words = ("run", f"{AGENT}Counter", "-i", file, *WORDS)
    shell(*words)
    with Memory.open(shell.db) as memory:
        runner = LocalRunner(Counter, memory, retain=Retain(count=0))
        assert runner.prune() == 2
        runner.close()
    assert "2 accepted before and done" in shell(*words).stdout
    assert count(shell, "ada") == 2


# --- the end in the middle ----------------------------------------------------------------------

MANY = 600
KEYS = 7


@contextmanager
def held(folder):
    """While a file is there, later inputs are not done: a kill never comes too late."""
    file = folder / "hold"
    file.touch()
    yield file, os.environ | {HELD: f"{MANY // 2}:{file}"}


def has_taken_signals(process_id):
    """Whether no signal waits for a process that is there, or ended and not waited for."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8")
    return not re.search(r"(SigPnd|ShdPnd):\s*0*[1-9a-f]", status)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_goes_on(tmp_path, how):
    """Ctrl-C or kill -9 in the middle, then the same command: every input ran once, in order."""
    db = tmp_path / "app.db"
    file = write(tmp_path, *inputs(*((f"k{n % KEYS}", n) for n in range(MANY))))
    words = ("run", f"{AGENT}Slow", "-i", file, *WORDS)
    with held(tmp_path) as (hold, env), process(*words, "--json", db=db, env=env) as child:
        assert child.stdout is not None
        for _ in range(MANY // 4):
            assert child.stdout.readline()
        child.send_signal(how)
        wait_until(lambda: child.poll() is not None or has_taken_signals(child.pid))
        hold.unlink()
        try:
            _, err = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    if how == signal.SIGINT:
        assert child.returncode == 130
        assert "was run up to line" in err.decode()
        assert b"Traceback" not in err
    code, out, _ = run(*words, "--json", db=db)
    assert code == 0
    told = [json.loads(line) for line in out.splitlines()]
    assert [t["outputs"] for t in told] == [[n] for n in range(MANY)]
    assert 0 < sum(t["repeated"] for t in told) <= MANY
    with Memory.open(db, mode="ro") as memory:
        for k in range(KEYS):
            seen = memory.key(f"k{k}").short_term.get("seen")
            assert seen == list(range(k, MANY, KEYS))
        assert memory.stats().store.runs_ended == MANY


def test_recover_takes_up_what_a_kill_left(tmp_path):
    """Without the inputs at hand, what was accepted is finished; then there is nothing to do."""
    db = tmp_path / "app.db"
    file = write(tmp_path, *inputs(*((f"k{n % KEYS}", n) for n in range(MANY))))
    words = ("run", f"{AGENT}Slow", "-i", file, "--json", *WORDS)
    with held(tmp_path) as (_, env), process(*words, db=db, env=env) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.kill()
        child.communicate(timeout=LIMIT_S)
    code, out, _ = run("recover", f"{AGENT}Slow", "--json", db=db)
    assert code == 0
    told = json.loads(out)
    assert told["resumed"] + told["begun"] == told["done"] > 0
    assert run("recover", f"{AGENT}Slow", db=db)[1].startswith(b"0 runs of 'Slow' taken up")
    with Memory.open(db, mode="ro") as memory:
        assert memory.stats().store.runs_waiting == 0


# --- serve --------------------------------------------------------------------------------------


def test_serve_works_on_the_inbox_until_it_is_told_to_stop(tmp_path):
    """What another process submits is run and put out; signals end it well, Ctrl-C with 130."""
    db = tmp_path / "app.db"
    words = ("run", f"{AGENT}Counter", "--serve", "--consumer", "test", "--json", *WORDS)
    with process(*words, "-i", "-", db=db) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b'{"key": "ada", "value": 1}\n')
        child.stdin.close()
        lines = [json.loads(child.stdout.readline()) for _ in range(2)]
        assert lines[0]["outputs"] == [lines[1]["output"]] == [{"count": 2}]
        accept(db, "ada", 2)
        assert json.loads(child.stdout.readline())["output"] == {"count": 4}
        child.stdin = None
        child.terminate()
        _, err = child.communicate(timeout=LIMIT_S)
        assert (child.returncode, b"serving" in err, b"Traceback" in err) == (0, True, False)
    for how, code in ((signal.SIGHUP, 0), (signal.SIGINT, 130)):
        with process(*words[:3], *WORDS, db=db) as child:
            assert child.stderr is not None
            assert b"using" in child.stderr.readline()
            assert b"serving" in child.stderr.readline()
            child.send_signal(how)
            assert child.wait(timeout=LIMIT_S) == code


def accept(db: Path, key: str, value: int) -> None:
    """Put an input into the inbox, and leave it to others."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from cli_agent import HELD, Counter\n"
        "from alveus import LocalRunner, Memory\n"
        "with Memory.open(sys.argv[2]) as memory:\n"
        "    LocalRunner(Counter, memory).submit(sys.argv[3], int(sys.argv[4]))\n"
        "    import os; os._exit(0)\n"
    )
    command = [sys.executable, "-c", script, str(HERE), str(db), key, str(value)]
    subprocess.run(command, check=True, env=os.environ, timeout=LIMIT_S)


# --- runs ---------------------------------------------------------------------------------------


@pytest.fixture
def parked(shell, tmp_path):
    """A memory where run 2 is parked, and run 3 waits behind it."""
    file = write(tmp_path, *inputs(("ada", 1), ("bob", "fail"), ("bob", 2)))
    said = shell("run", f"{AGENT}Counter", "-i", file, *WORDS, code=1).stderr
    assert "a failed run: 2;" in said
    assert "line 2: run 2 of key 'bob' is parked" in said
    return shell


def test_runs_are_listed(parked):
    """By status, agent and key; the latest first."""
    assert [(r["run"], r["status"]) for r in parked.json("runs", "list")] == [
        (3, "waiting"),
        (2, "parked"),
        (1, "done"),
    ]
    assert parked.json("runs", "--json", "list", "--limit", "1")[0]["run"] == 3
    (found,) = parked.json("runs", "list", "--status", "parked", "--key", "bob")
    assert found["error"] == {"action": "tell", "type": "ValueError", "message": "told to fail"}
    assert parked.json("runs", "list", "--agent", "Other") == []
    assert parked.json("runs", "list", "--space", "other") == []
    shown = parked("runs", "list").stdout
    assert "tell: ValueError: told to fail" in shown
    (stats,) = parked.json("stats")
    assert (stats["runs_waiting"], stats["runs_parked"], stats["runs_ended"]) == (1, 1, 1)
    assert "1 wait, 1 parked, 1 ended" in parked("stats").stdout
    assert "runs list --status parked" in parked("doctor").stdout


def test_a_run_is_shown(parked):
    """Its input, what was done, and the traceback of what parked it."""
    shown = told(parked, "runs", "show", "2")
    assert 'input      "fail"' in shown
    assert "count, commit" in shown
    assert "Traceback" in shown
    found = json.loads(told(parked, "runs", "show", "2", "--json"))
    assert 'raise ValueError("told to fail")' in found["error"]["traceback"]
    assert [step["action"] for step in found["steps"]] == ["count"]
    parked("runs", "show", "2", "--space", "other", code=3)
    (found,) = parked.json("runs", "show", "1")
    assert (found["error"], len(found["steps"]), len(found["outputs"])) == (None, 2, 1)


def test_a_run_is_tried_again_where_it_stopped(parked):
    """What was committed stands: its first action is not run a second time."""
    parked("set", "mended", "true", "-k", "bob")
    assert parked.json("runs", "retry", "2") == [{"run": 2, "status": "waiting", "by": 2}]
    parked("runs", "retry", "2", code=1)
    (told,) = parked.json("recover", f"{AGENT}Counter")
    assert told == {"resumed": 1, "begun": 1, "done": 2, "parked": 0, "waiting": 0}
    assert count(parked, "bob") == 2
    assert {r["status"] for r in parked.json("runs", "list")} == {"done"}


def test_the_same_inputs_try_again_where_it_is_asked_for(parked, tmp_path):
    """Without --retry-parked the error stands, and no run is added; with it, all are done."""
    words = ("run", f"{AGENT}Counter", "-i", str(tmp_path / "in.jsonl"), *WORDS)
    parked("set", "mended", "true", "-k", "bob")
    said = parked(*words, code=1).stderr
    assert "correct the cause and retry the run" in said
    assert "repeat this command with --retry-parked" in said
    found = parked.json(*words, "--retry-parked")
    assert [(line["run"], line["outputs"]) for line in found] == [
        (1, [{"count": 2}]),
        (2, [{"count": 2}]),
        (3, [{"count": 4}]),
    ]
    assert {r["status"] for r in parked.json("runs", "list")} == {"done"}
    assert "no run is parked" in parked("runs", "retry", "--all").stderr


def test_recover_says_what_is_left(parked):
    """A run that fails again is parked again, and that is an error."""
    nobody = parked("runs", "retry", "--all", "--agent", "Nobody", "--key", "bob", code=3)
    assert "no run of agent 'Nobody' and key 'bob' is kept" in nobody.stderr
    parked("runs", "retry", "--all", "--agent", "Counter", "--key", "bob")
    said = parked("recover", f"{AGENT}Counter", code=1)
    assert "runs parked: 1, waiting: 1" in said.stderr


def test_a_run_is_given_up(parked):
    """What waits behind it goes on; it has no second end."""
    assert "run 2 is discarded" in parked("runs", "discard", "2").stdout
    assert (
        "run 2 is discarded, not waiting or parked" in parked("runs", "discard", "2", code=1).stderr
    )
    parked("recover", f"{AGENT}Counter")
    statuses = {r["run"]: r["status"] for r in parked.json("runs", "list")}
    assert statuses == {1: "done", 2: "discarded", 3: "done"}


def test_a_run_that_others_overtook_is_run_behind_them(shell, tmp_path):
    """With on_failed="next" a retry is a new run; run 2 says so, and stays what it was."""
    file = write(tmp_path, *inputs(("bob", 0), ("bob", "fail"), ("bob", 2)))
    shell("run", f"{AGENT}Next", "-i", file, *WORDS, code=1)
    shell("set", "mended", "true", "-k", "bob")
    assert shell.json("runs", "retry", "2") == [{"run": 2, "status": "retried", "by": 4}]
    shell("recover", f"{AGENT}Next")
    (told,) = shell.json("runs", "show", "4")
    assert (told["origin"], told["status"], told["input"]) == (2, "done", "fail")
    assert "instead of  run 2" in shell("runs", "show", "4").stdout


# --- replay -------------------------------------------------------------------------------------


def test_replay_shows_what_each_action_did(parked):
    """What it read as it was then, what it wrote, called, sent and put out."""
    first, second = parked.json("replay", "1")
    assert first["read"]["short_term"] == [{"path": "count", "missing": True}]
    assert first["wrote"]["short_term"] == [{"path": "count", "value": 1}]
    (item,) = first["wrote"]["items"]
    assert (item["change"], item["set"], item["text"]) == ("added", "notes", "1")
    (call,) = first["calls"]
    assert (call["function"], call["result"]) == ("double", 2)
    (sent,) = first["sent"]
    assert (sent["event"], sent["data"], sent["sets_off"]) == ("Counted", {"count": 2}, ["tell"])
    assert second["read"]["sensory"] == [{"path": "last"}]
    assert second["outputs"][0]["data"] == {"output": {"count": 2}}
    assert first["wrote"]["sensory"] is None
    shown = parked("replay", "1").stdout
    for line in ("wrote  short_term count = 1", "called double() returned 2", "-> tell"):
        assert line in shown


def test_sensory_memory_is_shown_while_the_run_is_not_over(parked):
    """A parked run keeps it."""
    (first,) = parked.json("replay", "2")
    assert first["wrote"]["sensory"] == [{"path": "last", "value": "fail"}]
    assert 'wrote  sensory last = "fail"' in parked("replay", "2").stdout


def test_replay_of_everything_an_action_can_do(shell, tmp_path):
    """Objects, removals, dotted names, searches, knowledge, skipped actions, failed calls."""
    (tmp_path / "busy.py").write_text(BUSY)
    words = ("run", f"{tmp_path / 'busy.py'}:Busy", "-i", "-", *WORDS)
    shell(*words, stdin='{"key": "ada", "value": 1}\n{"key": "ada", "value": 2}', code=1)
    step, skipped, _ = map(json.loads, told(shell, "replay", "1", "--json").splitlines())
    assert {"path": ["a.b", "c"], "value": 1} in step["wrote"]["short_term"]
    assert {"path": "user", "object": True} in step["wrote"]["short_term"]
    assert [i["knowledge"] for i in step["wrote"]["items"]] == [None, "default", "default"]
    assert skipped["skipped"]["type"] == "RuntimeError"
    again, _ = map(json.loads, told(shell, "replay", "2", "--json").splitlines())
    assert {"path": "user", "removed": True} in again["wrote"]["short_term"]
    assert [i["change"] for i in again["wrote"]["items"]] == ["updated", "retired"]
    (search,) = again["read"]["searches"]
    assert (search["query"], search["hits"][0]["text"]) == ("tent", "A tent.")
    told_apart = [(i["knowledge"], i["set"], i["text"]) for i in again["read"]["items"][:3]]
    assert told_apart == [
        (None, "notes", "A tent."), ("default", "handbook", "Open at 9."),
        ("default", "notes", "Not of Ada."),
    ]  # fmt: skip
    shown = shell("replay", "2").stdout
    for line in ("search notes: 'tent'", "retired", "failed, and was skipped", "user removed"):
        assert line in shown
    found = json.loads(told(shell, "runs", "show", "2", "--json"))
    assert found["open"]["calls"][0]["error"]["message"] == "no line"
    assert "not done yet" in shell("replay", "2").stdout
    assert "1 durable calls are recorded" in told(shell, "runs", "show", "2")


BUSY = """
from alveus import Agent, InputEvent, action

class Busy(Agent):
    @action(InputEvent)
    def work(self, event, ctx):
        notes = ctx.long_term_memory.get_memory_set("notes")
        handbook = ctx.knowledge.set("handbook")
        short, sensory = ctx.short_term_memory, ctx.sensory_memory
        sensory.new_object("plan")
        sensory.set("plan.step", 1)
        sensory.delete("plan.step")
        if event.input == 1:
            short.set(("a.b", "c"), 1)
            short.new_object("user")
            notes.add("A tent.", id="tent")
            handbook.add("Open at 9.", id="hours")
            ctx.knowledge.set("notes").add("Not of Ada.", id="tent")
            return
        short.get("user")
        short.delete("user")
        notes.get("tent"), handbook.get("hours"), ctx.knowledge.set("notes").get("tent")
        notes.search("tent")
        notes.update("tent", "A big tent.")
        handbook.delete("hours")

    @action(InputEvent, on_error="skip")
    def fail(self, event, ctx):
        raise RuntimeError("never mind")

    @action(InputEvent)
    def call(self, event, ctx):
        if event.input == 2:
            ctx.durable(dial)

def dial():
    raise OSError("no line")
"""


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "show", "x"), ("runs", "show", "0"), ("runs", "show", "1.5"), ("replay", "x"),
        ("runs", "show", "9" * 20), ("runs", "retry", "1", "x"), ("runs", "discard", "x"),
        ("runs", "list", "-n", "0"), ("runs", "list", "-n", "x"), ("list", "-k", "a", "-n", "0"),
        ("run", "json:x", "-i", "-", "--concurrency", "x"), ("undo", "x", "-k", "a"),
        ("serve", "--port", "x"), ("ui", "--port", "-1"), ("mcp", "-k", "a", "--port", "70000"),
        ("learn", "-k", "a", "--at-least", "x"), ("learn", "-k", "a", "--batch", "0"),
    ],
)  # fmt: skip
def test_a_number_that_is_none_is_told_in_one_line(shell, words):
    """With exit code 2, as every wrong word."""
    assert "is not a whole number, " in shell(*words, code=2).stderr.splitlines()[0]

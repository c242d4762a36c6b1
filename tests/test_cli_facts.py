"""Facts on the command line: learnt, listed, explained, checked, and taken back."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from alveus import Memory
from alveus.cli.facts import _Watch
from alveus.cli.session import Session
from alveus.errors import ModelUnavailable
from alveus.testing.chat_server import ChatServer
from facts_script import answer
from test_cli import Shell, process
from waiting import LIMIT_S, wait_until


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A command line on a file that has a conversation of Ada."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    made = Shell(tmp_path / "app.db")
    with Memory.open(made.db, embedder="words") as memory:
        said = {"id": "m1", "role": "user", "name": "Ada", "content": "Ada lives in Lisbon."}
        memory.key("ada").conversation("chat").add(said)
    return made


def test_texts_are_learnt_and_taken_back(shell: Shell) -> None:
    """A changed fact supersedes the old one; undo has it hold again."""
    assert "+ The user lives in Lisbon." in shell("learn", "I live in Lisbon.", "-k", "ada").stdout
    told = shell("learn", "I moved to Porto.", "-k", "ada").stdout
    assert told.splitlines()[-2:] == ["+ The user moved to Porto.", "- The user lives in Lisbon."]
    (fact,) = shell.json("facts", "list", "-k", "ada")
    assert fact["text"] == "The user moved to Porto."
    assert "I moved to Porto." in shell("facts", "show", fact["id"], "-k", "ada").stdout
    why = shell("facts", "why", fact["id"], "-k", "ada").stdout
    assert "replaced   The user lives in Lisbon." in why
    assert shell.json("facts", "show", fact["id"], "-k", "ada")[0] == fact
    assert shell.json("facts", "why", fact["id"], "-k", "ada")[0]["fact"] == fact
    assert len(shell.json("facts", "list", "-k", "ada", "--all", "--subject", "The User")) == 2
    assert shell.json("facts", "undo", "-k", "ada")[0]["facts"] == 1
    assert "Lisbon" in shell("facts", "list", "-k", "ada").stdout
    shell("facts", "undo", "-k", "ada")
    shell("facts", "undo", "-k", "ada", code=3)
    shell("facts", "show", "nothing", "-k", "ada", code=3)


def test_a_file_of_messages_is_learnt_once(tmp_path: Path, shell: Shell) -> None:
    """It is added to the conversation and learnt, and a repetition does neither again."""
    messages = [
        {"id": "m2", "role": "user", "name": "Ada", "content": "I live in Porto now."},
        {"role": "assistant", "content": "Noted."},
    ]
    file = tmp_path / "chat.jsonl"
    file.write_text("\n".join(map(json.dumps, messages)))
    given = ("learn", "-k", "ada", "--input", str(file))
    shell("learn", "-k", "ada")
    told = shell(*given).stdout
    assert told.splitlines()[-2:] == ["+ Ada lives in Porto now.", "- Ada lives in Lisbon."]
    assert "Ada" not in shell(*given).stdout
    with Memory.open(shell.db) as memory:
        assert len(memory.key("ada").conversation("chat").messages()) == 3


def test_a_conversation_that_was_learnt_from_a_file_goes_on(tmp_path: Path) -> None:
    """It is one as `alveus chat` makes it, and a fact names who said what it rests on."""
    shell = Shell(tmp_path / "new.db")
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "name": "Ada", "content": "I live in Porto."}')
    shell("learn", "-k", "ada", "--input", str(file))
    (fact,) = shell.json("facts", "list", "-k", "ada")
    assert ", Ada: I live in Porto." in shell("facts", "why", fact["id"], "-k", "ada").stdout
    shell("chat", "-k", "ada", stdin="Where do I live?\n")
    with Memory.open(shell.db) as memory:
        talk = memory.key("ada").conversation("chat")
        talk.add({"role": "user", "content": "Thank you."})
        assert [one["role"] for one in talk.messages()] == ["user", "user", "assistant", "user"]


def test_a_line_that_is_no_message_is_named_and_the_rest_is_learnt(tmp_path: Path) -> None:
    """The exit code is that of an import with records that cannot be used."""
    shell = Shell(tmp_path / "new.db")
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "content": "I live in Porto."}\n{"role": "user"')
    learnt = shell("learn", "-k", "ada", "--input", str(file), code=4)
    assert "left out: " in learnt.stderr
    assert "chat.jsonl:2" in learnt.stderr
    assert "The user lives in Porto." in learnt.stdout


def test_a_file_that_cannot_be_learnt_changes_nothing(tmp_path: Path) -> None:
    """A file without a message is named, and no memory is made; a file is not taken for a text."""
    shell = Shell(tmp_path / "new.db")
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user"\n{"role": "user"')
    assert "chat.jsonl" in shell("learn", "-k", "ada", "--input", str(file), code=1).stderr
    assert "--input" in shell("learn", "-k", "ada", str(file), code=2).stderr
    shell("learn", "-k", "ada", "--input", str(file), "I like tea.", code=2)
    shell("learn", "-k", "ada", "--input", str(file), "--watch", code=2)
    shell("learn", "--input", str(file), code=2)
    assert not shell.db.exists()


def test_a_conversation_is_learnt_with_a_model(shell: Shell) -> None:
    """What it costs is told before; what was refused is told after."""

    def reply(request: Any) -> str:
        return answer(request.body["messages"])

    (cost,) = shell.json("learn", "-k", "ada", "--model", "test", "--dry-run")
    assert (cost["messages"], cost["calls"], cost["tokens"] > 100) == (1, 2, True)
    with ChatServer(reply) as server:
        model = ("--model", "test", "--base-url", server.url)
        (report,) = shell.json("learn", "-k", "ada", *model)
        assert [fact["text"] for fact in report["added"]] == ["Ada lives in Lisbon."]
        assert shell.json("learn", "-k", "ada", *model)[0]["model_calls"] == 0
    assert "0 messages" in shell("learn", "-k", "ada", "--dry-run").stdout
    shell("learn", "-k", "ada", "--name", "none", code=3)
    shell("learn", "I like tea.", "-k", "ada", "--dry-run", code=2)


def test_check_tells_of_messages_that_changed(shell: Shell) -> None:
    """With exit code 1."""
    shell("learn", "-k", "ada")
    assert shell.json("facts", "check", "-k", "ada") == []
    with Memory.open(shell.db) as memory:
        memory.key("ada").conversation("chat").delete("m1")
    (problem,) = shell.json("facts", "check", "-k", "ada", code=1)
    assert problem["problem"] == "source is gone"
    assert json.dumps(problem)


@pytest.mark.parametrize(
    ("how", "times", "code"),
    [
        (signal.SIGTERM, 1, 0),
        (signal.SIGTERM, 20, 0),
        (signal.SIGHUP, 1, 0),
        (signal.SIGINT, 1, 130),
    ],
)
def test_a_watch_follows_the_conversations_of_all_keys(
    shell: Shell, how: int, times: int, code: int
) -> None:
    """It learns what others add meanwhile; signals end it well, Ctrl-C with 130."""
    with process("learn", "--watch", db=shell.db) as watching:
        try:
            for key in ("ada", "bob"):
                with Memory.open(shell.db, embedder="words") as memory:
                    memory.key(key).conversation("chat").add(
                        {"role": "user", "name": key.title(), "content": "I love green tea."}
                    )
                    wait_until(lambda: f"{key.title()} loves green tea." in all_facts(memory, key))  # noqa: B023 - called at once
            assert watching.stdout is not None
            while b"+ Bob loves green tea." not in watching.stdout.readline():
                assert watching.poll() is None  # it says so once it is stored
            for _ in range(times):
                watching.send_signal(how)
            watching.communicate(timeout=LIMIT_S)
        finally:
            watching.kill()
    assert watching.returncode == code
    shell("learn", code=2)
    shell("learn", "I like tea.", "--watch", code=2)


def test_a_second_ctrl_c_waits_for_no_model(shell: Shell) -> None:
    """The first lets the step under way end, which a model that is silent does not."""
    ends = Event()

    def silent(_: object) -> str:
        ends.wait(LIMIT_S)
        return "{}"

    with ChatServer(silent) as server:
        words = ("learn", "--watch", "--model", "test", "--base-url", server.url)
        with process(*words, db=shell.db) as watching:
            try:
                wait_until(lambda: server.requests)
                watching.send_signal(signal.SIGINT)
                assert watching.stderr is not None
                while b"Ctrl-C again" not in (line := watching.stderr.readline()):
                    assert line, "it ended"
                watching.send_signal(signal.SIGINT)
                watching.wait(LIMIT_S)
                assert len(server.requests) == 1
            finally:
                ends.set()
                watching.kill()
            told = watching.communicate(timeout=LIMIT_S)[1]
    assert (watching.returncode, b"Traceback" in told) == (130, False)
    with Memory.open(shell.db, embedder="words") as memory:
        assert memory.key("ada").facts.list() == []


def test_a_watch_waits_until_nobody_writes(shell: Shell) -> None:
    """With --idle: what was there before is read, and so is what comes later."""
    with process("learn", "--watch", "--idle", "1s", db=shell.db) as watching:
        try:
            for key in ("bob", "joy"):
                with Memory.open(shell.db, embedder="words") as memory:
                    memory.key(key).conversation("chat").add(
                        {"role": "user", "name": key.title(), "content": "I love green tea."}
                    )
                    wait_until(lambda: f"{key.title()} loves green tea." in all_facts(memory, key))  # noqa: B023 - called at once
            watching.send_signal(signal.SIGTERM)
            watching.communicate(timeout=LIMIT_S)
        finally:
            watching.kill()
    with Memory.open(shell.db, embedder="words") as memory:
        ada = memory.key("ada")
        assert ada.facts.cost(ada.conversation("chat"), model=None).messages == 0


def test_a_watch_waits_longer_after_each_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its server asks for, bounded; a new message does not have it asked sooner."""
    monkeypatch.setattr("alveus.cli.facts.time", SimpleNamespace(monotonic=lambda: 0.0))
    with Memory.open(embedder="words") as memory:
        watch = _Watch(Session(), memory, None, "chat")
        due: list[float] = []
        for asked_s in (None, None, 600.0, None, 1e9, None, None, None):
            watch._due.pop("ada", None)
            watch._put_off_failed("ada", ModelUnavailable("m", "busy", retry_after_s=asked_s))
            watch._put_off(["ada", "bob"], 1.0)
            due.append(watch._due["ada"])
    assert due == [60, 120, 600, 480, 3600, 1920, 3600, 3600]
    assert watch._due["bob"] == 1


def all_facts(memory: Memory, key: str) -> list[str]:
    """Return what the facts of a key say."""
    return [one.text for one in memory.key(key).facts.list()]


def test_nothing_known_is_an_exit_code_of_its_own(shell: Shell) -> None:
    """And an empty text is no message."""
    for words in (("about", "Nobody"), ("profile", "Nobody"), ("profile",)):
        assert "fact" in shell(*words, "-k", "bob", code=3).stderr
    shell("facts", "undo", "none", "-k", "ada", code=3)
    assert "is empty" in shell("learn", "  ", "-k", "ada", code=1).stderr
    shell("learn", "I live in Lisbon.", "-k", "ada")
    shell("learn", "I live in Porto.", "-k", "ada")
    first = shell.json("profile", "the user", "-k", "ada", "--as-of", "3")[0]
    assert first["text"] == "The user lives in Lisbon."
    listed = shell.json("facts", "list", "-k", "ada", "--valid-at", "2020-01-01T00:00:00Z")
    assert "The user lives in Lisbon." in [fact["text"] for fact in listed]


def test_signals_that_come_late_do_not_kill() -> None:
    """After one, the others are ignored: Python gives their default back while it ends."""
    ends = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [(number, signal.getsignal(number)) for number in ends]
    try:
        for number in ends[:2]:  # as without `nohup`
            signal.signal(number, signal.SIG_DFL)
        with Session().stopped_by_signals(lambda: None):
            signal.raise_signal(signal.SIGTERM)
        assert [signal.getsignal(number) for number in ends[:2]] == [signal.SIG_IGN] * 2
    finally:
        for number, handled in before:
            signal.signal(number, handled)

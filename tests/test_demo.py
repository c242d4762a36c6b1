"""The demo: what it shows is true, with and without a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli import alveus
from alveus.cli.demo import kill_proof, learning, sample_conversation
from alveus.cli.demo.command import program
from alveus.testing.chat_server import ChatServer
from alveus.transfer import Load, Target, survey
from facts_script import answer
from waiting import LIMIT_S

EMBEDDER = "static"


def test_the_demo_runs_and_proves_itself(tmp_path):
    """Every part is shown, the proof holds, the file is kept and can be worked on."""
    db = tmp_path / "demo.db"
    words = ["--db", str(db), "--embedder", EMBEDDER, "demo"]
    result = CliRunner().invoke(alveus, words)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("✓ nothing lost, nothing twice, nothing in part") == 2
    for part in ("1  Learn", "2  Remember", "3  Ask", "4  Exact", "5  Kill", "6  Measure"):
        assert part in result.stdout
    assert "What to type next" in result.stdout
    assert "✓ each message learnt once, and nothing left of what was forgotten" in result.stdout
    assert "killed half-way (signal 9)" in result.stdout
    assert "? Where does Ada live?\n  Ada lives in Porto now.\n" in result.stdout
    assert "322 messages" in result.stdout
    assert CliRunner().invoke(alveus, words).exit_code == 1
    with Memory.open(db) as memory:
        assert memory.key("ines").short_term.get("profile.city") == "Trieste"


def test_the_demo_asks_a_server_that_is_named(monkeypatch):
    """One variable names the model and its server; no key is needed for one of your own."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(lambda request: answer(request.body["messages"])) as server:
        monkeypatch.setenv("ALVEUS_DEMO_MODEL", f"small@{server.url}")
        with Memory.open(embedder="words") as memory, learning.model() as model:
            assert model is not None
            assert model.name == "small"
            report = memory.key("ada").learn("Ada lives in Porto.", model=model)
            assert [fact.text for fact in report.added] == ["Ada lives in Porto."]


def test_what_to_type_next_can_be_typed(tmp_path, monkeypatch):
    """`make demo` runs in an environment that is not activated: the command has its path there."""
    beside = tmp_path / "bin" / "alveus"
    beside.parent.mkdir()
    monkeypatch.setattr(sys, "executable", str(beside.with_name("python")))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "alveus"
    beside.touch(mode=0o755)
    assert program() == str(beside)
    monkeypatch.chdir(tmp_path)
    assert program() == "bin/alveus"
    monkeypatch.setenv("PATH", str(beside.parent))
    assert program() == "alveus"


def test_the_demo_runs_on_a_terminal():
    """With a terminal there are bars and colours, and no error."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "alveus", "demo", "--embedder", EMBEDDER]
    with subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower) as child:
        os.close(follower)
        shown = b""
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # what Linux says when the last writer has gone
                break
            shown += block
            if not block:
                break
        assert child.wait(timeout=LIMIT_S) == 0
    os.close(leader)
    assert b"\x1b[" in shown
    assert b"Traceback" not in shown


@pytest.mark.parametrize("kill_after", [1, 7, 40])
def test_a_killed_writer_loses_nothing(tmp_path, kill_after):
    """Whenever it is killed: what it acknowledged is there, whole, and once."""
    db = tmp_path / "kill.db"
    said = kill_proof.run_writer(db, steps=60, kill_after=kill_after, progress=lambda _count: None)
    assert kill_after <= said <= 60
    proof = kill_proof.examine(db, acknowledged=said)
    assert proof.is_complete
    said = kill_proof.run_writer(db, steps=60, kill_after=None, progress=lambda _count: None)
    again = kill_proof.examine(db, acknowledged=said)
    assert (said, again.is_complete, again.items, again.counter) == (60, True, 60, 60)


def test_a_proof_can_fail():
    """The demo would say so if something were lost, twice, or in part."""
    good = kill_proof.Proof(2, 2, 2, 0, 0, ())
    assert good.is_complete
    for broken in (
        kill_proof.Proof(2, 1, 2, 0, 0, ()),
        kill_proof.Proof(2, 2, 2, 1, 0, ()),
        kill_proof.Proof(2, 2, 2, 0, 1, ()),
        kill_proof.Proof(2, 2, 2, 0, 0, ("a page is damaged",)),
    ):
        assert not broken.is_complete


def test_the_questions_are_answered_better_than_by_words():
    """The figures of the demo: meaning and signals find more than BM25 alone."""
    asked = sample_conversation.questions()
    assert len(asked) == 60
    with Memory.open(embedder=EMBEDDER) as memory:
        target = Target("ines")
        with sample_conversation.source() as source:
            assert survey(source, "conversation", target).entries == 322
            Load(memory).run(source, "conversation", target)
        everything = sample_conversation.recall(memory.key("ines"), asked)
        words = sample_conversation.recall(
            memory.key("ines"), asked, sample_conversation.WORDS_ALONE
        )
        known = {item.id for item in memory.key("ines").list()}
    assert all(question.gold <= known for question in asked)
    assert everything.at[10] > words.at[10]
    assert everything.at[1] <= everything.at[3] <= everything.at[5] <= everything.at[10]

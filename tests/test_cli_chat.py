"""A chat on the command line: it remembers, and what is stopped or killed loses no request."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from alveus import Memory
from alveus.sets.admission import Size
from alveus.testing.chat_server import ChatReply, ChatServer, ReceivedRequest
from facts_script import answer
from test_cli import Shell, process
from waiting import LIMIT_S

STATIC = ("--embedder", "static")
FAILING = ChatReply(status=400, error={"message": "no"})


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "app.db")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")


def words(server: ChatServer | None = None) -> tuple[str, ...]:
    """The command, with the model of a server."""
    model = () if server is None else ("--model", "test", "--base-url", server.url)
    return ("chat", "--key", "ada", *model, *STATIC)


def kept(shell: Shell, name: str = "chat") -> list[tuple[str, str]]:
    """Who said what, as the conversation has it."""
    with Memory.open(shell.db, mode="ro") as memory:
        said = memory.key("ada").conversation(name).get_memory()
    return [(message["role"], message["content"]) for message in said]


def test_what_was_said_is_in_the_next_prompt_also_of_the_next_start(shell: Shell) -> None:
    """Request and answer are kept; the request is told the model once."""
    with ChatServer(["Noted, Momo it is.", "Momo."]) as server:
        assert "Noted, Momo it is.\n" in shell(*words(server), stdin="My cat is Momo.\n").stdout
        assert shell(*words(server), stdin="What is my cat called?\n").stdout == "Momo.\n"
        told = server.requests[1].body["messages"]
    assert [one["content"] for one in told[1:]] == [
        "My cat is Momo.",
        "Noted, Momo it is.",
        "What is my cat called?",
    ]
    assert "called" not in told[0]["content"]
    assert kept(shell)[2:] == [("user", "What is my cat called?"), ("assistant", "Momo.")]


def test_a_prompt_has_what_the_key_remembers_within_the_budget(shell: Shell) -> None:
    """Items and named exact values are recalled; /why tells scores; the budget holds."""
    shell("add", "Prefers window seats.", "-k", "ada", *STATIC)
    shell("set", "profile.city", "Lisbon", "-k", "ada")
    with ChatServer(["At the window."]) as server:
        found = shell(*words(server), "--budget", "300", stdin="Which seat?\n/why\n")
        assert "Prefers window seats." in server.requests[0].body["messages"][0]["content"]
        turn, why = shell.json(
            *words(server), "-b", "300", "--exact", "profile", stdin="And the city?\n/why\n"
        )
        assert "Lisbon" not in str(server.requests[0].body)
        assert "Lisbon" in str(server.requests[-1].body)
    assert "of 300 tokens" in found.stdout
    assert "Prefers window seats." in found.stdout.partition("score")[2]
    assert (turn["answer"], turn["model"], turn["stopped"]) == ("At the window.", "test", False)
    assert turn["tokens"] == why["tokens"] <= 300
    assert any("Lisbon" in piece["text"] for piece in why["why"])


def test_why_is_told_after_a_restart(shell: Shell) -> None:
    """The prompt of the last answer is made again of memory as it was; what is gone stays gone."""
    shell("add", "Prefers window seats.", "-k", "ada", "--id", "seat", *STATIC)
    shell("set", "profile.city", "Lisbon", "-k", "ada")
    with ChatServer(["At the window."]) as server:
        (_, then) = shell.json(*words(server), "-b", "300", stdin="Which seat?\n/why\n")
        shell("add", "Likes seats at the aisle.", "-k", "ada", *STATIC)
        shell("set", "profile.city", "Porto", "-k", "ada")
        (why,) = shell.json(*words(), stdin="/why\n")
        assert why["messages"] == then["messages"]
        assert why["budget_tokens"] == 300
        told = shell(*words(server), stdin="/why\n")
        assert "as it was when you said: Which seat?" in told.stderr
        assert "seat" in told.stdout.partition("score")[2]
        shell("forget", "-k", "ada", "--id", "seat", "--yes")
        assert "window seats" not in shell(*words(server), stdin="/why\n").stdout
        shell(*words(server), "--budget", "1", stdin="Another?\n", code=1)
        assert "when you said: Which seat?" in shell(*words(server), stdin="/why\n").stderr
    shell(*words(), stdin="Seats?\n")
    (why,) = shell.json(*words(server), stdin="/why\n")
    assert [piece["part"] for piece in why["why"] if piece["shown"]][-1:] == ["query"]
    assert all(piece["part"] != "system" for piece in why["why"])
    empty = shell("chat", "-k", "bob", *STATIC, stdin="/why\n").stderr
    assert "none of the last 50 messages is an answer" in empty


def test_why_that_cannot_be_told_is_one_sentence(shell: Shell) -> None:
    """What history no longer keeps is said to be so."""
    with Memory.open(shell.db, embedder="static") as memory:
        memory.key("ada").set("notes", retention="purge").add("A note.", id="note")
    shell(*words(), stdin="Hello?\n")
    with Memory.open(shell.db, embedder="static") as memory:
        memory.key("ada").set("notes").delete("note")
        memory.sweep()
    told = shell(*words(), stdin="/why\n").stderr
    assert "no longer kept" in told
    assert "made again" not in told


def test_two_chats_that_answer_one_request_keep_one_answer(shell: Shell) -> None:
    """Both are asked at the same time; the second is shown the answer that the first one kept."""
    shell(*words(), "--budget", "1", stdin="Who is first?\n", code=1)
    both = threading.Barrier(2)
    numbers = iter(("one", "two"))

    def reply(_: ReceivedRequest) -> ChatReply:
        both.wait(LIMIT_S)
        return ChatReply(next(numbers))

    with ChatServer(reply) as server, ExitStack() as stack:
        chats = [stack.enter_context(process(*words(server), db=shell.db)) for _ in range(2)]
        for child in chats:
            assert child.stdin is not None
            child.stdin.write(b"/again\n")
            child.stdin.close()
            child.stdin = None
        outs = [child.communicate(timeout=LIMIT_S) for child in chats]
    assert [child.returncode for child in chats] == [0, 0], [e for _, e in outs]
    (request, answer) = kept(shell)
    assert request == ("user", "Who is first?")
    said = answer[1]
    other = "two" if said == "one" else "one"
    assert sorted(out.decode() for out, _ in outs) == sorted([f"{said}\n", f"{other}\n{said}\n"])
    assert sum(b"another chat answered first" in err for _, err in outs) == 1


def test_without_a_model_memory_alone_answers_and_says_so(shell: Shell) -> None:
    """What was said is found; what such answers said is not; nothing known is said."""
    first, second = shell.json(*words(), stdin="My cat is called Momo.\nHow is my cat called?\n")
    assert "memory holds nothing" in first["answer"]
    assert second["answer"].splitlines()[1:] == ["- My cat is called Momo."]
    assert second["model"] is None
    shell("set", "profile.city", "Lisbon", "-k", "ada")
    (third,) = shell.json(*words(), stdin="Which city?\n")
    assert "Lisbon" not in third["answer"]
    (third,) = shell.json(*words(), "--exact", "profile", stdin="Which city is it?\n")
    assert '- profile.city: "Lisbon"' in third["answer"]
    assert "No model is asked" not in third["answer"].partition("\n")[2]


def test_a_request_that_failed_is_kept_and_asked_again(shell: Shell) -> None:
    """The error is one line, the exit code 1, and the next start answers it."""
    with ChatServer([FAILING, FAILING, "Here."]) as server:
        failed = shell(*words(server), stdin="Anybody?\n", code=1)
        assert "alveus: " in failed.stderr
        assert kept(shell) == [("user", "Anybody?")]
        (told,) = shell.json(*words(server), stdin="/again\n", code=1)
        assert (told["answer"], told["error"]["type"]) == (None, "ModelRefused")
        again = shell(*words(server), stdin="\n/again\n")
    assert "no answer yet: Anybody?" in again.stderr
    assert "no request without an answer" in again.stderr
    assert again.stdout == "Here.\n"
    assert kept(shell) == [("user", "Anybody?"), ("assistant", "Here.")]


def test_a_request_that_failed_counts_until_it_is_answered_or_forgotten(shell: Shell) -> None:
    """The exit code is of what is left without an answer at the end."""
    with ChatServer([FAILING, "Here."]) as server:
        shell(*words(server), stdin="Anybody?\n/again\n", code=0)
    with ChatServer([FAILING]) as server:
        shell(*words(server), stdin="Anybody?\n/forget\n", code=0)
        shell(*words(server), stdin="Anybody?\nAgain?\n/forget\n", code=1)


def test_tokens_are_of_the_prompt_that_was_made(shell: Shell) -> None:
    """Of a request whose prompt has no room there are none, whatever was asked before."""
    lines = f"Hello.\n{'so long ' * 200}\n"
    first, second = shell.json(*words(), "-b", "50", stdin=lines, code=1)
    assert first["tokens"] > 0
    assert (second["tokens"], second["error"]["type"]) == (None, "BudgetTooSmall")


def test_the_best_that_memory_finds_is_told_exact_values_first(shell: Shell) -> None:
    """Five pieces at most, each of a set by its score."""
    for n in range(7):
        shell("add", f"The cat number {n} sleeps{' a lot' * n}.", "-k", "ada", *STATIC)
    shell("add", "Where is the cat?! In the attic.", "-k", "ada", *STATIC)
    shell("set", "pets.cat", "Momo", "-k", "ada")
    asked = "Where is the cat\n/why\n"
    (turn, why) = shell.json(*words(), "--exact", "pets", stdin=asked)
    head, *told = turn["answer"].splitlines()
    assert head == "No model is asked; this is what memory holds on it:"
    assert len(told) == 5
    assert told[:2] == ['- pets.cat: "Momo"', "- Where is the cat?! In the attic."]
    found = [piece for piece in why["why"] if piece["part"] == "items" and piece["shown"]]
    found.sort(key=lambda piece: -piece["score"])
    assert told[1:] == [f"- {piece['text']}" for piece in found[:4]]


def test_what_others_wrote_into_the_conversation_is_no_open_request(shell: Shell) -> None:
    """A message of parts is not asked again; escapes of a terminal are shown, not obeyed."""
    with Memory.open(shell.db, embedder="static") as memory:
        parts = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
        memory.key("ada").conversation("chat").add({"role": "user", "content": parts})
    with ChatServer(["\x1b[31mred"]) as server:
        told = shell(*words(server), stdin="\nHello?\n")
    assert "no answer yet" not in told.stderr
    assert told.stdout == "\\x1b[31mred\n"


def test_an_answer_that_breaks_off_is_not_kept(shell: Shell) -> None:
    """Pieces that came are shown; the request stays open."""
    with ChatServer([ChatReply("One two three", cut_after=200)]) as server:
        shell(*words(server), stdin="Count.\n", code=1)
    assert kept(shell) == [("user", "Count.")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_answer_that_is_stopped_or_killed_loses_no_request(shell: Shell, how: int) -> None:
    """Ctrl-C stops the answer and the chat goes on; after a kill the next start answers."""
    begun = threading.Event()

    def reply(asked: ReceivedRequest) -> ChatReply:
        if not begun.is_set():
            begun.set()
            return ChatReply("Never to the end", drip_s=30.0)
        return ChatReply(f"Yes, {asked.body['messages'][-1]['content']}")

    with ChatServer(reply) as server, process(*words(server), db=shell.db) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"one\n")
        child.stdin.flush()
        assert child.stdout.read(6) == b"Never "
        assert kept(shell) == [("user", "one")]
        child.send_signal(how)
        try:
            out, err = child.communicate(b"" if how == signal.SIGKILL else b"\n", timeout=LIMIT_S)
        finally:
            child.kill()
        assert b"Traceback" not in err
        if how == signal.SIGINT:
            assert (child.returncode, out) == (0, b"\nYes, one\n")
            assert b"stopped" in err
        else:
            assert child.returncode == -signal.SIGKILL
            again = shell(*words(server), stdin="/again\n")
            assert "no answer yet: one" in again.stderr
            assert again.stdout == "Yes, one\n"
    assert kept(shell) == [("user", "one"), ("assistant", "Yes, one")]


def test_ctrl_c_at_the_prompt_drops_the_line_and_the_chat_goes_on(shell: Shell) -> None:
    """At a terminal only Ctrl-D and /quit end it; what was typed before Ctrl-C is not said."""
    own, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "alveus.cli", "--db", str(shell.db), *words()],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    shown = b""

    def until(mark: bytes) -> None:
        nonlocal shown
        while mark not in shown:
            shown += os.read(own, 1000)
        shown = shown.partition(mark)[2]

    try:
        until(b"> ")
        os.write(own, b"never said")
        until(b"never said")
        _interrupt(child, own)
        until(b"> ")
        os.write(own, b"hello\n")
        until(b"memory holds nothing")
        until(b"> ")
        os.write(own, b"\x04")
        _, err = child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
        os.close(own)
    assert child.returncode == 0
    assert b"Ctrl-D ends" in err
    assert b"Traceback" not in err
    assert kept(shell)[0][1] == "hello"


def _interrupt(child: subprocess.Popen[bytes], terminal: int) -> None:
    """Press Ctrl-C until something is shown: between two keys readline sees it at the next key."""
    child.send_signal(signal.SIGINT)
    while not select.select([terminal], [], [], 1.0)[0]:
        child.send_signal(signal.SIGINT)


def test_the_last_exchange_is_forgotten_and_the_chat_ends(shell: Shell) -> None:
    """/forget erases request and answer; /quit ends; what is no command is told."""
    with ChatServer(["Ok."]) as server:
        lines = (
            "Keep this.\nMy code is 1234.\n/forget\n/nonsense x\n/help\n/why\n/quit\nNot said.\n"
        )
        found = shell(*words(server), "--name", "talk", stdin=lines)
        assert len(server.requests) == 2
    assert kept(shell, "talk") == [("user", "Keep this."), ("assistant", "Ok.")]
    assert "erased 2 items" in found.stdout
    assert "'/nonsense' is not a command" in found.stderr
    assert "/again" in found.stderr
    assert "when you said: Keep this." in found.stderr
    empty = shell("chat", "-k", "bob", *STATIC, stdin="/forget\n/again\n").stderr
    assert "there is no message to forget" in empty
    errors = shell("chat", "-k", "bob", "--json", stdin="/nonsense\n/again\n").stderr
    messages = [
        json.loads(line)["error"]["message"] for line in errors.splitlines() if line[0] == "{"
    ]
    assert messages[0] == "'/nonsense' is not a command; /help lists the commands"
    assert messages[1] == "there is no request without an answer to repeat; write a new request"


def test_an_answer_that_cannot_be_kept_is_told_on_a_line_of_its_own(shell: Shell) -> None:
    """A rule keeps it out: the answer ends its line, the error is one, and the request is kept."""
    with Memory.open(shell.db, embedder="static") as memory:
        memory.key("ada").conversation("chat").add({"role": "user", "content": "Anybody?"})
        memory.key("ada").set("chat").redefine(admission=[Size(max_chars=10)])
    with ChatServer(["Never so long."]) as server:
        told = shell(*words(server), stdin="/again\n", code=1)
    assert told.stdout == "Never so long.\n"
    assert "the request is kept" in told.stderr
    assert kept(shell) == [("user", "Anybody?")]


def test_what_cannot_be_used_is_one_sentence(shell: Shell) -> None:
    """A chat names its key and a conversation, and a prompt that has no room says so."""
    assert "a key is needed" in shell("chat", code=2).stderr
    shell("add", "A note.", "-k", "ada", *STATIC)
    assert "is not a conversation" in shell(*words(), "--name", "default", stdin="x", code=1).stderr
    told = shell(*words(), "--budget", "1", stdin="Much too long.\n", code=1)
    assert "smaller than the instructions" in told.stderr
    assert kept(shell) == [("user", "Much too long.")]


def test_what_is_learnt_is_shown_and_taken_back(shell: Shell) -> None:
    """After each answer; /undo takes back the last facts, also of an earlier start."""
    first = shell(*words(), "--learn", stdin="I live in Lisbon.\nHello.\nI live in Porto now.\n")
    assert first.stderr.count("/undo takes it back") == 2
    assert "+ The user lives in Porto now.\n- The user lives in Lisbon.\n" in first.stderr
    undone = shell(*words(), "--learn", stdin="/undo\n")
    assert "took back 1 fact" in undone.stderr
    with Memory.open(shell.db) as memory:
        (fact,) = memory.key("ada").facts.list()
    assert (fact.text, fact.valid_to) == ("The user lives in Lisbon.", None)
    shell(*words(), stdin="/undo\n")
    assert "there is no learning to undo" in shell(*words(), stdin="/undo\n").stderr


def test_facts_are_learnt_by_a_model_of_its_own(shell: Shell) -> None:
    """What it fails at is told; the chat goes on, and the next answer makes up for it."""
    failing = [True]

    def reply(request: ReceivedRequest) -> ChatReply | str:
        if request.body["model"] == "test":
            return "Noted."
        if failing:
            failing.clear()
            return FAILING
        return answer(request.body["messages"])

    with ChatServer(reply) as server:
        model = (*words(server), "--learn-model", "small")
        told = shell(*model, stdin="Ada likes tea.\nAda likes cake.\n")
    assert told.stderr.count("nothing was learnt") == 1
    assert "+ Ada likes tea.\n+ Ada likes cake.\n" in told.stderr

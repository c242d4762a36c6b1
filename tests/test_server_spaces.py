"""Spaces of a server: opened when they are asked for, closed when others are, told of alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from alveus import Memory, __version__
from alveus.cli import alveus
from alveus.errors import InvalidInput, NotAStore, StoreClosed, Unsupported
from alveus.server import callers
from alveus.server.callers import Memories, end_uses, memories_for
from alveus.server.tokens import TokenFile
from answering import Answers, listening
from test_server import ServedHere
from waiting import LIMIT_S


def test_the_space_that_was_used_least_recently_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that a request uses, also if that takes long; and where all are used, it says so."""
    monkeypatch.setattr(callers, "MOST_SPACES", 2)
    memories = Memories(lambda space: Memory.open(space=space, embedder="words"))
    first, second, third = ({}, {}, {})
    try:
        a = memories_for(first, memories).of("a")
        b = memories_for(second, memories).of("b")
        with pytest.raises(InvalidInput, match="in use"):
            memories_for(third, memories).of("c")
        assert memories_for(first, memories).of("a") is a
        end_uses(second)
        end_uses({})
        memories_for(third, memories).of("c").key("ada").add("Tea.")
        with pytest.raises(StoreClosed):
            b.key("ada").list()
        assert a.key("ada").list() == []
        end_uses(first)
        end_uses(third)
        assert memories.of("a") is a
        memories.of("d")
        assert memories.of("a") is a
    finally:
        memories.close()


def test_a_space_that_opens_keeps_nothing_else_waiting(tmp_path: Path) -> None:
    """Requests end, and the server answers others, while the opening of a space waits."""
    begun, goes_on = threading.Event(), threading.Event()

    def open_space(space: str) -> Memory:
        if space == "slow":
            begun.set()
            assert goes_on.wait(LIMIT_S)
        return Memory.open(made.file, space=space, embedder="words")

    made = ServedHere(tmp_path)
    made.app.state.memories = Memories(open_space)
    try:
        with ThreadPoolExecutor(2) as pool:
            try:
                assert made.client().ask("GET", "/v1/keys", space="quick")[0] == 200
                slow = pool.submit(made.client().ask, "GET", "/v1/keys", space="slow")
                assert begun.wait(LIMIT_S)
                quick = made.client()
                for path, of in (("/v1/keys", {"space": "quick"}), ("/health", {})):
                    asked = pool.submit(quick.ask, "GET", path, **of)
                    assert asked.result(LIMIT_S)[0] == 200
            finally:
                goes_on.set()
            assert slow.result(LIMIT_S)[0] == 200
    finally:
        made.stop()


def test_one_more_space_than_are_open_at_once_is_served(tmp_path: Path) -> None:
    """A token that reads may name any number of them, and hinders nobody."""
    made = ServedHere(tmp_path)
    try:
        client = made.client()
        for n in range(callers.MOST_SPACES + 2):
            assert client.ask("GET", "/v1/keys", space=f"s{n}")[0] == 200
        assert client.ask("GET", "/v1/keys", space="s0")[0] == 200
    finally:
        made.stop()


def test_a_token_of_one_space_is_told_nothing_of_others(tmp_path: Path) -> None:
    """Figures of the whole store are for those who may see all of it."""
    file = TokenFile(tmp_path / "tokens.json")
    one = file.add("one", access="admin", space="default", keys="")
    every = file.add("every", access="admin", space=None, keys="")
    made = ServedHere(tmp_path, tokens=file)
    try:
        with Memory.open(made.file, space="other", embedder="words") as memory:
            memory.key("ada").add("Tea.")
        told = made.ask("GET", "/v1/stats", token=one)[1]
        assert (told["space"], told["store"], told["pending"]) == ("default", None, None)
        assert made.ask("GET", "/v1/stats", token=every)[1]["store"]["items"] == 1
        assert made.ask("GET", "/v1/growth", token=one)[0] == 403
        assert made.ask("GET", "/v1/growth", token=every)[0] == 200
    finally:
        made.stop()


@pytest.mark.parametrize("version", [None, "0.0.1", f"9{__version__}"])
def test_a_server_of_another_version_is_refused(version: str | None) -> None:
    """By one error that names both versions, whatever its answers hold."""

    class Other(Answers):
        def get(self) -> None:
            headers = {} if version is None else {"Alveus-Version": version}
            self.answer({"keys": [], "more": False}, headers=headers)

    with listening(Other) as url, pytest.raises((Unsupported, NotAStore)) as caught:
        Memory.open(url)
    assert (version or "no version") in str(caught.value)
    assert __version__ in str(caught.value)


def test_sets_behind_a_server_are_shown_as_sets(tmp_path: Path) -> None:
    """As those of a file are."""
    made = ServedHere(tmp_path)
    try:
        with Memory.open(f"http://127.0.0.1:{made.port}") as far, Memory.open() as near:
            for tell in (
                lambda m: repr(m.key("ada").set("s")),
                lambda m: repr(m.knowledge.set("s")),
            ):
                assert tell(far) == tell(near)
    finally:
        made.stop()


@pytest.mark.parametrize("option", ["--rate", "--max-body"])
@pytest.mark.parametrize("wrong", ["nan", "inf"])
def test_a_limit_that_is_no_number_is_refused(option: str, wrong: str, tmp_path: Path) -> None:
    """Before anything is served."""
    words = ["serve", "--db", str(tmp_path / "m.db"), option, wrong]
    answer = CliRunner().invoke(alveus, words)
    assert answer.exit_code == 2
    assert wrong in answer.output

"""Large states of LangGraph: threads of photos, pieces of values, kills during a checkpoint."""

from __future__ import annotations

import base64
import json
import operator
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import warm
from alveus import Memory, Ttl
from alveus.errors import StoreDamaged
from alveus.integrations.langgraph import AlveusSaver
from alveus.integrations.langgraph.pieces import (
    LEAST_PIECE,
    MOST_PIECE,
    MOST_WHOLE,
    piece_names,
    pieces,
)
from alveus.state import MemoryObject
from alveus.values.ids import identity_key
from doors import Clock
from large_states_worker import MOST, config, photo, photos, put
from postgres_server import url_for
from scale import COUNTS
from test_client import over_http
from test_server import serving

WORKER = Path(__file__).with_name("large_states_worker.py")
THREAD: Any = {"configurable": {"thread_id": "ada"}}

PHOTO_BYTES = 2_600_000
"""Five of these in one value are more than exact memory takes in a value."""


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


# --- pieces -----------------------------------------------------------------------------------


@given(st.integers(0, 4 * MOST_PIECE), st.sampled_from([b"", b"\0", b"abc "]), st.integers(0, 9))
def test_pieces_make_up_the_value_and_are_of_no_extreme_size(size, unit, seed):
    """Whatever the bytes are: noise, one byte, or a text that repeats itself."""
    data = noise(size, seed) if not unit else (unit * (size // len(unit) + 1))[:size]
    found = [bytes(piece) for piece in pieces(data)]
    assert b"".join(found) == data
    assert all(LEAST_PIECE <= len(piece) <= MOST_PIECE for piece in found[:-1])
    assert len(found[-1]) <= MOST_PIECE


def test_values_with_a_long_part_in_common_have_its_pieces_in_common():
    """Wherever it begins in each."""
    photo_bytes = noise(6_000_000)
    whole = {bytes(piece) for piece in pieces(photo_bytes)}
    for before in (1, 2, 3, 5, 1000, 70_001):
        moved = {bytes(piece) for piece in pieces(noise(before, 1) + photo_bytes + b"end")}
        assert sum(map(len, whole & moved)) > 4_000_000


# --- a thread of photos -----------------------------------------------------------------------


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    raw: Annotated[list[bytes], operator.add]


def graph(saver: AlveusSaver) -> Any:
    def answer(state: State) -> dict[str, Any]:
        del state
        return {"messages": [AIMessage("Ada.")]}

    built = StateGraph(State)
    built.add_node("answer", answer)
    built.add_edge(START, "answer")
    built.add_edge("answer", END)
    return built.compile(checkpointer=saver)


def url_of(number: int) -> str:
    """Return a photo as a data URL."""
    return f"data:image/jpeg;base64,{base64.b64encode(noise(PHOTO_BYTES, number)).decode()}"


def turn(number: int) -> dict[str, Any]:
    """Return what comes in with a photo."""
    parts: Any = [{"type": "image_url", "image_url": {"url": url_of(number)}}]
    return {"messages": [HumanMessage(parts)]}


def seen(values: dict[str, Any]) -> list[str]:
    """Return the photos of a state."""
    asked: Any = [m for m in values.get("messages", ()) if isinstance(m, HumanMessage)]
    return [message.content[0]["image_url"]["url"] for message in asked]


def tree_of(saver: AlveusSaver, thread: str) -> MemoryObject:
    """Return the exact memory that has a thread."""
    return saver.memory.key(identity_key("langgraph.thread", thread)).short_term


def stored_pieces(saver: AlveusSaver, thread: str = "ada") -> dict[str, int]:
    """Return the bytes of each piece that a thread has."""
    found = tree_of(saver, thread).get("langgraph.pieces")
    return {} if found is None else {name: len(data) for name, data in found.to_dict().items()}


def goes_on(place: str) -> None:
    """Have a thread of five photos run, resumed, forked, listed and deleted."""
    with Memory.open(place, embedder="words") as memory:
        saver = AlveusSaver(memory)
        for number in range(5):
            made = graph(saver).invoke(turn(number), THREAD)
        assert seen(made) == [url_of(number) for number in range(5)]
        last = saver.get_tuple(THREAD)
        assert last is not None
        assert seen(graph(saver).invoke(None, last.config)) == seen(made)
        assert 0 < sum(stored_pieces(saver).values()) < 2 * 5 * PHOTO_BYTES * 4 // 3
        states = list(graph(saver).get_state_history(THREAD))
        held = [len(seen(state.values)) for state in states]
        assert (sorted(held, reverse=True), set(held)) == (held, set(range(6)))
        early = states[held.index(2)]
        fork = graph(saver).update_state(early.config, turn(7))
        assert seen(graph(saver).get_state(fork).values) == [url_of(n) for n in (0, 1, 7)]
        saver.copy_thread("ada", "copy")
        saver.prune(["ada"])
        ways: Any = (("ada", "retire"), ("copy", "forget"))
        for thread, deleting in ways:
            at: Any = {"configurable": {"thread_id": thread}}
            assert len(seen(graph(saver).get_state(at).values)) == 3
            AlveusSaver(memory, deleting=deleting).delete_thread(thread)
            assert saver.get_tuple(at) is None
            assert stored_pieces(saver, thread) == {}


@pytest.mark.parametrize("place", ["ram", "file"])
def test_a_thread_of_photos_runs_resumes_forks_is_listed_and_deleted(place, tmp_path):
    """Its state is larger than any value of exact memory may be."""
    goes_on(":memory:" if place == "ram" else str(tmp_path / "app.db"))


@pytest.mark.server
def test_a_thread_of_photos_goes_on_on_a_server_too(tmp_path):
    goes_on(url_for(tmp_path / "memory"))


def test_a_photo_is_stored_once_whatever_it_came_in(tmp_path):
    """As what came in, what a task wrote and a part of each version of the channel."""
    size = 2_000_000
    with AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words") as saver:
        for number in range(3):
            graph(saver).invoke({"raw": [noise(size, number)]}, THREAD)
        assert 3 * size < sum(stored_pieces(saver).values()) < 1.6 * 3 * size


def test_a_forgotten_thread_leaves_nothing_of_its_pieces_on_disk(tmp_path):
    """Nor of those that a version lost before."""
    with AlveusSaver.from_conn_string(
        str(tmp_path / "app.db"), embedder="words", deleting="forget"
    ) as saver:
        for number in range(3):
            put(saver, "ada", number + 1)
        saver.prune(["ada"])
        saver.delete_thread("ada")
    parts = [photo(each)[at : at + 64] for each in range(6) for at in range(0, 700_000, 50_000)]
    for path in tmp_path.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert not any(part in data for part in parts), path


def test_a_checkpoint_with_pieces_is_one_commit(tmp_path):
    with AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words") as saver:
        before = saver.memory.stats().store.commits
        put(saver, "ada", 4)
        assert saver.memory.stats().store.commits == before + 2  # and what a task wrote


def test_pieces_are_stored_and_removed_at_the_same_time(tmp_path):
    """No checkpoint loses a piece that it shares with one that is removed."""
    with AlveusSaver.from_conn_string(str(tmp_path / "app.db"), embedder="words") as saver:
        put(saver, "ada", 1)

        def work(step: int) -> None:
            if step % 3 == 0:
                saver.prune(["ada"])
            else:
                put(saver, "ada", step)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(2, 14)))
        kept = list(saver.list(THREAD))
        assert kept
        for each in kept:
            step = int(each.checkpoint["id"])
            assert each.checkpoint["channel_values"]["photos"] == photos(step)


def test_pieces_expire_with_the_value_and_not_before(tmp_path):
    """Where exact memory expires, no piece is shared with a value that was stored earlier."""
    clock = Clock()
    with Memory.open(
        tmp_path / "app.db", embedder="words", clock=clock, short_term_ttl=Ttl(timedelta(hours=2))
    ) as memory:
        saver = AlveusSaver(memory)
        put(saver, "ada", 1)
        clock.elapse(minutes=90)
        put(saver, "ada", 2)
        clock.elapse(minutes=90)
        last = saver.get_tuple(THREAD)
        assert last is not None
        assert last.checkpoint["channel_values"]["photos"] == photos(2)
        clock.elapse(minutes=90)
        assert saver.get_tuple(THREAD) is None


def test_a_piece_that_is_lost_is_damage_and_no_empty_channel():
    with AlveusSaver.from_conn_string(":memory:", embedder="words") as saver:
        put(saver, "ada", 1)
        name = next(iter(stored_pieces(saver)))
        tree_of(saver, "ada").delete(("langgraph", "pieces", name))
        with pytest.raises(StoreDamaged, match="lacks a piece"):
            saver.get_tuple(THREAD)


def test_values_of_a_few_bytes_are_no_pieces():
    with AlveusSaver.from_conn_string(":memory:", embedder="words") as saver:
        graph(saver).invoke({"raw": [noise(MOST_WHOLE // 2)]}, THREAD)
        assert stored_pieces(saver) == {}


def test_behind_a_server_a_value_may_be_larger_than_a_request(tmp_path):
    """Its pieces go before; `prune` removes those that a killed client left."""
    with serving(tmp_path, "--max-body", "0.9") as served, over_http(served) as memory:
        saver = AlveusSaver(memory)
        put(saver, "ada", 1)
        last = saver.get_tuple(THREAD)
        assert last is not None
        assert last.checkpoint["channel_values"]["photos"] == photos(1)
        used = stored_pieces(saver)
        stray = next(iter(used))[:-1] + "x"
        tree_of(saver, "ada").set(("langgraph", "pieces", stray), b"left")
        saver.prune(["ada"])
        assert stored_pieces(saver) == used


# --- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", pytest.param("server", marks=pytest.mark.server)])
def test_no_call_takes_more_than_three_times_the_largest_value(kind, tmp_path):
    """Of memory of the process, wherever the copies are made: in Python, drivers or engines."""
    place = str(tmp_path / "app.db") if kind == "file" else url_for(tmp_path / "app")
    command = [sys.executable, str(WORKER), place, "--memory"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    grown: dict[str, float] = json.loads(done.stdout)
    assert grown["put"] > 1  # it is measured
    assert {call: times for call, times in grown.items() if times > 3} == {}


# --- kills ------------------------------------------------------------------------------------


def killed(place: str, thread: str, after_s: float) -> list[int]:
    """Have a process store checkpoints; kill it; return the numbers of those that it stored."""
    pipe = subprocess.PIPE
    command = [sys.executable, str(WORKER), place, thread]
    process = warm.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()
    time.sleep(after_s)  # noqa: TID251 - until the kill
    process.kill()
    return [int(line) for line in process.communicate()[0].split()]


def is_whole(saver: AlveusSaver, thread: str) -> list[int]:
    """Return the checkpoints of a thread, which all have what they should, and nothing more."""
    found = list(saver.list(config(thread)))
    for each in found:
        number = int(each.checkpoint["id"])
        assert each.checkpoint["channel_values"]["photos"] == photos(number)
        for _, _, written in each.pending_writes or ():
            assert written == photos(number)[-2:]
    used: set[str] = set()
    for part in ("values", "writes"):
        tree = tree_of(saver, thread).get(f"langgraph.{part}./")
        for below in () if tree is None else tree.to_dict().values():
            for stored in below.values():
                used.update(piece_names(stored[4] if part == "writes" else stored))
    assert set(stored_pieces(saver, thread)) == used
    return [int(each.checkpoint["id"]) for each in reversed(found)]


@pytest.mark.parametrize("kind", ["file", pytest.param("server", marks=pytest.mark.server)])
def test_a_process_killed_in_a_large_checkpoint_loses_nothing_and_leaves_nothing_half(
    kind, tmp_path
):
    place = str(tmp_path / "app.db") if kind == "file" else url_for(tmp_path / "app")
    chance, stored, thread = random.Random(1), 0, 0
    for _ in range(COUNTS.kills if kind == "file" else max(3, COUNTS.kills // 12)):
        if stored in (0, MOST):
            thread, stored = thread + 1, 0
        told = killed(place, str(thread), chance.random() * 0.25)
        with Memory.open(place, embedder="words") as memory:
            kept = is_whole(AlveusSaver(memory), str(thread))
        assert kept == list(range(1, len(kept) + 1))
        assert not told or kept[-1] >= told[-1]
        stored = len(kept)

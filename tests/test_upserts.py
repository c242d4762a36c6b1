"""Upserts that meet other writers: in batches, actions and knowledge they are no conflict."""

from __future__ import annotations

import pytest

from alveus import Agent, InputEvent, LocalRunner, action
from alveus.testing.batches import at_once


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("where", ["notes", "knowledge"])
def test_a_batch_whose_upsert_meets_another_writer_commits(memory, where, before):
    """What is there by the end of the block is replaced, or kept; whatever its version."""
    ada = memory.key("ada")
    home = memory.knowledge.set("book") if where == "knowledge" else ada.set("book")
    if before:
        home.add("old", id="a")
    with ada.batch() as batch:
        inside = batch.knowledge if where == "knowledge" else batch
        inside.set("book").add_many(["x"], on_existing="keep")
        inside.set("book").add("mine", id="a", on_existing="update")
        inside.set("book").add("mine", id="b", on_existing="keep")
        home.add("theirs", id="a", on_existing="update")
        home.add("theirs", id="b")
    assert [home.get(name).value for name in ("a", "b")] == ["mine", "theirs"]
    assert [item.value for item in home.history("a")][-2:] == ["theirs", "mine"]


def test_an_action_whose_upsert_meets_another_writer_runs_once(memory):
    """Its batch is committed as it is; the action is not called again."""
    calls = []

    @action(InputEvent)
    def note(event, ctx):
        calls.append(event.input)
        ctx.long_term_memory.set("notes").add("mine", id="a", on_existing="update")
        memory.key("ada").set("notes").add("theirs", id="a", on_existing="update")

    with LocalRunner(Agent("helper", actions=[note]), memory) as runner:
        runner.handle("ada", 1)
        runner.handle("ada", 2)
    assert calls == [1, 2]
    assert memory.key("ada").set("notes").get("a").value == "mine"


def test_threads_upsert_together(memory):
    """None of them is refused."""

    def write(_number):
        for n in range(10):
            with memory.key("ada").batch() as batch:
                batch.add(f"{n}", id=f"{n % 3}", on_existing="update")
                batch.add(f"{n}", id=f"k{n % 3}", on_existing="keep")

    at_once(4, write)
    assert len(memory.key("ada").list()) == 6

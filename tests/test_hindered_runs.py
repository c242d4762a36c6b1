"""What fails as a run is begun, before anything of it is done: it is begun again, in its order."""

from __future__ import annotations

import pytest

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import Unavailable
from alveus.runs.task import RunnerHooks
from alveus.state.committed_tree import LeasedTree
from waiting import LIMIT_S


class Shop(Agent):
    """Takes orders."""

    @action(InputEvent)
    def take(self, event, ctx):
        ctx.short_term_memory.append("orders", event.input)
        ctx.send_event(OutputEvent(event.input))


@pytest.mark.parametrize("error", [Unavailable("the server is restarting"), MemoryError()])
def test_a_run_whose_memory_cannot_be_read_is_begun_again(error: Exception) -> None:
    """Its runner had taken it out of those that wait, and forgot it."""
    fails = [error]

    def failing(*given):
        if fails:
            raise fails.pop()
        return LeasedTree(*given)

    with (
        Memory.open(":memory:", embedder="words") as memory,
        LocalRunner(Shop, memory, hooks=RunnerHooks(tree=failing)) as runner,
    ):
        assert runner.handle("bob", "first", wait_s=LIMIT_S) == ("first",)
        assert not fails
        assert runner.handle("bob", "second", wait_s=LIMIT_S) == ("second",)
        assert memory.key("bob").short_term.get("orders") == ["first", "second"]

"""What fails as a run is begun, before anything of it is done: it is begun again, in its order."""

from __future__ import annotations

import pytest

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.errors import Unavailable
from alveus.runs.runner.scheduler import LiveLane
from waiting import LIMIT_S


class Shop(Agent):
    """Takes orders."""

    @action(InputEvent)
    def take(self, event, ctx):
        ctx.short_term_memory.append("orders", event.input)
        ctx.send_event(OutputEvent(event.input))


@pytest.mark.parametrize("error", [Unavailable("the server is restarting"), MemoryError()])
def test_a_run_whose_memory_cannot_be_read_is_begun_again(error: Exception, monkeypatch) -> None:
    """Its runner had taken it out of those that wait, and forgot it."""
    read, fails = LiveLane.leased_tree, [error]

    def failing(lane: LiveLane, *given):
        if fails:
            raise fails.pop()
        return read(lane, *given)

    with Memory.open(":memory:", embedder="words") as memory, LocalRunner(Shop, memory) as runner:
        monkeypatch.setattr(LiveLane, "leased_tree", failing)
        assert runner.handle("bob", "first", wait_s=LIMIT_S) == ("first",)
        assert not fails
        assert runner.handle("bob", "second", wait_s=LIMIT_S) == ("second",)
        assert memory.key("bob").short_term.get("orders") == ["first", "second"]

"""The agent: books a flight, then a hotel, and pays for both."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from alveus import Agent, Event, InputEvent, OutputEvent, RunnerContext, action


def pay(ledger: str, what: str, amount: int) -> str:
    """Pay somebody in the outside world, which takes no payment back; return the receipt."""
    receipt = f"{what}-{uuid.uuid4().hex[:8]}"
    with Path(ledger).open("a", encoding="utf-8") as book:
        book.write(f"{receipt} {amount}\n")
    return receipt


class Flown(Event):
    """The flight is booked."""


class Trip(Agent):
    """Books trips. Its input is ``{"city": …, "ledger": path}``.

    Args:
        dawdles: Say so and fall asleep once the hotel is paid, and before the action is over.
    """

    def __init__(self, *, dawdles: bool = False) -> None:
        super().__init__("trip")
        self.dawdles = dawdles

    @action(InputEvent)
    def fly(self, event: InputEvent, ctx: RunnerContext) -> None:
        """Book the flight."""
        say(ctx, "books a flight")
        receipt = ctx.durable(pay, event.input["ledger"], "flight", 120)
        ctx.short_term_memory.append("receipts", receipt)
        ctx.sensory_memory.set("order", event.input)
        ctx.sensory_memory.set("spent", 120)
        ctx.send_event(Flown())

    @action(Flown)
    def stay(self, event: Flown, ctx: RunnerContext) -> None:
        """Book the hotel, and tell what it all cost."""
        say(ctx, "books a hotel")
        order = ctx.sensory_memory.get("order")
        receipt = ctx.durable(pay, order["ledger"], "hotel", 300)
        ctx.short_term_memory.append("receipts", receipt)
        spent = ctx.sensory_memory.get("spent") + 300
        ctx.long_term_memory.set("trips").add(f"A trip to {order['city']} for {spent} euros.")
        if self.dawdles:
            say(ctx, "has paid for the hotel, and dawdles")
            time.sleep(600)
        ctx.send_event(OutputEvent(f"{order['city']} is booked for {spent} euros"))


def say(ctx: RunnerContext, what: str) -> None:
    """Show what is going on, at once."""
    print(f"  run {ctx.run.number} {what}", flush=True)

"""The assistant: three actions, four memories, one model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alveus import Agent, Event, InputEvent, OutputEvent, RunnerContext, action

Model = Callable[[str], dict[str, Any]]
"""Answers a prompt with ``{"say": text, "cart": [product, …], "remember": [text, …]}``."""


class Prepared(Event):
    """All that the model should know is in sensory memory."""


class Answered(Event):
    """The model gave an answer."""

    answer: dict[str, Any]


class Assistant(Agent):
    """Helps a customer, who is the key of the run.

    - Sensory memory holds the notes of this one turn; the actions of the run hand them on there.
    - Short-term memory holds the cart: exact, and there for the next turn.
    - Long-term memory holds what the customer said about himself; it is searched by meaning.
    - Knowledge holds the catalogue, which all customers share.
    """

    def __init__(self, model: Model) -> None:
        super().__init__("assistant", on_error="retry")
        self.model = model

    @action(InputEvent)
    def prepare(self, event: InputEvent, ctx: RunnerContext) -> None:
        """Gather what has to do with the customer's words."""
        notes = ctx.sensory_memory.new_object("turn")
        notes.set("said", event.input)
        known = ctx.long_term_memory.set("remarks").search(event.input, limit=3)
        notes.set("known", [hit.item.text for hit in known])
        offers = ctx.knowledge.set("catalogue").search(event.input, limit=2)
        notes.set("offers", [hit.item.text for hit in offers])
        ctx.send_event(Prepared())

    @action(Prepared)
    def ask(self, event: Prepared, ctx: RunnerContext) -> None:
        """Ask the model, once: if we die before the end, its answer is not asked for again."""
        notes = ctx.sensory_memory.get_object("turn")
        prompt = "\n".join(
            [
                "You help in a shop for outdoor gear.",
                *(f"The customer once said: {text}" for text in notes.get("known")),
                *(f"We sell: {text}" for text in notes.get("offers")),
                f"In the cart: {', '.join(ctx.short_term_memory.get('cart', [])) or 'nothing'}",
                f"Customer: {notes.get('said')}",
            ]
        )
        answer = ctx.durable.using(name="model")(self.model, prompt)
        ctx.send_event(Answered(answer))

    @action(Answered)
    def note(self, event: Answered, ctx: RunnerContext) -> None:
        """Fill the cart, remember, answer: all of it in one commit, or nothing."""
        for product in event.answer.get("cart", []):
            ctx.short_term_memory.append("cart", product)
        ctx.short_term_memory.increment("turns")
        for text in event.answer.get("remember", []):
            ctx.long_term_memory.set("remarks").add(text)
        ctx.send_event(OutputEvent(event.answer["say"]))

"""A helpdesk on Apache Flink: one command reads tickets from a file and writes answers.

    alveus flink run helpdesk.py:HELPDESK -i tickets.jsonl -o answers --checkpoints checkpoints

Nothing in this file is of Flink: `alveus run helpdesk.py:HELPDESK -i tickets.jsonl` runs the same
agent on this machine alone. Kill the command, repeat it, and each ticket is still answered once.
"""

from __future__ import annotations

from alveus import Agent, Event, InputEvent, OutputEvent, RunnerContext, action


class Classified(Event):
    """A ticket with its subject."""

    text: str
    subject: str


@action(InputEvent)
def classify(event: InputEvent, ctx: RunnerContext) -> None:
    """Find out what a ticket is about, and remember it for the customer."""
    text = event.input
    subject = "refund" if "money" in text or "refund" in text else "question"
    seen = ctx.short_term_memory.get("tickets", 0) + 1
    ctx.short_term_memory.set("tickets", seen)
    ctx.long_term_memory.add(text, metadata={"subject": subject})
    ctx.send_event(Classified(text, subject))


@action(Classified)
def answer(event: Classified, ctx: RunnerContext) -> None:
    """Answer with what the customer wrote before."""
    hits = ctx.long_term_memory.search(event.text, limit=2)
    before = [hit.item.text for hit in hits if hit.item.text != event.text]
    count = ctx.short_term_memory.get("tickets")
    ctx.send_event(OutputEvent({"subject": event.subject, "ticket": count, "before": before}))


HELPDESK = Agent("helpdesk", actions=[classify, answer])

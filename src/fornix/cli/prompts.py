"""Prompts from memory: context."""

from __future__ import annotations

import os
from datetime import datetime

import click

from fornix.cli import output
from fornix.cli.exact_memory import KEY
from fornix.cli.items import as_of_option, valid_at_option, where_option
from fornix.cli.options import Whole, command, sets_option
from fornix.cli.progress import settle
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.memory.prompt import ALL, NEWEST, Context, Piece
from fornix.store.as_of import ValidAt
from fornix.values.storable import Value
from fornix.values.times import stamp

exact_option = click.option(
    "exact",
    "--exact",
    metavar="PATH",
    multiple=True,
    help='Exact values at and below PATH are in the prompt; "": all of them. May be repeated.',
)


@command("context")
@KEY
@click.argument("query")
@click.option("--budget", "-b", type=Whole(min=1), help="Most tokens.  [default: any number]")
@click.option("--system", metavar="TEXT", help="Instructions; they come first.")
@click.option(
    "--messages", metavar="SET", help="The set of the conversation.  [default: the newest]"
)
@click.option("--recent", type=Whole(min=0), help="Most exchanges of it.")
@exact_option
@click.option("--show-secrets", is_flag=True, help="Show secrets in memory; else they are masked.")
@sets_option
@where_option
@as_of_option
@valid_at_option
def context(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    key: str,
    query: str,
    budget: int | None,
    system: str | None,
    messages: str | None,
    recent: int | None,
    exact: tuple[str, ...],
    show_secrets: bool,
    set_names: tuple[str, ...],
    where: dict[str, Value] | None,
    as_of: int | datetime | None,
    valid_at: ValidAt | None,
) -> None:
    """Make a prompt for QUERY from the memory of KEY, within a budget of tokens.

    Prints the prompt as a text, and on stderr a table of its pieces and of what was left out, with
    the reasons. With --json: {"messages": […], "text": …, "tokens": …, "budget_tokens": …,
    "partial": …, "more": …, "why": […]}.
    """

    def made(memory: Memory) -> Context:
        return memory.context(
            query,
            key=key,
            budget_tokens=budget,
            system=system,
            messages=messages or NEWEST,
            recent=recent,
            sets=set_names or ALL,
            exact=exact,
            where=where,
            as_of=as_of,
            valid_at=valid_at,
            secrets="show" if show_secrets else "mask",
        )

    with session.open(mode="ro") as memory:
        if set_names:
            Owner(key).require(session, memory, set_names)
        found = made(memory)
    if found.partial and os.access(session.file, os.W_OK):
        with session.open() as memory:
            settle(session, memory)
            found = made(memory)
    if session.json:
        output.document(context_fields(found))
    else:
        click.echo(output.plain(found.text))
        session.note(f"\n{found.explain()}")


def context_fields(found: Context) -> dict[str, output.Json]:
    """Return a prompt and why it is as it is, as JSON."""
    return {
        "messages": found.messages,
        "text": found.text,
        "tokens": found.tokens,
        "budget_tokens": found.budget_tokens,
        "partial": found.partial,
        "more": found.more,
        "why": [_piece(piece) for piece in found.why],
    }


def _piece(piece: Piece) -> dict[str, output.Json]:
    return {
        "part": piece.part,
        "source": piece.source,
        "text": piece.text,
        "shown": piece.shown,
        "reason": piece.reason,
        "tokens": piece.tokens,
        "rank": piece.rank,
        "set": piece.set_name,
        "ids": list(piece.ids),
        "time": None if piece.time is None else stamp(piece.time),
        "score": piece.score,
        "parts": dict(piece.parts),
    }

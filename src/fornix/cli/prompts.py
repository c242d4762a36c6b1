"""Prompts from memory: context."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from fornix.cli import output
from fornix.cli.options import (
    Decorator,
    Whole,
    as_of_option,
    command,
    key_option,
    sets_option,
    valid_at_option,
    where_option,
)
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.memory.prompt import ALL, NEWEST, Context, Piece
from fornix.store.as_of import ValidAt
from fornix.values.storable import Value
from fornix.values.times import stamp

exact_option = click.option(
    "--exact",
    metavar="PATH",
    multiple=True,
    help='Include exact values at and below PATH; "": all of them. May be repeated.',
)


def budget_option(default: int | None = None) -> Decorator[Any]:
    """Return the option that bounds a prompt."""
    return click.option(
        "--budget",
        "-b",
        metavar="TOKENS",
        type=Whole(min=1),
        default=default,
        show_default=default is not None,
        help="Keep the prompt within TOKENS." + ("" if default else "  [default: no limit]"),
    )


@command("context")
@click.argument("query")
@key_option(required=True)
@budget_option()
@click.option("--system", metavar="TEXT", help="Begin with these instructions.")
@click.option(
    "--messages", metavar="SET", help="Take the conversation from SET.  [default: the newest]"
)
@click.option(
    "--recent", metavar="COUNT", type=Whole(min=0), help="Take at most COUNT exchanges of it."
)
@exact_option
@click.option("--show-secrets", is_flag=True, help="Do not mask secrets.")
@click.option("--details", is_flag=True, help="Name the set, id and time of each item.")
@sets_option
@where_option
@as_of_option
@valid_at_option
def context_command(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    query: str,
    key: str,
    budget: int | None,
    system: str | None,
    messages: str | None,
    recent: int | None,
    exact: tuple[str, ...],
    show_secrets: bool,
    details: bool,
    set_names: tuple[str, ...],
    where: dict[str, Value] | None,
    as_of: int | datetime | None,
    valid_at: ValidAt | None,
) -> None:
    """Make a prompt for a question, within a budget of tokens.

    Prints the prompt as text on stdout. A table on stderr gives a reason for each piece of memory
    that is in it or was left out.
    With --json: {"messages": […], "text": …, "tokens": …, "budget_tokens": …, "partial": …,
    "more": …, "why": […]}.

    Example: fornix context "which seat?" --key ada --budget 1000
    """

    def made(memory: Memory) -> Context:
        Owner(key).require(session, memory, set_names)
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
            details="show" if details else "hide",
        )

    found = session.ask(made, lambda context: context.partial, None)
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

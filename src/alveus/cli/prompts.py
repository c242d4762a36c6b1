"""Prompts from memory: context."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict, Unpack

import click

from alveus.cli import options, output
from alveus.cli.session import Owner, Session
from alveus.memory.memory import Memory
from alveus.memory.prompt import ALL, NEWEST, Context, Piece
from alveus.store.times import ValidAt
from alveus.values.storable import Value

exact_option = options.option(
    "--exact PATH",
    'Include exact values at and below PATH; "": all of them. May be repeated.',
    multiple=True,
)


profile_option = options.option("--profile NAME", "Include what is always told of NAME.")
block_option = options.option(
    "--block NAME",
    'Include the block NAME; "": all of them. May be repeated.',
    multiple=True,
)


def budget_option(default: int | None = None) -> options.Decorator[Any]:
    """Return the option that bounds a prompt."""
    says = "Keep the prompt within TOKENS." + ("" if default else "  [default: no limit]")
    return options.option("--budget -b TOKENS", says, type=options.Whole(min=1), default=default)


class ContextFilters(TypedDict):
    """What a prompt is made of."""

    system: str | None
    recent: int | None
    exact: tuple[str, ...]
    profile: str | None
    where: dict[str, Value] | None
    as_of: int | datetime | None
    valid_at: ValidAt | None
    min_score: float | None


@options.command("context")
@click.argument("query")
@options.required_key_option
@budget_option()
@options.option("--system TEXT", "Begin with these instructions.")
@options.option("--messages SET", "Take the conversation from SET.  [default: the newest]")
@options.option("--recent COUNT", "Take at most COUNT exchanges of it.", type=options.Whole(min=0))
@exact_option
@profile_option
@block_option
@options.option("--show-secrets", "Do not mask secrets.")
@options.option("--details", "Name the set, id and time of each item.")
@options.sets_option
@options.where_option
@options.as_of_option
@options.valid_at_option
@options.min_score_option(
    "Leave out all items if the best has a lower relevance, 0 to 1.  [default: 0.5, but a memory "
    "that fits into a third of the budget is shown whole]",
    None,
)
@options.reranker_options
def context_command(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    query: str,
    key: str,
    budget: int | None,
    messages: str | None,
    show_secrets: bool,
    details: bool,
    set_names: tuple[str, ...],
    block: tuple[str, ...],
    reranker: str | None,
    reranker_model: str | None,
    **filters: Unpack[ContextFilters],
) -> None:
    """Make a prompt for a question, within a budget of tokens.

    Prints the prompt as text on stdout. A table on stderr gives a reason for each piece of memory
    that is in it or was left out.
    With --json: {"messages": […], "text": …, "tokens": …, "budget_tokens": …, "partial": …,
    "reranker_failure": …, "more": …, "why": […]}.

    Example: alveus context "which seat?" --key ada --budget 1000
    """
    chosen = options.http_reranker(reranker, reranker_model)

    def made(memory: Memory) -> Context:
        owner = Owner(key)
        owner.require(session, memory, set_names)
        if near := owner.near_keys(session, memory):
            session.note(f"alveus: {owner.name} holds nothing{near}")
        return memory.context(
            query,
            key=key,
            budget_tokens=budget,
            messages=messages or NEWEST,
            sets=set_names or ALL,
            blocks=ALL if "" in block else block,
            reranker=chosen,
            secrets="show" if show_secrets else "mask",
            details="show" if details else "hide",
            **filters,
        )

    found = session.ask(made, lambda context: context.partial, None)
    if session.json:
        output.document(context_fields(found))
    else:
        click.echo(output.plain(found.text))
        session.note(f"\n{found.explain()}")


def context_fields(context: Context) -> dict[str, output.Json]:
    """Return a prompt and why it is as it is, as JSON."""
    fields = output.attributes(
        context, "messages text tokens budget_tokens partial reranker_failure more"
    )
    return fields | {"why": [_piece(piece) for piece in context.why]}


def _piece(piece: Piece) -> dict[str, output.Json]:
    names = "part source text shown reason tokens rank ids time score"
    fields = output.attributes(piece, names)
    return fields | {"set": piece.set_name, "parts": dict(piece.parts)}

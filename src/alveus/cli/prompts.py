"""Prompts from memory: context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alveus.cli import options
from alveus.cli.options import Moment, argument, option
from alveus.cli.session import Owner, Session
from alveus.memory.memory import Memory
from alveus.memory.prompt import ALL, NEWEST, Context
from alveus.server.json_forms import context_fields
from alveus.store.times import ValidAt
from alveus.values.storable import Value

if TYPE_CHECKING:
    from alveus.llm import HttpReranker

EXACT = option(
    "--exact PATH",
    'Include exact values at and below PATH; "": all of them. May be repeated.',
    multiple=True,
)


def budget_option(default: int | None = None) -> Any:  # noqa: ANN401 - the default of a parameter
    """Return the option that bounds a prompt."""
    says = "Keep the prompt within TOKENS." + ("" if default else "  [default: no limit]")
    return option("--budget -b TOKENS", says, type=options.Whole(min=1), default=default)


@options.command("context")
def context_command(
    session: Session,
    *,
    query: str = argument(),
    key: str = options.KEY,
    budget: int | None = budget_option(),
    system: str | None = option("--system TEXT", "Begin with these instructions."),
    messages: str | None = option(
        "--messages SET", "Take the conversation from SET.  [default: the newest]"
    ),
    recent: int | None = option(
        "--recent COUNT", "Take at most COUNT exchanges of it.", type=options.Whole(min=0)
    ),
    exact: tuple[str, ...] = EXACT,
    profile: str | None = option("--profile NAME", "Include the profile of NAME."),
    block: tuple[str, ...] = option(
        "--block NAME", 'Include the block NAME; "": all of them. May be repeated.', multiple=True
    ),
    show_secrets: bool = option("--show-secrets", "Do not mask secrets."),
    details: bool = option("--details", "Name the set, id and time of each item."),
    set_names: tuple[str, ...] = options.SETS,
    where: dict[str, Value] | None = options.WHERE,
    as_of: Moment = options.AS_OF,
    valid_at: ValidAt | None = options.VALID_AT,
    min_score: float | None = options.min_score_option(
        "Leave out all items if the best has a lower relevance, 0 to 1.  [default: 0.5, but a "
        "memory that fits into a third of the budget is shown whole]",
        None,
    ),
    reranker: HttpReranker | None = options.RERANKER,
) -> None:
    """Make a prompt for a question, within a budget of tokens.

    Prints the prompt as text on stdout. A table on stderr gives a reason for each piece of memory
    that is in it or was left out.
    With --json: {"messages": […], "text": …, "tokens": …, "budget_tokens": …, "partial": …,
    "reranker_failure": …, "more": …, "why": […]}.

    Example: alveus context "which seat?" --key ada --budget 1000
    """

    def made(memory: Memory) -> Context:
        owner = Owner(key)
        owner.require(session, memory, set_names)
        if near := owner.near_keys(session, memory):
            session.note(f"alveus: {owner.name} holds nothing{near}")
        return memory.context(
            query,
            key=key,
            budget_tokens=budget,
            system=system,
            messages=messages or NEWEST,
            recent=recent,
            sets=set_names or ALL,
            exact=exact,
            profile=profile,
            blocks=ALL if "" in block else block,
            where=where,
            as_of=as_of,
            valid_at=valid_at,
            min_score=min_score,
            reranker=reranker,
            secrets="show" if show_secrets else "mask",
            details="show" if details else "hide",
        )

    found = session.ask(made, lambda context: context.partial, None)
    session.answer(found.text, context_fields(found))
    if not session.json:
        session.note(f"\n{found.explain()}")

"""Items of sets: add, search, get, list, recent."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import click

from fornix.cli import output
from fornix.cli.options import (
    Whole,
    command,
    key_option,
    knowledge_option,
    parsed,
    read_moment,
    read_object,
    set_option,
    sets_option,
)
from fornix.cli.progress import settle
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.sets import MemorySet, OnExisting
from fornix.store.as_of import ValidAt
from fornix.store.items import Hits, Item
from fornix.values.storable import Value
from fornix.values.times import read_span, read_time

where_option = click.option(
    "--where",
    metavar="JSON",
    callback=parsed(read_object),
    help='Only items like this: \'{"topic": "travel"}\'.',
)
as_of_option = click.option(
    "--as-of",
    metavar="MOMENT",
    callback=parsed(read_moment),
    help="As it was: a commit number, or a time.",
)


def _read_valid(text: str) -> ValidAt:
    """Return the time, or the word "any", that *text* is."""
    return "any" if text == "any" else read_time(text)


valid_at_option = click.option(
    "--valid-at",
    metavar="TIME",
    callback=parsed(_read_valid),
    help='Facts that hold then, or "any".  [default: now]',
)
limit_option = click.option("--limit", "-n", type=Whole(min=1), help="At most so many.")

PAGE = 500


@command("add")
@click.argument("text")
@key_option
@knowledge_option
@set_option
@click.option("--id", "item_id", metavar="ID", help="Its id; made up where none is given.")
@click.option(
    "--metadata", metavar="JSON", callback=parsed(read_object), help="Facts to filter by."
)
@click.option("--importance", type=float, default=0.0, help="0 to 1.")
@click.option("--speaker", metavar="NAME", help="Who said it.")
@click.option("--role", metavar="NAME", help="Such as user or assistant.")
@click.option("--session", "session_name", metavar="NAME", help="The conversation it belongs to.")
@click.option(
    "--time", metavar="TIME", callback=parsed(read_time), help="When it happened.  [default: now]"
)
@click.option(
    "--expire-at", metavar="TIME", callback=parsed(read_time), help="It is gone from then on."
)
@click.option("--ttl", metavar="SPAN", callback=parsed(read_span), help="Or after 90s 10m 12h 7d.")
@click.option(
    "--valid-from", metavar="TIME", callback=parsed(read_time), help="When it begins to hold."
)
@click.option(
    "--valid-to", metavar="TIME", callback=parsed(read_time), help="When it ends to hold."
)
@click.option(
    "--on-existing",
    type=click.Choice(["error", "keep", "update"]),
    default="error",
    show_default=True,
    help="What to do if the id is taken.",
)
@click.option("--idempotency-key", metavar="KEY", help="The same add again changes nothing.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is found by meaning.")
def add(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    text: str,
    key: str | None,
    knowledge: str | None,
    set_name: str,
    item_id: str | None,
    metadata: dict[str, Value] | None,
    importance: float,
    speaker: str | None,
    role: str | None,
    session_name: str | None,
    time: datetime | None,
    expire_at: datetime | None,
    ttl: timedelta | None,
    valid_from: datetime | None,
    valid_to: datetime | None,
    on_existing: OnExisting,
    idempotency_key: str | None,
    no_wait: bool,
) -> None:
    """Add an item: TEXT, or what stdin says if TEXT is "-".

    Prints its id. It is durable when the command ends. A memory that does not exist yet is made.
    With --json: {"id": …, "set": …}.
    """
    owner = Owner(key, knowledge)
    what, text = ("what stdin says", sys.stdin.read()) if text == "-" else ("TEXT", text)
    if not text.strip():
        raise click.UsageError(f"{what} is empty, and could not be found again; write a text")
    with session.open(knowledge=knowledge, make=True) as memory:
        chosen = owner.of(memory).set(set_name)
        made = chosen.add(
            text,
            id=item_id,
            metadata=metadata,
            importance=importance,
            speaker=speaker,
            role=role,
            session=session_name,
            time=time,
            expire_at=expire_at,
            ttl=ttl,
            valid_from=valid_from,
            valid_to=valid_to,
            on_existing=on_existing,
            idempotency_key=idempotency_key,
        )
        session.done(made, {"id": made, "set": set_name})
        if chosen.definition.admission and chosen.quarantine.get(made) is not None:
            session.note("fornix: a rule holds it in quarantine: fornix quarantine show ID")
        if not no_wait:
            settle(session, memory)


@dataclass(frozen=True, slots=True)
class _Question:
    owner: Owner
    sets: tuple[str, ...]
    text: str
    limit: int
    where: dict[str, Value] | None
    as_of: int | datetime | None
    valid_at: ValidAt | None

    def ask(self, memory: Memory) -> Hits:
        return self.owner.of(memory).search(
            self.text,
            sets=self.sets or None,
            limit=self.limit,
            where=self.where,
            as_of=self.as_of,
            valid_at=self.valid_at,
        )


@command("search")
@click.argument("query")
@key_option
@knowledge_option
@sets_option
@click.option(
    "--limit",
    "-n",
    type=Whole(1, 1000),
    default=10,
    show_default=True,
    help="At most so many.",
)
@where_option
@as_of_option
@valid_at_option
@click.option("--explain", is_flag=True, help="Show what each score is made of.")
def search(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    query: str,
    key: str | None,
    knowledge: str | None,
    set_names: tuple[str, ...],
    limit: int,
    where: dict[str, Value] | None,
    as_of: int | datetime | None,
    valid_at: ValidAt | None,
    explain: bool,
) -> None:
    """Find the items that answer QUERY best, by words and meaning.

    Prints a line per hit: score, time, who and what, id. Scores compare within one search only.
    With --json: {"partial": …, "hits": [{"score": …, "parts": {…}, "item": {…}}, …]}.
    """
    owner = Owner(key, knowledge)
    question = _Question(owner, set_names, query, limit, where, as_of, valid_at)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        question.owner.require(session, memory, set_names)
        hits = question.ask(memory)
    if hits.partial and os.access(session.file, os.W_OK):
        with session.open(knowledge=knowledge) as memory:
            settle(session, memory)
            hits = question.ask(memory)
    if hits.partial:
        session.note("fornix: some items were searched by their words only: not embedded yet")
    if not hits:
        session.nothing(f"nothing of {question.owner.name} answers that", output.hits_fields(hits))
    if session.json:
        output.document(output.hits_fields(hits))
    elif explain:
        from fornix.cli import tables

        tables.console().print(tables.explained(hits))
    else:
        output.hits(hits)


@command("get")
@click.argument("item_id", metavar="ID")
@key_option
@knowledge_option
@set_option
@as_of_option
@click.option("--history", is_flag=True, help="Every version of it, oldest first.")
def get(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    item_id: str,
    key: str | None,
    knowledge: str | None,
    set_name: str,
    as_of: int | datetime | None,
    history: bool,
) -> None:
    """Show the item ID with all that is known of it.

    Exact memory is read by fornix tree. With --json: the item; with --history a line per version.
    """
    owner = Owner(key, knowledge)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        chosen = owner.of(memory).set(set_name)
        if history:
            found = chosen.history(item_id)
        else:
            one = chosen.get(item_id, as_of=as_of)
            found = [] if one is None else [one]
        if not found:
            owner.require(session, memory, (set_name,))
    if not found:
        session.nothing(f"set {set_name!r} of {owner.name} has no item {item_id!r}")
    for number, item in enumerate(found):
        if session.json:
            output.document(output.item_fields(item))
        else:
            if number:
                click.echo()
            output.facts(_facts(item))


def _facts(item: Item) -> Iterable[tuple[str, str]]:
    for name, fact in output.item_fields(item).items():
        if fact not in (None, [], {}, False) and not (name == "text" and item.text == item.value):
            yield name, fact if isinstance(fact, str) else output.inline(fact)


@command("list")
@key_option
@knowledge_option
@set_option
@where_option
@limit_option
@click.option("--newest-first", is_flag=True, help="Begin with the latest.")
@as_of_option
def list_items(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    key: str | None,
    knowledge: str | None,
    set_name: str,
    where: dict[str, Value] | None,
    limit: int | None,
    newest_first: bool,
    as_of: int | datetime | None,
) -> None:
    """List the items of a set by time, all of them.

    With --json: a line per item.
    """
    owner = Owner(key, knowledge)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        chosen = owner.of(memory).set(set_name)
        after: str | None = None
        left = limit
        while left is None or left > 0:
            page = chosen.list(
                where=where,
                limit=PAGE if left is None else min(PAGE, left),
                after=after,
                newest_first=newest_first,
                as_of=as_of,
            )
            _print(session, page)
            if len(page) < PAGE:
                break
            after, left = page[-1].id, None if left is None else left - len(page)


def _print(session: Session, found: Iterable[Item]) -> None:
    if session.json:
        for item in found:
            output.document(output.item_fields(item))
    else:
        output.items(found)


@command("recent")
@key_option
@knowledge_option
@set_option
@click.option("--limit", "-n", type=Whole(min=1), default=10, show_default=True, help="How many.")
@as_of_option
@valid_at_option
def recent(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    key: str | None,
    knowledge: str | None,
    set_name: str,
    limit: int,
    as_of: int | datetime | None,
    valid_at: ValidAt | None,
) -> None:
    """Show the last items of a set, the latest at the end.

    With --json: a line per item.
    """
    owner = Owner(key, knowledge)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        chosen: MemorySet = owner.of(memory).set(set_name)
        _print(session, chosen.recent(limit, as_of=as_of, valid_at=valid_at))

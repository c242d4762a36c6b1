"""Items of sets: add, show, delete, list, recent, search."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TextIO, TypedDict, Unpack, cast

import click

from alveus.cli import options, output
from alveus.cli.session import Owner, Session
from alveus.memory.memory import Memory
from alveus.server import json_forms
from alveus.sets import OnExisting
from alveus.sets.set_options import ItemFields
from alveus.store.items import Hit, Hits, Item
from alveus.store.times import ValidAt
from alveus.values.storable import Value
from alveus.values.times import Zone, format_time, read_span


class AddOptions(ItemFields, total=False):
    """What an item is added with."""

    on_existing: OnExisting
    idempotency_key: str | None


@options.command("add")
@click.argument("words", metavar="TEXT")
@options.owner_options
@options.set_option
@options.option("--id ID", "The id of the item.  [default: a new one]")
@options.option("--metadata JSON", "Facts to filter by.", read=options.read_object)
@options.option("--importance NUMBER", "From 0 to 1.", type=float, default=0.0)
@options.option("--speaker NAME", "Who said it.")
@options.option("--role NAME", "Such as user or assistant.")
@options.option("--session NAME", "The conversation it belongs to.")
@options.option("--time TIME", "When it happened.  [default: now]", read=options.read_time)
@options.option(
    "--expire-at TIME", "Remove it at this time, which is to come.", read=options.read_time
)
@options.option(
    "--ttl SPAN", "Remove it after a span of time, such as 90s, 10m, 12h, 7d or 2w.", read=read_span
)
@options.option("--valid-from TIME", "The fact holds from this time on.", read=options.read_time)
@options.option("--valid-to TIME", "The fact holds until this time.", read=options.read_end)
@options.on_existing_option("error", "What to do if the id is taken.")
@options.option("--idempotency-key NAME", "A second add of this name adds nothing.")
@options.no_wait_option
def add_command(
    session: Session,
    /,
    *,
    words: str,
    owner: Owner,
    set_name: str,
    no_wait: bool,
    **fields: Unpack[AddOptions],
) -> None:
    """Add an item to a set.

    TEXT is what search reads; "-" reads it from stdin. Prints the id of the item, which is durable
    when the command ends. A memory that does not exist is made. With --json: {"id": …, "set": …}.

    Example: alveus add "Prefers window seats." --key ada
    """
    what, text = ("what stdin says", _text_of_stdin()) if words == "-" else ("TEXT", words)
    if not text.strip():
        raise click.UsageError(f"{what} is empty, and could not be found again; write a text")
    _check_is_to_come(fields.get("expire_at"), fields.get("idempotency_key"))

    valid = session.valid((text, fields.get("metadata")))
    text, fields["metadata"] = valid.value

    def change(memory: Memory) -> str:
        return owner.of(memory).set(set_name).add(text, **fields)

    with session.open(knowledge=owner.knowledge, make=change) as memory:
        made = change(memory)
        answer = {"id": made, "set": set_name}
        session.answer(made, answer | json_forms.replaced_field(valid.replaced))
        chosen = owner.of(memory).set(set_name)
        if chosen.definition.admission and chosen.quarantine.get(made) is not None:
            session.note(f"alveus: a rule holds it in quarantine: alveus quarantine show {made}")
        if not no_wait:
            session.settle(memory)


def _text_of_stdin() -> str:
    """Return all of stdin; bytes that are not of its encoding are halves of characters."""
    stdin = cast("TextIO", sys.stdin)
    if isinstance(stdin, io.TextIOWrapper):
        stdin.reconfigure(errors="surrogateescape")
    return stdin.read()


def _check_is_to_come(expire_at: datetime | None, idempotency_key: str | None) -> None:
    """Refuse an item that nobody would see; with a key, it may have been added when it was to come.

    Raises:
        UsageError: The time is over.
    """
    if expire_at is not None and idempotency_key is None and expire_at <= datetime.now(UTC):
        problem = "is over: nobody would see the item; name a time to come, or --valid-to for a "
        raise click.UsageError(
            f"--expire-at {format_time(expire_at)} {problem}fact that held until then"
        )


class SearchFilters(TypedDict):
    """What a search looks at."""

    limit: int
    where: dict[str, Value] | None
    as_of: int | datetime | None
    valid_at: ValidAt | None
    min_score: float


@options.command("search")
@click.argument("query")
@options.owner_options
@options.sets_option
@options.limit_option(10, 1000)
@options.where_option
@options.as_of_option
@options.valid_at_option
@options.min_score_option("Leave out hits of a lower relevance, 0 to 1; 0.5: what is unrelated.", 0)
@options.reranker_options
@options.option("--explain", "Show what each score is made of.")
def search_command(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    query: str,
    owner: Owner,
    set_names: tuple[str, ...],
    reranker: str | None,
    reranker_model: str | None,
    explain: bool,
    **filters: Unpack[SearchFilters],
) -> None:
    """Find the items that answer a question best.

    Searches all sets of the key by words and meaning, and lists the best hit first. Compare scores
    within one search only; relevance, which --explain shows, means the same in every search.
    With --json: {"partial": …, "reranker_failure": …, "dated": …, "hits": [{"score": …,
    "relevance": …, "parts": {…}, "item": {…}}, …]}.

    Example: alveus search "which seat?" --key ada
    """
    chosen = options.http_reranker(reranker, reranker_model)

    def question(memory: Memory) -> Hits:
        owner.require(session, memory, set_names)
        found = owner.of(memory).search(query, sets=set_names or None, reranker=chosen, **filters)
        if not found:
            owner.require_any(session, memory)
        return found

    hits = session.ask(question, lambda hits: hits.partial, owner.knowledge)
    if hits.partial:
        session.note("alveus: some items were searched by their words only: not embedded yet")
    if hits.reranker_failure:
        session.note(f"alveus: the hits are not re-ranked: {hits.reranker_failure}")
    if hits.dated:
        session.note(f"alveus: the question means {hits.dated}")
    if session.json:
        output.document(output.hits_fields(hits))
    elif explain and hits:
        from alveus.cli import tables

        screen = tables.console()
        screen.print(tables.explained(hits, width=screen.width))
    elif hits:
        output.table(
            ("score", "set", *output.ITEM_COLUMNS),
            (_hit_row(hit, session.zone) for hit in hits),
            header=not session.quiet,
        )
    if not hits:
        session.nothing(f"nothing of {owner.name} answers that")


def _hit_row(hit: Hit, zone: Zone) -> tuple[str, ...]:
    return (f"{hit.score:5.2f}", hit.item.set_name or "", *output.item_row(hit.item, zone))


@options.command("show")
@options.item_argument
@options.owner_options
@options.one_set_option
@options.as_of_option
@options.option("--history", "Show every version, the oldest first.")
def show_command(
    session: Session,
    *,
    item_id: str,
    owner: Owner,
    set_name: str | None,
    as_of: int | datetime | None,
    history: bool,
) -> None:
    """Show an item with everything that is known of it.

    ID may be any id that search, list or lineage shows; all sets are looked through. alveus get
    prints values of exact memory. With --json: the item; with --history a line per version.

    Example: alveus show 0193a5c2 --key ada
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        chosen, item_id = owner.find(session, memory, item_id, set_name)
        if history:
            found = chosen.history(item_id)
        else:
            one = chosen.get(item_id, as_of=as_of)
            found = [] if one is None else [one]
    if not found:
        when = "was deleted" if as_of is None else "was not there then"
        session.nothing(f"item {item_id!r} {when}; --history shows its versions")
    for number, item in enumerate(found):
        if session.json:
            output.document(output.item_fields(item))
            continue
        if number:
            click.echo()
        output.facts(_facts(item))


def _facts(item: Item) -> Iterable[tuple[str, str]]:
    for name, fact in output.item_fields(item).items():
        if fact not in (None, [], {}, False) and not (name == "text" and item.text == item.value):
            yield name, fact if isinstance(fact, str) else output.inline(fact)


@options.command("delete")
@click.argument("item_ids", metavar="ID…", nargs=-1, required=True)
@options.owner_options
@options.one_set_option
def delete_command(
    session: Session, *, item_ids: tuple[str, ...], owner: Owner, set_name: str | None
) -> None:
    """Delete items; their history is kept.

    No read of the present finds them; alveus show --history and --as-of do. Items of one set are
    deleted in one commit. alveus forget erases items for good. With --json: {"removed": count}.

    Example: alveus delete 0193a5c2 --key ada
    """
    with session.open(knowledge=owner.knowledge) as memory:
        by_set: dict[str, list[str]] = {}
        for each in item_ids:
            chosen, item_id = owner.find(session, memory, each, set_name)
            by_set.setdefault(chosen.name, []).append(item_id)
        removed = sum(owner.of(memory).set(name).delete(ids) for name, ids in by_set.items())
    if not removed:
        session.nothing("nothing was there to delete", {"removed": 0})
    session.done(f"deleted {output.plural(removed, 'item')}", {"removed": removed})


@options.command("list")
@options.owner_options
@options.set_option
@options.where_option
@options.limit_option()
@options.option("--newest-first", "Begin with the latest.")
@options.as_of_option
def list_command(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    owner: Owner,
    set_name: str,
    limit: int | None,
    where: dict[str, Value] | None,
    newest_first: bool,
    as_of: int | datetime | None,
) -> None:
    """List the items of a set by time.

    With --json: a line per item.

    Example: alveus list --key ada --set notes --limit 20
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        chosen = owner.of(memory).set(set_name)

        def items() -> Iterator[Item]:
            after: str | None = None
            left = limit
            while left is None or left > 0:
                size = output.PAGE if left is None else min(output.PAGE, left)
                page = chosen.list(
                    where=where, limit=size, after=after, newest_first=newest_first, as_of=as_of
                )
                yield from page
                if len(page) < output.PAGE:
                    return
                after, left = page[-1].id, None if left is None else left - len(page)

        _list(session, items())


def _list(session: Session, items: Iterable[Item]) -> None:
    row = partial(output.item_row, zone=session.zone)
    session.listing(output.ITEM_COLUMNS, items, row=row, fields=output.item_fields)


@options.command("recent")
@options.owner_options
@options.set_option
@options.limit_option(10)
@options.as_of_option
@options.valid_at_option
def recent_command(
    session: Session,
    *,
    owner: Owner,
    set_name: str,
    limit: int,
    as_of: int | datetime | None,
    valid_at: ValidAt | None,
) -> None:
    """List the last items of a set, the latest at the end.

    With --json: a line per item.

    Example: alveus recent --key ada --limit 5
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        found = owner.of(memory).set(set_name).recent(limit, as_of=as_of, valid_at=valid_at)
    _list(session, found)

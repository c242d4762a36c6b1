"""The commands of items: add, show, delete, list, recent, search, context, quarantine."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from alveus.cli import options, output
from alveus.cli.options import Moment, When, argument, option
from alveus.cli.session import Owner, Session
from alveus.errors import NotFound
from alveus.memory.memory import Memory
from alveus.memory.prompt import ALL, NEWEST, Context
from alveus.search.superseded import Superseded
from alveus.server.json_forms import replaced_field
from alveus.sets import OnExisting
from alveus.sets.admission import Quarantine, Quarantined
from alveus.sets.set_options import ItemFields
from alveus.store.items import Hit, Hits, Item
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value
from alveus.values.times import Zone, format_time

if TYPE_CHECKING:
    from alveus.llm import HttpReranker


class AddOptions(ItemFields, total=False):
    """The fields of a new item, and the options of its add."""

    on_existing: OnExisting
    idempotency_key: str | None


_ADD_OPTIONS: Any = options.OptionGroup(
    {
        "id": option("--id ID", "The id of the item.  [default: a new one]"),
        "metadata": option("--metadata JSON", "Facts to filter by."),
        "importance": option("--importance NUMBER", "From 0 to 1.", type=float, default=0.0),
        "speaker": option("--speaker NAME", "Who said it."),
        "role": option("--role NAME", "Such as user or assistant."),
        "session": option("--session NAME", "The conversation it belongs to."),
        "time": option("--time TIME", "When it happened.  [default: now]"),
        "expire_at": option("--expire-at TIME", "Remove it at this time in the future."),
        "ttl": options.TTL,
        "valid_from": option("--valid-from TIME", "The fact holds from this time on."),
        "valid_to": option(
            "--valid-to TIME", "The fact holds until this time.", read=options.read_end
        ),
        "on_existing": options.on_existing_option("error", "What to do if the id is taken."),
        "idempotency_key": option(
            "--idempotency-key NAME", "A second add of this name adds nothing."
        ),
    },
    dict,
)


@options.command("add")
def add_command(
    session: Session,
    *,
    words: str = argument("TEXT"),
    owner: Owner = options.OWNER,
    set_name: str = options.SET,
    fields: AddOptions = _ADD_OPTIONS,
    no_wait: bool = options.NO_WAIT,
) -> None:
    """Add an item to a set.

    TEXT is what search reads; "-" reads it from stdin. Prints the id of the item, which is durable
    when the command ends. A memory that does not exist is made. With --json: {"id": …, "set": …}.

    Example: alveus add "Prefers window seats." --key ada
    """
    source, text = ("stdin", output.stdin().read()) if words == "-" else ("TEXT", words)
    if not text.strip():
        raise click.UsageError(f"{source} is empty; pass a text, by which search finds the item")
    _check_is_to_come(fields.get("expire_at"), fields.get("idempotency_key"))

    valid = session.valid((text, fields.get("metadata")))
    text, fields["metadata"] = valid.value

    def change(memory: Memory) -> str:
        return owner.of(memory).set(set_name).add(text, **fields)

    with session.open(knowledge=owner.knowledge, make=change) as memory:
        made = change(memory)
        session.answer(made, {"id": made, "set": set_name} | replaced_field(valid.replaced))
        chosen = owner.of(memory).set(set_name)
        if chosen.definition.admission and chosen.quarantine.get(made) is not None:
            session.note(f"alveus: a rule holds it in quarantine: alveus quarantine show {made}")
        if not no_wait:
            session.settle(memory)


def _check_is_to_come(expire_at: datetime | None, idempotency_key: str | None) -> None:
    """Refuse an item that has expired.

    With an idempotency key nothing is refused: an earlier call may have added the item in time.

    Raises:
        UsageError: `expire_at` is in the past.
    """
    if expire_at is not None and idempotency_key is None and expire_at <= datetime.now(UTC):
        problem = "has passed; pass a later time, or --valid-to for a "
        raise click.UsageError(
            f"--expire-at {format_time(expire_at)} {problem}fact that held until then"
        )


@options.command("search")
def search_command(
    session: Session,
    *,
    query: str = argument(),
    owner: Owner = options.OWNER,
    set_names: tuple[str, ...] = options.SETS,
    limit: int = options.limit_option(10, 1000),
    where: dict[str, Value] | None = options.WHERE,
    when: When = options.WHEN,
    min_score: float = options.min_score_option(
        "Leave out hits of a lower relevance, 0 to 1; 0.5: what is unrelated.", 0
    ),
    reranker: HttpReranker | None = options.RERANKER,
    superseded: Superseded = options.SUPERSEDED,
    explain: bool = option("--explain", "Show what each score is made of."),
) -> None:
    """Find the items that answer a question best.

    Searches all sets of the key by words and meaning, and lists the best hit first. Compare scores
    within one search only; relevance, which --explain shows, means the same in every search.
    With --json: {"partial": …, "reranker_failure": …, "dated": …, "hits": [{"score": …,
    "relevance": …, "parts": {…}, "item": {…}, "supersedes": […]}, …]}.

    Example: alveus search "which seat?" --key ada
    """

    def question(memory: Memory) -> Hits:
        owner.require(session, memory, set_names)
        found = owner.of(memory).search(
            query,
            limit=limit,
            sets=set_names or None,
            where=where,
            **when,
            min_score=min_score,
            reranker=reranker,
            superseded=superseded,
        )
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
        output.document(output.fields_of(hits))
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
def show_command(
    session: Session,
    *,
    item_id: str = options.ITEM,
    owner: Owner = options.OWNER,
    set_name: str | None = options.ONE_SET,
    as_of: Moment = options.AS_OF,
    history: bool = option("--history", "Show every version, the oldest first."),
) -> None:
    """Show an item with all its fields.

    ID may be any id that search, list or lineage shows; all sets are searched for it. alveus get
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
        if number and not session.json:
            click.echo()
        session.describe(_facts(item), output.fields_of(item))


def _facts(item: Item) -> Iterable[tuple[str, str]]:
    for name, fact in output.fields_of(item).items():
        if fact not in (None, [], {}, False) and not (name == "text" and item.text == item.value):
            yield name, fact if isinstance(fact, str) else output.inline(fact)


@options.command("delete")
def delete_command(
    session: Session,
    *,
    item_ids: tuple[str, ...] = argument("ID…", nargs=-1, required=True),
    owner: Owner = options.OWNER,
    set_name: str | None = options.ONE_SET,
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
def list_command(
    session: Session,
    *,
    owner: Owner = options.OWNER,
    set_name: str = options.SET,
    where: dict[str, Value] | None = options.WHERE,
    limit: int | None = options.limit_option(),
    newest_first: bool = option("--newest-first", "Begin with the latest."),
    as_of: Moment = options.AS_OF,
) -> None:
    """List the items of a set by time.

    With --json: a line per item.

    Example: alveus list --key ada --set notes --limit 20
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        chosen = owner.of(memory).set(set_name)

        def page(after: str | None, size: int) -> list[Item]:
            return chosen.list(
                where=where, limit=size, after=after, newest_first=newest_first, as_of=as_of
            )

        _list(session, output.paged(page, lambda item: item.id, limit))


def _list(session: Session, items: Iterable[Item]) -> None:
    row = partial(output.item_row, zone=session.zone)
    session.listing(output.ITEM_COLUMNS, items, row=row, fields=output.fields_of)


@options.command("recent")
def recent_command(
    session: Session,
    *,
    owner: Owner = options.OWNER,
    set_name: str = options.SET,
    limit: int = options.limit_option(10),
    when: When = options.WHEN,
) -> None:
    """List the last items of a set, the latest at the end.

    With --json: a line per item.

    Example: alveus recent --key ada --limit 5
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        found = owner.of(memory).set(set_name).recent(limit, **when)
    _list(session, found)


# --- prompts ----------------------------------------------------------------------------------

EXACT = option(
    "--exact PATH",
    'Include exact values at and below PATH; "": all of them. May be repeated.',
    multiple=True,
)


def budget_option(default: int | None = None) -> Any:  # noqa: ANN401 - the default of a parameter
    """Return the option that limits the tokens of a prompt."""
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
    when: When = options.WHEN,
    limit: int | None = option(
        "--limit -n COUNT",
        "Search for at most COUNT items.  [default: as many as the budget may have room for]",
        type=options.Whole(1, 1000),
    ),
    min_score: float | None = options.min_score_option(
        "Leave out all items if the best has a lower relevance, 0 to 1.  [default: a small memory "
        "is shown whole; of others, more is shown the more the query resembles them]",
        None,
    ),
    reranker: HttpReranker | None = options.RERANKER,
    superseded: Superseded = options.SUPERSEDED,
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
            **when,
            limit=limit,
            min_score=min_score,
            reranker=reranker,
            superseded=superseded,
            secrets="show" if show_secrets else "mask",
            details="show" if details else "hide",
        )

    found = session.ask(made, lambda context: context.partial, None)
    session.answer(found.text, output.fields_of(found))
    if not session.json:
        session.note(f"\n{found.explain()}")


# --- quarantine -------------------------------------------------------------------------------

quarantine_command = options.group(
    "quarantine",
    "Review the items that rules of admission held back.\n\n"
    "No search finds an item in quarantine until it is released.",
)


@dataclass(frozen=True, slots=True)
class _Held:
    """The quarantine of a set, or of all sets of an owner."""

    owner: Owner
    set_name: str | None

    @contextmanager
    def opened(
        self, session: Session, item_id: str = "", *, mode: Literal["rw", "ro"] = "rw"
    ) -> Generator[Quarantine]:
        """Open the quarantine. End the command if the item is not in it."""
        with session.open(knowledge=self.owner.knowledge, mode=mode) as memory:
            sets = self.owner.of(memory)
            try:
                yield (sets if self.set_name is None else sets.set(self.set_name)).quarantine
            except NotFound:
                session.nothing(f"nothing of {self.owner.name} is held under the id {item_id!r}")


_HELD: Any = options.OptionGroup({"owner": options.OWNER, "set_name": options.ONLY_SET}, _Held)


@options.command("list", quarantine_command)
def list_held(session: Session, *, held: _Held = _HELD) -> None:
    """List the items in quarantine, sorted by set and time.

    With --json: a line per item, as show prints it.

    Example: alveus quarantine list --key ada
    """
    with held.opened(session, mode="ro") as quarantine:
        found = quarantine.list()

    def row(held: Quarantined) -> tuple[str, ...]:
        return held.id, held.set_name, session.zone.text(held.since), held.rule, held.reason

    session.listing(("id", "set", "held since", "rule", "reason"), found, row, output.fields_of)


@options.command("show", quarantine_command)
def show_held(session: Session, *, item_id: str = options.ITEM, held: _Held = _HELD) -> None:
    """Show an item in quarantine, and why it was held back.

    With --json: {"id": …, "set": …, "rule": …, "reason": …, "since": …, "item": {…}}.

    Example: alveus quarantine show 0193a5c2 --key ada
    """
    with held.opened(session, item_id, mode="ro") as quarantine:
        found = quarantine.get(item_id)
        if found is None:
            raise NotFound(item_id)
    session.describe(
        [
            ("id", found.id),
            ("set", found.set_name),
            ("held since", session.zone.text(found.since)),
            ("rule", found.rule),
            ("reason", found.reason),
            ("text", found.item.text or ""),
            ("metadata", output.inline(dict(found.item.metadata))),
        ],
        output.fields_of(found),
    )


@options.command("release", quarantine_command)
def release(
    session: Session,
    *,
    item_id: str = options.ITEM,
    held: _Held = _HELD,
    by: str | None = option("--by NAME", "Who decided; kept in the item's metadata."),
) -> None:
    """Move an item from quarantine into its set; no rule checks it again.

    Prints its id in the set. With --json: {"id": …}.

    Example: alveus quarantine release 0193a5c2 --key ada --by Grace
    """
    with held.opened(session, item_id) as quarantine:
        made = quarantine.release(item_id, by=by)
    session.answer(made, {"id": made})


@options.command("discard", quarantine_command)
def discard(session: Session, *, item_id: str = options.ITEM, held: _Held = _HELD) -> None:
    """Discard an item in quarantine.

    Its text stays in the history of the file until its key is forgotten. With --json: {"id": …}.

    Example: alveus quarantine discard 0193a5c2 --key ada
    """
    with held.opened(session, item_id) as quarantine:
        quarantine.discard(item_id)
    session.done(f"discarded {item_id}", {"id": item_id})

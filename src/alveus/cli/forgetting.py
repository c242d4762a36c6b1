"""Permanent deletion: forget, scrub, receipts."""

from __future__ import annotations

from functools import partial

import click

from alveus.cli import options, output
from alveus.cli.options import argument, option
from alveus.cli.session import Owner, Session
from alveus.errors import NotFound
from alveus.memory.keys import KeyMemory
from alveus.sets.forgetting import Receipt
from alveus.values.storable import Value
from alveus.values.times import Zone

Json = output.Json

WORDS = {
    "calls": "durable results",
    "commits": "records of commits",
    "compactions": "compactions",
    "items": "items",
    "links": "links between items",
    "nodes": "values and objects of exact memory",
    "outputs": "outputs",
    "runs": "runs",
    "sets": "sets",
    "steps": "steps of runs",
    "versions": "versions of items",
}


@options.command("forget")
def forget_command(
    session: Session,
    *,
    owner: Owner = options.OWNER,
    set_name: str | None = options.ONLY_SET,
    ids: tuple[str, ...] = option("--id ID", "Only this item; may be repeated.", multiple=True),
    where: dict[str, Value] | None = options.WHERE,
    later: bool = option("--later", "Leave what is in the files to alveus scrub."),
    dry_run: bool = option("--dry-run", "Only count."),
    yes: bool = options.YES,
) -> None:
    """Erase a key, or items of it, for good.

    --key alone erases the whole key, with its name, runs and events; --set, --id and --where
    narrow that. Asks before, unless --yes is given, and prints a receipt. Backups keep what they
    hold. Exit code 3: nothing was there.
    With --json: {"id": …, "time": …, "commit": …, "request": …, "counts": {…}, "derived": …,
    "restored": …, "lost": …, "unread": …, "state": "scrubbed" | "pending", "blocked_by": […],
    "open": […], "out_of_reach": […]}.

    Example: alveus forget --key ada --where '{"topic": "travel"}'
    """
    narrow = bool(ids) or where is not None
    _check(owner, set_name, narrow=narrow, both=bool(ids) and where is not None)
    name = f"items of {owner.name}" if narrow else owner.name
    scrub = "later" if later else None
    with session.open(knowledge=owner.knowledge) as memory:
        whole = owner.of(memory)
        if isinstance(whole, KeyMemory) and set_name is None:
            reach = whole
        else:
            reach = whole.set(set_name or "default")
        counted = reach.forget([*ids] or None, where=where, dry_run=True)
        if dry_run:
            session.answer(f"would erase {_counts(counted)}", output.fields_of(counted))
            return
        if counted.counts:
            session.confirm(f"Erase {name} for good: {_counts(counted)}?", yes=yes)
        with session.progress("forgetting"):
            receipt = reach.forget([*ids] or None, where=where, scrub=scrub)
        if not receipt.changed:
            session.nothing(f"nothing of {name} is there", output.fields_of(receipt))
        show_receipt(session, receipt)


def _check(owner: Owner, set_name: str | None, *, narrow: bool, both: bool) -> None:
    """Refuse options that would erase more than the user meant."""
    if both:
        raise click.UsageError("--id and --where cannot be combined; pass one of them")
    if (set_name is not None or owner.key is None) and not narrow:
        raise click.UsageError(
            "pass the items to forget: --id ID, or --where '{}' for all items of the set; only "
            "a key can be forgotten without them"
        )
    if owner.key is None and set_name is None:
        raise click.UsageError("a set of the knowledge is needed: --set NAME")


def _counts(receipt: Receipt) -> str:
    """Return the counts of erased things in words, largest first."""
    counts = sorted(receipt.counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count:,} {WORDS.get(kind, kind)}" for kind, count in counts) or "nothing"


def show_receipt(session: Session, receipt: Receipt) -> None:
    """Print a receipt: the counts, and the files that still contain erased data."""
    if session.json:
        output.document(output.fields_of(receipt))
        return
    session.say(f"erased {_counts(receipt)}")
    if receipt.derived:
        session.say(f"{receipt.derived:,} of the items were derived from others")
    if receipt.restored:
        session.say(f"{receipt.restored:,} sources of those are back")
    if receipt.state == "pending":
        why = "; ".join(receipt.blocked_by) or "alveus scrub does that"
        session.say(f"still in the files: {why}")
    else:
        session.say("no file of the memory contains it now")
    for each in receipt.out_of_reach:
        until = f"; until {each.until}" if each.until else ""
        session.say(f"out of reach: {each.what}, {each.note}{until}")
        for path in each.paths:
            session.say(f"  {path}")
    session.say(f"receipt {receipt.id}")


@options.command("scrub")
def scrub_command(session: Session) -> None:
    """Remove what was erased from the files of the memory.

    Rewrites the memory: takes time in proportion to its size, and writers wait meanwhile. Exit
    code 1 if a reader or a file blocks the scrub: run it again when that has ended.
    With --json: {"scrubbed": [receipt ids], "pending": [{"receipt": …, "blocked_by": […]}]}.

    Example: alveus scrub
    """
    with session.open() as memory, session.progress("scrubbing"):
        receipts = memory.scrub()
    done = [receipt for receipt in receipts if receipt.state == "scrubbed"]
    left = [receipt for receipt in receipts if receipt.state == "pending"]
    if session.json:
        waits: list[Json] = [{"receipt": r.id, "blocked_by": list(r.blocked_by)} for r in left]
        output.document({"scrubbed": [receipt.id for receipt in done], "pending": waits})
    else:
        for receipt in left:
            session.say(f"receipt {receipt.id} is pending: {'; '.join(receipt.blocked_by)}")
        session.say(f"{len(done):,} receipts are complete" if receipts else "nothing to scrub")
    if left:
        click.get_current_context().exit(1)


@options.command("receipts")
def receipts_command(
    session: Session, *, receipt_id: str | None = argument("[ID]", required=False)
) -> None:
    """List what was forgotten, or show one receipt.

    The latest is listed first. With --json a receipt per line, as forget prints it.

    Example: alveus receipts
    """
    with session.open(mode="ro") as memory:
        if receipt_id is not None:
            try:
                receipt = memory.receipt(receipt_id)
            except NotFound:
                session.nothing(f"there is no receipt {receipt_id!r}; alveus receipts lists them")
            show_receipt(session, receipt)
            return
        found = output.paged(
            lambda before, limit: memory.receipts(before=before, limit=limit),
            lambda receipt: receipt.commit,
        )
        columns = ("id", "time", "kind", "state", "erased")
        session.listing(columns, found, partial(_row, session.zone), output.fields_of)


def _row(zone: Zone, receipt: Receipt) -> tuple[str, ...]:
    return (
        receipt.id,
        zone.text(receipt.time),
        str(receipt.request.get("kind")),
        receipt.state,
        _counts(receipt),
    )

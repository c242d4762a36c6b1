"""What is gone for good: forget, scrub, receipts."""

from __future__ import annotations

import sys

import click

from fornix.cli import completion_names, output
from fornix.cli.items import where_option
from fornix.cli.options import command, knowledge_option
from fornix.cli.progress import progress
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.sets import MemorySet
from fornix.sets.forgetting import Receipt
from fornix.values.storable import Value

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


@command("forget")
@click.argument("key", required=False, shell_complete=completion_names.keys)
@knowledge_option
@click.option("--set", "-s", "set_name", metavar="NAME", help="Only of this set.")
@click.option("--id", "ids", metavar="ID", multiple=True, help="Only this item; may be repeated.")
@where_option
@click.option("--later", is_flag=True, help="Leave what is in the files to fornix scrub.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def forget(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    key: str | None,
    knowledge: str | None,
    set_name: str | None,
    ids: tuple[str, ...],
    where: dict[str, Value] | None,
    later: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Erase all of KEY, or items of it, for good; print the receipt.

    Without options the whole key goes, with its name, runs and events. Backups keep what they
    hold. Asks before, unless --yes. Exit code 3: nothing was there.
    With --json: {"id": …, "time": …, "commit": …, "asked": …, "counts": {…}, "derived": …,
    "restored": …, "lost": …, "unread": …, "state": "scrubbed" | "pending", "held": […],
    "open": […], "out_of_reach": […]}.
    """
    owner = Owner(key, knowledge)
    asked = _ForgetRequest(owner, set_name, list(ids), where)
    with session.open(knowledge=knowledge) as memory:
        counted = asked.forget(memory, dry_run=True)
        if dry_run:
            session.done(f"would erase {_counts(counted)}", _fields(counted))
            return
        if counted.counts and not yes:
            _ask(f"Erase {asked.name} for good: {_counts(counted)}?")
        with progress(session, "forgetting", total=None):
            receipt = asked.forget(memory, later=later)
        if not receipt.changed:
            session.nothing(f"nothing of {asked.name} is there", _fields(receipt))
        show_receipt(session, receipt)


class _ForgetRequest:
    """What is to be forgotten."""

    def __init__(
        self, owner: Owner, set_name: str | None, ids: list[str], where: dict[str, Value] | None
    ) -> None:
        if ids and where is not None:
            raise click.UsageError("name items by --id, or all that match by --where, one of them")
        narrow = bool(ids) or where is not None
        if (set_name is not None or owner.key is None) and not narrow:
            raise click.UsageError(
                "say which items: --id ID, or --where '{}' for all of the set; only a key is "
                "forgotten whole"
            )
        if owner.key is None and set_name is None:
            raise click.UsageError("name the set of the knowledge: --set NAME")
        self._owner, self._set, self._ids, self._where = owner, set_name, ids, where

    @property
    def name(self) -> str:
        """How a message names it."""
        return f"items of {self._owner.name}" if self._narrow else self._owner.name

    @property
    def _narrow(self) -> bool:
        return bool(self._ids) or self._where is not None

    def forget(self, memory: Memory, *, later: bool = False, dry_run: bool = False) -> Receipt:
        """Forget it."""
        scrub = "later" if later else None
        if self._owner.key is not None and self._set is None:
            mine = memory.key(self._owner.key)
            ids = self._ids or None
            return mine.forget(ids, where=self._where, scrub=scrub, dry_run=dry_run)
        found: MemorySet = self._owner.of(memory).set(self._set or "default")
        return found.forget(self._ids or None, where=self._where, scrub=scrub, dry_run=dry_run)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("this erases for good; add --yes to do it without being asked")
    click.confirm(question, abort=True, err=True)


def _counts(receipt: Receipt) -> str:
    """Return what is erased, most of it first."""
    counts = sorted(receipt.counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count:,} {WORDS.get(kind, kind)}" for kind, count in counts) or "nothing"


def _fields(receipt: Receipt) -> dict[str, Json]:
    return {name: output.wired(value) for name, value in receipt.to_json().items()}


def show_receipt(session: Session, receipt: Receipt) -> None:
    """Show what was erased, and what is left to do."""
    if session.json:
        output.document(_fields(receipt))
        return
    session.say(f"erased {_counts(receipt)}")
    if receipt.derived:
        session.say(f"{receipt.derived:,} of the items were derived from others")
    if receipt.restored:
        session.say(f"{receipt.restored:,} sources of those are back")
    if receipt.state == "pending":
        why = "; ".join(receipt.held) or "fornix scrub does that"
        session.say(f"still in the files: {why}")
    else:
        session.say("no file of the memory holds it any more")
    for each in receipt.out_of_reach:
        session.say(f"out of reach: {each.what}, {each.note}")
        for path in each.paths:
            session.say(f"  {path}")
    session.say(f"receipt {receipt.id}")


@command("scrub")
def scrub(session: Session) -> None:
    """Remove from the files what was erased: rewrites the memory.

    Takes time in proportion to its size, and writers wait meanwhile. Exit code 1 if something is
    in the way: run it again once that is gone.
    With --json: {"scrubbed": [receipt ids], "pending": [{"receipt": …, "held": […]}]}.
    """
    with session.open() as memory, progress(session, "scrubbing", total=None):
        receipts = memory.scrub()
    done = [receipt for receipt in receipts if receipt.state == "scrubbed"]
    left = [receipt for receipt in receipts if receipt.state == "pending"]
    if session.json:
        waits: list[Json] = [{"receipt": r.id, "held": list(r.held)} for r in left]
        output.document({"scrubbed": [receipt.id for receipt in done], "pending": waits})
    else:
        for receipt in left:
            session.say(f"receipt {receipt.id} is pending: {'; '.join(receipt.held)}")
        session.say(f"{len(done):,} receipts are complete" if receipts else "nothing to scrub")
    if left:
        click.get_current_context().exit(1)


@command("receipts")
@click.argument("receipt_id", metavar="[ID]", required=False)
def receipts(session: Session, *, receipt_id: str | None) -> None:
    """List what was forgotten, the latest first; or show the receipt ID.

    With --json a receipt per line, as forget prints it.
    """
    with session.open(mode="ro") as memory:
        if receipt_id is not None:
            show_receipt(session, memory.receipt(receipt_id))
            return
        before: int | None = None
        while page := memory.receipts(before=before):
            for receipt in page:
                _list(session, receipt)
            before = page[-1].commit


def _list(session: Session, receipt: Receipt) -> None:
    if session.json:
        output.document(_fields(receipt))
        return
    time = receipt.time.isoformat(timespec="seconds")
    kind = receipt.asked.get("kind")
    click.echo(f"{receipt.id}  {time}  {kind}  {receipt.state}  {_counts(receipt)}")

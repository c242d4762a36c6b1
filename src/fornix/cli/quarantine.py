"""What rules of admission hold: look at it, release it, discard it."""

from __future__ import annotations

from collections.abc import Callable

import click

from fornix.cli import output
from fornix.cli.options import command, item_argument, only_set_option, owner_options, shared
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.sets.admission import Quarantine, Quarantined
from fornix.values.times import stamp


@click.group("quarantine", params=shared(hidden=True))
def quarantine_command() -> None:
    """Review the items that rules of admission held back.

    No search finds an item in quarantine until it is released.
    """


def _of(memory: Memory, owner: Owner, set_name: str | None) -> Quarantine:
    own = owner.of(memory)
    return own.quarantine if set_name is None else own.set(set_name).quarantine


@command("list")
@owner_options
@only_set_option
def list_held(session: Session, *, owner: Owner, set_name: str | None) -> None:
    """List the items in quarantine, by set and time.

    With --json: a line per item, as show prints it.

    Example: fornix quarantine list --key ada
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        found = _of(memory, owner, set_name).list()
    session.listing(("id", "set", "held since", "rule", "reason"), found, row=_row, fields=_fields)


def _row(held: Quarantined) -> tuple[str, ...]:
    return held.id, held.set_name, stamp(held.since), held.rule, held.reason


@command("show")
@item_argument
@owner_options
@only_set_option
def show_held(
    session: Session,
    *,
    item_id: str,
    owner: Owner,
    set_name: str | None,
) -> None:
    """Show an item in quarantine, and why it was held back.

    With --json: {"id": …, "set": …, "rule": …, "reason": …, "since": …, "item": {…}}.

    Example: fornix quarantine show 0193a5c2 --key ada
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        held = _of(memory, owner, set_name).get(item_id)
    if held is None:
        session.nothing(f"nothing of {owner.name} is held under the id {item_id!r}")
    if session.json:
        output.document(_fields(held))
        return
    output.facts(
        [
            ("id", held.id),
            ("set", held.set_name),
            ("held since", stamp(held.since)),
            ("rule", held.rule),
            ("reason", held.reason),
            ("text", held.item.text or ""),
            ("metadata", output.inline(dict(held.item.metadata))),
        ]
    )


@command("release")
@item_argument
@owner_options
@only_set_option
@click.option("--by", metavar="NAME", help="Who decided; kept in the item's metadata.")
def release(
    session: Session,
    *,
    item_id: str,
    owner: Owner,
    set_name: str | None,
    by: str | None,
) -> None:
    """Move an item from quarantine into its set; no rule checks it again.

    Prints its id in the set. With --json: {"id": …}.

    Example: fornix quarantine release 0193a5c2 --key ada --by Grace
    """

    def decide(held: Quarantine) -> str:
        return held.release(item_id, by=by)

    made = _decided(session, owner, set_name, decide)
    session.done(made, {"id": made})


@command("discard")
@item_argument
@owner_options
@only_set_option
def discard(
    session: Session,
    *,
    item_id: str,
    owner: Owner,
    set_name: str | None,
) -> None:
    """Discard an item in quarantine.

    Its text stays in the history of the file until its key is forgotten. With --json: {"id": …}.

    Example: fornix quarantine discard 0193a5c2 --key ada
    """

    def decide(held: Quarantine) -> str:
        held.discard(item_id)
        return item_id

    made = _decided(session, owner, set_name, decide)
    session.done(f"discarded {made}", {"id": made})


def _decided(
    session: Session, owner: Owner, set_name: str | None, decide: Callable[[Quarantine], str]
) -> str:
    with session.open(knowledge=owner.knowledge) as memory:
        return decide(_of(memory, owner, set_name))


def _fields(held: Quarantined) -> dict[str, output.Json]:
    return {
        "id": held.id,
        "set": held.set_name,
        "rule": held.rule,
        "reason": held.reason,
        "since": stamp(held.since),
        "item": output.item_fields(held.item),
    }


for _command in (list_held, show_held, release, discard):
    quarantine_command.add_command(_command)

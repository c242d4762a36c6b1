"""What rules of admission hold: look at it, release it, discard it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Literal, NoReturn

import click

from alveus.cli import options, output
from alveus.cli.session import Owner, Session
from alveus.errors import NotFound
from alveus.server.json_forms import held_fields
from alveus.sets.admission import Quarantine, Quarantined
from alveus.values.times import Zone


@click.group("quarantine", no_args_is_help=False, params=options.shared(hidden=True))
def quarantine_command() -> None:
    """Review the items that rules of admission held back.

    No search finds an item in quarantine until it is released.
    """


@contextmanager
def _opened(
    session: Session, owner: Owner, set_name: str | None, mode: Literal["rw", "ro"] = "rw"
) -> Generator[Quarantine]:
    with session.open(knowledge=owner.knowledge, mode=mode) as memory:
        own = owner.of(memory)
        yield own.quarantine if set_name is None else own.set(set_name).quarantine


@options.command("list")
@options.owner_options
@options.only_set_option
def list_held(session: Session, *, owner: Owner, set_name: str | None) -> None:
    """List the items in quarantine, by set and time.

    With --json: a line per item, as show prints it.

    Example: alveus quarantine list --key ada
    """
    with _opened(session, owner, set_name, "ro") as quarantine:
        found = quarantine.list()
    columns, row = ("id", "set", "held since", "rule", "reason"), partial(_row, session.zone)
    session.listing(columns, found, row=row, fields=held_fields)


def _row(zone: Zone, held: Quarantined) -> tuple[str, ...]:
    return held.id, held.set_name, zone.text(held.since), held.rule, held.reason


@options.command("show")
@options.item_argument
@options.owner_options
@options.only_set_option
def show_held(session: Session, *, item_id: str, owner: Owner, set_name: str | None) -> None:
    """Show an item in quarantine, and why it was held back.

    With --json: {"id": …, "set": …, "rule": …, "reason": …, "since": …, "item": {…}}.

    Example: alveus quarantine show 0193a5c2 --key ada
    """
    with _opened(session, owner, set_name, "ro") as quarantine:
        held = quarantine.get(item_id)
    if held is None:
        _none_held(session, owner, item_id)
    if session.json:
        output.document(held_fields(held))
        return
    output.facts(
        [
            ("id", held.id),
            ("set", held.set_name),
            ("held since", session.zone.text(held.since)),
            ("rule", held.rule),
            ("reason", held.reason),
            ("text", held.item.text or ""),
            ("metadata", output.inline(dict(held.item.metadata))),
        ]
    )


def _none_held(session: Session, owner: Owner, item_id: str) -> NoReturn:
    session.nothing(f"nothing of {owner.name} is held under the id {item_id!r}")


@options.command("release")
@options.item_argument
@options.owner_options
@options.only_set_option
@options.option("--by NAME", "Who decided; kept in the item's metadata.")
def release(
    session: Session, *, item_id: str, owner: Owner, set_name: str | None, by: str | None
) -> None:
    """Move an item from quarantine into its set; no rule checks it again.

    Prints its id in the set. With --json: {"id": …}.

    Example: alveus quarantine release 0193a5c2 --key ada --by Grace
    """
    with _opened(session, owner, set_name) as quarantine:
        try:
            made = quarantine.release(item_id, by=by)
        except NotFound:
            _none_held(session, owner, item_id)
    session.answer(made, {"id": made})


@options.command("discard")
@options.item_argument
@options.owner_options
@options.only_set_option
def discard(session: Session, *, item_id: str, owner: Owner, set_name: str | None) -> None:
    """Discard an item in quarantine.

    Its text stays in the history of the file until its key is forgotten. With --json: {"id": …}.

    Example: alveus quarantine discard 0193a5c2 --key ada
    """
    with _opened(session, owner, set_name) as quarantine:
        try:
            quarantine.discard(item_id)
        except NotFound:
            _none_held(session, owner, item_id)
    session.done(f"discarded {item_id}", {"id": item_id})


for _command in (list_held, show_held, release, discard):
    quarantine_command.add_command(_command)

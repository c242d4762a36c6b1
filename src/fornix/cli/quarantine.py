"""What rules of admission hold: look at it, release it, discard it."""

from __future__ import annotations

from collections.abc import Callable

import click

from fornix.cli import completion_names, output
from fornix.cli.options import command, key_option, knowledge_option, shared
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.sets.admission import Quarantine, Quarantined
from fornix.values.times import stamp

_set_option = click.option(
    "--set",
    "-s",
    "set_name",
    metavar="NAME",
    shell_complete=completion_names.sets,
    help="Only what was meant for this set.",
)


@click.group("quarantine", params=shared(hidden=True))
def quarantine() -> None:
    """Look at what rules of admission hold, and decide.

    It is in no search until it is released.
    """


def _of(memory: Memory, owner: Owner, set_name: str | None) -> Quarantine:
    own = owner.of(memory)
    return own.quarantine if set_name is None else own.set(set_name).quarantine


@command("list")
@key_option
@knowledge_option
@_set_option
def list_held(
    session: Session, *, key: str | None, knowledge: str | None, set_name: str | None
) -> None:
    """List what is held, by set and time: id, set, when, rule, reason.

    With --json: a line per item, as show prints it.
    """
    owner = Owner(key, knowledge)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        found = _of(memory, owner, set_name).list()
    for held in found:
        if session.json:
            output.document(_fields(held))
        else:
            head = f"{held.id}  {held.set_name}  {stamp(held.since)}  {held.rule}"
            click.echo(output.one_line(f"{head}  {held.reason}"))


@command("show")
@click.argument("held_id", metavar="ID")
@key_option
@knowledge_option
@_set_option
def show_held(
    session: Session,
    *,
    held_id: str,
    key: str | None,
    knowledge: str | None,
    set_name: str | None,
) -> None:
    """Show what is held under ID: why, since when, and the item itself.

    With --json: {"id": …, "set": …, "rule": …, "reason": …, "since": …, "item": {…}}.
    """
    owner = Owner(key, knowledge)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        held = _of(memory, owner, set_name).get(held_id)
    if held is None:
        session.nothing(f"nothing of {owner.name} is held under the id {held_id!r}")
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
@click.argument("held_id", metavar="ID")
@key_option
@knowledge_option
@_set_option
@click.option("--by", metavar="NAME", help="Who decided; kept in the item's metadata.")
def release(
    session: Session,
    *,
    held_id: str,
    key: str | None,
    knowledge: str | None,
    set_name: str | None,
    by: str | None,
) -> None:
    """Move what is held under ID into its set; no rule is asked again.

    Prints its id there. With --json: {"id": …}.
    """

    def decide(held: Quarantine) -> str:
        return held.release(held_id, by=by)

    made = _decided(session, Owner(key, knowledge), set_name, decide)
    session.done(made, {"id": made})


@command("discard")
@click.argument("held_id", metavar="ID")
@key_option
@knowledge_option
@_set_option
def discard(
    session: Session,
    *,
    held_id: str,
    key: str | None,
    knowledge: str | None,
    set_name: str | None,
) -> None:
    """Retire what is held under ID.

    Its text stays in the history of the file until its key is forgotten. With --json: {"id": …}.
    """

    def decide(held: Quarantine) -> str:
        held.discard(held_id)
        return held_id

    made = _decided(session, Owner(key, knowledge), set_name, decide)
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
    quarantine.add_command(_command)

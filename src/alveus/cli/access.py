"""Who may use which space of a memory on a server: grant, revoke, grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from alveus.cli import options, output
from alveus.cli.session import Session
from alveus.memory import grants

if TYPE_CHECKING:
    from alveus.memory.grants import RoleGrants

_KNOWLEDGE = "This knowledge alone, instead of the space with the knowledge of its name."


@options.command("grant")
@click.argument("role")
@options.knowledge_option(_KNOWLEDGE)
def grant_command(session: Session, *, role: str, knowledge: str | None) -> None:
    """Let a user of PostgreSQL use a space, or a knowledge.

    Only the owner of the tables may. ROLE can then do all that a memory does, but see and change
    nothing of other spaces, whatever SQL it sends. Prints all that ROLE may use by now.
    With --json: {"role": …, "spaces": […], "knowledge": […]}.

    Example: alveus grant ada --space travel
    """
    _show(session, grants.grant(_url(session), role, space=session.space, knowledge=knowledge))


@options.command("revoke")
@click.argument("role")
@options.knowledge_option(_KNOWLEDGE)
def revoke_command(session: Session, *, role: str, knowledge: str | None) -> None:
    """Take back what grant gave.

    What ROLE has open finds nothing there any longer, and cannot write there. Prints all that ROLE
    may use still. With --json: as grant.

    Example: alveus revoke ada --space travel
    """
    _show(session, grants.revoke(_url(session), role, space=session.space, knowledge=knowledge))


@options.command("grants")
def grants_command(session: Session) -> None:
    """List which users of PostgreSQL may use which spaces.

    The owner of the tables may use all, and is not listed. With --json a role per line, as grant
    prints it.

    Example: alveus grants
    """
    found = grants.grants(_url(session))
    session.listing(("role", "spaces", "knowledge"), found, row=_row, fields=_fields)


def _url(session: Session) -> str:
    """Return the URL of the server; what is no server is refused later."""
    return session.server or str(session.file)


def _show(session: Session, found: RoleGrants) -> None:
    spaces, knowledge = ", ".join(found.spaces) or "none", ", ".join(found.knowledge) or "none"
    session.done(f"{found.role} may use spaces: {spaces}; knowledge: {knowledge}", _fields(found))


def _row(found: RoleGrants) -> tuple[str, ...]:
    return found.role, ", ".join(found.spaces), ", ".join(found.knowledge)


def _fields(found: RoleGrants) -> dict[str, output.Json]:
    return {
        "role": found.role,
        "spaces": list(found.spaces),
        "knowledge": list(found.knowledge),
    }

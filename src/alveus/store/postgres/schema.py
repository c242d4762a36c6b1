"""The schema of a store in PostgreSQL: its creation, check and migration, and its grants.

The table `ledger` has the number of the schema. It also has the least schema that a program must
know to use the tables. A migration names this number in its first line: ``-- least: N``.

Policies in `schema.sql` decide which rows a user sees. A grant consists of the right to use the
schema, and a row for each space and knowledge. The owner of the tables needs no grant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from alveus.errors import AccessDenied, InvalidInput, NotAStore, StoreTooNew, StoreTooOld
from alveus.store.erasing import owner_of
from alveus.store.postgres.connection import BEGIN, PostgresConnection, ServerLocation
from alveus.store.postgres.dialect import for_schema
from alveus.store.scope import Scope
from alveus.store.sql.connection import Connection, first, migrations, query
from alveus.values.lazy_dataclass import dataclass

SCHEMA = 1
"""The number of the newest schema that this code knows. The code needs at least this schema."""

WHOLE = Path(__file__).with_name("schema.sql")

LEAST = 1
"""The least schema that a program must know to use tables of the schema `SCHEMA`."""

MIGRATIONS = Path(__file__).with_name("migrations")
"""The folder of the migrations; see `alveus.store.sql.connection.migrations`."""

_OWNER = """
    SELECT pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner) FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = ? AND relname = 'ledger'
"""

_TURN = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"

_MIGRATED = """
    UPDATE ledger SET schema = ?, least = max(least, ?), version = version + 1,
        structure = structure + 1
"""

_LEAST = re.compile(r"-- least: (\d+)\n")


def prepare(
    db: PostgresConnection, server: ServerLocation, *, read_only: bool, wait_s: float
) -> None:
    """Create or migrate the tables, so that this program may use them.

    Only the owner of the tables migrates, and never in a read-only store.

    Raises:
        NotAStore: The tables do not exist, and the store is opened read-only.
        StoreBusy: The tables were in use for longer than *wait_s*.
        StoreTooNew: The tables have a schema that only newer programs may use.
        StoreTooOld: The tables have an older schema, and this user or handle may not migrate them.
    """
    owner = first(db, _OWNER, server.schema)
    if owner is None:
        if read_only:
            raise NotAStore(
                server.display_url,
                f"has no schema {server.schema!r} of alveus; open it once without mode='ro' to "
                "create the schema",
            )
        _create(db, server.schema)
        return
    found, least = first(db, "SELECT schema, least FROM ledger")
    check_least(server, found, least)
    if found >= SCHEMA:
        return
    is_owner, name = owner
    if read_only or not is_owner:
        raise StoreTooOld(server.display_url, found=found, needed=SCHEMA, owner=name)
    for number, script in migrations(MIGRATIONS, after=found).items():
        _apply(db, server.schema, number, script, wait_s=wait_s)


def check_least(server: ServerLocation, version: int, least: int) -> None:
    """Raise `StoreTooNew` if only newer programs may use the tables.

    Args:
        version: The schema of the tables.
        least: The least schema that a program must know to use the tables.
    """
    if least > SCHEMA:
        raise StoreTooNew(server.display_url, found=version, known=SCHEMA)


def _create(db: PostgresConnection, schema: str) -> None:
    """Create the tables in one transaction, unless another host has just created them."""
    with _one_at_a_time(db, schema):
        if first(db, _OWNER, schema) is None:
            db.script(for_schema(WHOLE.read_text(encoding="utf-8"), schema))
            db.execute(
                "INSERT INTO ledger (version, schema, least) VALUES (0, ?, ?)", (SCHEMA, LEAST)
            )
            db.execute("INSERT INTO note (name, text) VALUES ('salt', ?)", (os.urandom(16).hex(),))


def _apply(db: PostgresConnection, schema: str, number: int, script: str, *, wait_s: float) -> None:
    """Migrate to schema *number* in one transaction, unless another host has just done so.

    Locks the row of `ledger` first, as every writer does, so that the two cannot deadlock.
    """
    with _one_at_a_time(db, schema, wait_s=wait_s):
        if first(db, "SELECT schema FROM ledger FOR UPDATE") < number:
            db.script(for_schema(script, schema))
            db.execute(_MIGRATED, (number, _least(number, script)))


@contextmanager
def _one_at_a_time(
    db: PostgresConnection, schema: str, *, wait_s: float | None = None
) -> Generator[None]:
    """Run a block in a transaction. Only one host at a time can be in such a block for *schema*.

    Args:
        wait_s: The longest wait for each lock, or None for the server's default.
    """
    db.execute(BEGIN)
    try:
        if wait_s is not None:
            db.execute(f"SET LOCAL lock_timeout = {max(1, round(wait_s * 1000))}")
        db.execute(_TURN, (f"alveus {schema}",))
        yield
        db.settle()
    except BaseException:
        db.roll_back("ROLLBACK")
        raise
    db.execute("COMMIT")
    db.settle()


def _least(number: int, script: str) -> int:
    """Return the least schema that the script of a migration names in its first line."""
    found = _LEAST.match(script)
    if found is None:
        raise ValueError(f"the script of schema {number} does not begin with '-- least: N'")
    return int(found[1])


# --- grants ---------------------------------------------------------------------------------------

_IS_OWNER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = ?::regclass"

_GRANTED = "SELECT granted(current_user)"

_ALL = "SELECT role::text, home FROM space_grant ORDER BY role, home"

_GIVE = """
    INSERT INTO space_grant (role, home) SELECT ?1::text::name, home
    FROM unnest(?2::text[]) AS home ON CONFLICT DO NOTHING
"""

_TAKE = "DELETE FROM space_grant WHERE role = ?1::text::name AND home = ANY (?2::text[])"

_LEFT = "SELECT count(*) FROM space_grant WHERE role = ?::text::name"

_SPACE, _KNOWLEDGE = "space ", "knowledge "


@dataclass(frozen=True, slots=True)
class RoleGrants:
    """The spaces and the knowledge that a role may use."""

    role: str
    spaces: Sequence[str]
    knowledge: Sequence[str]


def homes_of(space: str, knowledge: str | None) -> list[str]:
    """Return the homes of a grant: the names of what a role may use, as `owner_of` returns them.

    If *knowledge* is given, this is that knowledge alone. If it is None, these are the space and
    the knowledge of the same name.
    """
    if knowledge is not None:
        return [owner_of(Scope(knowledge, None))]
    return [owner_of(Scope(space, "a key")), owner_of(Scope(space, None))]


def is_owner(db: Connection, schema: str) -> bool:
    """Return whether this user owns the tables. Policies do not apply to the owner."""
    return bool(first(db, _IS_OWNER, f"{schema}.ledger"))


def check_access(db: Connection, location: str, homes: Sequence[str]) -> None:
    """Raise `AccessDenied` if this user was not granted one of *homes*.

    Without this check, the space or knowledge would seem to be empty.
    """
    allowed = set(first(db, _GRANTED))
    for home in homes:
        if home not in allowed:
            user, (kind, name) = first(db, "SELECT current_user::text"), home.split(" ", 1)
            raise AccessDenied(
                f"{location}: user {user!r} may not use {kind} {name!r}; have the owner of the "
                f"tables run: alveus grant {user} --{kind} {name}"
            )


def grant(db: PostgresConnection, schema: str, role: str, homes: Sequence[str]) -> None:
    """Let *role* use *homes*. A second call changes nothing."""
    name = _quoted(db, role)
    db.script(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    db.execute(_GIVE, (role, db.texts(homes)))
    db.settle()


def revoke(db: PostgresConnection, schema: str, role: str, homes: Sequence[str]) -> None:
    """Take the grants of *homes* back from *role*. A second call changes nothing."""
    name = _quoted(db, role)
    db.execute(_TAKE, (role, db.texts(homes)))
    if not first(db, _LEFT, role):
        db.script(f"REVOKE USAGE ON SCHEMA {schema} FROM {name}")


def granted_to(db: Connection, role: str) -> RoleGrants:
    """Return the grants of one role."""
    return next((each for each in grants(db) if each.role == role), RoleGrants(role, [], []))


def grants(db: Connection) -> list[RoleGrants]:
    """Return the grants of all roles."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for role, home in query(db, _ALL):
        spaces, knowledge = found.setdefault(role, ([], []))
        if home.startswith(_SPACE):
            spaces.append(home.removeprefix(_SPACE))
        else:
            knowledge.append(home.removeprefix(_KNOWLEDGE))
    return [RoleGrants(role, spaces, knowledge) for role, (spaces, knowledge) in found.items()]


def _quoted(db: Connection, role: str) -> str:
    """Return *role* quoted for a statement.

    Raises:
        InvalidInput: The server has no role with this name.
    """
    name = first(db, "SELECT quote_ident(rolname) FROM pg_catalog.pg_roles WHERE rolname = ?", role)
    if name is None:
        raise InvalidInput(f"the server has no role {role!r}; create it first: CREATE ROLE … LOGIN")
    return name

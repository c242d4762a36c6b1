"""Who may use which space of a store in PostgreSQL, besides the owner of its tables.

What a user may see and change is decided by the server: `schema.sql` has the policies. A grant is
the right to use the schema, and a row for each space and knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence

from alveus.errors import AccessDenied, InvalidInput
from alveus.store.erasing import owner_of
from alveus.store.postgres.connection import PostgresConnection
from alveus.store.scope import Scope
from alveus.store.sql.connection import Connection, first, query
from alveus.store.sql.erasing import ErasedSources, Eraser
from alveus.values.lazy_dataclass import dataclass

_IS_OWNER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = ?::regclass"

_GRANTED = "SELECT granted(current_user)"

_ALL = "SELECT role::text, home FROM space_grant ORDER BY role, home"

_GIVE = """
    INSERT INTO space_grant (role, home) SELECT ?1::text::name, home
    FROM unnest(?2::text[]) AS home ON CONFLICT DO NOTHING
"""

_TAKE = "DELETE FROM space_grant WHERE role = ?1::text::name AND home = ANY (?2::text[])"

_LEFT = "SELECT count(*) FROM space_grant WHERE role = ?::text::name"

_SHARED = """
    SELECT scope.space FROM memory_set JOIN scope ON scope.id = memory_set.scope
    WHERE memory_set.id IN (SELECT value FROM carray(?)) AND scope.key = ''
        AND is_shared(scope.space)
"""

_SPACE, _KNOWLEDGE = "space ", "knowledge "


@dataclass(frozen=True, slots=True)
class RoleGrants:
    """The spaces and the knowledge that a role may use."""

    role: str
    spaces: Sequence[str]
    knowledge: Sequence[str]


class GuestEraser(Eraser):
    """Erases for a user that does not see all spaces."""

    def _find(
        self, asked_rows: Sequence[int], derived_from_purged: Sequence[int]
    ) -> tuple[list[int], ErasedSources]:
        """See `Eraser._find`.

        Raises:
            AccessDenied: It reaches a knowledge that others share: they may have used it.
        """
        found = super()._find(asked_rows, derived_from_purged)
        sets = self._db.numbers(sorted({version.set_id for version in self._rows.values()}))
        for (name,) in query(self._db, _SHARED, sets):
            raise AccessDenied(
                f"knowledge {name!r} is shared with spaces that this user cannot see, where "
                "something may have come of it; have the owner of the tables forget it"
            )
        return found


def homes_of(space: str, knowledge: str | None) -> list[str]:
    """Return what a grant names: a space with the knowledge of its name, or a knowledge alone."""
    if knowledge is not None:
        return [owner_of(Scope(knowledge, None))]
    return [owner_of(Scope(space, "a key")), owner_of(Scope(space, None))]


def is_owner(db: Connection, schema: str) -> bool:
    """Return whether this user owns the tables: policies do not apply to it."""
    return bool(first(db, _IS_OWNER, f"{schema}.ledger"))


def check_access(db: Connection, location: str, homes: Sequence[str]) -> None:
    """Refuse a user that was not granted *homes*, before it takes them for empty."""
    allowed = set(first(db, _GRANTED))
    for home in homes:
        if home not in allowed:
            raise not_granted(location, first(db, "SELECT current_user::text"), home)


def not_granted(location: str, user: str, home: str) -> AccessDenied:
    """Return the error that says that a user may not use a space or a knowledge."""
    kind, name = home.split(" ", 1)
    return AccessDenied(
        f"{location}: user {user!r} may not use {kind} {name!r}; have the owner of the tables run: "
        f"alveus grant {user} --{kind} {name}"
    )


def grant(db: PostgresConnection, schema: str, role: str, homes: Sequence[str]) -> None:
    """Let *role* use what *homes* name; twice is fine."""
    name = _quoted(db, role)
    db.script(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    db.execute(_GIVE, (role, db.texts(homes)))
    db.settle()


def revoke(db: PostgresConnection, schema: str, role: str, homes: Sequence[str]) -> None:
    """Take back what `grant` gave; what was not given is fine."""
    name = _quoted(db, role)
    db.execute(_TAKE, (role, db.texts(homes)))
    if not first(db, _LEFT, role):
        db.script(f"REVOKE USAGE ON SCHEMA {schema} FROM {name}")


def granted_to(db: Connection, role: str) -> RoleGrants:
    """Return what one role was granted."""
    return next((each for each in grants(db) if each.role == role), RoleGrants(role, [], []))


def grants(db: Connection) -> list[RoleGrants]:
    """Return what every role was granted."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for role, home in query(db, _ALL):
        spaces, knowledge = found.setdefault(role, ([], []))
        if home.startswith(_SPACE):
            spaces.append(home.removeprefix(_SPACE))
        else:
            knowledge.append(home.removeprefix(_KNOWLEDGE))
    return [RoleGrants(role, spaces, knowledge) for role, (spaces, knowledge) in found.items()]


def _quoted(db: Connection, role: str) -> str:
    """Return *role* as it stands in a statement.

    Raises:
        InvalidInput: The server has no such role.
    """
    name = first(db, "SELECT quote_ident(rolname) FROM pg_catalog.pg_roles WHERE rolname = ?", role)
    if name is None:
        raise InvalidInput(f"the server has no role {role!r}; make it first: CREATE ROLE … LOGIN")
    return name

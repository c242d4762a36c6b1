"""Where a PostgreSQL store is: the URL that a user gives, taken apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from alveus.errors import InvalidInput
from alveus.values.urls import check_password, without_password

DEFAULT_SCHEMA = "alveus"

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

# fmt: off
_RESERVED = frozenset((
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
    "authorization", "binary", "both", "case", "cast", "check", "collate", "collation",
    "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp",
    "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end",
    "except", "false", "fetch", "for", "foreign", "freeze", "from", "full", "grant",
    "group", "having", "ilike", "in", "initially", "inner", "intersect", "into", "is",
    "isnull", "join", "lateral", "leading", "left", "like", "limit", "localtime",
    "localtimestamp", "natural", "not", "notnull", "null", "offset", "on", "only", "or",
    "order", "outer", "overlaps", "placing", "primary", "references", "returning", "right",
    "select", "session_user", "similar", "some", "symmetric", "system_user", "table",
    "tablesample", "then", "to", "trailing", "true", "union", "unique", "user", "using",
    "variadic", "verbose", "when", "where", "window", "with",
    "plpgsql",
))
# fmt: on
"""Words that PostgreSQL 14 to 18 take for no name of a schema, or, of `plpgsql`, of a setting."""

_DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "alveus",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Of libpq: so that a host that vanished is noticed within half a minute, not after hours."""


class ServerLocation(NamedTuple):
    """A database and a schema of it.

    Attributes:
        conninfo: What libpq connects by.
        defaults: What it is told besides, where the URL says nothing of it; and the encoding.
        schema: The schema that holds the tables.
        display_url: The URL, without a password.
    """

    conninfo: str
    defaults: Mapping[str, str | int]
    schema: str
    display_url: str

    @classmethod
    def of(cls, url: str) -> ServerLocation:
        """Return the location that *url* names.

        ``postgresql://user:password@host:port/database?schema=alveus``; whatever libpq knows as a
        parameter may follow too, like ``sslmode=require``.

        Raises:
            InvalidInput: It cannot be read, or names a schema that alveus does not take.
        """
        check_password(url)
        try:
            parts = urlsplit(url)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as error:
            raise InvalidInput(
                f"{without_password(url)!r} is not a URL of PostgreSQL: {error}"
            ) from None
        schemas = [value for name, value in given if name == "schema"] or [DEFAULT_SCHEMA]
        if len(schemas) > 1 or not _SCHEMA.fullmatch(schemas[0]):
            raise InvalidInput(
                f"schema={schemas[-1]!r} cannot be used; name one schema in small letters, digits "
                "and _, of 63 characters at most"
            )
        if schemas[0] in _RESERVED or schemas[0].startswith("pg_"):
            raise InvalidInput(
                f"schema={schemas[0]!r} is a name that PostgreSQL keeps for itself; name another"
            )
        rest = [(name, value) for name, value in given if name not in {"schema", "client_encoding"}]
        query = urlencode(rest, quote_via=quote)
        conninfo = url.partition("?")[0] + (f"?{query}" if query else "")
        names = {name for name, _ in rest}
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in names}
        defaults["client_encoding"] = "UTF8"  # also against $PGCLIENTENCODING
        return cls(conninfo, defaults, schemas[0], without_password(url))

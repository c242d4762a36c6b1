"""Translates the shared SQL to the dialect of PostgreSQL, and converts values.

The shared SQL is written for SQLite. The translation:

- The bindings ``?`` and ``?2`` become ``$1`` and ``$2``.
- The name of a table gets the schema of the store, so that no session needs a search path.
  Statements for PostgreSQL alone write ``alveus`` for this schema.
- ``name IS ?`` becomes a comparison of digests, which the indexes contain, and of the names. Each
  such column has a digest column beside it: under a policy, PostgreSQL uses no index on an
  expression.
- ``journal AS every_commit``, and the same for other tables, becomes a view without policies.
- ``IN (SELECT value FROM carray(?))`` becomes ``= ANY(?)``; with ``AS names``, digests are compared
  too.
- ``IN (SELECT (…) FROM (SELECT value AS asked FROM carray(?)) AS ids)`` becomes
  ``= ANY(ARRAY(…))``. Otherwise the planner would join the names with all rows of the table.
- ``SELECT … FROM carray(?)``, whose column is ``value``, becomes a call of ``unnest``.
- ``max(a, b)`` becomes ``greatest``, and ``instr`` becomes ``strpos``. ``octet_length`` becomes a
  function that counts the bytes of the text before U+0000 was escaped.
- ``INDEXED BY`` is dropped, and ``CROSS JOIN … ON``, which fixes an order of joins, becomes
  ``JOIN``.
"""

from __future__ import annotations

import functools
import re

from psycopg import adapters
from psycopg.adapt import AdaptersMap, Buffer, Dumper
from psycopg.pq import Format
from psycopg.types.numeric import FloatBinaryDumper, Int8BinaryDumper, NumericBinaryLoader
from psycopg.types.string import StrBinaryDumper, TextBinaryLoader

from alveus.store.packed_values import Packed

TABLES = (
    "access", "agent", "appender", "change", "compaction", "consumer", "durable_call", "event_id",
    "feature",
    "item", "journal", "lane", "lease", "ledger", "link", "memory_set", "node", "note", "output",
    "owner", "receipt", "run", "scope", "setback", "space_grant", "staged", "step", "stub",
)  # fmt: skip

_NAME = r"(?:\w+\.)?\w+"
_BINDING = re.compile(r"\?(\d*)")
_TABLE = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE)(\s+)({'|'.join(TABLES)})\b(?!\.)")
_VIEW = re.compile(r"\b(?:journal|run|agent|step|durable_call) AS (every_\w+)")
_NAMES_AMONG = re.compile(
    rf"({_NAME}) IN \(SELECT value FROM carray\((\$\d+)\) AS names\)"  # noqa: S608 - a pattern
)
_NUMBERS_AMONG = re.compile(r"IN\s+\(SELECT value FROM carray\((\$\d+)\)\)")
_ROW_OF_EACH = re.compile(
    r"\bIN \((SELECT \(.*?\) FROM \(SELECT value AS asked FROM carray\(\$\d+\)\) AS ids)\)",
    re.DOTALL,
)
_NUMBERS = re.compile(r"FROM carray\((\$\d+)\)")
_SAME_NAME = re.compile(rf"({_NAME}) IS (\$\d+|(?!NULL\b|NOT\b){_NAME})")
_WITH_DIGEST = frozenset({"id", "key", "name", "owner", "parent", "space"})
_GREATEST = re.compile(r"\bmax\(([^(),]+,[^()]+)\)")
_FUNCTION = re.compile(r" (granted|is_meant|is_shared)\(")
_SCHEMA = re.compile(r"\balveus(?=[.;])")
_HINT = re.compile(r"\bINDEXED BY \w+")


@functools.lru_cache(maxsize=2048)
def translated(sql: str, schema: str) -> str:
    """Return *sql*, written for SQLite, in the dialect of PostgreSQL."""
    sql = _SCHEMA.sub(schema, _numbered(sql))
    sql = _VIEW.sub(rf"{schema}.\1", sql)
    sql = _TABLE.sub(rf"\1\2{schema}.\3", sql)
    sql = _NAMES_AMONG.sub(
        rf"(\1_digest = ANY ({schema}.digests(\2::text[])) AND \1 = ANY (\2))", sql
    )
    sql = _NUMBERS_AMONG.sub(r"= ANY(\1)", sql)
    sql = _ROW_OF_EACH.sub(r"= ANY(ARRAY(\1))", sql)
    sql = _NUMBERS.sub(r"FROM unnest(\1) AS value", sql)
    sql = _SAME_NAME.sub(functools.partial(_same_name, schema), sql)
    sql = _GREATEST.sub(r"greatest(\1)", sql).replace("instr(", "strpos(")
    sql = sql.replace("octet_length(", f"{schema}.size_of(").replace("CROSS JOIN", "JOIN")
    sql = _FUNCTION.sub(rf" {schema}.\1(", sql)
    return _HINT.sub("", sql)


def _same_name(schema: str, found: re.Match[str]) -> str:
    """Return SQL that compares the digests, then the names, of a column and another operand."""
    column, other = found[1], found[2]
    has_digest = other.rpartition(".")[2] in _WITH_DIGEST
    digest = f"{other}_digest" if has_digest else f"{schema}.digest({other})"
    return f"({column}_digest = {digest} AND {column} = {other})"


def for_schema(script: str, schema: str) -> str:
    """Return *script*, written for the schema ``alveus``, rewritten for the schema *schema*."""
    return _SCHEMA.sub(schema, script)


def _numbered(sql: str) -> str:
    """Return *sql* with ``$n`` for each binding; bindings get their numbers as in SQLite."""
    last = 0

    def numbered(match: re.Match[str]) -> str:
        nonlocal last
        last = int(match[1]) if match[1] else last + 1
        return f"${last}"

    return _BINDING.sub(numbered, sql)


# --- values ---------------------------------------------------------------------------------------

NUL, MARK = "\0", "\x01"


def storable(text: str) -> str:
    """Return *text* with U+0000 escaped, because PostgreSQL refuses it.

    Escaped texts have the same order as the original texts.
    """
    if NUL in text or MARK in text:
        return text.replace(MARK, "\x01\x03").replace(NUL, "\x01\x02")
    return text


def original(text: str) -> str:
    """Return the text from which `storable` made *text*."""
    return text.replace("\x01\x02", NUL).replace("\x01\x03", MARK) if MARK in text else text


class _Text(StrBinaryDumper):
    def dump(self, obj: str) -> Buffer | None:
        return storable(obj).encode()


class _Content(Dumper):
    """Sends wire text as bytes, for a column that also holds packed values."""

    format = Format.BINARY
    oid = adapters.types["bytea"].oid

    def dump(self, obj: str) -> Buffer | None:
        return obj.encode()


class _Bytes(Dumper):
    """Sends bytes without the copy that psycopg's dumper makes."""

    format = Format.BINARY
    oid = adapters.types["bytea"].oid

    def dump(self, obj: bytes) -> Buffer | None:
        return obj


class NumberArray(list[int]):
    """Whole numbers that are passed as one parameter of a statement."""


class TextArray(list[str]):
    """Texts that are passed as one parameter of a statement."""


class _NumbersDumper(Dumper):
    oid = adapters.types["int8"].array_oid

    def dump(self, obj: NumberArray) -> Buffer | None:
        return b"{%s}" % b",".join(b"%d" % number for number in obj)


class _TextsDumper(Dumper):
    oid = adapters.types["text"].array_oid

    def dump(self, obj: TextArray) -> Buffer | None:
        quoted = (storable(text).replace("\\", "\\\\").replace('"', '\\"') for text in obj)
        return ("{" + ",".join(f'"{text}"' for text in quoted) + "}").encode()


class _TextLoader(TextBinaryLoader):
    def load(self, data: Buffer) -> str | bytes:
        text = str(data, "utf-8")
        return original(text) if MARK in text else text


class _WholeLoader(NumericBinaryLoader):
    """Loads a `numeric` as an int: in PostgreSQL, a sum of whole numbers has this type."""

    def load(self, data: Buffer) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - whole
        return int(super().load(data))


def adapt(types: AdaptersMap) -> None:
    """Register the conversions that the shared statements expect."""
    dumpers: list[tuple[type, type[Dumper]]] = [
        (int, Int8BinaryDumper),
        (float, FloatBinaryDumper),
        (str, _Text),
        (bytes, _Bytes),
        (Packed, _Content),
        (NumberArray, _NumbersDumper),
        (TextArray, _TextsDumper),
    ]
    for kind, dumper in dumpers:
        types.register_dumper(kind, dumper)
    types.register_loader("text", _TextLoader)
    types.register_loader("numeric", _WholeLoader)

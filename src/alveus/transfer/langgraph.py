"""Items of a LangGraph store: as JSON, and from the file of an `SqliteStore`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import apsw

from alveus.errors import InvalidInput, StoreBusy
from alveus.store.items import Item, text_of
from alveus.transfer.foreign_formats import Reader, ReadPart, Skipped
from alveus.transfer.import_source import Invalid, JsonRecord, Source
from alveus.transfer.record_fields import label_of, texts_of
from alveus.values.forks import FORKS
from alveus.values.sqlite_connections import PlainConnection
from alveus.values.storable import Value, checked_name

EXPIRED = "had expired"
PAGE = 500
"""Rows of one read."""

MAGIC = b"SQLite format 3\0"

_SPECIAL = re.compile(r"[%/.]")


class LangGraphReader(Reader):
    """Reads items: their namespace, key and value."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"items"})

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record is an item."""
        return isinstance(record.fields.get("namespace"), list) and {"key", "value"} <= set(
            record.fields
        )

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the item."""
        fields = record.fields
        namespace = list(texts_of(fields, "namespace"))
        key, value = checked_name(fields.get("key"), "an item's key"), fields.get("value")
        if not isinstance(value, dict):
            raise InvalidInput(f'the "value" of an item must be an object, not {value!r:.40}')
        if fields.get("expired"):
            yield Skipped(EXPIRED)
            return
        metadata: dict[str, Value] = {"namespace": cast("Value", namespace), "key": key}
        for name in ("updated_at", "expires_at"):
            if fields.get(name) not in (None, fields.get("created_at")):
                metadata[name] = fields[name]
        time = None
        if self.target.time_from is None and isinstance(value.get("role"), str):
            time = self.when(value)  # a message contains its time
        item = Item(
            value=value,
            id=item_id(namespace, key),
            text=_readable(value) if text_of(value) is None else None,
            metadata=metadata,
            role=label_of(value, "role") if isinstance(value.get("role"), str) else None,
            time=time or self.when(fields, names=("created_at",), zone=UTC),
        )
        yield self.item_line(item, fields, value)


def item_id(namespace: Collection[str], key: str) -> str:
    """Return the id of an item: its dotted namespace, a slash, and its key."""
    labels = (_SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", label) for label in namespace)
    return f"{'.'.join(labels)}/{key}"


def _readable(value: Value, name: str = "") -> str:
    """Return the readable values in *value*, a line each, with their names."""
    if isinstance(value, dict):
        lines = [_readable(v, f"{name}.{key}" if name else key) for key, v in value.items()]
    elif isinstance(value, list):
        lines = [_readable(element, name) for element in value]
    elif value is None or value == "":
        lines = []
    else:
        shown = value if isinstance(value, str) else json.dumps(value)
        lines = [f"{name}: {shown}" if name else shown]
    return "\n".join(line for line in lines if line)


# --- the file of an SqliteStore ---------------------------------------------------------------


_ROWS = """
SELECT prefix, key, value, created_at, updated_at, expires_at
FROM store ORDER BY created_at, prefix, key
"""


ALVEUS = 0x616C7665
"""The application id of alveus's SQLite files."""


class LangGraphFile(Source):
    """The SQLite file of a LangGraph store. It is only read, and no file is created beside it."""

    def __init__(self, path: Path, db: apsw.Connection, *, immutable: bool) -> None:
        self.name = str(path)
        self.unit = "row"
        self._path, self._db, self._immutable = path, db, immutable
        self._stat = _stat(path)
        self._now = datetime.now(UTC)
        self._columns = self._checked()

    def records(self, lists: Collection[str]) -> Iterator[JsonRecord | Invalid]:
        """Yield the rows of the store, oldest first. An unreadable row is invalid.

        Raises:
            StoreBusy: The file changed, or is locked.
        """
        del lists
        sql = _ROWS if "expires_at" in self._columns else _ROWS.replace("expires_at", "NULL")
        with self._translated():
            cursor, number = self._db.execute(sql), 0
            while rows := _page(cursor):
                self._check_unchanged()
                for row in rows:
                    number += 1
                    yield self._record(number, row)

    def _record(self, number: int, row: tuple[Any, ...]) -> JsonRecord | Invalid:
        prefix, key, value, created, updated, expires = row
        try:
            contents: Value = json.loads(value)
            created, updated, expires = (_iso_time(time) for time in (created, updated, expires))
        except (ValueError, TypeError, RecursionError) as error:
            problem = f"the item {prefix!r}, {key!r} cannot be read ({error})"
            return Invalid(self.wrong(number, problem, "correct it and import again"))
        fields: dict[str, Value] = {
            "namespace": cast("Value", str(prefix).split(".")),
            "key": key,
            "value": contents,
            "created_at": created,
            "updated_at": updated,
            "expires_at": expires,
            "expired": expires is not None and datetime.fromisoformat(expires) <= self._now,
        }
        return JsonRecord(number, number, fields)

    def _checked(self) -> set[str]:
        with self._translated():
            tables = {str(name) for (name,) in self._db.execute("SELECT name FROM sqlite_schema")}
            columns = {
                str(row[1]) for row in self._db.execute("SELECT * FROM pragma_table_info('store')")
            }
            application_id = self._db.pragma("application_id")
        if {"prefix", "key", "value", "created_at", "updated_at"} <= columns:
            return columns
        if application_id == ALVEUS:
            raise InvalidInput(
                f"{self.name} is a memory of alveus; open it with --db, or export it and import "
                "the export"
            )
        contents = "no table of a LangGraph store"
        if "checkpoints" in tables:
            contents = "checkpoints of LangGraph, but no store"
        raise InvalidInput(f"{self.name} is an SQLite file with {contents}; pass another file")

    def _check_unchanged(self) -> None:
        if self._immutable and (_stat(self._path) != self._stat or _in_use(self._path)):
            raise StoreBusy(f"{self.name} changed while it was read; import it again")

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except apsw.BusyError as error:
            raise StoreBusy(f"{self.name} is locked by another process; import it again") from error
        except apsw.Error as error:
            raise InvalidInput(f"{self.name} cannot be read as an SQLite file ({error})") from error


@contextmanager
def langgraph_file(path: Path) -> Generator[LangGraphFile]:
    """Open the file of an `SqliteStore`, as one snapshot.

    Raises:
        InvalidInput: The file is not a LangGraph store.
    """
    # An ordinary open of a closed file in WAL mode would leave a -wal and a -shm file beside it,
    # and a lock would delay writers. So a file without a log is read as immutable and checked for
    # changes. A file with a log is read in a transaction.
    immutable = not _in_use(path)
    name = f"{path.absolute().as_uri()}?{'immutable=1' if immutable else 'mode=ro'}"
    try:
        with FORKS.inside():
            db = PlainConnection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise InvalidInput(f"{path} cannot be opened as an SQLite file ({error})") from error
    try:
        db.execute("BEGIN")
        yield LangGraphFile(path, db, immutable=immutable)
    finally:
        db.close(force=True)


def _page(cursor: Iterator[Any]) -> list[tuple[Any, ...]]:
    with FORKS.inside():
        return list(islice(cursor, PAGE))


def is_sqlite(path: Path) -> bool:
    """Return whether a file is an SQLite file. Unsafe for a file that this process has open."""
    with path.open("rb") as handle:
        return handle.read(len(MAGIC)) == MAGIC


def _in_use(path: Path) -> bool:
    """Return whether a log exists beside the file. Without the log, the file may be incomplete."""
    wal, journal = (path.with_name(f"{path.name}-{kind}") for kind in ("wal", "journal"))
    return wal.exists() or (journal.exists() and journal.stat().st_size > 0)


def _stat(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _iso_time(text: Any) -> str | None:  # noqa: ANN401 - a column of another program's table
    """Return a time of SQLite (UTC, without a zone) as ISO 8601."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return zoned.isoformat()

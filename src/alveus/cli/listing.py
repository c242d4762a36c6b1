"""Contents of a memory: keys, sets, stats, version."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import apsw
import numpy as np

from alveus import __version__
from alveus.cli import options, output
from alveus.cli.session import Session
from alveus.memory.memory import Memory
from alveus.memory.opening import schema_version
from alveus.store import Scope, SetInfo
from alveus.store.scope import is_hidden


@options.command("keys")
def keys_command(session: Session) -> None:
    """List the keys of the space.

    With --json: {"key": …} per line.

    Example: alveus keys
    """
    with session.open(mode="ro") as memory:
        session.listing(("key",), memory.keys(), lambda key: (key,), lambda key: {"key": key})


@options.command("sets")
def sets_command(
    session: Session,
    *,
    key: str | None = options.key_option(),
    knowledge: str | None = options.knowledge_option(),
) -> None:
    """List the sets of a key, of knowledge, or of the space.

    With --json: {"key": …, "set": …, "items": …, "bytes": …, "capacity": …, "compaction": …}
    per line; the key of a set of knowledge is null.

    Example: alveus sets --key ada
    """
    with session.open(mode="ro", knowledge=knowledge) as memory:
        infos = (info for info in _infos(memory, key, knowledge) if not is_hidden(info.ref))
        session.listing(("key", "set", "items", "capacity", "size"), infos, set_row, _fields)


def _infos(memory: Memory, key: str | None, knowledge: str | None) -> Iterator[SetInfo]:
    store = memory.store
    if key is None and knowledge is None:
        for one in iter(memory.keys()):
            yield from store.set_infos(Scope(memory.space, one))
    if key is not None:
        yield from store.set_infos(Scope(memory.space, key))
    if key is None:
        yield from store.set_infos(Scope(memory.knowledge.name, None))


def _fields(info: SetInfo) -> dict[str, output.Json]:
    fields: dict[str, output.Json] = {"key": info.ref.scope.key, "set": info.ref.name}
    defined = output.attributes(info.definition, "capacity compaction")
    return fields | output.attributes(info, "items bytes") | defined


def set_row(info: SetInfo) -> tuple[str, ...]:
    """Return the table cells of a set: its key, name, items, capacity and size."""
    key, most = info.ref.scope.key, info.definition.capacity
    capacity = "" if most is None else f"{most:,}"
    owner = "(knowledge)" if key is None else key
    return owner, info.ref.name, f"{info.items:,}", capacity, output.size(info.bytes)


STORE_FIGURES = (
    "commits keys sets items item_versions nodes file_bytes wal_bytes runs_waiting runs_parked "
    "runs_ended"
)


@options.command("stats")
def stats_command(session: Session) -> None:
    """Show the size of the memory and the work that is pending.

    With --json: one object with these figures.

    Example: alveus stats
    """
    with session.open(mode="ro") as memory:
        found = memory.stats()
    store = found.store
    waiting = f", the oldest for {found.queue_age_s:.0f} s" if found.pending else ""
    runs = f"{store.runs_waiting:,} wait, {store.runs_parked:,} parked, {store.runs_ended:,} ended"
    fields = output.attributes(found, "space embedder pending queue_age_s")
    leases = [lease.owner for lease in found.leases]
    session.describe(
        [
            ("file", found.location),
            ("size", f"{output.size(store.file_bytes)}, log {output.size(store.wal_bytes)}"),
            ("space", found.space),
            ("embedder", found.embedder),
            ("commits", f"{store.commits:,}"),
            ("keys", f"{store.keys:,}"),
            ("sets", f"{store.sets:,}"),
            ("items", f"{store.items:,}, {output.plural(store.item_versions, 'version')}"),
            ("exact memory", f"{store.nodes:,} values and objects"),
            ("not embedded", f"{found.pending:,}{waiting}"),
            ("runs", runs),
            ("running keys", f"{len(found.leases):,}"),
        ],
        {
            "file": found.location,
            **fields,
            **output.attributes(store, STORE_FIGURES),
            "leases": leases,
        },
    )


def versions() -> dict[str, str]:
    """Return the versions of alveus, its dependencies and the platform."""
    return {
        "alveus": __version__,
        "schema": str(schema_version()),
        "SQLite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


@options.command("version")
def version_command(session: Session) -> None:
    """Show the versions of alveus and its dependencies.

    With --json: one object.

    Example: alveus version
    """
    session.describe(versions().items(), versions())

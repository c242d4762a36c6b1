"""Compaction on the command line: compact, compactions, undo, lineage."""

from __future__ import annotations

import re
from contextlib import nullcontext
from datetime import timedelta
from functools import partial

from alveus.cli import options, output
from alveus.cli.listing import set_row
from alveus.cli.options import argument, option
from alveus.cli.session import Owner, Session
from alveus.errors import InvalidInput, NotFound
from alveus.llm import ChatModel
from alveus.memory.compactor import Compactor, Look, are_hours
from alveus.memory.memory import Memory
from alveus.sets import MemorySet
from alveus.sets.origins import CompactionInfo
from alveus.store import SetInfo
from alveus.values.times import Zone


def _read_share(text: str) -> float:
    """Return the share that *text* names, such as 80%."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", text.strip())
    if found is None or not 0 < float(found[1]) <= 100:  # noqa: PLR2004 - percent
        raise InvalidInput(f"{text!r} is not a percentage above 0%, up to 100%; write it like 80%")
    return float(found[1]) / 100


def _read_hours(text: str) -> tuple[int, int]:
    """Return the hours of the day that *text* names, such as 1-5 or 22-4."""
    found = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text.strip())
    hours = (0, 0) if found is None else (int(found[1]), int(found[2]))
    if not are_hours(hours):
        raise InvalidInput(f"{text!r} is not a range of hours; write it like 1-5 or 22-4")
    return hours


@options.command("compact")
def compact_command(
    session: Session,
    *,
    watch: bool = option("--watch", "Go on until it is stopped, and follow new items."),
    every: timedelta = option("--every SPAN", "With --watch: look this often.", default="30s"),
    at: float | None = option(
        "--at PERCENT",
        "Compact sets that exceed this share of a capacity.  [default: the mark of each set]",
        read=_read_share,
    ),
    hours: tuple[int, int] | None = option(
        "--hours FROM-TO", "Work in these hours of local time only: 1-5.", read=_read_hours
    ),
    key: str | None = options.key_option("Only sets of this key."),
    set_name: str | None = options.ONLY_SET,
    everything: bool = option("--all", "Also sets that are not 'external'."),
    model: ChatModel | None = options.MODEL,
    progress: bool = option("--progress", "Print a line per step."),
    dry_run: bool = option("--dry-run", "Only list the sets that are due."),
) -> None:
    """Compact the sets that have reached their mark.

    Compacts sets whose execution is "external"; with --all, all sets. Without --model, summaries
    are made of chosen sentences. The command may be killed at any time and run several times side
    by side: each step of each set is one commit. With --watch it ends after the step under way:
    by SIGTERM with exit code 0, by Ctrl-C with 130, by a second one at once.
    With --json: {"compactions": …}; with --dry-run a line for each set that is due.

    Example: alveus compact --watch --every 5m
    """
    with session.open(model=model) as memory:
        compactor = Compactor(
            memory, at=at, hours=hours, key=key, set_name=set_name, everything=everything
        )
        if dry_run:
            _show_due(session, compactor)
            return
        show = partial(_show_look, session) if progress else None
        with session.stopped_by_signals(compactor.stop) if watch else nullcontext():
            done = compactor.run(watch=watch, every=every, progress=show)
            session.done(f"{output.plural(done, 'compaction')} done", {"compactions": done})


def _show_look(session: Session, look: Look) -> None:
    """Print a compactor's result for a set, on stderr or as a line of JSON."""
    if look.set is None:
        return
    key = look.set.scope.key or ""
    if session.json:
        failed = None if look.failed is None else type(look.failed).__name__
        fields = {"key": key, "set": look.set.name, "items": look.items, "failed": failed}
        output.document({**fields, "compactions": look.done})
        return
    says = f"key {key!r}, set {look.set.name!r}: {output.plural(look.items, 'item')}"
    session.note(says if look.failed is None else f"{says}; {look.failed}")


def _show_due(session: Session, compactor: Compactor) -> None:
    found = list(compactor.due())
    if not found:
        session.nothing("no set is due")

    def fields(info: SetInfo) -> output.Json:
        named: dict[str, output.Json] = {"key": info.ref.scope.key or "", "set": info.ref.name}
        capacity = info.definition.capacity
        return named | output.attributes(info, "items tokens bytes") | {"capacity": capacity}

    columns = ("key", "set", "items", "capacity")
    session.listing(columns, found, lambda info: set_row(info)[: len(columns)], fields)


def _set_of(session: Session, memory: Memory, key: str, name: str) -> MemorySet:
    Owner(key).require(session, memory, (name,))
    return memory.key(key).set(name)


@options.command("compactions")
def compactions_command(
    session: Session,
    *,
    key: str = options.KEY,
    set_name: str = options.SET,
    limit: int = options.limit_option(20, 1000),
) -> None:
    """List the compactions of a set, the latest first.

    With --json: a line for each: {"id": …, "time": …, "strategy": …, "by": …, "retired": …,
    "added": […], "erased": …, "undone": …}.

    Example: alveus compactions --key ada --set notes
    """
    with session.open(mode="ro") as memory:
        found = _set_of(session, memory, key, set_name).compactions(limit=limit)
    if not found:
        session.nothing(f"set {set_name!r} was never compacted")
    columns = ("id", "time", "strategy", "by", "retired", "added", "undone")
    session.listing(columns, found, partial(_row, session.zone), output.fields_of)


def _row(zone: Zone, done: CompactionInfo) -> tuple[str, ...]:
    return (
        str(done.id),
        zone.text(done.time),
        str(done.strategy.get("name")),
        done.by,
        f"{done.retired:,}",
        f"{len(done.added):,}",
        "" if done.undone is None else f"by commit {done.undone}",
    )


@options.command("undo")
def undo_command(
    session: Session,
    *,
    compaction: int = argument("ID", type=options.Whole(0)),
    key: str = options.KEY,
    set_name: str = options.SET,
) -> None:
    """Undo a compaction.

    Brings back the items that it retired, and removes those that it added. alveus compactions
    lists the ids. With --json: {"restored": […], "removed": […], "missing": […], "erased": …}.

    Example: alveus undo 3 --key ada --set notes
    """
    with session.open() as memory:
        try:
            done = _set_of(session, memory, key, set_name).undo(compaction)
        except NotFound as error:
            session.nothing(str(error))
    lost = f"; {done.erased:,} were erased since, and stay so" if done.erased else ""
    session.done(
        f"{len(done.restored):,} items are back, {len(done.removed):,} that stood for them are "
        f"gone{lost}",
        output.attributes(done, "restored removed missing erased"),
    )


@options.command("lineage")
def lineage_command(
    session: Session,
    *,
    item_id: str = options.ITEM,
    owner: Owner = options.OWNER,
    set_name: str | None = options.ONE_SET,
) -> None:
    """Draw what an item was derived from, as a tree.

    With --json: {"nodes": [{"id": …, "version": …, "text": …, "depth": …, "compacted": …,
    "retired": …, "erased": …}], "edges": [[…, …]], "cut": …}; an edge is two positions in
    nodes: the derived one, and its source.

    Example: alveus lineage 0193a5c2 --key ada
    """
    with session.open(knowledge=owner.knowledge, mode="ro") as memory:
        chosen, item_id = owner.find(session, memory, item_id, set_name)
        found = chosen.lineage(item_id)
    session.answer(found.text(), output.fields_of(found))

"""Compaction on the command line: compact, compactions, undo, lineage."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType

import click

from fornix.cli import output
from fornix.cli.options import command, key_option, knowledge_option, set_option
from fornix.cli.session import Owner, Session
from fornix.compaction.lineage import CompactionInfo, Lineage
from fornix.errors import InvalidInput
from fornix.llm import OpenAIChat
from fornix.memory.compactor import MOST_EVERY, Compactor, Look, are_hours
from fornix.memory.memory import Memory
from fornix.sets import MemorySet
from fornix.values.times import stamp

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(_ctx: click.Context, _param: click.Parameter, text: str) -> timedelta:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text.strip())
    seconds = 0.0 if found is None else float(found[1]) * _UNITS[found[2] or "s"]
    if not _UNITS["ms"] <= seconds <= MOST_EVERY.total_seconds():
        problem = f"{text!r} is no time from 1ms to a year; write one such as 30s, 5m or 0.5s"
        raise click.BadParameter(problem)
    return timedelta(seconds=seconds)


def _share(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", text.strip())
    if found is None or not 0 < float(found[1]) <= 100:  # noqa: PLR2004 - percent
        problem = f"{text!r} is no share; write one such as 80%"
        raise click.BadParameter(problem)
    return float(found[1]) / 100


def _hours(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text.strip())
    hours = (0, 0) if found is None else (int(found[1]), int(found[2]))
    if not are_hours(hours):
        problem = f"{text!r} are no hours; write them such as 1-5 or 22-4"
        raise click.BadParameter(problem)
    return hours


@command("compact")
@click.option("--watch", is_flag=True, help="Go on until it is stopped, and follow what is added.")
@click.option(
    "--every",
    default="30s",
    show_default=True,
    callback=_duration,
    metavar="TIME",
    help="With --watch: how long to wait between two looks.",
)
@click.option(
    "--at",
    callback=_share,
    metavar="PERCENT",
    help="Compact sets that hold more than this of a capacity. Default: each set's own mark.",
)
@click.option(
    "--hours", callback=_hours, metavar="FROM-TO", help="Only in these hours, by local time: 1-5."
)
@key_option
@click.option("--set", "-s", "set_name", metavar="NAME", help="Only sets of this name.")
@click.option("--all", "everything", is_flag=True, help="Not only sets of execution 'external'.")
@click.option("--model", metavar="NAME", help="A language model, for summaries.")
@click.option(
    "--base-url",
    metavar="URL",
    help="Where the model is, of the OpenAI protocol. Default: as OPENAI_BASE_URL says.",
)
@click.option("--progress", "shown", is_flag=True, help="Say what is done, a line each.")
@click.option("--dry-run", is_flag=True, help="Only say which sets are due.")
def compact(  # noqa: PLR0913 - a command's options
    session: Session,
    *,
    watch: bool,
    every: timedelta,
    at: float | None,
    hours: tuple[int, int] | None,
    key: str | None,
    set_name: str | None,
    everything: bool,
    model: str | None,
    base_url: str | None,
    shown: bool,
    dry_run: bool,
) -> None:
    """Compact the sets of the space that are at their mark.

    Those whose execution is "external"; with --all, others too. It may be killed at any time, and
    run several times side by side: each step of each set is one commit, and a set is compacted by
    one at a time. Without --model, summaries are chosen sentences.
    With --json: {"compactions": …}, with --dry-run a line for each set that is due.
    """
    chat = None if model is None else OpenAIChat(model, base_url=base_url)
    with session.open(model=chat) as memory:
        compactor = Compactor(
            memory, at=at, hours=hours, key=key, set_name=set_name, everything=everything
        )
        if dry_run:
            _show_due(session, compactor)
            return
        if watch:
            _stop_on_signals(compactor)
        tell = _Teller(session) if shown else None
        done = compactor.run(watch=watch, every=every, progress=tell)
    session.done(f"{done:,} compactions done", {"compactions": done})


def _stop_on_signals(compactor: Compactor) -> None:
    """End after the step under way when somebody asks for it."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        compactor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


class _Teller:
    """Says on stderr, or as lines of JSON, what a compactor does."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self, look: Look) -> None:
        if look.set is None:
            return
        key = look.set.scope.key or ""
        failed = None if look.failed is None else type(look.failed).__name__
        if self._session.json:
            fields = {"key": key, "set": look.set.name, "items": look.items, "failed": failed}
            output.document({**fields, "compactions": look.done})
            return
        says = f"key {key!r}, set {look.set.name!r}: {look.items:,} items"
        self._session.note(says if look.failed is None else f"{says}; {look.failed}")


def _show_due(session: Session, compactor: Compactor) -> None:
    found = list(compactor.due())
    for info in found:
        key, name = info.ref.scope.key or "", info.ref.name
        if session.json:
            output.document(
                {
                    "key": key,
                    "set": name,
                    "items": info.items,
                    "tokens": info.tokens,
                    "bytes": info.bytes,
                    "capacity": info.definition.capacity,
                }
            )
        else:
            session.say(f"key {key!r}, set {name!r}: {info.items:,} items")
    if not found:
        session.nothing("no set is due")


def _set_of(session: Session, memory: Memory, key: str | None, name: str) -> MemorySet:
    if key is None:
        problem = "name a key: --key KEY; fornix keys lists them; knowledge is never compacted"
        raise click.UsageError(problem)
    Owner(key).require(session, memory, (name,))
    return memory.key(key).set(name)


@command("compactions")
@key_option
@set_option
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True)
def compactions(session: Session, *, key: str | None, set_name: str, limit: int) -> None:
    """List the compactions of a set, the latest first.

    With --json: a line for each: {"id": …, "time": …, "strategy": …, "by": …, "retired": …,
    "added": […], "erased": …, "undone": …}.
    """
    with session.open(mode="ro") as memory:
        found = _set_of(session, memory, key, set_name).compactions(limit=limit)
    if not found:
        session.nothing(f"set {set_name!r} was never compacted")
    for done in found:
        if session.json:
            output.document(_fields(done))
        else:
            undone = "" if done.undone is None else f", undone by commit {done.undone}"
            click.echo(
                f"{done.id}  {stamp(done.time)}  {done.strategy.get('name')} by {done.by}: "
                f"{done.retired:,} items, {len(done.added):,} in their place{undone}"
            )


def _fields(done: CompactionInfo) -> dict[str, output.Json]:
    return {
        "id": done.id,
        "commit": done.commit,
        "time": stamp(done.time),
        "strategy": output.wired(dict(done.strategy)),
        "by": done.by,
        "retired": done.retired,
        "added": list(done.added),
        "erased": done.erased,
        "undone": done.undone,
        "notes": output.wired(dict(done.notes)),
    }


@command("undo")
@click.argument("compaction", type=int)
@key_option
@set_option
def undo(session: Session, *, compaction: int, key: str | None, set_name: str) -> None:
    """Undo a compaction: bring back what it retired, remove what it put in its place.

    fornix compactions lists them with their ids.
    With --json: {"restored": […], "removed": […], "missing": […], "erased": …}.
    """
    with session.open() as memory:
        done = _set_of(session, memory, key, set_name).undo(compaction)
    lost = f"; {done.erased:,} were erased since, and stay so" if done.erased else ""
    session.done(
        f"{len(done.restored):,} items are back, {len(done.removed):,} that stood for them are "
        f"gone{lost}",
        {
            "restored": list(done.restored),
            "removed": list(done.removed),
            "missing": list(done.missing),
            "erased": done.erased,
        },
    )


@command("lineage")
@click.argument("item_id", metavar="ID")
@key_option
@knowledge_option
@set_option
def lineage(
    session: Session, *, item_id: str, key: str | None, knowledge: str | None, set_name: str
) -> None:
    """Draw what an item was derived from, to any depth, as a tree.

    With --json: {"nodes": [{"id": …, "version": …, "text": …, "depth": …, "compacted": …,
    "retired": …, "erased": …}], "edges": [[…, …]], "cut": …}; edges are places in nodes: what was
    derived, what from.
    """
    if not item_id:
        raise InvalidInput("name an item by its id; fornix list shows them")
    owner = Owner(key, knowledge)
    with session.open(knowledge=knowledge, mode="ro") as memory:
        owner.require(session, memory, (set_name,))
        found = owner.of(memory).set(set_name).lineage(item_id)
    if session.json:
        output.document(_graph(found))
    else:
        click.echo(output.plain(found.text()))


def _graph(found: Lineage) -> dict[str, output.Json]:
    nodes: Sequence[output.Json] = [
        {
            "id": node.id,
            "set": node.set_name,
            "version": node.version,
            "text": node.text,
            "depth": node.depth,
            "compacted": node.compacted,
            "retired": node.retired,
            "erased": node.erased,
        }
        for node in found.nodes
    ]
    return {"nodes": nodes, "edges": [list(edge) for edge in found.edges], "cut": found.cut}

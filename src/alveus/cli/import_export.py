"""Memory in and out of files: import and export."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import tzinfo
from typing import cast

import click

from alveus import transfer
from alveus.cli import options, output
from alveus.cli.options import argument, option
from alveus.cli.output import sink
from alveus.cli.session import Owner, Session
from alveus.memory.memory import Memory
from alveus.sets import OnExisting
from alveus.store import Definition
from alveus.store.items import Item, text_of
from alveus.text.messages import MESSAGES
from alveus.values.storable import replaced_note

BLOCK = 1 << 20

SHOWN = 20
"""Most keys, sets and unusable records that are named one by one."""

LEFT_OUT = 4
"""Exit code of an import that left out unusable records."""


@options.command("import")
def import_command(
    session: Session,
    *,
    file: str = argument(type=options.FileName(allow_dash=True)),
    key: str | None = options.key_option(),
    knowledge: str | None = options.knowledge_option(),
    set_name: str = options.SET,
    layout: str = option(
        "--format FORMAT",
        f"The format of FILE: auto, {', '.join(transfer.LAYOUTS)}.",
        type=click.Choice(["auto", *transfer.LAYOUTS]),
        default="auto",
    ),
    key_from: str | None = option(
        "--key-from FIELD", "The field that names the key, such as user_id."
    ),
    set_from: str | None = option("--set-from FIELD", "The field that names the set."),
    time_from: str | None = option("--time-from FIELD", "The field with the time of an item."),
    text_from: str | None = option(
        "--text-from FIELD", "The field with the text that search reads."
    ),
    zone: tzinfo | None = option(
        "--zone ZONE", "For times without a zone: UTC, +01:00, Europe/Lisbon."
    ),
    on_existing: OnExisting = options.on_existing_option(
        "keep", "What to do with an item or a value that exists."
    ),
    strict: bool = option("--strict", "Import nothing if a record cannot be used."),
    dry_run: bool = option("--dry-run", "Only say what would be imported."),
    no_wait: bool = options.NO_WAIT,
) -> None:
    """Import an export, chats, or another system's memories.

    FILE "-" is stdin. The whole file is checked before anything is written, and a memory that does
    not exist is made. If the command is interrupted, repeat it: it continues where it was and adds
    nothing twice.

    A record that cannot be used is left out, and named on stderr with its line; the exit code is 4
    then. With --strict nothing is imported. Half of a surrogate pair in a text becomes U+FFFD.

    The formats, each a record per line or in a list of one document:

    \b
      alveus        what alveus export wrote
      items         {"text": "Prefers window seats.", "key": "ada", "id": "n-1"}
      chat          {"role": "user", "content": "…"}, conversations.json of ChatGPT
      conversation  {"id": "…", "sessions": [{"session_id": "…", "turns": […]}]}
      locomo        {"sample_id": "…", "conversation": {"session_1": […]}}
      mem0          {"id": "…", "memory": "…", "user_id": "ada"}, as of get_all()
      langgraph     {"namespace": […], "key": "…", "value": {…}}, a store's SQLite file
      mcp-memory    {"type": "entity", "name": "…", "observations": […]}

    All but the first need --key, --key-from or --knowledge, unless each item has a "key", or is a
    memory of mem0: then each goes where mem0's clients find it on alveus serve. A FIELD is a
    dotted path: user_id, metadata.customer, namespace.1.
    With --json: the counts of added, kept, updated, skipped and invalid records.

    Example: alveus import chat.jsonl --key ada --set chat
    """  # noqa: D301 - click reads the \\b: do not wrap
    target = transfer.Target(key, set_name, key_from, set_from, time_from, text_from, zone)
    with _source(file) as source:
        chosen = transfer.layout_of(source) if layout == "auto" else cast("transfer.Layout", layout)
        if layout == "auto" and chosen != "alveus":
            session.note(f"{source.name} is read as {chosen}")
        target = _checked_target(chosen, target, knowledge)
        on_invalid: transfer.OnInvalid = "error" if strict else "skip"
        with session.progress("checking") as advance:
            found = transfer.survey(source, chosen, target, on_invalid=on_invalid, progress=advance)
        _name_invalid(session, found)
        if dry_run:
            _show(session, found)
            _end(found)
            return
        with session.open(knowledge=knowledge, make=Memory.stats) as memory:
            load = transfer.Load(memory, on_existing=on_existing, on_invalid=on_invalid)
            with session.progress("importing", total=found.entries) as advance:
                done = load.run(source, chosen, target, progress=advance)
            if not no_wait:
                session.settle(memory)
    if done.unlinked:
        session.note(
            f"{done.unlinked:,} items were made of something that is not there: they keep its id "
            "among their sources, but their lineage ends, and forgetting it does not reach them"
        )
    counts = output.attributes(done, " ".join(transfer.Loaded.__slots__))
    session.done(_summary(done, found), counts | _audit(found))
    _end(found)


def _name_invalid(session: Session, found: transfer.Survey) -> None:
    for problem in found.problems[:SHOWN]:
        session.note(f"left out: {problem}")
    if found.invalid > SHOWN:
        session.note(f"and {found.invalid - SHOWN:,} more are left out (--json names them)")


def _end(found: transfer.Survey) -> None:
    """End with `LEFT_OUT` if a record is unusable."""
    if found.invalid:
        raise click.exceptions.Exit(LEFT_OUT)


@contextmanager
def checked_messages(
    session: Session, file: str, key: str, name: str
) -> Generator[Callable[[Memory], None]]:
    """Check a file of chat messages. Yield a function that adds each of them once.

    Args:
        name: The conversation.

    Raises:
        InvalidInput: The file has no usable message. No memory was opened.
        Exit: With `LEFT_OUT`, at the end of the block, if a line is not a message.
    """
    target = transfer.Target(key, name)
    with _source(file) as source:
        with session.progress("checking") as advance:
            found = transfer.survey(source, "chat", target, on_invalid="skip", progress=advance)
        _name_invalid(session, found)

        def load(memory: Memory) -> None:
            loading = transfer.Load(memory, on_existing="keep", on_invalid="skip")
            if name not in memory.key(key).sets():
                loading.define(transfer.SetLine(key, name, Definition(item_type=MESSAGES)))
            with session.progress("importing", total=found.entries) as advance:
                loading.run(source, "chat", target, progress=advance)

        yield load
        _end(found)


def _checked_target(
    layout: transfer.Layout, target: transfer.Target, knowledge: str | None
) -> transfer.Target:
    if layout in transfer.OWN_TARGETS and target.key is target.key_from is knowledge is None:
        return replace(target, key_from=transfer.OWN_TARGETS[layout].key_from)
    if layout != "alveus":
        if target.key_from is None:
            Owner(target.key, knowledge)
        elif knowledge is not None:
            raise click.UsageError(
                "--key-from and --knowledge cannot be combined; leave out one of them"
            )
        return target
    if target != transfer.Target(None, target.set):
        raise click.UsageError(
            "an export already has keys, times and texts; leave out --key, --zone and --…-from"
        )
    return target


def _audit(found: transfer.Survey) -> dict[str, output.Json]:
    return {
        "format": found.layout,
        "items": sum(found.items.values()),
        "keys": found.keys,
        "skipped": dict(found.skipped),
        "invalid": found.invalid,
        "problems": list(found.problems),
        "replaced_characters": found.replaced,
    }


def _show(session: Session, found: transfer.Survey) -> None:
    """Print the contents of a file for a dry run."""
    if session.json:
        sets: list[output.Json] = [
            {"key": key, "set": name, "items": count} for (key, name), count in found.items.items()
        ]
        sample = [output.wired(line.fields()) for line in found.sample]
        output.document(_audit(found) | {"dry_run": True, "places": sets, "sample": sample})
        return
    session.answer(f"nothing is written; it would be {_amount(found)}")
    largest = sorted(found.items.items(), key=lambda each: (-each[1], str(each[0])))
    for (key, name), count in largest[:SHOWN]:
        owner = "knowledge" if key is None else f"key {key!r}"
        session.answer(f"  {count:>9,}  {owner}, set {name!r}")
    if len(found.items) > SHOWN:
        session.answer(f"  and {len(found.items) - SHOWN:,} more (--json lists all)")
    if not session.quiet:
        rows = (output.item_row(_sample(line), session.zone) for line in found.sample)
        output.table(output.ITEM_COLUMNS, rows, header=True)


def _sample(line: transfer.ItemLine) -> Item:
    text = text_of(line.item.value) if line.item.text is None else line.item.text
    return replace(line.item, set_name=line.set, text=text)


def _amount(found: transfer.Survey) -> str:
    """Return a text with the number of items in a file, and of records left out by each reason."""
    keys = f" of {found.keys:,} keys" if found.keys > 1 else ""
    amount = f"{output.plural(sum(found.items.values()), 'item')}{keys}"
    left = [f"{count:,} left out: each {reason}" for reason, count in found.skipped.items()]
    if found.invalid:
        left.append(f"{output.plural(found.invalid, 'record')} left out that cannot be used")
    if found.replaced:
        left.append(replaced_note(found.replaced).removesuffix("."))
    return "; ".join([amount, *left])


def _summary(done: transfer.Loaded, found: transfer.Survey) -> str:
    counts = (
        (done.added, "item", " added"),
        (done.kept, "", "were there"),
        (done.updated, "", "updated"),
        (done.sets, "set", " made"),
        (done.values, "value", " set"),
        (done.values_kept, "value", " there already"),
        (done.expired, "", "had expired"),
        (done.commits, "commit", " done"),
        (done.commits_kept, "commit", " there already"),
        (done.linked, "item", " linked to what it was made of"),
    )
    said = ", ".join(
        f"{output.plural(count, noun) if noun else f'{count:,} '}{what}"
        for count, noun, what in counts
        if count
    )
    return f"{said or 'nothing new'} (in the file: {_amount(found)})"


@contextmanager
def _source(file: str) -> Generator[transfer.Source]:
    """Open a file for two reads. Stdin is copied to a temporary file."""
    if file != "-":
        with transfer.opened(file) as source:
            source.name = click.format_filename(file)
            yield source
        return
    with tempfile.TemporaryFile() as kept:
        while block := sys.stdin.buffer.read(BLOCK):
            kept.write(block)
        yield transfer.Source("stdin", kept)


@options.command("export")
def export_command(
    session: Session,
    *,
    file: str = argument(type=options.FileName(allow_dash=True), default="-"),
    keys: tuple[str, ...] = options.KEYS,
    knowledge: str | None = options.knowledge_option("Only the sets of this knowledge."),
    set_names: tuple[str, ...] = options.SETS,
    history: bool = option("--history", "Export every commit, not only the present state."),
    force: bool = options.FORCE,
) -> None:
    """Write the memory as JSON lines, which import reads.

    Writes to stdout unless FILE is named. Without options: all keys with their sets and exact
    trees, and the knowledge of the space, all at one moment. With --history: all commits, so with
    earlier versions, retired items, compactions and lineage; import repeats them in a new store.
    Runs and outputs are kept by alveus backup alone.

    Example: alveus export ada.jsonl --key ada
    """
    selection = transfer.Selection(
        keys=keys or (() if knowledge is not None else None),
        sets=set_names or None,
        knowledge=knowledge is not None or not keys,
        trees=not set_names,
    )
    with session.open(knowledge=knowledge, mode="ro") as memory, sink(file, force=force) as write:
        for key in keys:
            Owner(key=key).require_key(session, memory)
        total = None if history else transfer.exported_items(memory, selection)
        found = (transfer.history_lines if history else transfer.export_lines)(memory, selection)
        lines = 0
        with session.progress("exporting", total=total) as advance:
            for line in found:
                write(line.encode() + b"\n")
                lines += 1
                if line.startswith('{"type":"item"'):
                    advance(1)
        if set_names and lines == 1:
            named = " or ".join(map(repr, set_names))
            session.nothing(f"nothing to export: there is no set {named}; alveus sets lists them")
        if history and (left := _left_out(memory)):
            session.note(f"not in it: {left}; alveus backup keeps them")
    if file != "-":
        session.done(
            f"{output.plural(lines, 'line')} written to {file}", {"file": file, "lines": lines}
        )


def _left_out(memory: Memory) -> str:
    """Return, in words, the contents that an export of history leaves out, or ""."""
    store = memory.stats().store
    runs = store.runs_waiting + store.runs_parked + store.runs_ended
    left = [f"the {runs:,} runs of the store, with their inputs and outputs"] if runs else []
    return " and ".join([*left, *(["the receipts of forgetting"] if memory.receipts() else [])])

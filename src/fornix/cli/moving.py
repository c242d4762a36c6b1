"""Memory in and out of files: import and export."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click

from fornix.cli import names
from fornix.cli.files import sink
from fornix.cli.options import (
    FileName,
    command,
    key_option,
    knowledge_option,
    set_option,
    sets_option,
)
from fornix.cli.progress import progress, settle
from fornix.cli.session import Owner, Session
from fornix.errors import InvalidInput
from fornix.sets import OnExisting
from fornix.transfer import (
    Layout,
    Load,
    Loaded,
    Selection,
    Source,
    Target,
    check,
    export_lines,
    exported_items,
)

BLOCK = 1 << 20

FILE = click.argument("file", type=FileName(allow_dash=True))


@command("import")
@FILE
@key_option
@knowledge_option
@set_option
@click.option(
    "--format",
    "layout",
    type=click.Choice(["auto", "fornix", "chat", "conversation"]),
    default="auto",
    show_default=True,
    help="What the lines are.",
)
@click.option(
    "--on-existing",
    type=click.Choice(["keep", "update", "error"]),
    default="keep",
    show_default=True,
    help="What to do with an item or a value that is there already.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until all is found by meaning.")
def import_file(  # noqa: PLR0913 - an option each, as click passes them
    session: Session,
    *,
    file: str,
    key: str | None,
    knowledge: str | None,
    set_name: str,
    layout: str,
    on_existing: OnExisting,
    no_wait: bool,
) -> None:
    """Import FILE ("-": stdin): what export wrote, or a chat, a line per message.

    The whole file is read and checked before anything is written. Interrupted, the same command
    goes on where it was and adds nothing twice. A chat needs --key (or --knowledge).
    See docs/import-export.md. With --json: the counts of what was added, kept and updated.
    """
    with _source(file) as source:
        chosen = source.layout() if layout == "auto" else cast("Layout", layout)
        target = _target(chosen, key, knowledge, set_name)
        total = check(source, chosen, target)
        with session.open(knowledge=knowledge, make=True) as memory:
            load = Load(memory, on_existing=on_existing)
            with progress(session, "importing", total=total) as advance:
                done = load.run(source, chosen, target, progress=advance)
            if not no_wait:
                settle(session, memory)
    session.done(_told(done), {name: getattr(done, name) for name in Loaded.__slots__})


def _target(layout: Layout, key: str | None, knowledge: str | None, set_name: str) -> Target | None:
    if layout != "fornix":
        Owner(key, knowledge)
        return Target(key, set_name)
    if key is not None:
        raise click.UsageError("an export names its own keys; leave --key out")
    return None


def _told(done: Loaded) -> str:
    counts = {
        "items added": done.added,
        "were there": done.kept,
        "updated": done.updated,
        "sets made": done.sets,
        "values set": done.values,
        "values were there": done.values_kept,
        "values had expired": done.expired,
    }
    return (
        ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing new"
    )


@contextmanager
def _source(file: str) -> Generator[Source]:
    """Open what is to be read twice; stdin is kept in a file meanwhile."""
    if file != "-":
        if Path(file).is_dir():
            raise InvalidInput(f"{click.format_filename(file)} is a folder; name a file in it")
        with Path(file).open("rb") as handle:
            yield Source(click.format_filename(file), handle)
        return
    with tempfile.TemporaryFile() as kept:
        while block := sys.stdin.buffer.read(BLOCK):
            kept.write(block)
        yield Source("stdin", kept)


@command("export")
@click.argument("file", type=FileName(allow_dash=True), default="-")
@click.option(
    "--key", "-k", "keys", metavar="KEY", multiple=True, shell_complete=names.keys,
    help="Only this key; may be repeated. Default: all keys, and the knowledge.",
)  # fmt: skip
@knowledge_option
@sets_option
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def export_file(
    session: Session,
    *,
    file: str,
    keys: tuple[str, ...],
    knowledge: str | None,
    set_names: tuple[str, ...],
    force: bool,
) -> None:
    """Write the memory to FILE (by default to stdout) as JSON lines, which import reads.

    All keys, sets and exact trees of the space, and the knowledge of its name: one unmoving state.
    Retired items and history are not exported; fornix backup keeps them.
    """
    selection = Selection(
        keys=keys or (() if knowledge is not None else None),
        sets=set_names or None,
        knowledge=knowledge is not None or not keys,
        trees=not set_names,
    )
    with session.open(knowledge=knowledge, mode="ro") as memory, sink(file, force=force) as write:
        total = exported_items(memory, selection)
        lines = 0
        with progress(session, "exporting", total=total) as advance:
            for line in export_lines(memory, selection):
                write(line.encode() + b"\n")
                lines += 1
                if line.startswith('{"type":"item"'):
                    advance(1)
    if file != "-":
        session.done(f"{lines:,} lines written to {file}", {"file": file, "lines": lines})

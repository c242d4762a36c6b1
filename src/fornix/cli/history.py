"""What was: differences between two moments, and history that is let go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click
from rich.text import Text

from fornix.cli import completion_names, output, tables
from fornix.cli.options import command, parsed, read_moment
from fornix.cli.progress import progress
from fornix.cli.session import Session
from fornix.memory.differences import ChangedItem, ChangedValue, Difference
from fornix.store.items import Item
from fornix.values.storable import Value
from fornix.values.times import read_time

WIDEST = 200
"""Characters of a value or text that a line shows."""

_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@command("diff")
@click.argument("key", shell_complete=completion_names.keys)
@click.argument("a", metavar="A", callback=parsed(read_moment))
@click.argument("b", metavar="[B]", callback=parsed(read_moment), required=False)
@click.option("--set", "-s", "set_names", metavar="NAME", multiple=True, help="Only this set.")
@click.option("--tree", is_flag=True, help="Only exact memory.")
def diff(
    session: Session,
    *,
    key: str,
    a: int | datetime,
    b: int | datetime | None,
    set_names: tuple[str, ...],
    tree: bool,
) -> None:
    """Show what changed in the memory of KEY from A to B: commits, or times; without B to now.

    Exact memory and all sets, unless --tree or --set names what to look at; --set may be repeated.
    With --json: {"key": …, "since": …, "until": …, "tree": [{"kind": "added" | "removed" |
    "changed", "path": …, "before": …, "after": …}], "items": [{"kind": …, "set": …, "id": …,
    "before": …, "after": …}]}.
    """
    with session.open(mode="ro") as memory:
        found = memory.diff(
            key,
            a,
            b,
            sets=list(set_names) if set_names or tree else None,
            tree="skip" if set_names and not tree else "show",
        )
        known = bool(found) or key in memory.keys()  # noqa: SIM118 - a method, not a dict's
    if session.json:
        output.document(_document(found))
    elif not known:
        session.nothing(f"nothing is kept under key {key!r}; `fornix keys` lists those there are")
    elif not found:
        session.nothing(f"key {key!r} is the same after commits {found.since} and {found.until}")
    else:
        for line in _lines(found):
            tables.console().print(line, soft_wrap=True)


def _document(found: Difference) -> output.Json:
    tree: list[output.Json] = [
        {
            "kind": change.kind,
            "path": change.path if isinstance(change.path, str) else list(change.path),
            "before": output.wired(change.before),
            "after": output.wired(change.after),
        }
        for change in found.tree
    ]
    items: list[output.Json] = [
        {
            "kind": change.kind,
            "set": change.set_name,
            "id": change.id,
            "before": None if change.before is None else output.item_fields(change.before),
            "after": None if change.after is None else output.item_fields(change.after),
        }
        for change in found.items
    ]
    return {
        "key": found.key,
        "since": found.since,
        "until": found.until,
        "tree": tree,
        "items": items,
    }


def _lines(found: Difference) -> Iterator[Text]:
    for change in found.tree:
        yield _value_line(change)
    name = None
    for item in found.items:
        if item.set_name != name:
            name = item.set_name
            yield Text(f"set {output.one_line(name)}", style="bold")
        yield from _item_lines(item)


def _value_line(change: ChangedValue) -> Text:
    path = change.path if isinstance(change.path, str) else output.inline(list(change.path))
    parts = {
        "added": _value(change.after),
        "removed": _value(change.before),
        "changed": f"{_value(change.before)} → {_value(change.after)}",
    }
    return _marked(change.kind, f"{output.one_line(path)}: {parts[change.kind]}")


def _item_lines(change: ChangedItem) -> Iterator[Text]:
    yield _marked(change.kind, output.one_line(change.id))
    for sign, style, item in (("-", "red", change.before), ("+", "green", change.after)):
        if item is not None:
            yield Text(f"    {sign} {_said(item)}", style=style)


def _said(item: Item) -> str:
    return _short(output.one_line(item.text or output.inline(output.wired(item.value))))


def _value(value: Value) -> str:
    return _short(output.one_line(output.inline(output.wired(value))))


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[:WIDEST]} …"


def _marked(kind: str, text: str) -> Text:
    sign, style = _MARKS[kind]
    return Text(f"{sign} {text}", style=style)


@command("prune-history")
@click.option(
    "--before",
    metavar="TIME",
    required=True,
    callback=parsed(read_time),
    help="What exact memory was before this time is let go.",
)
def prune_history(session: Session, *, before: datetime) -> None:
    """Remove what exact memory was before a time, for good, of all keys.

    What it is now stays, and so does the last day. Reads of an earlier moment are an error from
    then on. Sets are pruned by their retention. With --json: {"removed": …}.
    """
    with session.open() as memory, progress(session, "pruning", total=None) as advance:
        removed = memory.prune_history(before=before, progress=advance)
    session.done(f"removed {removed:,} versions", {"removed": removed})

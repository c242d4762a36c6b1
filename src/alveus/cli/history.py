"""What was: differences between two moments, and history that is let go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click
from rich.text import Text

from alveus.cli import options, output, tables
from alveus.cli.session import Session
from alveus.memory.differences import ChangedItem, ChangedValue, Difference
from alveus.server import json_forms
from alveus.store.items import Item
from alveus.values.storable import Value

_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@options.command("diff")
@click.argument("since", callback=options.parsed(options.read_begin))
@click.argument(
    "until", metavar="[UNTIL]", callback=options.parsed(options.read_moment), required=False
)
@options.required_key_option
@options.sets_option
@options.option("--tree", "Only exact memory.")
def diff_command(
    session: Session,
    *,
    since: int | datetime,
    until: int | datetime | None,
    key: str,
    set_names: tuple[str, ...],
    tree: bool,
) -> None:
    """Show what changed in a key's memory between two moments.

    SINCE and UNTIL are commit numbers, times, or days where you are: from the begin of the day
    SINCE to the end of the day UNTIL; without UNTIL it is now. Compares exact memory and
    all sets, unless --tree or --set names what to compare.
    With --json: {"key": …, "since": …, "until": …, "tree": [{"kind": "added" | "removed" |
    "changed", "path": …, "before": …, "after": …}], "items": [{"kind": …, "set": …, "id": …,
    "before": …, "after": …}]}.

    Example: alveus diff 2025-01-01T00:00:00Z --key ada
    """
    with session.open(mode="ro") as memory:
        found = memory.diff(
            key,
            since,
            until,
            sets=list(set_names) if set_names or tree else None,
            tree="skip" if set_names and not tree else "show",
        )
        known = bool(found) or key in memory.keys()  # noqa: SIM118 - a method, not a dict's
    if session.json:
        output.document(json_forms.difference_fields(found))
    elif not known:
        session.nothing(f"nothing is kept under key {key!r}; `alveus keys` lists those there are")
    elif not found:
        session.nothing(f"key {key!r} is the same after commits {found.since} and {found.until}")
    else:
        for line in _lines(found):
            tables.console().print(line, soft_wrap=True)


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
    return output.short(item.text or output.inline(output.wired(item.value)))


def _value(value: Value) -> str:
    return output.short(output.inline(output.wired(value)))


def _marked(kind: str, text: str) -> Text:
    sign, style = _MARKS[kind]
    return Text(f"{sign} {text}", style=style)


@options.command("prune-history")
@options.option(
    "--before TIME",
    "Remove values that were replaced before this time.",
    read=options.read_time,
    required=True,
)
def prune_history_command(session: Session, *, before: datetime) -> None:
    """Remove what exact memory was before a time, for good.

    Applies to all keys. Present values and those of the last day stay. Reads of an earlier moment
    fail from then on. Sets are pruned by their own retention. With --json: {"removed": …}.

    Example: alveus prune-history --before 2025-01-01T00:00:00Z
    """
    with session.open() as memory, session.progress("pruning") as advance:
        removed = memory.prune_history(before=before, progress=advance)
    session.done(f"removed {output.plural(removed, 'version')}", {"removed": removed})

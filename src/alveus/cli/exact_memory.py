"""The commands of exact memory: tree, get, set, rm; and of its past: diff, prune-history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NoReturn, cast

import click
from rich.text import Text
from rich.tree import Tree

from alveus.cli import options, output, tables
from alveus.cli.options import Moment, argument, option
from alveus.cli.session import Owner, Session
from alveus.errors import InvalidInput
from alveus.memory.maintenance import ChangedItem, ChangedValue, Difference
from alveus.memory.memory import Memory
from alveus.server.json_forms import replaced_field
from alveus.state import MISSING, MemoryKind, MemoryObject, MemoryRef
from alveus.state.paths import DottedPath, dotted, path_names
from alveus.store import Node, Scope
from alveus.transfer import walk_tree
from alveus.values.storable import Path, Value


def _shown(path: DottedPath) -> str:
    """Return a path as these commands accept it."""
    names = path_names(path)
    text = dotted(names)
    if isinstance(text, str) and not text.startswith("["):
        return text
    return output.inline(list(names))


@options.command("tree")
def tree_command(
    session: Session,
    *,
    path: DottedPath = options.path_argument(default=""),
    key: str = options.KEY,
) -> None:
    """Show the exact memory of a key, or a part of it.

    PATH is dotted, such as profile.city. If a name has a dot, PATH is a JSON list: '["a.b", "c"]'.
    With --json: the value at PATH; an object is a JSON object.

    Example: alveus tree profile --key ada
    """
    with session.open(mode="ro") as memory:
        found = cast("object", memory.key(key).short_term.get(path, MISSING))
        if found is MISSING:
            _nothing(session, memory, key, path)
        if not isinstance(found, MemoryObject):
            _print_value(session, cast("Value", found))
        elif not path and not len(found):
            says = f"key {key!r} has no exact memory; alveus set PATH VALUE --key {key} makes it"
            session.nothing(says + Owner(key).near_keys(session, memory), {})
        elif session.json:
            output.document(output.wired(found.to_dict()))
        else:
            tables.console().print(drawn(memory, key, path), soft_wrap=True)


def _nothing(session: Session, memory: Memory, key: str, path: DottedPath) -> NoReturn:
    near = Owner(key).near_keys(session, memory)
    known = near or f"; alveus tree --key {key} shows what is there"
    session.nothing(f"key {key!r} has nothing at {_shown(path)!r}{known}")


@options.command("get")
def get_command(
    session: Session,
    *,
    path: DottedPath = options.path_argument(),
    key: str = options.KEY,
    as_of: Moment = options.AS_OF,
) -> None:
    """Print one value of exact memory.

    Text is printed as it is; other values, and text that reads as one, as JSON. What is printed
    restores the value: alveus set PATH "$(alveus get PATH --key ada)" --key ada.
    An object has no value: alveus tree shows its fields. alveus show shows an item.
    With --json: the value.

    Example: alveus get profile.city --key ada
    """
    with session.open(mode="ro") as memory:
        exact = memory.key(key).short_term
        found = cast("object", (exact if as_of is None else exact.at(as_of)).get(path, MISSING))
        if found is MISSING:
            _nothing(session, memory, key, path)
    if isinstance(found, MemoryObject):
        where = f"{_shown(path)!r} of key {key!r}" if path else f"the exact memory of key {key!r}"
        raise InvalidInput(f"{where} is an object, not a value; alveus tree shows its fields")
    _print_value(session, cast("Value", found))


def _print_value(session: Session, value: Value) -> None:
    """Print a value in a form that `read_value` reads back."""
    if session.json:
        output.document(output.wired(value))
    elif isinstance(value, str) and _reads_as_itself(value):
        click.echo(value)
    else:
        click.echo(output.shown(value))


def _reads_as_itself(text: str) -> bool:
    """Return whether a shell and `alveus set` read *text* back as the same text."""
    if text != output.plain(text) or text.startswith("-") or text.endswith("\n"):
        return False
    try:
        return options.read_value(text) == text
    except click.UsageError:
        return False


def drawn(memory: Memory, key: str, top_path: DottedPath) -> Tree:
    """Return a drawing of the exact tree of *key* below *top_path*."""
    start = MemoryRef(MemoryKind.SHORT_TERM, top_path).names if top_path else ()
    now = time.time_ns() // 1000
    top = Tree(Text(output.one_line(".".join((key, *start))), style="bold"))
    drawn: dict[Path, Tree] = {start: top}
    nodes = walk_tree(memory.store, Scope(memory.space, key), at=None, now=now, start=start)
    for path, node in nodes:
        drawn[path] = drawn[path[:-1]].add(_label(path[-1], node, now))
    return top


def _label(name: str, node: Node, now: int) -> Text:
    label = Text(output.one_line(name), style="bold" if node.is_object else "")
    if not node.is_object:
        label.append(": ", style="dim")
        label.append(output.short(output.shown(node.value)), style="cyan")
    if node.expires is not None:
        left = timedelta(seconds=round((node.expires - now) / 1e6))
        label.append(f"  ({left} left)", style="dim")
    return label


@options.command("set")
def set_command(
    session: Session,
    *,
    path: DottedPath = options.path_argument(),
    value: str = argument(),
    key: str = options.KEY,
    ttl: timedelta | None = options.TTL,
    as_text: bool = option("--text", "Store VALUE as text, even if it is JSON."),
) -> None:
    """Set one value of exact memory.

    VALUE is read as JSON. A VALUE that is not JSON is stored as text. Objects on the way to PATH
    are made, and so is the memory if there is none. alveus get prints a VALUE that restores it.
    With --json: {"key": …, "path": […], "value": …}.

    Example: alveus set profile.city Lisbon --key ada
    """
    found, replaced = session.valid(value if as_text else options.read_value(value))

    def change(memory: Memory) -> MemoryRef:
        return memory.key(key).short_term.set(path, found, ttl=ttl)

    with session.open(make=change) as memory:
        names = change(memory).names
    wired = output.wired(found)
    says = f"{key} {_shown(path)} = {output.inline(wired)}"
    done: dict[str, output.Json] = {"key": key, "path": list(names), "value": wired}
    session.done(says, done | replaced_field(replaced))


@options.command("rm")
def rm_command(
    session: Session, *, path: DottedPath = options.path_argument(), key: str = options.KEY
) -> None:
    """Remove a value or an object from exact memory.

    Removing an object removes everything below it. alveus delete deletes items.
    With --json: {"removed": count}.

    Example: alveus rm profile.city --key ada
    """
    with session.open() as memory:
        removed = int(memory.key(key).short_term.delete(path))
    if not removed:
        session.nothing("nothing was there to remove", {"removed": 0})
    session.done(f"removed {_shown(path)} of key {key!r}", {"removed": removed})


# --- the past ---------------------------------------------------------------------------------

_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@options.command("diff")
def diff_command(
    session: Session,
    *,
    since: int | datetime = argument(callback=options.parsed(options.read_begin)),
    until: Moment = argument(
        "[UNTIL]", callback=options.parsed(options.read_moment), required=False
    ),
    key: str = options.KEY,
    set_names: tuple[str, ...] = options.SETS,
    tree: bool = option("--tree", "Only exact memory."),
) -> None:
    """Show what changed in a key's memory between two moments.

    SINCE and UNTIL are commit numbers, times, or days where you are: from the start of the day
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
        output.document(output.fields_of(found))
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
    before, after = (output.short(output.shown(one)) for one in (change.before, change.after))
    parts = {"added": after, "removed": before, "changed": f"{before} → {after}"}
    return _marked(change.kind, f"{output.one_line(path)}: {parts[change.kind]}")


def _item_lines(change: ChangedItem) -> Iterator[Text]:
    yield _marked(change.kind, output.one_line(change.id))
    for sign, style, item in (("-", "red", change.before), ("+", "green", change.after)):
        if item is not None:
            said = output.short(item.text or output.shown(item.value))
            yield Text(f"    {sign} {said}", style=style)


def _marked(kind: str, text: str) -> Text:
    sign, style = _MARKS[kind]
    return Text(f"{sign} {text}", style=style)


@options.command("prune-history")
def prune_history_command(
    session: Session,
    *,
    before: datetime = option(
        "--before TIME", "Remove values that were replaced before this time.", required=True
    ),
) -> None:
    """Remove the values that exact memory had before a time.

    Applies to all keys. Present values and those of the last day stay. Reads of an earlier moment
    fail from then on. Sets have their retention for that. With --json: {"removed": …}.

    Example: alveus prune-history --before 2025-01-01T00:00:00Z
    """
    with session.open() as memory, session.progress("pruning") as advance:
        removed = memory.prune_history(before=before, progress=advance)
    session.done(f"removed {output.plural(removed, 'version')}", {"removed": removed})

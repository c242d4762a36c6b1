"""Exact memory: tree, get, set, rm."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, cast

import click
from rich.text import Text
from rich.tree import Tree

from alveus.cli import options, output, tables
from alveus.cli.session import Owner, Session
from alveus.errors import InvalidInput
from alveus.memory.memory import Memory
from alveus.server import json_forms
from alveus.state import MISSING, MemoryKind, MemoryObject, MemoryRef
from alveus.state.paths import DottedPath, dotted, path_names
from alveus.store import Node, Scope
from alveus.transfer import walk_tree
from alveus.values.storable import Path, Value
from alveus.values.times import read_span

if TYPE_CHECKING:
    from datetime import datetime


def _shown(path: DottedPath) -> str:
    """Return a path as these commands take it."""
    names = path_names(path)
    text = dotted(names)
    if isinstance(text, str) and not text.startswith("["):
        return text
    return output.inline(list(names))


@options.command("tree")
@options.path_argument(default="")
@options.required_key_option
def tree_command(session: Session, *, path: DottedPath, key: str) -> None:
    """Show the exact memory of a key, or a part of it.

    PATH is dotted, such as profile.city; where a name holds a dot, a JSON list: '["a.b", "c"]'.
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
@options.path_argument()
@options.required_key_option
@options.as_of_option
def get_command(
    session: Session, *, path: DottedPath, key: str, as_of: int | datetime | None
) -> None:
    """Print one value of exact memory.

    Text is printed as it is; other values, and text that reads as one, as JSON. What is printed
    restores the value: alveus set PATH "$(alveus get PATH --key ada)" --key ada.
    An object has no value of its own: alveus tree shows its fields. alveus show shows an item.
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
    """Print a value such that `read_value` reads it back."""
    if session.json:
        output.document(output.wired(value))
    elif isinstance(value, str) and _reads_as_itself(value):
        click.echo(value)
    else:
        click.echo(output.inline(output.wired(value)))


def _reads_as_itself(text: str) -> bool:
    """Return whether `alveus set`, and a shell on the way to it, take *text* for this text."""
    if text != output.plain(text) or text.startswith("-") or text.endswith("\n"):
        return False
    try:
        return options.read_value(text) == text
    except click.UsageError:
        return False


def drawn(memory: Memory, key: str, path: DottedPath) -> Tree:
    """Return the exact tree of *key*, from *path* down, as it is drawn."""
    start = MemoryRef(MemoryKind.SHORT_TERM, path).names if path else ()
    now = time.time_ns() // 1000
    top = Tree(Text(output.one_line(".".join((key, *start))), style="bold"))
    drawn: dict[Path, Tree] = {start: top}
    nodes = walk_tree(memory.store, Scope(memory.space, key), at=None, now=now, start=start)
    for place, node in nodes:
        drawn[place] = drawn[place[:-1]].add(_label(place[-1], node, now))
    return top


def _label(name: str, node: Node, now: int) -> Text:
    label = Text(output.one_line(name), style="bold" if node.is_object else "")
    if not node.is_object:
        label.append(": ", style="dim")
        label.append(output.short(output.inline(output.wired(node.value))), style="cyan")
    if node.expires is not None:
        left = timedelta(seconds=round((node.expires - now) / 1e6))
        label.append(f"  ({left} left)", style="dim")
    return label


@options.command("set")
@options.path_argument()
@click.argument("value")
@options.required_key_option
@options.option(
    "--ttl SPAN", "Remove it after a span of time, such as 90s, 10m, 12h, 7d or 2w.", read=read_span
)
@options.option("--text as_text", "Store VALUE as text, even if it is JSON.")
def set_command(
    session: Session,
    *,
    path: DottedPath,
    value: str,
    key: str,
    ttl: timedelta | None,
    as_text: bool,
) -> None:
    """Set one value of exact memory.

    VALUE is read as JSON; what is not JSON is text. Objects on the way to PATH are made, and so
    is the memory if there is none. alveus get prints what restores the value.
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
    session.done(says, done | json_forms.replaced_field(replaced))


@options.command("rm")
@options.path_argument()
@options.required_key_option
def rm_command(session: Session, *, path: DottedPath, key: str) -> None:
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

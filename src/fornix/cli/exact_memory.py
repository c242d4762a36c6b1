"""Exact memory: tree, set, rm; and items that rm retires."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import cast

import click
from rich.text import Text
from rich.tree import Tree

from fornix.cli import completion_names, output, tables
from fornix.cli.options import (
    command,
    key_option,
    knowledge_option,
    parsed,
    read_path,
    read_value,
    set_option,
)
from fornix.cli.session import Owner, Session
from fornix.memory.memory import Memory
from fornix.state import MISSING, MemoryKind, MemoryObject, MemoryRef
from fornix.store import Node, Scope
from fornix.transfer import walk_tree
from fornix.values.storable import Path, Value
from fornix.values.times import read_span

KEY = click.argument("key", shell_complete=completion_names.keys)
WIDEST = 200
"""Characters of a value that a tree shows."""


@command("tree")
@KEY
@click.argument(
    "path", callback=parsed(read_path), default="", shell_complete=completion_names.paths
)
def tree(session: Session, *, key: str, path: str | tuple[str, ...]) -> None:
    """Show the exact memory of KEY, or what is at PATH in it.

    PATH is dotted, such as profile.city; where a name holds a dot, a JSON list: '["a.b", "c"]'.
    With --json: the value, an object as a JSON object.
    """
    with session.open(mode="ro") as memory:
        found = cast("object", memory.key(key).short_term.get(path, MISSING))
        if found is MISSING:
            session.nothing(f"key {key!r} has nothing at {path!r}; fornix tree {key} shows it all")
        if not isinstance(found, MemoryObject):
            _show_value(session, cast("Value", found))
        elif not path and not len(found):
            says = f"key {key!r} has no exact memory; fornix set {key} PATH VALUE makes it"
            session.nothing(says, {})
        elif session.json:
            output.document(output.wired(found.to_dict()))
        else:
            tables.console().print(drawn(memory, key, path), soft_wrap=True)


def _show_value(session: Session, value: Value) -> None:
    if session.json:
        output.document(output.wired(value))
    else:
        click.echo(
            output.plain(value) if isinstance(value, str) else output.inline(output.wired(value))
        )


def drawn(memory: Memory, key: str, path: str | tuple[str, ...]) -> Tree:
    """Return the exact tree of *key*, from *path* down, as it is drawn."""
    start = MemoryRef(MemoryKind.SHORT_TERM, path).names if path else ()
    now = time.time_ns() // 1000
    top = Tree(Text(output.one_line(".".join((key, *start)) if start else key), style="bold"))
    drawn: dict[Path, Tree] = {start: top}
    nodes = walk_tree(memory.store, Scope(memory.space, key), at=None, now=now, start=start)
    for place, node in nodes:
        drawn[place] = drawn[place[:-1]].add(_label(place[-1], node, now))
    return top


def _label(name: str, node: Node, now: int) -> Text:
    label = Text(output.one_line(name), style="bold" if node.is_object else "")
    if not node.is_object:
        value = output.one_line(output.inline(output.wired(node.value)))
        label.append(": ", style="dim")
        label.append(value if len(value) <= WIDEST else value[:WIDEST] + " …", style="cyan")
    if node.expires is not None:
        left = timedelta(seconds=round((node.expires - now) / 1e6))
        label.append(f"  ({left} left)", style="dim")
    return label


@command("set")
@KEY
@click.argument("path", callback=parsed(read_path), shell_complete=completion_names.paths)
@click.argument("value")
@click.option(
    "--ttl", metavar="SPAN", callback=parsed(read_span), help="Forget it after 90s 10m 12h 7d 2w."
)
@click.option(
    "--text", "as_text", is_flag=True, help="Store VALUE as the text it is, also 42 or true."
)
def set_value(
    session: Session,
    *,
    key: str,
    path: str | tuple[str, ...],
    value: str,
    ttl: timedelta | None,
    as_text: bool,
) -> None:
    """Set VALUE at PATH in the exact memory of KEY.

    VALUE is read as JSON; what is not JSON is text. Objects on the way are made.
    A negative number needs "--" before it: fornix set ada balance -- -3.
    With --json: {"key": …, "path": […], "value": …}.
    """
    found = value if as_text else read_value(value)
    with session.open(make=True) as memory:
        ref = memory.key(key).short_term.set(path, found, ttl=ttl)
    fields: dict[str, output.Json] = {
        "key": key,
        "path": list(ref.names),
        "value": output.wired(found),
    }
    session.done(f"{key} {'.'.join(ref.names)} = {output.inline(output.wired(found))}", fields)


@command("rm")
@click.argument("words", metavar="[KEY PATH]", nargs=-1, shell_complete=completion_names.keys)
@key_option
@knowledge_option
@set_option
@click.option(
    "--item", "item_ids", metavar="ID", multiple=True, help="An item to delete; may be repeated."
)
def remove(
    session: Session,
    *,
    words: tuple[str, ...],
    key: str | None,
    knowledge: str | None,
    set_name: str,
    item_ids: tuple[str, ...],
) -> None:
    """Remove what is at PATH in the exact memory of KEY; or items, with --key and --item.

    Items are retired: gone from every read of the present, kept in their history.
    With --json: {"removed": count}.
    """
    if bool(words) == bool(item_ids):
        raise click.UsageError("write KEY PATH for exact memory, or --key KEY --item ID for items")
    if item_ids:
        removed = _remove_items(session, Owner(key, knowledge), set_name, item_ids)
    elif key is not None or knowledge is not None or len(words) != 2:  # noqa: PLR2004 - KEY PATH
        raise click.UsageError("exact memory is named by KEY PATH: fornix rm ada profile.city")
    else:
        removed = _remove_path(session, *words)
    if not removed:
        session.nothing("nothing was there to remove", {"removed": 0})
    session.done(f"removed {removed}", {"removed": removed})


def _remove_items(session: Session, owner: Owner, set_name: str, ids: tuple[str, ...]) -> int:
    with session.open(knowledge=owner.knowledge) as memory:
        return owner.of(memory).set(set_name).delete(ids)


def _remove_path(session: Session, key: str, words: str) -> int:
    with session.open() as memory:
        return int(memory.key(key).short_term.delete(read_path(words)))

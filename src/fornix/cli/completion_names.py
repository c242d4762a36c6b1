"""Names for shell completion: read from the memory, quickly, and never in the way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

import fornix
from fornix.cli.session import session_of
from fornix.errors import FornixError
from fornix.values.urls import STILL

if TYPE_CHECKING:
    from fornix import Memory

MOST = 200
"""Names that are offered at once."""


def keys(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the keys that begin so."""
    return _offer(ctx, incomplete, lambda memory: list(islice(memory.keys(), 100 * MOST)))


def sets(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the sets of the key or the knowledge on the line that begin so."""
    key = ctx.params.get("key")

    def read(memory: Memory) -> list[str]:
        return memory.key(key).sets() if key else memory.knowledge.sets()

    return _offer(ctx, incomplete, read)


def paths(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the fields of the exact tree that the path begun so can go on with."""
    start, dot, _ = incomplete.rpartition(".")

    def read(memory: Memory) -> list[str]:
        found = memory.key(ctx.params.get("key") or "").short_term.get_object(start)
        return [f"{start}{dot}{name}" for name in found.get_field_names() if "." not in name]

    return _offer(ctx, incomplete, read)


def _offer(
    ctx: click.Context, incomplete: str, read: Callable[[Memory], list[str]]
) -> list[CompletionItem]:
    """Return what can be read; nothing where that fails: a shell cannot show errors."""
    session = session_of(ctx)
    try:
        file = session.file
        if not file.is_file():
            return []
        knowledge = ctx.params.get("knowledge")
        url = f"sqlite:///{file.resolve()}{STILL}"  # so that no file is made
        with fornix.Memory.open(url, space=session.space, knowledge=knowledge, mode="ro") as memory:
            found = [name for name in read(memory) if name.startswith(incomplete)]
    except (FornixError, click.UsageError, OSError):
        return []
    return [CompletionItem(name) for name in found[:MOST]]

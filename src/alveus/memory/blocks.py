"""Blocks: short texts of a key that an agent edits, stored in the key's exact tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from alveus.errors import CompareFailed, InvalidInput, TooLarge, TreeConflict
from alveus.errors.short_repr import short_repr
from alveus.sets.writer import Engine
from alveus.state import MISSING, MemoryObject
from alveus.store import Node, Scope
from alveus.store.times import AsOf
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, checked_name, counted, moment

BLOCKS, LIMITS = "blocks", "block_limits"
"""The objects in exact memory with the texts of blocks, and with the limits from `set_limit`."""

STANDARD: Mapping[str, str] = {
    "human": "what you know about the user",
    "persona": "who you are, and how you speak",
}
"""The standard blocks of every key, each with its purpose. They are empty until written."""

CHARACTERS = 2_000
"""The default limit of a block's length, in characters."""

TRIES = 100
"""The most attempts of an edit if other edits intervene. Each begins with a fresh read."""


@dataclass(frozen=True, slots=True)
class BlockVersion:
    """The text of a block from one commit on.

    Attributes:
        text: The text; "" if the block was deleted.
        commit: The number of the commit, which `Blocks.at` and every ``as_of=`` take.
        time: The time of the commit.
    """

    text: str
    commit: int
    time: datetime


@suggest_names_in
class Blocks:
    """The blocks of one key, at ``key.blocks``; also in a batch and in an action.

    A block is a value in short-term memory, at ``blocks.NAME``. Each edit starts from the current
    text, and is one commit, or part of the batch or the action.

    Args:
        tree: The root of short-term memory.
        scope: The key's scope.
        engine: Returns the engine that reads history. Raises `Unusable` inside a batch or action.
        most: The limit of a block in characters; see `limited`. None sets no such limit.
    """

    def __init__(
        self,
        tree: MemoryObject,
        scope: Scope,
        engine: Callable[[], Engine],
        *,
        most: int | None = None,
    ) -> None:
        self._tree, self._scope, self._engine, self._most = tree, scope, engine, most

    def __repr__(self) -> str:
        return f"<blocks of key {self._scope.key!r}>"

    # --- reading ------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of all blocks: "human" and "persona" first, then the others."""
        written = self._written()
        return [*dict.fromkeys([*STANDARD, *written])]

    def get(self, name: str) -> str:
        """Return the text of a block, or "" if nothing was written to the block.

        Raises:
            TreeConflict: The value at the block's path in exact memory is not text.
        """
        return _text(self._tree.get(_path(name), ""), name)

    def to_dict(self) -> dict[str, str]:
        """Return the texts of the blocks that are not empty, by name."""
        written = self._written()
        named = {name: _text(written.get(name, ""), name) for name in (*STANDARD, *written)}
        return {name: text for name, text in named.items() if text}

    def __contains__(self, name: str) -> bool:
        return bool(self.get(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def _written(self) -> dict[str, object]:
        found = self._tree.get(BLOCKS)
        return found.get_fields() if isinstance(found, MemoryObject) else {}

    # --- editing ------------------------------------------------------------------------------

    def set(self, name: str, text: str) -> None:
        """Replace the whole text of a block by *text*.

        Raises:
            TooLarge: *text* is longer than the block's limit.
        """
        self._edit(name, lambda _: text)

    def append(self, name: str, text: str) -> str:
        """Append *text* to a block as a new line; return the block's new text.

        Raises:
            TooLarge: The new text would be longer than the block's limit.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"block {name!r}: a line must be a text, not {short_repr(text)}")
        return self._edit(name, lambda before: f"{before}\n{text}" if before else text)

    def replace(self, name: str, old: str, new: str) -> str:
        """Replace the text *old* in a block by *new*; return the block's new text.

        Raises:
            InvalidInput: *old* does not occur in the block, or occurs several times.
            TooLarge: The new text would be longer than the block's limit.
        """
        if not isinstance(old, str) or not old:  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"block {name!r}: old must be a text to replace, not {short_repr(old)}"
            )

        def replaced(before: str) -> str:
            if (times := before.count(old)) != 1:
                raise InvalidInput(
                    f"block {name!r} contains the text to replace {times} times, not once; read "
                    "the block, and pass more of the words around the text"
                )
            return before.replace(old, new)

        return self._edit(name, replaced)

    def _edit(self, name: str, change: Callable[[str], str]) -> str:
        for _ in range(TRIES - 1):
            with suppress(CompareFailed):
                return self._edited(name, change)
        return self._edited(name, change)

    def _edited(self, name: str, change: Callable[[str], str]) -> str:
        path = _path(name)
        found = self._tree.get(path, MISSING)
        before = "" if found is MISSING else _text(found, name)
        after = change(before)
        if not isinstance(after, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"block {name!r} must be a text, not {type(after).__name__}")
        if len(after) > (most := self.limit(name)) and len(after) > len(before):
            raise TooLarge(
                f"block {name!r} would have {len(after):,} characters; at most {most:,} are "
                "accepted: shorten the text, or rewrite the block"
            )
        if after != before:
            self._tree.update(path, after, expected=found)
        return after

    # --- limits -------------------------------------------------------------------------------

    def limit(self, name: str) -> int:
        """Return the limit of a block in characters: 2,000 unless `set_limit` changed it."""
        found: object = self._tree.get((LIMITS, _path(name)[1]))
        if type(found) is not int:
            return self._most or CHARACTERS
        return min(found, self._most or found)

    def limited(self, characters: int | None) -> Blocks:
        """Return the same blocks with a limit of *characters* for edits made through the result.

        If `set_limit` gave a block a lower limit, the lower limit applies. With None, only the
        limits of `limit` apply.
        """
        return Blocks(self._tree, self._scope, self._engine, most=characters)

    def set_limit(self, name: str, characters: int) -> None:
        """Set the limit of a block in characters. The limit is stored and applies to all editors.

        The current text stays, even if it is longer. Edits can then only shorten it.
        """
        self._tree.set((LIMITS, _path(name)[1]), counted(characters, "characters"))

    # --- the past -----------------------------------------------------------------------------

    def at(self, as_of: AsOf) -> Blocks:
        """Return the blocks as they were after a commit, or at a time. The result is read-only.

        Raises:
            HistoryPruned: The state of that moment is no longer kept.
            Unsupported: Inside a batch or an action.
        """
        return Blocks(self._tree.at(as_of), self._scope, self._engine)

    def history(self, name: str) -> list[BlockVersion]:
        """Return every kept version of a block, oldest first.

        Some versions may be older than the oldest moment that `at` can read.

        Raises:
            Unusable: Inside a batch or an action.
        """
        store, path = self._engine().store, _path(name)
        versions: list[BlockVersion] = []
        for number in store.node_commits(self._scope, path):
            time = store.time_of_commit(number)
            node = store.node(self._scope, path, at=number, now=time)
            found = "" if node is None else node if node.is_object else node.value
            versions.append(BlockVersion(_text(found, name), number, moment(time)))
        return versions


def _path(name: str) -> Path:
    return BLOCKS, checked_name(name, "a block's name")


def _text(found: object, name: str) -> str:
    if isinstance(found, str):
        return found
    what = "an object" if isinstance(found, MemoryObject | Node) else "another value"
    problem = f"a block must be a text, but {what} is here; delete it from exact memory first"
    raise TreeConflict(".".join(_path(name)), problem)

"""Values of exact trees that were read or written lately, at hand without asking the database.

The tree as it was after one of its commits never changes, unless it is erased. So what is known of
the last commit of a tree that this process saw holds for as long as the tree is read as of it: a
batch that begins now does so. A server may lose its last commits as it crashes, and give their
numbers to others: there, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from alveus.store import Node, Put, Scope, TreeDelta
from alveus.store.ledger import SMALL_BYTES
from alveus.values.storable import Path

MAX_TREES = 64
"""Trees of which values are kept."""

MAX_NODES = 512
"""Nodes of one tree that are kept."""

MAX_OBJECTS = 16
"""Objects of one tree whose fields are kept, beside those nodes."""


class RecentTree:
    """What is known of a tree after one commit. Threads may share it, and add to it.

    Attributes:
        number: Of the commit; 0: there was none yet.
        nodes: Values that stay, and None where nothing is.
        few: What `Ledger.few_fields` returned for at most so many, where all are values that stay.
    """

    __slots__ = ("few", "nodes", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: dict[Path, Node | None] = {}
        self.few: dict[tuple[Path, int], dict[str, Node | None] | None] = {}

    def keep_node(self, path: Path, node: Node | None, *, now: int) -> None:
        """Keep what was read at *path*; by *now* something may have expired there."""
        is_certain = now <= 0 if node is None else _is_kept(node)
        if is_certain:
            if len(self.nodes) >= MAX_NODES:
                self.nodes.clear()
            self.nodes[path] = node

    def keep_few(self, path: Path, most: int, fields: dict[str, Node | None] | None) -> None:
        """Keep what was read of the object at *path*."""
        if fields is None or all(node is not None and _is_kept(node) for node in fields.values()):
            if len(self.few) >= MAX_OBJECTS:
                self.few.clear()
            self.few[path, most] = fields

    def after(self, deltas: Iterable[TreeDelta], number: int) -> RecentTree | None:
        """Return what is known after the next commit; None: too much may be otherwise."""
        new, nodes = RecentTree(number), self.nodes.copy()
        kept: dict[Path, dict[str, Node]] = {}
        dropped: set[Path] = set()
        for delta in deltas:
            if not isinstance(delta, Put):
                return None
            path, node = delta.path, Node(False, delta.value, delta.expires)  # noqa: FBT003 - often
            above = path[:-1]
            if not _is_kept(node):
                nodes.pop(path, None)
                dropped.add(above)
                continue
            nodes[path] = node
            if above not in kept:
                kept[above] = {}
            kept[above][path[-1]] = node
        if len(nodes) <= MAX_NODES:
            new.nodes = nodes
        for (path, most), fields in self.few.items():
            after = fields if fields is None else fields | kept.get(path, {})
            if after is None or (path not in dropped and len(after) <= most):
                new.few[path, most] = after
        return new


class RecentTrees:
    """The trees of one open store."""

    def __init__(self) -> None:
        self._trees: dict[Scope, RecentTree] = {}

    def read_head(self, scope: Scope, number: int) -> None:
        """Take note that *number* is the last commit of a tree."""
        known = self._trees.get(scope)
        if known is None or known.number != number:
            self._keep(scope, RecentTree(number))

    def at(self, scope: Scope, number: int | None) -> RecentTree | None:
        """Return what is known of a tree after commit *number*; None: that is not kept."""
        known = self._trees.get(scope)
        return known if known is not None and known.number == number else None

    def committed(
        self, scope: Scope, base: int | None, deltas: Iterable[TreeDelta], number: int
    ) -> None:
        """Take over what commit *number* made of the tree as it was after *base*."""
        known = self.at(scope, base)
        new = None if known is None else known.after(deltas, number)
        if new is not None:
            self._keep(scope, new)

    def _keep(self, scope: Scope, tree: RecentTree) -> None:
        if len(self._trees) >= MAX_TREES:
            self._trees.clear()
        self._trees[scope] = tree

    def clear(self) -> None:
        """Forget all of it: something was erased, or the whole file replaced."""
        self._trees.clear()


def _is_kept(node: Node) -> bool:
    if not node.is_lasting:
        return False
    value = node.value
    return not isinstance(value, (str, bytes)) or len(value) <= SMALL_BYTES

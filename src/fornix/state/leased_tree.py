"""The exact tree of a key while its lease is held: nobody else changes it."""

from __future__ import annotations

from collections.abc import Iterable

from fornix.state.cells import ATOMS
from fornix.store import Ledger, Node, Put, Scope, TreeDelta
from fornix.values.storable import Path

MOST = 64
"""Nodes that are kept in mind."""


class HeldTree:
    """A `Tree` that reads no small value twice. It serves one thread at a time.

    Attributes:
        epoch: Of the lease under which what it knows holds.
    """

    __slots__ = ("_head", "_known", "_ledger", "_scope", "epoch")

    def __init__(self, ledger: Ledger, scope: Scope, epoch: int) -> None:
        self._ledger, self._scope, self.epoch = ledger, scope, epoch
        self._known: dict[Path, Node | None] = {}
        self._head: int | None = None

    def head(self) -> int:
        """Return the number of the last commit that changed the tree; 0: none yet."""
        if self._head is None:
            self._head = self._ledger.head(self._scope)
        return self._head

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `Tree`."""
        if path in self._known:
            return self._known[path]
        node = self._ledger.node(self._scope, path, at=None, now=now)
        if node is None or _lasts(node):
            self._keep(path, node)
        return node

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `Tree`."""
        return self._ledger.children(self._scope, path, at=None, now=now)

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of its fields; see `Tree`."""
        return self._ledger.field_names(self._scope, path, at=None, now=now)

    def changed(self, deltas: Iterable[TreeDelta], number: int) -> None:
        """Note that commit *number* changed the tree so."""
        self._head = number
        for delta in deltas:
            if not isinstance(delta, Put):
                self._known.clear()  # more than one node may be another one now
                continue
            node = Node(is_object=False, value=delta.value, expires=delta.expires)
            if _lasts(node):
                self._keep(delta.path, node)
            else:
                self._known.pop(delta.path, None)

    def _keep(self, path: Path, node: Node | None) -> None:
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[path] = node


def _lasts(node: Node) -> bool:
    """Return whether a node is a value that nothing but a commit changes."""
    return not node.is_object and node.expires is None and type(node.value) in ATOMS

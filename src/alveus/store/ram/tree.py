"""The exact tree of a key, with all versions of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy

from alveus.errors import InvalidPath, NotAnObject, ObjectInTheWay
from alveus.store import Clear, Create, Delete, Put, Refresh, TreeDelta
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.store.ram.rows import CommitDraft, NodeRow
from alveus.values.storable import ATOMS, Path, Value

EVER = -(1 << 62)
"""A time before all expiries. With it, `TreeRows.find` also finds expired nodes."""


class TreeRows:
    """The exact tree of a key, with all versions of its nodes."""

    def __init__(self) -> None:
        self.head = 0
        self.history_start = (0, 0)
        self.root = NodeRow.of_object(0)
        self.positions = 0

    def find(self, path: Path, at: int | None, now: int) -> NodeRow | None:
        """Return the version of the node at *path*, or None if the node does not exist.

        A node that expired by *now*, and every node below it, does not exist.

        Args:
            at: If not None, read the tree as it was after this commit.
        """
        row = self.root
        for name in path:
            below = row.below(name, at)
            if below is None or below.expired(now):
                return None
            row = below
        return row

    def commits_of(self, path: Path) -> list[int]:
        """See `Ledger.node_commits`."""
        rows = [self.root]
        for name in path:
            rows = [version for row in rows for version in row.versions.get(name, ())]
        if not path:
            rows = list(self._below(self.root))
        begun = {row.begin_commit for row in rows}
        return sorted(begun.union(row.end_commit for row in rows if row.end_commit is not None))

    def _below(self, top: NodeRow) -> Iterator[NodeRow]:
        """Yield all versions of all nodes below a node."""
        todo = [top]
        while todo:
            below = [row for versions in todo.pop().versions.values() for row in versions]
            yield from below
            todo += below

    def apply(self, delta: TreeDelta, draft: CommitDraft) -> None:
        """Apply one delta.

        Raises:
            TreeConflict: The delta does not fit the tree.
            InvalidPath: A delta other than `Clear` names the root.
        """
        if not delta.path and not isinstance(delta, Clear):
            raise InvalidPath(delta.path, "the root itself cannot be changed; name a field of it")
        match delta:
            case Put():
                self._put(delta.path, _row(draft.number, delta.value, delta.expires), draft)
            case Create(path, expires):
                self._put(path, NodeRow.of_object(draft.number, expires), draft)
            case Delete(path):
                self._delete(path, draft)
            case Clear(path):
                row = self.find(path, None, EVER)
                for name in [] if row is None else list(row.live):
                    self._delete((*path, name), draft)
            case Refresh(path, expires):
                row = self.find(path, None, EVER)
                if row is not None:
                    draft.undo.set(row, "expires", expires)

    def _put(self, path: Path, row: NodeRow, draft: CommitDraft) -> None:
        """Make *row* the live version at *path*.

        The row replaces a value, whose position it takes, or becomes the last field of its parent.
        If both the row and the existing node are objects, nothing changes.
        """
        parent = self.find(path[:-1], None, EVER)
        if parent is None or not parent.is_object:
            what = "nothing" if parent is None else "a value"
            raise NotAnObject(".".join(path[:-1]), f"an object was needed, but {what} is here")
        name, row.path = path[-1], path
        existing = parent.live.get(name)
        if existing is None:
            self.positions = max(self.positions + 1, draft.number << ROW_BITS)
            row.position = self.positions
        elif not existing.is_object:
            row.position = existing.position
            self._end(parent, name, draft)
        elif row.is_object:
            return
        else:
            raise ObjectInTheWay(".".join(path), "an object is here; delete it first")
        versions = parent.versions.setdefault(name, [])
        versions.append(row)
        draft.undo.append((versions.pop,))
        draft.undo.put(parent.live, name, row)
        draft.put_nodes[path] = row

    def _delete(self, path: Path, draft: CommitDraft) -> None:
        """End the node at *path*, if it exists, and all nodes below it."""
        parent = self.find(path[:-1], None, EVER)
        if parent is None or path[-1] not in parent.live:
            return
        nodes = [(path, parent.live[path[-1]], parent)]
        for node_path, row, above in nodes:  # grows during the loop
            draft.put_nodes.pop(node_path, None)
            if row.position <= draft.positions:
                draft.removed_nodes.append(
                    (node_path, _before(row, above.versions[node_path[-1]], draft.number))
                )
            nodes.extend(((*node_path, name), below, row) for name, below in row.live.items())
            if node_path != path:
                draft.undo.set(row, "end_commit", draft.number)
        self._end(parent, path[-1], draft)

    def _end(self, parent: NodeRow, name: str, draft: CommitDraft) -> None:
        """End the live version of a field. A version that this commit began is removed."""
        row = parent.live.pop(name)
        draft.undo.append((parent.live.__setitem__, name, row))
        draft.undo.set(row, "end_commit", draft.number)
        if row.begin_commit == draft.number:
            versions = parent.versions[name]
            draft.undo.append((versions.append, versions.pop()))

    def sweep(self, now: int) -> list[NodeRow]:
        """Remove every version that expired by *now*, with all nodes below it.

        Returns all removed versions. Placeholders stay.
        """
        removed = self._remove(lambda row: row.expired(now) and row.expires != PLACEHOLDER_EXPIRY)
        expired = [row.expires for row in removed if row.expires is not None]
        commit, time = self.history_start
        self.history_start = (
            commit,
            _latest([time, *(e for e in expired if e <= now and e != PLACEHOLDER_EXPIRY)]),
        )
        return removed

    def raise_history_start(self, start: tuple[int, int], draft: CommitDraft) -> None:
        """Set the start of the complete history to *start* (commit, time), if that is later."""
        commit, time = self.history_start
        start = max(commit, start[0]), _latest([time, start[1]])
        draft.undo.set(self, "history_start", start)

    def prune(self, until: int) -> list[NodeRow]:
        """Remove every version that ended by commit *until*, with all nodes below it.

        Returns all removed versions.
        """
        removed = self._remove(lambda row: row.end_commit is not None and row.end_commit <= until)
        commit, time = self.history_start
        end_commits = [
            row.end_commit
            for row in removed
            if row.end_commit and row.expires != PLACEHOLDER_EXPIRY
        ]
        self.history_start = max([commit, *end_commits]), time
        return removed

    def _remove(self, is_removed: Callable[[NodeRow], bool]) -> list[NodeRow]:
        """Remove the versions that *is_removed* accepts, with all nodes below them.

        Returns all removed versions.
        """
        removed: list[NodeRow] = []
        stack = [(self.root, False)]
        while stack:
            row, gone = stack.pop()
            for versions in row.versions.values():
                stack.extend((version, gone or is_removed(version)) for version in versions)
            if gone:
                removed.append(row)
                row.swept = True
                continue
            row.live = {n: r for n, r in row.live.items() if not is_removed(r)}
            remaining = {n: [v for v in vs if not is_removed(v)] for n, vs in row.versions.items()}
            row.versions = {n: vs for n, vs in remaining.items() if vs}
        return removed

    def size(self) -> int:
        """Return the number of live nodes."""
        rows = list(self.root.live.values())
        for row in rows:  # grows during the loop
            rows.extend(row.live.values())
        return len(rows)


def _row(number: int, value: Value, expires: int | None) -> NodeRow:
    """Return a row with a copy of a value."""
    copied = value if type(value) in ATOMS else deepcopy(value)
    return NodeRow.of_value(number, copied, expires)


def _latest(times: Sequence[int]) -> int:
    """Return the latest of *times*, or 0 if there is none. A time of 0 does not count."""
    return max((time for time in times if time), default=0)


def _before(row: NodeRow, versions: list[NodeRow], number: int) -> NodeRow:
    """Return the version that the live version *row* had before commit *number*.

    If that commit began *row*, this is the version that it replaced; otherwise it is *row*.
    """
    if row.begin_commit != number:
        return row
    older = (v for v in reversed(versions) if v is not row and v.position == row.position)
    return next(older, row)

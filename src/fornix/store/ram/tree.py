"""The exact tree of one key, every version of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from fornix.errors import InvalidPath, NotAnObject, ObjectInTheWay
from fornix.store import Clear, Create, Delete, Put, Refresh, TreeDelta
from fornix.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from fornix.store.ram.row_versions import ATOMS, CommitDraft, NodeRow
from fornix.values.storable import Path, Value

EVER = -(1 << 62)
"""A time at which nothing has expired: applying a batch looks at no expiry, see `TreeDelta`."""


class TreeRows:
    """The exact tree of one key: what stands below its root, and stood there."""

    def __init__(self) -> None:
        self.head = 0
        self.floor = (0, 0)
        self.root = NodeRow(begun=0, is_object=True)
        self.positions = 0

    def find(self, path: Path, at: int | None, now: int) -> NodeRow | None:
        """Return the node at *path*, unless it or an object above it is not there."""
        row = self.root
        for name in path:
            below = row.below(name, at)
            if below is None or below.expired(now):
                return None
            row = below
        return row

    def apply(self, delta: TreeDelta, work: CommitDraft) -> None:
        """Apply one delta; what does not fit is a `TreeConflict`."""
        if not delta.path and not isinstance(delta, Clear):
            raise InvalidPath(delta.path, "the root itself cannot be changed; name a field of it")
        match delta:
            case Put(path, value, expires):
                self._put(path, _row(work.number, value, expires), work)
            case Create(path, expires):
                self._put(path, NodeRow(work.number, is_object=True, expires=expires), work)
            case Delete(path):
                self._delete(path, work)
            case Clear(path):
                row = self.find(path, None, EVER)
                for name in [] if row is None else list(row.live):
                    self._delete((*path, name), work)
            case Refresh(path, expires):
                row = self.find(path, None, EVER)
                if row is not None:
                    before = row.expires
                    work.undo.append(lambda: setattr(row, "expires", before))
                    row.expires = expires

    def _put(self, path: Path, row: NodeRow, work: CommitDraft) -> None:
        """Begin *row* at *path*: in place of a value, or as the last field of its parent."""
        parent = self.find(path[:-1], None, EVER)
        if parent is None or not parent.is_object:
            what = "nothing" if parent is None else "a value"
            raise NotAnObject(".".join(path[:-1]), f"an object was needed, but {what} is here")
        name, row.path = path[-1], path
        there = parent.live.get(name)
        if there is None:
            self.positions = max(self.positions + 1, work.number << ROW_BITS)
            row.position = self.positions
        elif not there.is_object:
            row.position = there.position
            self._end(parent, name, work)
        elif row.is_object:
            return
        else:
            raise ObjectInTheWay(".".join(path), "an object is here; delete it first")
        parent.versions.setdefault(name, []).append(row)
        parent.live[name] = row
        work.put[path] = row
        work.undo.append(lambda: (parent.versions[name].pop(), parent.live.pop(name)))

    def _delete(self, path: Path, work: CommitDraft) -> None:
        """End the node at *path*; what is below it goes out of reach with it."""
        parent = self.find(path[:-1], None, EVER)
        if parent is None or path[-1] not in parent.live:
            return
        found = [(path, parent.live[path[-1]], parent)]
        for place, row, above in found:  # grows while it is walked
            work.put.pop(place, None)
            if row.position <= work.positions:
                work.removed.append((place, _before(row, above.versions[place[-1]], work.number)))
            found.extend(((*place, name), below, row) for name, below in row.live.items())
            if place != path:
                work.undo.append(lambda row=row: setattr(row, "ended", None))
                row.ended = work.number
        self._end(parent, path[-1], work)

    def _end(self, parent: NodeRow, name: str, work: CommitDraft) -> None:
        """End a version; one that this very commit began never existed."""
        row = parent.live.pop(name)
        versions = parent.versions[name]
        row.ended = work.number
        never = row.begun == work.number
        if never:
            versions.pop()

        def take_back() -> None:
            row.ended = None
            parent.live[name] = row
            if never:
                versions.append(row)

        work.undo.append(take_back)

    def sweep(self, now: int) -> int:
        """Remove every version that expired, with what is below it; return how many."""
        gone = self._remove(lambda row: row.expired(now) and row.expires != PLACEHOLDER_EXPIRY)
        expired = [row.expires for row in gone if row.expires is not None]
        commit, time = self.floor
        self.floor = commit, max([time, *(e for e in expired if PLACEHOLDER_EXPIRY < e <= now)])
        return len(gone)

    def raise_floor(self, floor: tuple[int, int], work: CommitDraft) -> None:
        """Note from which commit and time on the past is whole."""
        before = self.floor
        work.undo.append(lambda: setattr(self, "floor", before))
        self.floor = max(before[0], floor[0]), max(before[1], floor[1])

    def prune(self, until: int) -> int:
        """Remove every version that ended by commit *until*, with what is below it."""
        gone = self._remove(lambda row: row.ended is not None and row.ended <= until)
        commit, time = self.floor
        kept = [row.ended for row in gone if row.ended and row.expires != PLACEHOLDER_EXPIRY]
        self.floor = max([commit, *kept]), time
        return len(gone)

    def _remove(self, goes: Callable[[NodeRow], bool]) -> list[NodeRow]:
        """Remove the versions that go, with what is below them; return them all."""
        removed: list[NodeRow] = []
        stack = [(self.root, False)]
        while stack:
            row, gone = stack.pop()
            for versions in row.versions.values():
                stack.extend((version, gone or goes(version)) for version in versions)
            if gone:
                removed.append(row)
                row.swept = True
                continue
            row.live = {n: r for n, r in row.live.items() if not goes(r)}
            kept = {n: [v for v in vs if not goes(v)] for n, vs in row.versions.items()}
            row.versions = {n: vs for n, vs in kept.items() if vs}
        return removed

    def size(self) -> int:
        """Return the number of live nodes."""
        rows = list(self.root.live.values())
        for row in rows:  # grows while it is walked
            rows.extend(row.live.values())
        return len(rows)


def _row(number: int, value: Value, expires: int | None) -> NodeRow:
    """Return the row of a value, of which it has a copy."""
    kept = value if type(value) in ATOMS else deepcopy(value)
    return NodeRow(number, is_object=False, value=kept, expires=expires)


def _before(row: NodeRow, versions: list[NodeRow], number: int) -> NodeRow:
    """Return the version of a node as it was before commit *number*."""
    if row.begun != number:
        return row
    older = (v for v in reversed(versions) if v is not row and v.position == row.position)
    return next(older, row)

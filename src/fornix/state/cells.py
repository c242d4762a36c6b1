"""What an overlay knows of an exact tree: a cell per path it met, and what changed in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from fornix.errors import ObjectInTheWay, TreeConflict
from fornix.state.paths import ParsedPath, key_of
from fornix.state.tree_values import EVER, Branch, ExactTree
from fornix.store import Clear, Create, Delete, Node, Put, Refresh, TreeDelta
from fornix.values.storable import Path, Value

UNKNOWN: Final = 0
"""Nobody asked the base yet; what lies below may be known all the same."""
NOTHING: Final = 1
OBJECT: Final = 2
VALUE: Final = 3

KEPT: Final = 0
MOVED: Final = 1
"""Its expiry was changed, and nothing else."""
WRITTEN: Final = 2
"""It was created or put."""

NO_CUT: Final = 0
CUT_BELOW: Final = 1
"""What the base has below it was cleared."""
CUT_WHOLE: Final = 2
"""What the base has here was deleted, whatever stands here since."""

ATOMS = frozenset({type(None), bool, int, float, str, bytes})
"""Types of values that nobody can change, which need no copy."""


class Fields:
    """What is known below an object.

    Attributes:
        below: Every cell known, also of what is not there.
        remaining: Fields of the base that were not deleted, in its order; None: not listed.
        added: Fields made since, in order. The same dict as *below* where the base has nothing.
        expiring: A field may have an expiry.
        named: The names of the base's fields, and when they expire there; None: not asked.
    """

    __slots__ = ("added", "below", "expiring", "named", "remaining")

    def __init__(self, *, based: bool) -> None:
        self.added: dict[str, Cell] = {}
        self.below: dict[str, Cell] = {} if based else self.added
        self.remaining: dict[str, Cell] | None = None if based else {}
        self.expiring = False
        self.named: list[tuple[str, int | None]] | None = None

    def changed(self) -> Iterable[tuple[str, Cell]]:
        """Return what differs from the base: first its own fields, then new ones in order."""
        added = self.added
        if self.below is added:
            return added.items()
        own = [pair for pair in self.below.items() if pair[1].dirty and pair[0] not in added]
        return [*own, *added.items()]


class Cell:
    """What is known of one path.

    It does not know its parent: what holds each other in a circle is left to the garbage
    collector, and an action makes many of these.

    Attributes:
        base: What the base has here and a store would have to be told about; None: nothing.
        cut: What of *base* was removed.
        change: What was done since, or instead.
        dirty: It, or a cell below it, differs from the base.
        size: Bytes of a list that grew here, so that growing it needs no second count; 0: unknown.
    """

    __slots__ = (
        "base", "change", "cut", "dirty", "expires", "fields", "size", "state", "value",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state = UNKNOWN
        self.value: Value = None
        self.expires: int | None = None
        self.base: Node | None = None
        self.cut = NO_CUT
        self.change = KEPT
        self.dirty = False
        self.size = 0
        self.fields: Fields | None = None

    def take(self, node: Node | None) -> None:
        """Note what the base has here."""
        self.base = node
        if node is None or not node.is_object:
            self.fields = None
            self.state = NOTHING if node is None else VALUE
        else:
            self.fields = self.fields or Fields(based=True)
            self.state = OBJECT
        if node is not None:
            self.value, self.expires = node.value, node.expires

    def become(self, state: int, value: Value, expires: int | None) -> None:
        """Be a new object, or a value; it is attached already."""
        self.state, self.value, self.expires = state, value, expires
        self.change, self.size, self.dirty = WRITTEN, 0, True
        self.fields = Fields(based=False) if state == OBJECT else None

    def move(self, expires: int | None) -> None:
        """Have another expiry."""
        self.expires, self.dirty = expires, True
        if self.change == KEPT:
            self.change = MOVED

    def vanish(self) -> None:
        """Be nothing; in the base it is cut."""
        self.state, self.value, self.expires, self.fields = NOTHING, None, None, None
        self.change, self.dirty = KEPT, True
        if self.base is not None:
            self.cut = CUT_WHOLE

    def empty(self) -> None:
        """Be an object without fields."""
        if self.fields is not None and self.fields.below is not self.fields.added:
            self.cut = CUT_BELOW
        self.fields, self.dirty = Fields(based=False), True

    def fill(self, branch: Branch, expires: int | None) -> None:
        """Be an object with these fields; it is a new one without any."""
        fields: Any = self.fields
        fields.expiring = expires is not None
        for name, inner in branch.fields:
            cell = fields.added[name] = Cell()
            if isinstance(inner, Branch):
                cell.become(OBJECT, None, expires)
                cell.fill(inner, expires)
            else:
                cell.become(VALUE, inner, expires)

    def deltas(self, path: Path, now: int, found: list[TreeDelta]) -> None:
        """Add to *found* what leads from the base to this cell, at *path*, and all below it.

        What was written and has expired by *now* is deleted, as far as it was ever there.
        """
        if self.expires is not None and self.expires <= now:
            if self.base is not None and (self.cut or self.change == WRITTEN):
                found.append(Delete(path))
            return
        if self.cut:
            found.append(Delete(path) if self.cut == CUT_WHOLE else Clear(path))
        if self.change:
            found.append(self._changed(path))
        if self.fields is not None:
            for name, cell in self.fields.changed():
                cell.deltas((*path, name), now, found)

    def _changed(self, path: Path) -> TreeDelta:
        if self.change == MOVED:
            return Refresh(path, self.expires)
        if self.state == OBJECT:
            return Create(path, self.expires)
        return Put(path, copied(self.value), self.expires)


def copied(value: Value) -> Value:
    """Return a deep copy of *value*, which was checked before."""
    if type(value) is list:
        return [v if type(v) in ATOMS else copied(v) for v in value]
    if type(value) is dict:
        return {k: v if type(v) in ATOMS else copied(v) for k, v in value.items()}
    return value


class Cells:
    """All cells of one overlay. Not safe for threads.

    Args:
        now: The time, or what tells it; decides what has expired.
        lookups: Takes the paths that the tree was asked for, also where there is no tree.

    Attributes:
        root: The cell of the root.
        plain: By key: values that need no copy and never expire; the fast path to them.
    """

    __slots__ = ("_lookups", "_now", "_tree", "plain", "root")

    def __init__(
        self,
        tree: ExactTree | None,
        now: int | Callable[[], int],
        lookups: list[Path] | None = None,
    ) -> None:
        self._tree, self._now, self._lookups = tree, now, lookups
        based = tree is not None or lookups is not None
        self.root = Cell()
        self.root.state, self.root.fields = OBJECT, Fields(based=based)
        self.plain: dict[str, Cell] = {}

    def clock(self) -> int:
        """Return the time that decides what has expired."""
        now = self._now
        return now if isinstance(now, int) else now()

    # --- finding ---

    def alive(self, path: Path) -> Cell | None:
        """Return the cell of what is at *path* now."""
        cell = self.known(path)
        if cell is None or cell.expires is None or cell.expires > self.clock():
            return cell
        return None

    def known(self, path: Path) -> Cell | None:
        """Return the cell of what is at *path*, expired or not; asks the tree at most once."""
        cell = self.root
        fields: Any = cell.fields
        for name in path:
            fields = cell.fields
            if fields is None:
                if cell.state != UNKNOWN:
                    return None
                fields = cell.fields = Fields(based=True)
            below = fields.below.get(name)
            if below is None:
                if fields.remaining is not None:
                    return None
                below = fields.below[name] = Cell()
            cell = below
        if cell.state == UNKNOWN:
            self._ask(cell, path, fields)
        return None if cell.state == NOTHING else cell

    def _ask(self, cell: Cell, path: Path, beside: Fields) -> None:
        """Have a cell, one of the fields *beside* it, know what the tree has."""
        self._look_up(path)
        cell.take(None if self._tree is None else self._tree.node(path, EVER))
        if cell.expires is not None:
            beside.expiring = True

    def _look_up(self, path: Path) -> None:
        if self._lookups is not None:
            self._lookups.append(path)

    def listed(self, cell: Cell, path: Path) -> Fields:
        """Return the fields of an object, once all that the tree has of them are known."""
        fields: Any = cell.fields
        if fields.remaining is None:
            self._look_up(path)
            remaining: dict[str, Cell] = {}
            for name, node in [] if self._tree is None else self._tree.children(path, EVER):
                known = fields.below.get(name)
                if known is None:
                    known = fields.below[name] = Cell()
                if known.state == UNKNOWN:
                    known.take(node)
                    fields.expiring = fields.expiring or node.expires is not None
                if known.state != NOTHING and name not in fields.added:
                    remaining[name] = known
            fields.remaining = remaining
        return fields

    def cells_in(self, cell: Cell | None, path: Path, now: int) -> list[tuple[str, Cell]]:
        """Return the fields that are there at *now* of what is at *path*, in order."""
        if cell is None or cell.state != OBJECT:
            return []
        fields = self.listed(cell, path)
        every = chain((fields.remaining or {}).items(), fields.added.items())
        return [pair for pair in every if (end := pair[1].expires) is None or end > now]

    def names_in(self, cell: Cell | None, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of what `cells_in` returns, and expiries; asks the tree for no value."""
        fields: Any = None if cell is None or cell.state != OBJECT else cell.fields
        if fields is None or fields.remaining is not None:
            return [(name, field.expires) for name, field in self.cells_in(cell, path, now)]
        if fields.named is None:
            self._look_up(path)
            fields.named = [] if self._tree is None else self._tree.field_names(path, EVER)
        found: list[tuple[str, int | None]] = []
        for name, expires in fields.named:
            known = fields.below.get(name)
            if name in fields.added or (known is not None and known.state == NOTHING):
                continue
            if known is not None and known.state != UNKNOWN:
                found.append((name, known.expires))
            else:
                found.append((name, expires))
        found += [(name, field.expires) for name, field in fields.added.items()]
        return [pair for pair in found if (end := pair[1]) is None or end > now]

    # --- changing ---

    def _mark(self, path: Path, expires: int | None) -> None:
        """Note from the root down to *path* that something changed, which may expire now."""
        cell = self.root
        cell.dirty = True
        fields: Any = cell.fields
        for name in path:
            fields = cell.fields
            cell = fields.below[name]
            cell.dirty = True
        if expires is not None:
            fields.expiring = True

    def place_value(self, place: ParsedPath, value: Value, expires: int | None) -> None:
        """Put a checked value at *place*; raise `TreeConflict` where it cannot be."""
        cell = self.alive(place.path)
        if cell is None:
            cell = self._grown(place, expires)
        elif cell.state == OBJECT:
            raise in_the_way(place)
        elif _later(expires, cell.expires):
            self.outlive(place.path[:-1], expires)
        cell.become(VALUE, value, expires)
        self._mark(place.path, expires)
        if expires is None and type(value) in ATOMS:
            self.plain[place.key] = cell
        else:
            self.plain.pop(place.key, None)

    def place_object(self, place: ParsedPath, expires: int | None) -> Cell:
        """Return the object at *place*, made where nothing or a value is."""
        cell = self.alive(place.path)
        if cell is not None and cell.state == OBJECT:
            self.outlive(place.path, expires)
            return cell
        if cell is None:
            cell = self._grown(place, expires)
        elif _later(expires, cell.expires):
            self.outlive(place.path[:-1], expires)
        cell.become(OBJECT, None, expires)
        self._mark(place.path, expires)
        self.plain.pop(place.key, None)
        return cell

    def _grown(self, place: ParsedPath, expires: int | None) -> Cell:
        """Return a cell at *place*, where nothing is, in objects that last until *expires*."""
        path = place.path
        have, cell = len(path) - 1, self.root
        while have:
            found = self.alive(path[:have])
            if found is not None:
                cell = found
                break
            have -= 1
        if cell.state != OBJECT:
            blocker = ".".join(path[:have])
            raise TreeConflict(
                place.text,
                f"{blocker!r} holds a value ({type(cell.value).__name__}), which has no fields; "
                f"new_object({blocker!r}, overwrite=True) replaces it by an object",
            )
        if have:
            self.outlive(path[:have], expires)
        for depth in range(have + 1, len(path)):
            cell = self._attached(cell, path[:depth])
            cell.become(OBJECT, None, expires)
            self._mark(path[:depth], expires)
        return self._attached(cell, path)

    def _attached(self, parent: Cell, path: Path) -> Cell:
        """Return a cell for a new field of *parent*, last in its order."""
        fields: Any = parent.fields
        name = path[-1]
        cell = fields.below.get(name)
        if cell is None:
            cell = fields.below[name] = Cell()
        elif cell.state != NOTHING:  # it expired
            self.bury(cell, path, key_of(path))
            fields.below[name] = cell
        fields.added[name] = cell
        return cell

    def bury(self, cell: Cell | None, path: Path, key: str) -> None:
        """Remove what is there, and all below it; it is listed no more."""
        if cell is None or not path:
            return
        self._forget(cell, key)
        cell.vanish()
        self._mark(path, None)
        fields: Any = self.root.fields
        for name in path[:-1]:
            fields = fields.below[name].fields
        fields.added.pop(path[-1], None)
        if fields.remaining:
            fields.remaining.pop(path[-1], None)

    def clear(self, cell: Cell | None, path: Path, key: str) -> None:
        """Remove all below an object."""
        if cell is not None and cell.state == OBJECT:
            self._forget(cell, key)
            cell.empty()
            self._mark(path, None)

    def _forget(self, cell: Cell, key: str) -> None:
        """Drop the fast path to *cell* and all below it."""
        plain = self.plain
        plain.pop(key, None)
        if cell.fields is not None:
            for name, below in cell.fields.below.items():
                inner = key_of((name,))
                self._forget(below, f"{key}.{inner}" if key else inner)

    def move(self, cell: Cell | None, path: Path, key: str, expires: int | None) -> None:
        """Give what is there another expiry."""
        if cell is not None and path:
            self.plain.pop(key, None)
            cell.move(expires)
            self._mark(path, expires)

    def renew(self, cell: Cell, path: Path, expires: int) -> None:
        """Let what is there, and the objects it is in, last until *expires*, which is later."""
        cell.move(expires)
        self._mark(path, expires)
        self.outlive(path[:-1], expires)

    def outlive(self, path: Path, expires: int | None) -> None:
        """Let the object at *path*, and those it is in, last at least until *expires*."""
        way: list[tuple[Cell, Fields]] = []
        fields: Any = self.root.fields
        for name in path:
            cell = fields.below[name]
            way.append((cell, fields))
            fields = cell.fields
        for depth in range(len(path), 0, -1):
            cell, fields = way[depth - 1]
            if cell.state == UNKNOWN:
                self._ask(cell, path[:depth], fields)
            if not _later(expires, cell.expires):
                return  # and those it is in last longer still
            cell.move(expires)
            self._mark(path[:depth], expires)


def _later(expires: int | None, than: int | None) -> bool:
    return than is not None and (expires is None or expires > than)


def in_the_way(place: ParsedPath) -> ObjectInTheWay:
    """Return the error for a value that was to be set where an object is."""
    return ObjectInTheWay(
        place.text, "an object is there; delete it first, or write to a field of it"
    )

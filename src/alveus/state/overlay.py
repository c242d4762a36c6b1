"""An overlay: the changes of an action over an exact tree as it was when the action began.

The tree itself never changes. Reads see the tree and the changes; `Overlay.deltas` is the shortest
list of changes from the tree to the result. Reads are cached: a path is read from the tree at most
once, and a write never reads other paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from datetime import timedelta
from functools import partial
from typing import NoReturn, Self, TypeGuard, TypeVar, cast

from alveus.errors import (
    CompareFailed,
    InvalidValue,
    NotAnObject,
    ObjectInTheWay,
    TreeConflict,
    Unsupported,
    Unusable,
)
from alveus.errors.short_repr import short_repr
from alveus.state.cells import OBJECT, VALUE, WRITTEN, Cell, Cells, deep_copy, object_in_the_way
from alveus.state.paths import MemoryKind, ParsedPath, PathCache, Resolver, path_names
from alveus.state.tree_values import (
    MISSING,
    Branch,
    ExactTree,
    Expiry,
    NeedsFullCheck,
    NonValue,
    TreeLimits,
    Ttl,
    fast_copy,
    put_request,
    size_bound,
    ttl_us,
)
from alveus.store import Clear, Create, Delete, Node, Put, Refresh, TreeDelta
from alveus.store.scope import NameRange
from alveus.store.times import AsOf
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Path, Value, checked

Result = TypeVar("Result")

_SMALL_TYPES = frozenset({type(None), bool, float})
"""Types whose values are all valid and small."""

_MAX_SHORT_TEXT = 128
"""A shorter text, if ASCII, is within the lowest `TreeLimits`."""


_DEFAULT_LIMITS = TreeLimits()


class TreeRecorder:
    """The reads and writes of an exact tree, for memory events.

    Attributes:
        write_order: Paths that were written, numbered in the order of their first write.
        values_read: The value of the last read of each path. Empty if reads are not recorded.
    """

    __slots__ = ("_records_reads", "values_read", "write_order")

    def __init__(self, *, reads: bool) -> None:
        self._records_reads = reads
        self.write_order: dict[Path, int] = {}
        self.values_read: dict[Path, Value] = {}

    def write(self, path: Path) -> None:
        """Record a write."""
        self.write_order.setdefault(path, len(self.write_order))

    def read(self, path: Path, value: Value | NonValue | Branch) -> None:
        """Record a value that was read, or all values of a branch."""
        if not self._records_reads or isinstance(value, NonValue):
            return
        if isinstance(value, Branch):
            for name, inner in value.fields:
                self.read((*path, name), inner)
        else:
            # A copy: the reader may change its value.
            self.values_read[path] = checked(value, nan=True)


class SealedOverlay:
    """Replaces the cells of an ended overlay: reads and writes raise `Unusable`."""

    __slots__ = ("_reason",)

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        """Raise `Unusable`."""
        raise Unusable(self._reason())


@dataclass(slots=True, eq=False)
class Overlay:
    """Buffered changes over an `ExactTree`, for one thread. An overlay is an `ExactTree` too.

    A method that raises has changed nothing. `over` makes an overlay.

    Attributes:
        paths: Parsed paths, which other overlays of the same memory may share.
        min_renewal_us: With ``Ttl(refresh="read")``: a read renews only if that extends the expiry
            by this much.
        resolver: Finds the memory that a reference to another kind points into.
        requests: The calls as passed, if *records_requests* is set. A repetition is recognised by
            them.
    """

    paths: PathCache
    _cells: Cells
    _ttl: Ttl | None = None
    _recorder: TreeRecorder | None = None
    resolver: Resolver | None = None
    _limits: TreeLimits = _DEFAULT_LIMITS
    min_renewal_us: int = 1
    records_requests: bool = False
    requests: list[Value] = field(default_factory=list[Value])

    @classmethod
    def over(  # noqa: PLR0913 - what an action, a batch and a commit each need of it
        cls,
        tree: ExactTree | None,
        *,
        kind: MemoryKind,
        now: int | Callable[[], int],
        limits: TreeLimits | None = None,
        ttl: Ttl | None = None,
        paths: PathCache | None = None,
        recorder: TreeRecorder | None = None,
    ) -> Self:
        """Return an overlay with no changes.

        Args:
            tree: The tree below. None means an empty tree.
            now: The time in microseconds by which nodes expire, or a function that returns it.
            paths: A cache of parsed paths to share; by default a new one.
            recorder: Collects reads and writes.
        """
        cells, limits = Cells.over(tree, now), limits or _DEFAULT_LIMITS
        return cls(paths or PathCache(kind), cells, ttl, recorder, None, limits)

    def seal(self, reason: str) -> Cells:
        """Make every later use raise `Unusable` with *reason*. Return the argument of `unseal`."""
        cells, self._cells = self._cells, cast("Cells", SealedOverlay(partial(str, reason)))
        return cells

    def unseal(self, cells: Cells) -> None:
        """Make the overlay usable again, with the *cells* that `seal` returned."""
        self._cells = cells

    def end(self, sealed: SealedOverlay) -> None:
        """Make every later use raise `Unusable`, and drop all cells.

        Also drops the resolver, which refers back to the overlay: a cycle would need the garbage
        collector.
        """
        self._cells = self.resolver = sealed  # pyright: ignore[reportAttributeAccessIssue] - it replaces both

    @property
    def identity(self) -> object:
        """An identity: overlays with equal identities are stacked over the same memory.

        They share their parsed paths.
        """
        return id(self.paths)

    @property
    def lookups(self) -> Sequence[Path]:
        """The paths that were read from the tree."""
        return self._cells.lookups or ()

    @property
    def now(self) -> int:
        """The time by which nodes expire."""
        return self._cells.now()

    # --- what changed ---

    def deltas(self) -> tuple[TreeDelta, ...]:
        """Return the changes, in order, that turn the tree below into this tree.

        The list is the shortest: two writes of a path become one. A node that was made and deleted,
        or has expired, is left out.
        """
        root = self._cells.root
        deltas: list[TreeDelta] = []
        if root.dirty:
            root.add_deltas((), self.now, deltas)
        return tuple(deltas)

    def apply(self, deltas: Iterable[TreeDelta]) -> None:
        """Apply the *deltas* of another overlay, as a store does."""
        for delta in deltas:
            cells, root, path = self._cells, self.paths.root, delta.path
            location = root.children.get(path) or self.paths.parse(root, path)
            match delta:
                case Put():
                    cells.put_value(location, deep_copy(delta.value), delta.expires)
                case Create():
                    cells.put_object(location, delta.expires)
                case Delete():
                    cells.delete(cells.cell_at(path), path, location.key)
                case Clear():
                    cells.clear(cells.cell_at(path), path, location.key)
                case Refresh():
                    cells.set_expiry(cells.cell_at(path), path, location.key, delta.expires)

    # --- reads ---

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        cell = self._cells.cell_at(path)
        if cell is None or (cell.expires is not None and cell.expires <= now):
            return None
        return Node(cell.state == OBJECT, cell.value, cell.expires)

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `ExactTree`."""
        cell = self._cells.cell_at(path)
        return [
            (name, Node(inner.state == OBJECT, inner.value, inner.expires))
            for name, inner in self._cells.live_fields(cell, path, now)
        ]

    def few_fields(self, path: Path) -> None:
        """Return None, because the cells are in RAM."""

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of the fields of the object at *path*; see `ExactTree`."""
        return self._cells.live_field_names(self._cells.cell_at(path), path, now)

    def names_in_range(self, path: Path, chosen: NameRange, now: int) -> list[str]:
        """Return the names of the fields in the range *chosen*; see `ExactTree`."""
        return self._cells.live_names_in_range(self._cells.cell_at(path), path, chosen, now)

    def has(self, location: ParsedPath) -> bool:
        """Return whether a value or an object is at *location*."""
        return (
            location.key in self._cells.fast_path
            or self._cells.live_cell_at(location.path) is not None
        )

    def query(self, operation: Callable[[Overlay], Result]) -> Result:
        """Call *operation*, a read, with this overlay and return its result."""
        return operation(self)

    def change(
        self, operation: Callable[[Overlay], Result], request: Sequence[object] = ()
    ) -> Result:
        """Call *operation*, a change, with this overlay and return its result."""
        if self.records_requests and not isinstance(self._cells, SealedOverlay):
            self._record_request(request)
        return operation(self)

    def once(self, idempotency_key: str) -> Overlay:
        """Raise `Unsupported`, because an action or a batch happens once anyway."""
        raise Unsupported(
            f"an action or a batch takes no idempotency key ({idempotency_key!r}): its "
            "writes happen once without one"
        )

    def tree_as_of(self, as_of: AsOf) -> NoReturn:
        """Raise `Unsupported`, because an action or a batch reads one state of its memory."""
        raise Unsupported(
            f"at({short_repr(as_of)}) cannot read the past inside a batch or an action; call it "
            "outside, as memory.key(…).short_term.at(…)"
        )

    def read(self, location: ParsedPath) -> Value | NonValue:
        """Return a copy of the value at *location*, or a `NonValue` if no value is there."""
        cell = self._cells.fast_path.get(location.key)
        if cell is not None and self._recorder is None:
            return cell.value
        cell = cell or self._cells.live_cell_at(location.path)
        if cell is None:
            return MISSING
        if _is_atom(cell):
            self._cells.fast_path[location.key] = cell
            value = cell.value
        else:
            value = self._read_cell(cell, location.path)
        if self._recorder is not None:
            self._recorder.read(location.path, value)
        return value

    def names(self, location: ParsedPath) -> list[str]:
        """Return the names of the fields of the object at *location*, in the order they were made.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        cell = self.object_at(location)
        return [name for name, _ in self._cells.live_field_names(cell, location.path, self.now)]

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """Return the names of the fields in the range *chosen*, in the order of names.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        cell = self.object_at(location)
        return self._cells.live_names_in_range(cell, location.path, chosen, self.now)

    def fields(self, location: ParsedPath) -> list[tuple[str, Value | NonValue]]:
        """Return the fields of the object at *location*, in the order they were made.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        path = location.path
        cells = self._cells.live_fields(self.object_at(location), path, self.now)
        fields = [
            (name, cell.value if _is_atom(cell) else self._read_cell(cell, (*path, name)))
            for name, cell in cells
        ]
        if self._recorder is not None:
            for name, value in fields:
                self._recorder.read((*path, name), value)
        return fields

    def branch(self, location: ParsedPath) -> Branch:
        """Return a copy of the object at *location*.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        branch = self._branch(self.object_at(location), location.path, self.now)
        if self._recorder is not None:
            self._recorder.read(location.path, branch)
        return branch

    def object_at(self, location: ParsedPath) -> Cell:
        """Return the cell of the object at *location*, or raise `NotAnObject`."""
        cell = self._cells.live_cell_at(location.path)
        if cell is None:
            raise NotAnObject(location.text, "an object is needed, but nothing is there")
        if cell.state != OBJECT:
            kind = type(cell.value).__name__
            raise NotAnObject(location.text, f"an object is needed, but a value ({kind}) is there")
        return cell

    # --- writes ---

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put *value* at *location*; create missing parent objects.

        Raises:
            InvalidValue: The value cannot be stored.
            TooLarge: The value has too many bytes.
            ObjectInTheWay: An object is at *location*.
            TreeConflict: A value is where an object would have to be.
        """
        cell = self._cells.fast_path.get(location.key)
        if cell is None or expiry is not None or self._ttl is not None or not _is_small(value):
            self.assign(location, value, expiry)
        elif cell.change == WRITTEN:
            cell.value = value
        else:
            self._cells.put_first(cell, location.path, value)
            self._record_write(location)
        if self.records_requests:
            self._record_request(put_request(location, value, expiry))

    def assign(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put a value as `put` does, but record no request: it is a part of another call."""
        stored = self._checked(location, value)
        self._cells.put_value(location, stored, self._expires(expiry))
        self._record_write(location)

    def replace(
        self, location: ParsedPath, value: object, expected: object, expiry: Expiry = None
    ) -> None:
        """Put *value* at *location* if the value there is *expected*.

        Args:
            expected: The value that must be there. `MISSING` means that nothing may be there.

        Raises:
            CompareFailed: Another value or nothing is there. Also all errors of `put`.
        """
        current = self.read(location)
        if current is NonValue.OBJECT:
            raise ObjectInTheWay(
                location.text, "an object is there, which cannot be compared with a value"
            )
        if not _same(current, expected):
            raise CompareFailed(location.text)
        self.assign(location, value, expiry)

    def create(
        self, location: ParsedPath, expiry: Expiry = None, *, overwrite: bool = False
    ) -> None:
        """Create an object at *location*, and missing parents. An existing object stays.

        Raises:
            TreeConflict: A value is there without *overwrite*, or in the path of a parent.
        """
        cell = self._cells.live_cell_at(location.path)
        if cell is not None and cell.state == VALUE and not overwrite:
            kind = type(cell.value).__name__
            raise TreeConflict(
                location.text,
                f"a value ({kind}) is there, not an object; overwrite=True replaces it",
            )
        self._cells.put_object(location, self._expires(expiry))
        self._record_write(location)

    def delete(self, location: ParsedPath) -> bool:
        """Delete the node at *location* and all nodes below it; return whether it existed."""
        cell = self._cells.live_cell_at(location.path)
        self._cells.delete(cell, location.path, location.key)
        return cell is not None

    def clear(self, location: ParsedPath) -> None:
        """Delete all fields of the object at *location*, or raise `NotAnObject`."""
        self._cells.clear(self.object_at(location), location.path, location.key)

    def append(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Append *value* to the list at *location*; create the list if nothing is there.

        The list keeps its expiry, unless *expiry* is given or the memory has a default.

        Raises:
            TreeConflict: The node is not a list. Also all errors of `put`.
        """
        cell = self._cells.live_cell_at(location.path)
        if cell is None:
            self.assign(location, [value], expiry)
            return
        items = self._value_of(cell, location)
        if type(items) is not list:
            raise TreeConflict(location.text, f"holds a {type(items).__name__}, not a list")
        item = self._checked(location, value)
        expires = self._same_expiry(cell, expiry)
        size = (cell.size or size_bound(items)) + size_bound(item) + 1
        if size > self._limits.value_bytes:
            size = self._limits.check_size([*items, item], location)
        if cell.change == WRITTEN:
            items.append(item)
        else:
            items = [*items, item]
        self._cells.put_value(location, items, expires)
        cell.size = size
        self._record_write(location)

    def increment(self, location: ParsedPath, by: float, expiry: Expiry = None) -> int | float:
        """Add *by* to the number at *location*, 0 if nothing is there, and return the sum.

        The number keeps its expiry, unless *expiry* is given or the memory has a default.

        Raises:
            TreeConflict: The node is not a number.
        """
        if type(by) not in (int, float):
            raise InvalidValue("by", f"must be an int or a float, not {short_repr(by)}")
        cell = self._cells.live_cell_at(location.path)
        if cell is None:
            self.assign(location, by, expiry)
            return by
        number = self._value_of(cell, location)
        if type(number) is not int and type(number) is not float:
            raise TreeConflict(location.text, f"holds a {type(number).__name__}, not a number")
        try:
            total = number + by
        except OverflowError:
            raise InvalidValue("by", "the int is too large to be added to a float") from None
        self._checked(location, total)
        self._cells.put_value(location, total, self._same_expiry(cell, expiry))
        self._record_write(location)
        return total

    def put_branch(self, location: ParsedPath, branch: Branch, expiry: Expiry = None) -> None:
        """Put a copy of *branch* at *location*, which must be empty or a value.

        Raises:
            ObjectInTheWay: An object is there.
            TreeConflict: A value is where an object would have to be.
            TooLarge: A path would become too long.
        """
        path_names(location.path + ("x",) * branch.levels())
        cell = self._cells.live_cell_at(location.path)
        if cell is not None and cell.state == OBJECT:
            raise object_in_the_way(location)
        expires = self._expires(expiry)
        self._cells.put_object(location, expires).fill(branch, expires)
        self._record_write(location)

    def copy(self, source: ParsedPath, location: ParsedPath, expiry: Expiry = None) -> None:
        """Put a copy of the object at *source* at *location*; see `branch` and `put_branch`."""
        self.put_branch(location, self.branch(source), expiry)

    def move(self, location: ParsedPath, target: ParsedPath) -> None:
        """Move the node at *location*, and all nodes below it, to *target*, with its expiry.

        Raises:
            TreeConflict: Nothing is at *location*, *target* exists or is below *location*, or a
                value is in the path of a parent.
        """
        path, cell = location.path, self._cells.live_cell_at(location.path)
        if cell is None:
            raise TreeConflict(location.text, "there is nothing to move")
        if target.path[: len(path)] == path:
            raise TreeConflict(target.text, "an object cannot be moved into itself or below itself")
        if self._cells.live_cell_at(target.path) is not None:
            raise TreeConflict(target.text, "the target of the move exists; delete it first")
        moved = list(self._moved(cell, path, target.path))
        for delta in moved:
            path_names(delta.path)
        self.apply(moved)  # only the first of them may raise
        self.delete(location)
        self._record_write(target)

    def _moved(self, cell: Cell, path: Path, target: Path) -> Iterator[TreeDelta]:
        """Yield the changes that copy *cell* at *path*, and all cells below it, to *target*."""
        if cell.state != OBJECT:
            yield Put(target, cell.value, cell.expires)
            return
        yield Create(target, cell.expires)
        for name, inner in self._cells.live_fields(cell, path, self.now):
            yield from self._moved(inner, (*path, name), (*target, name))

    def _record_write(self, location: ParsedPath) -> None:
        if self._recorder is not None:
            self._recorder.write(location.path)

    def _read_cell(self, cell: Cell, path: Path) -> Value | NonValue:
        if cell.state == OBJECT:
            return NonValue.OBJECT
        if cell.expires is not None:
            self._renew(cell, path)
        return deep_copy(cell.value)

    def _branch(self, cell: Cell, path: Path, now: int) -> Branch:
        fields: list[tuple[str, Value | Branch]] = []
        for name, inner in self._cells.live_fields(cell, path, now):
            below = (*path, name)
            if inner.state == OBJECT:
                fields.append((name, self._branch(inner, below, now)))
            else:
                fields.append((name, cast("Value", self._read_cell(inner, below))))
        return Branch(tuple(fields))

    def _value_of(self, cell: Cell, location: ParsedPath) -> Value:
        if cell.state == OBJECT:
            raise object_in_the_way(location)
        return cell.value

    def _record_request(self, request: Sequence[object]) -> None:
        self.requests.append([checked(part, nan=True) for part in request])

    def _checked(self, location: ParsedPath, value: object) -> Value:
        if _is_small(value):
            return value
        try:
            stored = fast_copy(value)
        except NeedsFullCheck:
            stored = checked(value, where=f"value at {location.text!r}", nan=True)
        self._limits.check_size(stored, location)
        return stored

    # --- expiry ---

    def _expires(self, expiry: Expiry) -> int | None:
        if isinstance(expiry, timedelta):
            return self.now + ttl_us(expiry)
        if expiry is None and self._ttl is not None:
            return self.now + ttl_us(self._ttl.after)
        return expiry

    def _same_expiry(self, cell: Cell, expiry: Expiry) -> int | None:
        expires = self._expires(expiry)
        return cell.expires if expires is None else expires

    def _renew(self, cell: Cell, path: Path) -> None:
        ttl = self._ttl
        if ttl is None or ttl.refresh != "read" or cell.expires is None:
            return
        until = self.now + ttl_us(ttl.after)
        if until - cell.expires >= self.min_renewal_us:
            self._cells.renew(cell, path, until)


def _is_atom(cell: Cell) -> bool:
    """Return whether *cell* has a value that needs no copy and never expires."""
    return cell.expires is None and cell.state == VALUE and type(cell.value) in ATOMS


def _is_small(value: object) -> TypeGuard[Value]:
    """Return whether *value* can be stored without a full check."""
    if type(value) is int:
        return -(1 << 63) < value < 1 << 63
    if type(value) is str:
        return len(value) < _MAX_SHORT_TEXT and value.isascii()
    return type(value) in _SMALL_TYPES


def _same(a: object, b: object) -> bool:
    """Return whether two values and their types are equal; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if type(a) is list:
        first, second = cast("list[object]", a), cast("list[object]", b)
        return len(first) == len(second) and all(map(_same, first, second))
    if type(a) is dict:
        one, two = cast("dict[str, object]", a), cast("dict[str, object]", b)
        return one.keys() == two.keys() and all(_same(v, two[k]) for k, v in one.items())
    return a == b or (a != a and b != b)  # noqa: PLR0124 - NaN

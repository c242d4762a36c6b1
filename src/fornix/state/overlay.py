"""An overlay: what an action did to an exact tree, over the tree as it was when the action began.

Nothing is written through. Reads see the tree and the overlay's own writes; `Overlay.deltas` is
the shortest list of changes that leads from the one to the other. What is read is remembered:
a read of one path asks the tree at most once, and a write never reads what lies beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import NoReturn, TypeGuard, TypeVar, cast

from fornix.errors import InvalidValue, NotAnObject, TreeConflict, Unsupported, Unusable
from fornix.state.cells import ATOMS, OBJECT, VALUE, WRITTEN, Cell, Cells, copied, in_the_way
from fornix.state.paths import MemoryKind, ParsedPath, Places, Resolver, names_of
from fornix.state.tree_values import (
    MISSING,
    Branch,
    ExactTree,
    Expiry,
    Mark,
    NotPlain,
    TreeLimits,
    Ttl,
    lasting,
    plain_copy,
    put_request,
    size_bound,
)
from fornix.store import (
    Clear,
    Create,
    Delete,
    Node,
    Put,
    Refresh,
    TreeDelta,
)
from fornix.store.as_of import AsOf
from fornix.values.storable import Path, Value, checked

Result = TypeVar("Result")

_FLAGS = frozenset({type(None), bool, float})
"""Types of values that are valid and small, whichever value it is."""

_SHORT = 128
"""Characters of a text that is surely within the least `TreeLimits`."""


_LIMITS = TreeLimits()


class TreeRecorder:
    """What was done to an exact tree, for the memory events that report it.

    Attributes:
        first: Paths that were written, numbered in the order of their first write.
        seen: Values that were read, by path, as they were read last; empty without *reads*.
    """

    __slots__ = ("_reads", "first", "seen")

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads
        self.first: dict[Path, int] = {}
        self.seen: dict[Path, Value] = {}

    def write(self, path: Path) -> None:
        """Record a write."""
        self.first.setdefault(path, len(self.first))

    def read(self, path: Path, found: Value | Mark | Branch) -> None:
        """Record a value that was read, or all values of a branch."""
        if not self._reads or isinstance(found, Mark):
            return
        if isinstance(found, Branch):
            for name, inner in found.fields:
                self.read((*path, name), inner)
        else:
            self.seen[path] = checked(found, nan=True)  # a copy: the reader may change its own


class SealedOverlay:
    """Stands where an overlay's cells were: what is read or written now would be lost."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        """Raise `Unusable`."""
        raise Unusable(self.__dict__["reason"])


class Overlay:
    """Buffered changes over an `ExactTree`, for one thread; an `ExactTree` itself, so they stack.

    A method that raises has changed nothing.

    Args:
        tree: What lies below; None: nothing does.
        now: The time in microseconds, or what tells it; decides what has expired.
        places: Shared parsed paths; by default its own.
        lookups: Takes the paths that the tree was asked for.
        recorder: Takes what is read and written.

    Attributes:
        patience_us: With ``Ttl(refresh="read")``: a read renews only what gains this much.
        resolver: Finds the memory that a reference to another kind points into.
        calls: While *noting*: what was asked for, as passed, so that a repetition is recognised.
    """

    __slots__ = (
        "_cells", "_limits", "_recorder", "_ttl", "calls", "kind", "noting", "patience_us",
        "places", "resolver",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - what an action, a batch and a commit each need of it
        self,
        tree: ExactTree | None,
        *,
        kind: MemoryKind,
        now: int | Callable[[], int],
        limits: TreeLimits | None = None,
        ttl: Ttl | None = None,
        places: Places | None = None,
        lookups: list[Path] | None = None,
        recorder: TreeRecorder | None = None,
    ) -> None:
        self.kind = kind
        self.places = places or Places(kind)
        self.resolver: Resolver | None = None
        self.patience_us = 1
        self.calls: list[Value] = []
        self.noting = False
        self._cells: Cells = Cells(tree, now, lookups)
        self._recorder = recorder
        self._limits = limits or _LIMITS
        self._ttl = ttl

    def seal(self, reason: str) -> Cells:
        """Have every later use raise `Unusable`, saying *reason*; return what `unseal` takes."""
        cells, self._cells = self._cells, cast("Cells", SealedOverlay(reason))
        return cells

    def unseal(self, cells: Cells) -> None:
        """Be usable again."""
        self._cells = cells

    def end(self, sealed: SealedOverlay) -> None:
        """Have every later use raise `Unusable` for good, and let go of all that it held.

        Its resolver holds it in turn, and circles are left to the garbage collector.
        """
        self._cells = self.resolver = sealed  # pyright: ignore[reportAttributeAccessIssue] - it stands for both

    @property
    def home(self) -> object:
        """Equal for all overlays that share their parsed paths: of one memory, one on another."""
        return id(self.places)

    @property
    def now(self) -> int:
        """The time that decides what has expired."""
        return self._cells.clock()

    # --- what changed ---

    @property
    def changed(self) -> bool:
        """Whether there are deltas."""
        return bool(self.deltas())

    def deltas(self) -> tuple[TreeDelta, ...]:
        """Return what a store has to do, in order, for its tree to become what this one shows.

        Shortest: what was written twice is there once, what was made and deleted, or has expired,
        is not there.
        """
        root = self._cells.root
        found: list[TreeDelta] = []
        if root.dirty:
            root.deltas((), self.now, found)
        return tuple(found)

    def apply(self, deltas: Iterable[TreeDelta]) -> None:
        """Do what another overlay's *deltas* say, as a store would."""
        for delta in deltas:
            cells, root, path = self._cells, self.places.root, delta.path
            place = root.below.get(path) or self.places.find(root, path)
            match delta:
                case Put():
                    cells.place_value(place, copied(delta.value), delta.expires)
                case Create():
                    cells.place_object(place, delta.expires)
                case Delete():
                    cells.bury(cells.known(path), path, place.key)
                case Clear():
                    cells.clear(cells.known(path), path, place.key)
                case Refresh():
                    cells.move(cells.known(path), path, place.key, delta.expires)

    # --- reads ---

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        cell = self._cells.known(path)
        if cell is None or (cell.expires is not None and cell.expires <= now):
            return None
        return Node(cell.state == OBJECT, cell.value, cell.expires)

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `ExactTree`."""
        cell = self._cells.known(path)
        return [
            (name, Node(field.state == OBJECT, field.value, field.expires))
            for name, field in self._cells.cells_in(cell, path, now)
        ]

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of the fields of the object at *path*; see `ExactTree`."""
        return self._cells.names_in(self._cells.known(path), path, now)

    def has(self, place: ParsedPath) -> bool:
        """Return whether a value or an object is at *place*."""
        return place.key in self._cells.plain or self._cells.alive(place.path) is not None

    def look(self, operation: Callable[[Overlay], Result]) -> Result:
        """Return what *operation* reads here."""
        return operation(self)

    def change(
        self,
        operation: Callable[[Overlay], Result],
        request: Sequence[object] = (),
    ) -> Result:
        """Return what *operation* does here."""
        if self.noting and not isinstance(self._cells, SealedOverlay):
            self._note(request)
        return operation(self)

    def once(self, idempotency_key: str) -> Overlay:
        """Raise `Unsupported`: whose writes these are, an action or a batch, happens once."""
        raise Unsupported(
            f"idempotency key {idempotency_key!r}: here every write happens once without one"
        )

    def past(self, as_of: AsOf) -> NoReturn:
        """Raise `Unsupported`: an action or a batch reads one state of its memory."""
        raise Unsupported(
            f"at({as_of!r}): inside a batch or an action the past is not read; read it outside, "
            "with memory.key(…).short_term.at(…)"
        )

    def read(self, place: ParsedPath) -> Value | Mark:
        """Return a copy of the value at *place*, or what is there instead."""
        cell = self._cells.plain.get(place.key)
        if cell is not None and self._recorder is None:
            return cell.value
        cell = cell or self._cells.alive(place.path)
        if cell is None:
            return MISSING
        if _is_atom(cell):
            self._cells.plain[place.key] = cell
            found = cell.value
        else:
            found = self._shown(cell, place.path)
        if self._recorder is not None:
            self._recorder.read(place.path, found)
        return found

    def names(self, place: ParsedPath) -> list[str]:
        """Return the names of the fields of the object at *place*, in the order they were made.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        cell = self.object_at(place)
        return [name for name, _ in self._cells.names_in(cell, place.path, self.now)]

    def fields(self, place: ParsedPath) -> list[tuple[str, Value | Mark]]:
        """Return the fields of the object at *place*, in the order they were made.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        path = place.path
        cells = self._cells.cells_in(self.object_at(place), path, self.now)
        fields = [
            (name, cell.value if _is_atom(cell) else self._shown(cell, (*path, name)))
            for name, cell in cells
        ]
        if self._recorder is not None:
            for name, value in fields:
                self._recorder.read((*path, name), value)
        return fields

    def branch(self, place: ParsedPath) -> Branch:
        """Return a copy of the object at *place*.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        branch = self._branch(self.object_at(place), place.path, self.now)
        if self._recorder is not None:
            self._recorder.read(place.path, branch)
        return branch

    def object_at(self, place: ParsedPath) -> Cell:
        """Return the cell of the object at *place*, or raise `NotAnObject`."""
        cell = self._cells.alive(place.path)
        if cell is None:
            raise NotAnObject(place.text, "an object is needed, but nothing is there")
        if cell.state != OBJECT:
            found = type(cell.value).__name__
            raise NotAnObject(place.text, f"an object is needed, but a value ({found}) is there")
        return cell

    # --- writes ---

    def put(self, place: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put *value* at *place*, with the objects that lead there.

        Raises:
            InvalidValue: It cannot be stored.
            TooLarge: It has too many bytes.
            ObjectInTheWay: An object is there.
            TreeConflict: A value is where an object would have to be.
        """
        cell = self._cells.plain.get(place.key)
        if cell is not None and cell.change == WRITTEN and expiry is None and _small(value):
            cell.value = value  # the fast path: a small value, again, where one was put before
        else:
            self.assign(place, value, expiry)
        if self.noting:
            self._note(put_request(place, value, expiry))

    def assign(self, place: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Do what `put` does, as part of another call."""
        whole = self._checked(place, value)
        self._cells.place_value(place, whole, self._expires(expiry))
        self._record_write(place)

    def create(self, place: ParsedPath, expiry: Expiry = None, *, overwrite: bool = False) -> None:
        """Put an empty object at *place*, with those that lead there; one that is there stays.

        Raises:
            TreeConflict: A value is there and not *overwrite*, or where an object would have to be.
        """
        cell = self._cells.alive(place.path)
        if cell is not None and cell.state == VALUE and not overwrite:
            found = type(cell.value).__name__
            raise TreeConflict(
                place.text,
                f"a value ({found}) is there, not an object; overwrite=True replaces it",
            )
        self._cells.place_object(place, self._expires(expiry))
        self._record_write(place)

    def delete(self, place: ParsedPath) -> bool:
        """Remove what is at *place* and all below it; return whether something was there."""
        cell = self._cells.alive(place.path)
        self._cells.bury(cell, place.path, place.key)
        return cell is not None

    def clear(self, place: ParsedPath) -> None:
        """Remove all below the object at *place*, or raise `NotAnObject`."""
        self._cells.clear(self.object_at(place), place.path, place.key)

    def append(self, place: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Add *value* to the end of the list at *place*; begin one where nothing is.

        Its expiry stays, unless *expiry* or the memory says otherwise.

        Raises:
            TreeConflict: A value that is no list, or else as `put`.
        """
        cell = self._cells.alive(place.path)
        if cell is None:
            self.assign(place, [value], expiry)
            return
        items = self._value_of(cell, place)
        if type(items) is not list:
            raise TreeConflict(place.text, f"holds a {type(items).__name__}, not a list")
        item = self._checked(place, value)
        expires = self._same_expiry(cell, expiry)
        size = (cell.size or size_bound(items)) + size_bound(item) + 1
        if size > self._limits.value_bytes:
            size = self._limits.measured([*items, item], place)
        if cell.change == WRITTEN:
            items.append(item)
        else:
            items = [*items, item]
        self._cells.place_value(place, items, expires)
        cell.size = size
        self._record_write(place)

    def increment(self, place: ParsedPath, by: float, expiry: Expiry = None) -> int | float:
        """Add *by* to the number at *place*, 0 where nothing is, and return the sum.

        Its expiry stays, unless *expiry* or the memory says otherwise.

        Raises:
            TreeConflict: What is there is not a number.
        """
        if type(by) not in (int, float):
            raise InvalidValue("by", f"must be an int or a float, not {by!r}")
        cell = self._cells.alive(place.path)
        if cell is None:
            self.assign(place, by, expiry)
            return by
        number = self._value_of(cell, place)
        if type(number) is not int and type(number) is not float:
            raise TreeConflict(place.text, f"holds a {type(number).__name__}, not a number")
        try:
            total = number + by
        except OverflowError:
            raise InvalidValue("by", "the sum of a float and so large an int is none") from None
        self._checked(place, total)
        self._cells.place_value(place, total, self._same_expiry(cell, expiry))
        self._record_write(place)
        return total

    def graft(self, place: ParsedPath, branch: Branch, expiry: Expiry = None) -> None:
        """Put a copy of *branch* at *place*: where nothing is, or in place of a value.

        Raises:
            ObjectInTheWay: An object is there.
            TreeConflict: A value is where an object would have to be.
            TooLarge: A path would become too long.
        """
        names_of(place.path + ("x",) * branch.levels())
        cell = self._cells.alive(place.path)
        if cell is not None and cell.state == OBJECT:
            raise in_the_way(place)
        expires = self._expires(expiry)
        self._cells.place_object(place, expires).fill(branch, expires)
        self._record_write(place)

    def _record_write(self, place: ParsedPath) -> None:
        if self._recorder is not None:
            self._recorder.write(place.path)

    def _shown(self, cell: Cell, path: Path) -> Value | Mark:
        if cell.state == OBJECT:
            return Mark.OBJECT
        if cell.expires is not None:
            self._renew(cell, path)
        return copied(cell.value)

    def _branch(self, cell: Cell, path: Path, now: int) -> Branch:
        fields: list[tuple[str, Value | Branch]] = []
        for name, field in self._cells.cells_in(cell, path, now):
            below = (*path, name)
            if field.state == OBJECT:
                fields.append((name, self._branch(field, below, now)))
            else:
                fields.append((name, cast("Value", self._shown(field, below))))
        return Branch(tuple(fields))

    def _value_of(self, cell: Cell, place: ParsedPath) -> Value:
        if cell.state == OBJECT:
            raise in_the_way(place)
        return cell.value

    def _note(self, request: Sequence[object]) -> None:
        self.calls.append([checked(part, nan=True) for part in request])

    def _checked(self, place: ParsedPath, value: object) -> Value:
        if _small(value):
            return value
        try:
            whole = plain_copy(value)
        except NotPlain:
            whole = checked(value, where=f"value at {place.text!r}", nan=True)
        self._limits.measured(whole, place)
        return whole

    # --- expiry ---

    def _expires(self, expiry: Expiry) -> int | None:
        if isinstance(expiry, timedelta):
            return self.now + lasting(expiry)
        if expiry is None and self._ttl is not None:
            return self.now + lasting(self._ttl.after)
        return expiry

    def _same_expiry(self, cell: Cell, expiry: Expiry) -> int | None:
        expires = self._expires(expiry)
        return cell.expires if expires is None else expires

    def _renew(self, cell: Cell, path: Path) -> None:
        ttl = self._ttl
        if ttl is None or ttl.refresh != "read" or cell.expires is None:
            return
        until = self.now + lasting(ttl.after)
        if until - cell.expires >= self.patience_us:
            self._cells.renew(cell, path, until)


def _is_atom(cell: Cell) -> bool:
    """Say whether *cell* holds a value that needs no copy and never expires."""
    return cell.expires is None and cell.state == VALUE and type(cell.value) in ATOMS


def _small(value: object) -> TypeGuard[Value]:
    """Say whether *value* can be stored as it is, without a closer look."""
    if type(value) is int:
        return -(1 << 63) < value < 1 << 63
    if type(value) is str:
        return len(value) < _SHORT and value.isascii()
    return type(value) in _FLAGS

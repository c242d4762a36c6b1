"""The cells of an overlay: one per path that was read or written, with its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Final

from alveus.errors import ObjectInTheWay, TreeConflict
from alveus.state.paths import ParsedPath, path_key
from alveus.state.tree_values import IGNORE_EXPIRY, Branch, ExactTree
from alveus.store import Clear, Create, Delete, Node, Put, Refresh, TreeDelta
from alveus.store.scope import NameRange
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Path, Value

NOT_LOADED: Final = 0
"""The base was not read at this path yet. Cells below may be loaded."""
ABSENT: Final = 1
OBJECT: Final = 2
VALUE: Final = 3

UNCHANGED: Final = 0
EXPIRY_CHANGED: Final = 1
"""Only the expiry was changed."""
WRITTEN: Final = 2
"""The node was created or put."""

NOT_REMOVED: Final = 0
FIELDS_REMOVED: Final = 1
"""The fields of the base were cleared."""
NODE_REMOVED: Final = 2
"""The node of the base was deleted. A new node may have replaced it."""

ASKED_TOGETHER: Final = 3
"""At this single read of a field of an object, all its fields are read, if they are few."""


@dataclass(slots=True, eq=False)
class Fields:
    """The fields of an object that were read or written.

    Attributes:
        cells: Every cell that was loaded or written, by name, also cells of missing fields.
        added: Fields that were created over the base, in order. The same dict as *cells* if the
            base has no fields.
        base_cells: Fields of the base that were not deleted, in the order of the base. None means
            that they are not loaded.
        may_expire: Whether a field may have an expiry.
        base_names: The names and expiries of the base's fields. None means that they are not
            loaded.
        asked: Number of fields that were read from the tree singly.
        few: All fields of the base, if they are few and were read together, else None.
    """

    cells: dict[str, Cell]
    added: dict[str, Cell]
    base_cells: dict[str, Cell] | None
    may_expire: bool = False
    base_names: list[tuple[str, int | None]] | None = None
    asked: int = 0
    few: dict[str, Node | None] | None = None

    @classmethod
    def of_base(cls) -> Fields:
        """Return the fields of an object of the base, none of them loaded."""
        return cls({}, {}, None)

    @classmethod
    def none(cls) -> Fields:
        """Return the fields of an object without fields."""
        added: dict[str, Cell] = {}
        return cls(added, added, {})

    def is_known_or_changed(self) -> bool:
        """Return whether the base's names are loaded, or any field was changed."""
        if self.base_cells is not None or self.base_names is not None:
            return True
        return any(cell.dirty for cell in self.cells.values())

    def changed(self) -> Iterable[tuple[str, Cell]]:
        """Return the cells that differ from the base: fields of the base first, then new ones."""
        added = self.added
        if self.cells is added:
            return added.items()
        changed_in_base = [
            pair for pair in self.cells.items() if pair[1].dirty and pair[0] not in added
        ]
        return [*changed_in_base, *added.items()]


@dataclass(slots=True, eq=False)
class Cell:
    """The state of one path: in the base, and after the changes.

    A cell has no link to its parent. Cycles would need the garbage collector, and an action makes
    many cells.

    Attributes:
        base: The node of the base at this path, or None.
        removed: The part of *base* that was removed.
        change: The change of the node, or of its replacement.
        dirty: Whether the cell, or a cell below it, differs from the base.
        size: Bytes of a list that was appended to, so that the next append need not count them. 0
            means unknown.
    """

    state: int = NOT_LOADED
    fields: Fields | None = None
    value: Value = None
    expires: int | None = None
    base: Node | None = None
    removed: int = NOT_REMOVED
    change: int = UNCHANGED
    dirty: bool = False
    size: int = 0

    def load(self, node: Node | None) -> None:
        """Set the state from *node*: the node of the base, or None if the base has none here."""
        self.base = node
        if node is None or not node.is_object:
            self.fields = None
            self.state = ABSENT if node is None else VALUE
        else:
            self.fields = self.fields or Fields.of_base()
            self.state = OBJECT
        if node is not None:
            self.value, self.expires = node.value, node.expires

    def write(self, state: int, value: Value, expires: int | None) -> None:
        """Make this cell, which is attached to its parent, a new object or a value."""
        self.state, self.value, self.expires = state, value, expires
        self.change, self.size, self.dirty = WRITTEN, 0, True
        self.fields = Fields.none() if state == OBJECT else None

    def set_expiry(self, expires: int | None) -> None:
        """Change the expiry."""
        self.expires, self.dirty = expires, True
        if self.change == UNCHANGED:
            self.change = EXPIRY_CHANGED

    def delete(self) -> None:
        """Make this cell empty, and mark the node of the base as removed."""
        self.state, self.value, self.expires, self.fields = ABSENT, None, None, None
        self.change, self.dirty = UNCHANGED, True
        if self.base is not None:
            self.removed = NODE_REMOVED

    def clear(self) -> None:
        """Remove all fields of an object."""
        if self.fields is not None and self.fields.cells is not self.fields.added:
            self.removed = FIELDS_REMOVED
        self.fields, self.dirty = Fields.none(), True

    def fill(self, branch: Branch, expires: int | None) -> None:
        """Copy the fields of *branch* into this new object, which has none."""
        fields: Any = self.fields
        fields.may_expire = expires is not None
        for name, inner in branch.fields:
            cell = fields.added[name] = Cell()
            if isinstance(inner, Branch):
                cell.write(OBJECT, None, expires)
                cell.fill(inner, expires)
            else:
                cell.write(VALUE, inner, expires)

    def is_plain_put(self) -> bool:
        """Return whether the only change from the base is to put a value that does not expire."""
        return (
            self.change == WRITTEN
            and self.state == VALUE
            and self.expires is None
            and not self.removed
        )

    def add_deltas(self, path: Path, now: int, deltas: list[TreeDelta]) -> None:
        """Add to *deltas* the changes of this cell, at *path*, and of all cells below.

        A written cell that has expired by *now* is deleted, if the base has it.
        """
        if self.expires is not None and self.expires <= now:
            if self.base is not None and (self.removed or self.change == WRITTEN):
                deltas.append(Delete(path))
            return
        if self.removed:
            deltas.append(Delete(path) if self.removed == NODE_REMOVED else Clear(path))
        if self.change:
            deltas.append(self._delta(path))
        if self.fields is not None:
            for name, cell in self.fields.changed():
                if cell.is_plain_put():
                    deltas.append(Put((*path, name), deep_copy(cell.value)))
                else:
                    cell.add_deltas((*path, name), now, deltas)

    def _delta(self, path: Path) -> TreeDelta:
        if self.change == EXPIRY_CHANGED:
            return Refresh(path, self.expires)
        if self.state == OBJECT:
            return Create(path, self.expires)
        return Put(path, deep_copy(self.value), self.expires)


def _node_among(siblings: Fields, tree: ExactTree, path: Path) -> Node | None:
    """Return the node of *tree* at *path*. *siblings* are the fields that contain it.

    After several single reads, all fields of the object are read at once, if they are few.
    """
    siblings.asked += 1
    if siblings.asked == ASKED_TOGETHER:
        siblings.few = tree.few_fields(path[:-1])
    few, name = siblings.few, path[-1]
    if few is None or (name in few and few[name] is None):
        return tree.node(path, IGNORE_EXPIRY)
    return few.get(name)


def deep_copy(value: Value) -> Value:
    """Return a deep copy of *value*, which must be storable."""
    if type(value) is list:
        return [v if type(v) in ATOMS else deep_copy(v) for v in value]
    if type(value) is dict:
        return {k: v if type(v) in ATOMS else deep_copy(v) for k, v in value.items()}
    return value


@dataclass(slots=True, eq=False)
class Cells:
    """All cells of one overlay. Not safe for threads.

    Args:
        now: The time by which nodes expire, or a function that returns it.
        lookups: Collects the paths that were read from the tree, even without a tree.

    Attributes:
        root: The cell of the root.
        fast_path: The cells of values that need no copy and never expire, by `path_key`.
    """

    _tree: ExactTree | None
    _now: int | Callable[[], int]
    lookups: list[Path] | None
    root: Cell
    fast_path: dict[str, Cell]

    @classmethod
    def over(
        cls, tree: ExactTree | None, now: int | Callable[[], int], lookups: list[Path] | None = None
    ) -> Cells:
        """Return cells over a tree, none of them loaded."""
        has_base = tree is not None or lookups is not None
        root = Cell(OBJECT, Fields.of_base() if has_base else Fields.none())
        return cls(tree, now, lookups, root, {})

    def now(self) -> int:
        """Return the time by which nodes expire."""
        now = self._now
        return now if isinstance(now, int) else now()

    # --- finding ---

    def live_cell_at(self, path: Path) -> Cell | None:
        """Return the cell at *path* if a value or an object is there now, else None."""
        cell = self.cell_at(path)
        if cell is None or cell.expires is None or cell.expires > self.now():
            return cell
        return None

    def cell_at(self, path: Path) -> Cell | None:
        """Return the cell at *path*, expired or not, or None if nothing is there.

        Reads the tree at most once.
        """
        cell = self.root
        fields: Any = cell.fields
        for name in path:
            fields = cell.fields
            if fields is None:
                if cell.state != NOT_LOADED:
                    return None
                fields = cell.fields = Fields.of_base()
            inner = fields.cells.get(name)
            if inner is None:
                if fields.base_cells is not None:
                    return None
                inner = fields.cells[name] = Cell()
            cell = inner
        if cell.state == NOT_LOADED:
            self._load(cell, path, fields)
        return None if cell.state == ABSENT else cell

    def _load(self, cell: Cell, path: Path, siblings: Fields) -> None:
        """Load *cell* from the tree. *siblings* are the fields that contain the cell."""
        if self.lookups is not None:
            self.lookups.append(path)
        tree = self._tree
        node = None if tree is None else _node_among(siblings, tree, path)
        cell.load(node)
        if node is not None and node.expires is not None:
            siblings.may_expire = True

    def _record_lookup(self, path: Path) -> None:
        if self.lookups is not None:
            self.lookups.append(path)

    def load_fields(self, cell: Cell, path: Path) -> Fields:
        """Return the fields of an object, with all fields of the tree loaded."""
        fields: Any = cell.fields
        if fields.base_cells is None:
            self._record_lookup(path)
            base_cells: dict[str, Cell] = {}
            for name, node in (
                [] if self._tree is None else self._tree.children(path, IGNORE_EXPIRY)
            ):
                field = fields.cells.get(name)
                if field is None:
                    field = fields.cells[name] = Cell()
                if field.state == NOT_LOADED:
                    field.load(node)
                    fields.may_expire = fields.may_expire or node.expires is not None
                if field.state != ABSENT and name not in fields.added:
                    base_cells[name] = field
            fields.base_cells = base_cells
        return fields

    def live_fields(self, cell: Cell | None, path: Path, now: int) -> list[tuple[str, Cell]]:
        """Return the fields of an object that have not expired by *now*, in order.

        Return no fields if *cell* is None or a value.
        """
        if cell is None or cell.state != OBJECT:
            return []
        fields = self.load_fields(cell, path)
        every = chain((fields.base_cells or {}).items(), fields.added.items())
        return [pair for pair in every if (end := pair[1].expires) is None or end > now]

    def live_field_names(
        self, cell: Cell | None, path: Path, now: int
    ) -> list[tuple[str, int | None]]:
        """Return the names and expiries of `live_fields`, without reading values from the tree."""
        fields: Any = None if cell is None or cell.state != OBJECT else cell.fields
        if fields is None or fields.base_cells is not None:
            return [(name, field.expires) for name, field in self.live_fields(cell, path, now)]
        if fields.base_names is None:
            self._record_lookup(path)
            fields.base_names = (
                [] if self._tree is None else self._tree.field_names(path, IGNORE_EXPIRY)
            )
        live_names: list[tuple[str, int | None]] = []
        for name, expires in fields.base_names:
            loaded = fields.cells.get(name)
            if name in fields.added or (loaded is not None and loaded.state == ABSENT):
                continue
            if loaded is not None and loaded.state != NOT_LOADED:
                live_names.append((name, loaded.expires))
            else:
                live_names.append((name, expires))
        live_names += [(name, field.expires) for name, field in fields.added.items()]
        return [pair for pair in live_names if (end := pair[1]) is None or end > now]

    def live_names_in_range(
        self, cell: Cell | None, path: Path, chosen: NameRange, now: int
    ) -> list[str]:
        """Return the names of `live_fields` in the range *chosen*, in the order of names.

        If no field of the object was changed, and its names are not loaded, only the chosen names
        are read from the tree.
        """
        fields = None if cell is None or cell.state != OBJECT else cell.fields
        if self._tree is None or fields is None or fields.is_known_or_changed():
            names = self.live_field_names(cell, path, now)
            return chosen.choose(name for name, _ in names)
        self._record_lookup(path)
        return self._tree.names_in_range(path, chosen, now)

    # --- changing ---

    def _mark_dirty(self, path: Path, expires: int | None) -> None:
        """Mark *path* and all objects above it as changed. *expires* is the new expiry, if any."""
        cell = self.root
        cell.dirty = True
        fields: Any = cell.fields
        for name in path:
            fields = cell.fields
            cell = fields.cells[name]
            cell.dirty = True
        if expires is not None:
            fields.may_expire = True

    def put_value(self, location: ParsedPath, value: Value, expires: int | None) -> None:
        """Put a checked value at *location*. Raise `TreeConflict` if a value is above it."""
        cell = self.live_cell_at(location.path)
        if cell is None:
            cell = self._create_with_parents(location, expires)
        elif cell.state == OBJECT:
            raise object_in_the_way(location)
        elif _is_later(expires, cell.expires):
            self.extend_expiry(location.path[:-1], expires)
        cell.write(VALUE, value, expires)
        self._mark_dirty(location.path, expires)
        if expires is None and type(value) in ATOMS:
            self.fast_path[location.key] = cell
        else:
            self.fast_path.pop(location.key, None)

    def put_first(self, cell: Cell, path: Path, value: Value) -> None:
        """Put a value that needs no copy into a `fast_path` cell that was not written yet."""
        cell.value, cell.change = value, WRITTEN
        self._mark_dirty(path, None)

    def put_object(self, location: ParsedPath, expires: int | None) -> Cell:
        """Return the object at *location*. Create it if nothing or a value is there."""
        cell = self.live_cell_at(location.path)
        if cell is not None and cell.state == OBJECT:
            self.extend_expiry(location.path, expires)
            return cell
        if cell is None:
            cell = self._create_with_parents(location, expires)
        elif _is_later(expires, cell.expires):
            self.extend_expiry(location.path[:-1], expires)
        cell.write(OBJECT, None, expires)
        self._mark_dirty(location.path, expires)
        self.fast_path.pop(location.key, None)
        return cell

    def _create_with_parents(self, location: ParsedPath, expires: int | None) -> Cell:
        """Return a new cell at *location*, where nothing is; create missing parents.

        All parents last at least until *expires*. Raise `TreeConflict` if a value is a parent.
        """
        path = location.path
        existing_levels, cell = len(path) - 1, self.root
        while existing_levels:
            ancestor = self.live_cell_at(path[:existing_levels])
            if ancestor is not None:
                cell = ancestor
                break
            existing_levels -= 1
        if cell.state != OBJECT:
            blocker = ".".join(path[:existing_levels])
            raise TreeConflict(
                location.text,
                f"{blocker!r} holds a value ({type(cell.value).__name__}), which has no "
                f"fields; remove it first, or replace it with new_object({blocker!r}, "
                "overwrite=True)",
            )
        if existing_levels:
            self.extend_expiry(path[:existing_levels], expires)
        for depth in range(existing_levels + 1, len(path)):
            cell = self._attach(cell, path[:depth])
            cell.write(OBJECT, None, expires)
            self._mark_dirty(path[:depth], expires)
        return self._attach(cell, path)

    def _attach(self, parent: Cell, path: Path) -> Cell:
        """Return a cell for a new field of *parent*, its last one."""
        fields: Any = parent.fields
        name = path[-1]
        cell = fields.cells.get(name)
        if cell is None:
            cell = fields.cells[name] = Cell()
        elif cell.state != ABSENT:  # it expired
            self.delete(cell, path, path_key(path))
            fields.cells[name] = cell
        fields.added[name] = cell
        return cell

    def delete(self, cell: Cell | None, path: Path, key: str) -> None:
        """Remove a cell, and all cells below it, from the fields of its parent."""
        if cell is None or not path:
            return
        self._drop_fast_path(cell, key)
        cell.delete()
        self._mark_dirty(path, None)
        fields: Any = self.root.fields
        for name in path[:-1]:
            fields = fields.cells[name].fields
        fields.added.pop(path[-1], None)
        if fields.base_cells:
            fields.base_cells.pop(path[-1], None)

    def clear(self, cell: Cell | None, path: Path, key: str) -> None:
        """Remove all fields of an object."""
        if cell is not None and cell.state == OBJECT:
            self._drop_fast_path(cell, key)
            cell.clear()
            self._mark_dirty(path, None)

    def _drop_fast_path(self, cell: Cell, key: str) -> None:
        """Drop the fast path to *cell* and all cells below it."""
        fast_path = self.fast_path
        fast_path.pop(key, None)
        if cell.fields is not None:
            for name, field in cell.fields.cells.items():
                inner = path_key((name,))
                self._drop_fast_path(field, f"{key}.{inner}" if key else inner)

    def set_expiry(self, cell: Cell | None, path: Path, key: str, expires: int | None) -> None:
        """Change the expiry of a cell."""
        if cell is not None and path:
            self.fast_path.pop(key, None)
            cell.set_expiry(expires)
            self._mark_dirty(path, expires)

    def renew(self, cell: Cell, path: Path, expires: int) -> None:
        """Extend the expiry of a cell, and of the objects above it, to the later *expires*."""
        cell.set_expiry(expires)
        self._mark_dirty(path, expires)
        self.extend_expiry(path[:-1], expires)

    def extend_expiry(self, path: Path, expires: int | None) -> None:
        """Extend the expiry of the object at *path*, and of the objects above it, to *expires*."""
        ancestors: list[tuple[Cell, Fields]] = []
        fields: Any = self.root.fields
        for name in path:
            cell = fields.cells[name]
            ancestors.append((cell, fields))
            fields = cell.fields
        for depth in range(len(path), 0, -1):
            cell, fields = ancestors[depth - 1]
            if cell.state == NOT_LOADED:
                self._load(cell, path[:depth], fields)
            if not _is_later(expires, cell.expires):
                return  # and the objects above it last longer still
            cell.set_expiry(expires)
            self._mark_dirty(path[:depth], expires)


def _is_later(expires: int | None, than: int | None) -> bool:
    return than is not None and (expires is None or expires > than)


def object_in_the_way(location: ParsedPath) -> ObjectInTheWay:
    """Return the error for a value to be set at the path of an object."""
    return ObjectInTheWay(
        location.text, "an object is there; delete it first, or write to one of its fields"
    )

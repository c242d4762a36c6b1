"""MemoryObject: a cursor into an exact tree, the same over an overlay and over a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, cast

from alveus.errors import InvalidInput, InvalidPath, TreeConflict
from alveus.state.overlay import Overlay
from alveus.state.paths import DottedPath, MemoryKind, MemoryRef, ParsedPath, PathCache, Resolver
from alveus.state.tree_values import MISSING, Branch, Expiry, NonValue, expiry_json, ttl_us
from alveus.store.scope import NameRange
from alveus.store.times import AsOf
from alveus.values.keywords import suggest_names
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, checked_prefix, counted, flag, microseconds

Result = TypeVar("Result")


class ExactMemory(Protocol):
    """The memory of a MemoryObject: an `Overlay`, or a memory with one commit per call."""

    @property
    def paths(self) -> PathCache:
        """The parsed paths of this memory."""
        ...

    @property
    def resolver(self) -> Resolver | None:
        """The object that finds the memory for a reference of the other kind, or None."""
        ...

    @property
    def identity(self) -> object:
        """An identity: handles with equal identities are of the same memory."""
        ...

    def has(self, location: ParsedPath) -> bool:
        """Return whether a value or an object is at *location*."""
        ...

    def read(self, location: ParsedPath) -> Value | NonValue:
        """Return a copy of the value at *location*, or a `NonValue` if no value is there."""
        ...

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """Return the names of the fields of the object at *location* in the range *chosen*.

        Raises:
            NotAnObject: No object is at *location*.
        """
        ...

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Put *value* at *location*."""
        ...

    def query(self, operation: Callable[[Overlay], Result]) -> Result:
        """Return the result of *operation*, a read, on one state of the memory."""
        ...

    def change(
        self, operation: Callable[[Overlay], Result], request: Sequence[object] = ()
    ) -> Result:
        """Apply *operation*, a change, atomically, and return its result.

        Args:
            request: The call and its arguments. Under an idempotency key they distinguish a
                repetition from another request.
        """
        ...

    def once(self, idempotency_key: str) -> ExactMemory:
        """Return the same memory, for one change that happens exactly once."""
        ...

    def tree_as_of(self, as_of: AsOf) -> ExactMemory:
        """Return the same memory as of a past commit or time."""
        ...


def root_of(memory: ExactMemory) -> MemoryObject:
    """Return the root object of a memory."""
    return MemoryObject(memory, memory.paths.root)


@dataclass(slots=True, eq=False)
class MemoryObject:
    """A cursor into an exact memory, usually to an object.

    Paths start at this object: dotted text, or a tuple of names, which may contain dots. The empty
    path is the object itself. Values are copied in and out: changing a passed or returned value
    does not change the memory. A call that raises has changed nothing. A write lasts until its
    *ttl* has passed, or until *expires_at*. Without either, it lasts for the time to live of the
    memory, or forever. The cursor of a deleted object stays valid; a write through it creates the
    object again.

    Every method that takes a path raises `InvalidPath`, or `TooLarge` if it is too long.
    """

    _memory: ExactMemory
    _location: ParsedPath

    @property
    def path(self) -> DottedPath:
        """The path from the root: dotted text, or a tuple if a name contains a dot."""
        return self._location.ref.path

    @property
    def kind(self) -> MemoryKind:
        """The kind of the memory."""
        return self._memory.paths.kind

    @property
    def ref(self) -> MemoryRef:
        """A reference to this path."""
        return self._location.ref

    def __repr__(self) -> str:
        return f"<MemoryObject {self.kind} {self.path!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryObject):
            return NotImplemented
        return self._shares_memory(other) and self._location.path == other._location.path

    def __hash__(self) -> int:
        return hash(self._location.path)

    def __bool__(self) -> bool:
        """Return True, for an empty object too."""
        return True

    # --- reading ---

    def get(
        self, path: DottedPath | MemoryRef | dict[str, Any] = "", default: object = None
    ) -> Any:  # noqa: ANN401 - as flink-agents published it: a value is of the type it was set with
        """Return the value at *path*, or a MemoryObject if an object is there.

        Return *default* if nothing is there.

        Args:
            path: A path from this object; or a reference, also as JSON. A reference starts at the
                root.

        Raises:
            InvalidInput: The reference points to the other memory, which this cursor cannot reach.
        """
        try:
            location = self._location.children[path]  # pyright: ignore[reportArgumentType] - only paths are in it
        except (KeyError, TypeError):
            return self._get_parsed(path, default)
        value = self._memory.read(location)
        if type(value) is not NonValue:
            return value
        return default if value is MISSING else MemoryObject(self._memory, location)

    def get_object(self, path: DottedPath | MemoryRef = "") -> MemoryObject:
        """Return the object at *path*.

        Raises:
            NotAnObject: A value or nothing is there.
        """
        memory, location = self._resolve(path)
        memory.query(lambda tree: tree.object_at(location))
        return MemoryObject(memory, location)

    def is_exist(self, path: DottedPath | MemoryRef | dict[str, Any] = "") -> bool:
        """Return whether a value, None included, or an object is at *path*."""
        memory, location = self._resolve(path)
        return memory.has(location)

    def get_field_names(self) -> list[str]:
        """Return the names of the fields, in the order they were made.

        Raises:
            NotAnObject: The node is now a value, or does not exist.
        """
        location = self._location
        return self._memory.query(lambda tree: tree.names(location))

    @suggest_names
    def names(
        self,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[str]:
        """Return names of fields in the order of names: code points, a dot before a backslash.

        Takes time in proportion to the returned names, not to all names, if the store is a file
        and no batch or action changed fields here.

        Args:
            prefix: Return only names that begin with this text.
            after: The last name of the page before. It need not exist any longer.
            limit: Most names to return, 0 or more.
            newest_first: Return names from the last to the first. Names that rise with time, such
                as ids of version 7, then come newest first.

        Raises:
            NotAnObject: The node is now a value, or does not exist.
        """
        location, chosen = self._location, _name_range(prefix, after, limit, newest_first)
        return self._memory.chosen_names(location, chosen)

    def get_fields(self) -> dict[str, Any]:
        """Return the fields in the order they were made: values, and objects as MemoryObjects.

        Takes time in proportion to the number of fields.

        Raises:
            NotAnObject: The node is now a value, or does not exist.
        """
        memory, location = self._memory, self._location
        fields = memory.query(lambda tree: tree.fields(location))
        return {
            name: MemoryObject(memory, self._parse((name,))) if field is NonValue.OBJECT else field
            for name, field in fields
        }

    def to_dict(self) -> dict[str, Value]:
        """Return the object as nested dicts, in order.

        Raises:
            NotAnObject: The node is now a value, or does not exist.
        """
        return self._branch().to_dict()

    def walk(self) -> Iterator[tuple[DottedPath, Value]]:
        """Return an iterator over all values below, as pairs of the path from here and the value.

        The iterator shows the state at the call, depth first, in the order in which fields were
        made. Empty objects are left out.

        Raises:
            NotAnObject: The node is now a value, or does not exist.
        """
        return self._branch().walk()

    def __contains__(self, path: DottedPath | MemoryRef) -> bool:
        return self.is_exist(path)

    def __getitem__(self, path: DottedPath | MemoryRef) -> Any:  # noqa: ANN401 - see get
        value = self.get(path, MISSING)
        if value is MISSING:
            raise KeyError(path)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.get_field_names())

    def __len__(self) -> int:
        return len(self.get_field_names())

    # --- writing ---

    @suggest_names
    def set(
        self,
        path: DottedPath,
        value: object,
        *,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> MemoryRef:
        """Put *value* at *path*, replacing any value; create missing parent objects.

        Args:
            value: A storable value; or a MemoryObject of any memory, which is copied whole.

        Returns:
            A reference to *path*.

        Raises:
            InvalidValue: The value cannot be stored; the message names the part.
            TooLarge: The value has more bytes than `TreeLimits` allows.
            ObjectInTheWay: An object is at *path*.
            TreeConflict: A value is in the path of a parent, or an object would be copied into
                itself.
        """
        try:
            location = self._location.children[path]
        except (KeyError, TypeError):
            location = self._field_path(path)
        if isinstance(value, MemoryObject):
            self._copy(value, location, _expiry(ttl, expires_at))
        elif ttl is None and expires_at is None:
            self._memory.put(location, value)
        else:
            self._memory.put(location, value, _expiry(ttl, expires_at))
        return location.ref

    @suggest_names
    def new_object(
        self,
        path: DottedPath,
        *,
        overwrite: bool = False,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> MemoryObject:
        """Return the object at *path*; create it if nothing is there. An existing object stays.

        Args:
            overwrite: Replace an existing value by an empty object.

        Raises:
            TreeConflict: A value is at *path*, or in the path of a parent.
        """
        location, expiry = self._field_path(path), _expiry(ttl, expires_at)
        flag(overwrite, "overwrite")
        self._memory.change(
            lambda tree: tree.create(location, expiry, overwrite=overwrite),
            ["new_object", _json(location), overwrite, expiry_json(expiry)],
        )
        return MemoryObject(self._memory, location)

    def delete(self, path: DottedPath) -> bool:
        """Delete the node at *path* and all nodes below it; return whether it existed."""
        location = self._field_path(path)
        return self._memory.change(lambda tree: tree.delete(location), ["delete", _json(location)])

    def move(self, path: DottedPath, new_path: DottedPath) -> MemoryRef:
        """Move the node at *path*, and all nodes below it, to *new_path*, in one step.

        Expiries stay unchanged; missing parents of *new_path* are created.

        Returns:
            A reference to *new_path*.

        Raises:
            TreeConflict: Nothing is at *path*, or something is at *new_path*; or *new_path* is
                below *path*, or below a value.
        """
        location, target = self._field_path(path), self._field_path(new_path)
        self._memory.change(
            lambda tree: tree.move(location, target), ["move", _json(location), _json(target)]
        )
        return target.ref

    def clear(self) -> None:
        """Delete all fields of this object. The object stays.

        Raises:
            NotAnObject: The node is now a value, or does not exist.
        """
        location = self._location
        self._memory.change(lambda tree: tree.clear(location), ["clear", _json(location)])

    @suggest_names
    def append(
        self,
        path: DottedPath,
        value: object,
        *,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> MemoryRef:
        """Append *value* to the list at *path*; create a list if nothing is there.

        Without *ttl* and *expires_at* the list keeps its expiry.

        Raises:
            TreeConflict: The node at *path* is not a list. Also all errors of `set`.
        """
        location, expiry = self._field_path(path), _expiry(ttl, expires_at)
        self._memory.change(
            lambda tree: tree.append(location, value, expiry),
            ["append", _json(location), value, expiry_json(expiry)],
        )
        return location.ref

    @suggest_names
    def increment(
        self,
        path: DottedPath,
        by: float = 1,
        *,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> int | float:
        """Add *by* to the number at *path*, 0 if nothing is there, and return the sum.

        Without *ttl* and *expires_at* the number keeps its expiry.

        Raises:
            TreeConflict: The node at *path* is not a number. Also all errors of `set`.
        """
        location, expiry = self._field_path(path), _expiry(ttl, expires_at)
        return self._memory.change(
            lambda tree: tree.increment(location, by, expiry),
            ["increment", _json(location), by, expiry_json(expiry)],
        )

    @suggest_names
    def update(
        self,
        path: DottedPath,
        value: object,
        *,
        expected: object,
        ttl: timedelta | None = None,
        expires_at: datetime | None = None,
    ) -> MemoryRef:
        """Put *value* at *path* if the value there is *expected*, in one step.

        Args:
            expected: The value that must be there; 1, 1.0 and True are different. `MISSING` means
                that nothing may be there.

        Raises:
            CompareFailed: Another value or nothing is at *path*. Also all errors of `set`.
        """
        location, expiry = self._field_path(path), _expiry(ttl, expires_at)
        precondition = ["missing"] if expected is MISSING else [expected]
        self._memory.change(
            lambda tree: tree.replace(location, value, expected, expiry),
            ["update", _json(location), value, precondition, expiry_json(expiry)],
        )
        return location.ref

    def once(self, idempotency_key: str) -> MemoryObject:
        """Return this cursor for one change that happens once, however often it is repeated.

        A repetition with the same key changes nothing and returns the first result.

        Raises:
            Unsupported: Inside a run or a batch, where every write happens once anyway.
            StoreReadOnly: The memory is of the past.
            IdempotencyConflict: Raised by the change: the key was used for another request.
        """
        return MemoryObject(self._memory.once(idempotency_key), self._location)

    def at(self, as_of: AsOf) -> MemoryObject:
        """Return this cursor as of a commit or a time, read-only.

        Values that had expired by then are missing.

        Raises:
            HistoryPruned: That state is no longer kept.
            Unsupported: Inside a batch or an action.
        """
        return MemoryObject(self._memory.tree_as_of(as_of), self._location)

    def __setitem__(self, path: DottedPath, value: object) -> None:
        self.set(path, value)

    def __delitem__(self, path: DottedPath) -> None:
        if not self.delete(path):
            raise KeyError(path)

    # --- inside ---

    def _get_parsed(self, path: object, default: object) -> Any:  # noqa: ANN401 - see get
        memory, location = self._resolve(path)
        value = memory.read(location)
        if type(value) is not NonValue:
            return value
        return default if value is MISSING else MemoryObject(memory, location)

    def _resolve(self, path: object) -> tuple[ExactMemory, ParsedPath]:
        """Return the memory and the parsed path that *path* means.

        A path starts at this object, a reference at the root.
        """
        if type(path) is dict:
            path = MemoryRef.from_json(cast("object", path))
        if not isinstance(path, MemoryRef):
            return self._memory, self._parse(path)
        memory = self._memory if path.kind is self.kind else self._other_memory(path)
        return memory, memory.paths.parse(memory.paths.root, path.path)

    def _other_memory(self, ref: MemoryRef) -> ExactMemory:
        resolver = self._memory.resolver
        if resolver is not None:
            sensory = ref.kind is MemoryKind.SENSORY
            root = resolver.sensory_memory if sensory else resolver.short_term_memory
            if isinstance(root, MemoryObject):
                return root._memory  # noqa: SLF001 - the same class
        raise InvalidInput(
            f"a reference into {ref.kind} memory cannot be used in {self.kind} memory; call "
            f"ref.resolve(ctx), or get(ref) of the {ref.kind} memory"
        )

    def _field_path(self, path: object) -> ParsedPath:
        """Return the parsed path of a write. It must be below this object."""
        if isinstance(path, MemoryRef):
            raise InvalidPath(path, "a write needs a path; pass ref.path, from the root")
        location = self._parse(path)
        if location is self._location:
            raise InvalidPath(path, "is the object itself; pass the path of a field")
        return location

    def _parse(self, path: object) -> ParsedPath:
        try:
            return self._location.children[path]  # pyright: ignore[reportArgumentType] - only paths are in it
        except (KeyError, TypeError):
            return self._memory.paths.parse(self._location, path)

    def _shares_memory(self, other: MemoryObject) -> bool:
        """Return whether *other* is in the same memory."""
        return self._memory.identity == other._memory.identity

    def _branch(self) -> Branch:
        location = self._location
        return self._memory.query(lambda tree: tree.branch(location))

    def _copy(self, source: MemoryObject, location: ParsedPath, expiry: Expiry) -> None:
        start = source._location.path
        same_memory = self._shares_memory(source)
        if same_memory and location.path[: len(start)] == start:
            raise TreeConflict(
                location.text, "an object cannot be copied into itself or below itself"
            )
        branch = None if same_memory else source._branch()

        def put_copy(tree: Overlay) -> None:
            if branch is None:
                tree.copy(source._location, location, expiry)
            else:
                tree.put_branch(location, branch, expiry)

        self._memory.change(
            put_copy, ["copy", _json(location), source.ref.to_json(), expiry_json(expiry)]
        )


def branch_of(root: MemoryObject) -> Branch:
    """Return a copy of an object and all nodes below it. Objects and dicts stay distinct.

    Raises:
        NotAnObject: The node is now a value, or does not exist.
    """
    return root._branch()  # noqa: SLF001 - of this file  # pyright: ignore[reportPrivateUsage] - of this file


# --- arguments of calls -----------------------------------------------------------------------


def _expiry(ttl: timedelta | None, expires_at: datetime | None) -> Expiry:
    if ttl is None:
        return None if expires_at is None else microseconds(expires_at, "expires_at")
    if expires_at is not None:
        raise InvalidInput("pass either ttl or expires_at, not both")
    ttl_us(ttl)
    return ttl


def _name_range(
    prefix: str,
    after: str | None,
    limit: int | None,
    newest_first: bool,  # noqa: FBT001 - as it was passed
) -> NameRange:
    if after is not None:
        checked_name(after, "after")
    if limit is not None:
        limit = counted(limit, "limit", least=0)
    return NameRange(checked_prefix(prefix), after, limit, flag(newest_first, "newest_first"))


def _json(location: ParsedPath) -> Value:
    return list(location.path)

"""Exact memory behind a server: each call is a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

from alveus.errors import InvalidValue, StoreReadOnly, Unsupported
from alveus.errors.short_repr import short_repr
from alveus.memory.remote.codecs import value_json, value_of
from alveus.memory.remote.connection import Json, header_text
from alveus.state import MISSING, MemoryKind, NonValue, PathCache, Resolver
from alveus.state.paths import ParsedPath
from alveus.state.tree_values import Branch, Expiry
from alveus.store.scope import NameRange
from alveus.store.times import FOREVER, AsOf, checked_as_of
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, flag, microseconds, moment
from alveus.values.times import Zone, format_time

Result = TypeVar("Result")


class RemoteCalls(Protocol):
    """Sends the calls of a memory to its server, directly or as part of a batch."""

    @property
    def identity(self) -> object:
        """An identity. Objects of the same memory, or of the same batch, have equal identities."""
        ...

    @property
    def in_batch(self) -> bool:
        """Whether writes are part of a batch."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether changes are refused. Then reads renew no expiry either."""
        ...

    @property
    def timezone(self) -> Zone:
        """The reader's zone."""
        ...

    def read(self, call: str, **arguments: object) -> Json:
        """Make a reading call and return the response."""
        ...

    def write(self, call: str, idempotency_key: str | None = None, /, **arguments: object) -> Json:
        """Make a writing call, which takes effect once, and return the response."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RemoteTree:
    """An exact memory behind a server, as it is now or as of a moment.

    This class implements `ExactMemory`. It has the methods of an `Overlay`; each operation calls
    one of them, which sends one request.

    Attributes:
        as_of: The moment whose state is read; None means the present.
        idempotency_key: The idempotency key of the one change made through this object, or None.
    """

    calls: RemoteCalls
    as_of: AsOf | None = None
    idempotency_key: str | None = None
    paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SHORT_TERM))
    resolver: Resolver | None = None

    @property
    def identity(self) -> object:
        """An identity. Handles of the same memory and moment have equal identities."""
        return self.calls.identity, self.as_of

    def query(self, operation: Callable[[Any], Result]) -> Result:
        """Run a reading *operation* and return its result."""
        return operation(self)

    def change(self, operation: Callable[[Any], Result], request: Sequence[object] = ()) -> Result:
        """Run *operation* and return its result.

        *request* is not used, because the server detects repetitions.
        """
        _ = request
        return operation(self)

    def once(self, idempotency_key: str) -> RemoteTree:
        """Return an object for one change of the same memory, with this idempotency key."""
        if self.as_of is not None or self.calls.in_batch:
            raise Unsupported(
                "a past state or a call inside a batch takes no idempotency key "
                f"({idempotency_key!r}); pass the key to the batch"
            )
        return replace(self, idempotency_key=header_text(idempotency_key))

    def tree_as_of(self, as_of: AsOf) -> RemoteTree:
        """Return the memory as of a moment, after a check that its state is kept."""
        if self.calls.in_batch:
            raise Unsupported(
                f"at({as_of!r}) cannot read the past inside a batch; call it outside, as "
                "memory.key(…).short_term.at(…)"
            )
        moment_text(as_of, "at")
        made = replace(self, as_of=as_of)
        made.has(self.paths.root)  # raises for an invalid or pruned moment
        return made

    # --- reads ---

    def has(self, location: ParsedPath) -> bool:
        """Return whether a value or an object exists at *location*."""
        return self._read("is_exist", location)

    def read(self, location: ParsedPath) -> Value | NonValue:
        """Return the value at *location*, or the `NonValue` for an object or for nothing."""
        return read_found(self._read("get", location))

    def object_at(self, location: ParsedPath) -> object:
        """Raise `NotAnObject` unless *location* has an object."""
        return self._read("names", location, limit=0)

    def names(self, location: ParsedPath) -> list[str]:
        """Return the names of the fields of the object at *location*."""
        return self._read("get_field_names", location)

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """Return the names of the fields in the range *chosen*."""
        return self._read(
            "names",
            location,
            prefix=chosen.prefix,
            after=chosen.after,
            limit=chosen.limit,
            newest_first=chosen.newest_first,
        )

    def fields(self, location: ParsedPath) -> list[tuple[str, Value | NonValue]]:
        """Return the fields of the object at *location*."""
        fields = self._read("get_fields", location)
        return [(each["name"], read_found(each)) for each in fields]

    def branch(self, location: ParsedPath) -> Branch:
        """Return a copy of the object at *location*."""
        return read_branch(self._read("to_dict", location))

    def _read(self, call: str, location: ParsedPath, **arguments: object) -> Json:
        path, moment = list(location.path), as_of_text(self.as_of)
        given = arguments if moment is None else {**arguments, "as_of": moment}
        return self.calls.read(f"exact.{call}", path=path, **given)["result"]

    # --- writes ---

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Set *value* at *location*."""
        self._write("set", location, expiry, value=_sent(location, value))

    def create(
        self, location: ParsedPath, expiry: Expiry = None, *, overwrite: bool = False
    ) -> None:
        """Create an object at *location*; an existing object stays."""
        self._write("new_object", location, expiry, overwrite=flag(overwrite, "overwrite"))

    def delete(self, location: ParsedPath) -> bool:
        """Delete the value or object at *location*; return whether it existed."""
        return self._write("delete", location)

    def move(self, location: ParsedPath, target: ParsedPath) -> None:
        """Move the value or object at *location* to *target*."""
        self._write("move", location, new_path=list(target.path))

    def clear(self, location: ParsedPath) -> None:
        """Delete everything below the object at *location*."""
        self._write("clear", location)

    def append(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """Add *value* to the end of the list at *location*."""
        self._write("append", location, expiry, value=_sent(location, value))

    def increment(self, location: ParsedPath, by: float, expiry: Expiry = None) -> int | float:
        """Add *by* to the number at *location*, and return the sum."""
        if type(by) not in (int, float):
            raise InvalidValue("by", f"must be an int or a float, not {short_repr(by)}")
        answer = self._write("increment", location, expiry, by=value_json(by))
        total = value_of(answer)
        assert isinstance(total, (int, float))  # noqa: S101 - the server says so
        return total

    def replace(
        self, location: ParsedPath, value: object, expected: object, expiry: Expiry = None
    ) -> None:
        """Set *value* at *location* if the current value is *expected*.

        Pass `MISSING` as *expected* if nothing may be at *location*.
        """
        found = {} if expected is MISSING else {"expected": value_json(expected, "expected")}
        self._write("update", location, expiry, value=_sent(location, value), **found)

    def copy(self, source: ParsedPath, location: ParsedPath, expiry: Expiry = None) -> None:
        """Put a copy of the object at *source* at *location*."""
        self._write("copy", location, expiry, source=list(source.path))

    def put_branch(self, location: ParsedPath, branch: Branch, expiry: Expiry = None) -> None:
        """Put a copy of *branch* at *location*."""
        self._write("copy", location, expiry, nodes=branch_nodes(branch))

    def _write(
        self, call: str, location: ParsedPath, expiry: Expiry = None, **arguments: object
    ) -> Json:
        if self.as_of is not None:
            self._refuse_past(call)
        given = {"path": list(location.path), **expiry_json(expiry), **arguments}
        return self.calls.write(f"exact.{call}", self.idempotency_key, **given)["result"]

    def _refuse_past(self, call: str) -> NoReturn:
        raise StoreReadOnly(
            f"{call}: memory as of {self.as_of} cannot be changed; change memory.key(…).short_term"
        )


def _sent(location: ParsedPath, value: object) -> Json:
    return value_json(value, f"value at {location.text!r}")


# --- JSON of exact memory -------------------------------------------------------------------------


def as_of_text(as_of: AsOf | None, what: str = "as_of") -> str | None:
    """Return a moment as text for a request, or None if *as_of* is None."""
    return None if as_of is None else moment_text(as_of, what)


def moment_text(as_of: AsOf, what: str) -> str:
    """Return a moment as text for a request."""
    as_of = checked_as_of(as_of, what)
    if isinstance(as_of, int):
        return str(min(as_of, FOREVER))
    return format_time(moment(microseconds(as_of, what)))


def expiry_json(expiry: Expiry) -> dict[str, Any]:
    """Return the lifetime of a write as fields of a request; there are none for None."""
    if isinstance(expiry, timedelta):
        return {"ttl_s": expiry.total_seconds()}
    return {} if expiry is None else {"expires_at": format_time(moment(expiry))}


def read_found(answer: Mapping[str, Any]) -> Value | NonValue:
    """Return the value or `NonValue` in the response to a read."""
    if answer["found"] == "value":
        return value_of(answer["value"])
    return NonValue.OBJECT if answer["found"] == "object" else MISSING


def branch_nodes(branch: Branch, start: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return an object of exact memory as a list of JSON nodes, one for each descendant."""
    nodes: list[dict[str, Any]] = []
    for name, inner in branch.fields:
        path = (*start, name)
        if isinstance(inner, Branch):
            nodes += [{"path": list(path)}, *branch_nodes(inner, path)]
        else:
            nodes.append({"path": list(path), "value": value_json(inner)})
    return nodes


def read_branch(nodes: list[dict[str, Any]]) -> Branch:
    """Return the object that JSON nodes describe. In *nodes*, each object precedes its fields."""
    inside: dict[tuple[str, ...], list[tuple[str, Any]]] = {(): []}
    for node in nodes:
        path = tuple(node["path"])
        if "value" in node:
            inside[path[:-1]].append((path[-1], value_of(node["value"])))
        else:
            inside[path] = []
            inside[path[:-1]].append((path[-1], None))
    return _branch(inside, ())


def _branch(
    inside: Mapping[tuple[str, ...], list[tuple[str, Any]]], path: tuple[str, ...]
) -> Branch:
    return Branch(
        tuple(
            (name, _branch(inside, (*path, name)) if (*path, name) in inside else value)
            for name, value in inside[path]
        )
    )

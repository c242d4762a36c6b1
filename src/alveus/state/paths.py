"""Paths into an exact tree, parsed once, and references to the nodes there.

A path is dotted text (``"user.name"``), or a tuple of names, which may contain dots. ``""`` and
``()`` mean the object at which the path starts. All errors of a path are found here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol, TypeAlias, cast

from alveus.errors import InvalidInput, InvalidPath, TooLarge
from alveus.errors.short_repr import short_repr
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import MAX_NAME, Path, Value, choice

MAX_LEVELS = 100
"""Most names in a path, counted from the root: far below Python's recursion limit of 1,000."""

MAX_CACHED_PATHS = 16_384
"""Most parsed paths that one memory caches. A full cache is emptied."""

DottedPath: TypeAlias = str | Path
"""A path as calls return it: dotted text, or a tuple if a name contains a dot."""

_DOT_IN_KEY = "\ud800"
"""Replaces a dot inside a name, in keys only: a lone surrogate, which no name can contain."""


class MemoryKind(StrEnum):
    """The two exact memories of a key: sensory, for one run, and short-term, which lasts."""

    SENSORY = "sensory"
    SHORT_TERM = "short_term"


def path_names(path: object) -> Path:
    """Return the names in *path*; ``()`` for ``""``.

    Raises:
        InvalidPath: The path is neither text nor a tuple, or has an empty name or a lone surrogate.
        TooLarge: A name has over `MAX_NAME` characters, or the path over `MAX_LEVELS` names.
    """
    if isinstance(path, str):
        names = tuple(str.__str__(path).split(".")) if path else ()
    elif isinstance(path, tuple):
        path = cast("tuple[object, ...]", path)
        names = tuple([_name(name, path) for name in path])
    else:
        raise InvalidPath(path, f"must be a str or a tuple of names, not {_kind(path)}")
    if len(names) > MAX_LEVELS:
        raise TooLarge(f"a path has {len(names)} names; at most {MAX_LEVELS} are accepted")
    if "" in names:
        raise InvalidPath(path, "contains an empty name")
    text = "".join(names)
    if len(text) > MAX_NAME or not text.isascii():
        for name in names:
            _check(name, cast("object", path))
    return names


def _name(name: object, path: object) -> str:
    if not isinstance(name, str):
        raise InvalidPath(path, f"the name {name!r} must be a str, not {_kind(name)}")
    return str.__str__(name)


def _check(name: str, path: object) -> None:
    if len(name) > MAX_NAME:
        raise TooLarge(
            f"a name in a path has {len(name):,} characters; at most {MAX_NAME} are accepted"
        )
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidPath(path, "contains a lone surrogate, which is not valid text") from None


def _kind(value: object) -> str:
    return type(value).__name__


def dotted(names: Path) -> DottedPath:
    """Return *names* as dotted text, or unchanged if the text would mean another path."""
    text = ".".join(names)
    return text if text.count(".") == len(names) - 1 or not names else names


def path_key(names: Path) -> str:
    """Return a text that is unique to the path."""
    return ".".join([name.replace(".", _DOT_IN_KEY) for name in names])


# --- references -------------------------------------------------------------------------------


class _Readable(Protocol):
    """The interface to read the target of a reference: a MemoryObject."""

    def get(self, path: MemoryRef, default: object = None) -> Any:  # noqa: ANN401 - as published
        """Return the value or object at *path*."""
        ...


class Resolver(Protocol):
    """An object with both exact memories of a key: the context of an action."""

    @property
    def sensory_memory(self) -> _Readable:
        """Return the root of the run's memory."""
        ...

    @property
    def short_term_memory(self) -> _Readable:
        """Return the root of the key's memory."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A pointer into an exact memory: small, hashable, and the same after a trip through JSON.

    `resolve` returns the value or object that is at the path when it is called, or None.

    Attributes:
        kind: The kind of the memory that the reference points into.
        path: The path from the root: dotted text, or a tuple of names if a name contains a dot.
    """

    kind: MemoryKind
    path: DottedPath

    def __post_init__(self) -> None:
        """Check the fields, and normalize the path."""
        object.__setattr__(self, "kind", _memory_kind(self.kind))
        object.__setattr__(self, "path", dotted(path_names(self.path)))

    @classmethod
    def create(cls, kind: MemoryKind | str, path: DottedPath) -> MemoryRef:
        """Return a reference to *path* in the memory *kind*; the path need not exist."""
        return cls(_memory_kind(kind), path)

    @property
    def names(self) -> Path:
        """The names from the root down."""
        return path_names(self.path)

    def resolve(self, context: Resolver) -> Any:  # noqa: ANN401 - as published by flink-agents
        """Return the current value or object in the memory of *context*, or None if it is missing.

        Raises:
            InvalidInput: *context* has no memory of this kind.
        """
        name = "sensory_memory" if self.kind is MemoryKind.SENSORY else "short_term_memory"
        memory = getattr(context, name, None)
        if memory is None:
            raise InvalidInput(
                "a reference needs the context of an action or the memory of a key, not "
                f"{short_repr(context)}"
            )
        return memory.get(self)

    def to_json(self) -> dict[str, Value]:
        """Return a storable dict for `from_json`."""
        path: Value = self.path if isinstance(self.path, str) else list(self.path)
        return {"memory_type": self.kind.value, "path": path}

    @classmethod
    def from_json(cls, value: object) -> MemoryRef:
        """Return the reference of *value*, a dict made by `to_json`.

        Raises:
            InvalidPath: *value* is not a dict that `to_json` can make.
        """
        fields = cast("dict[object, object]", value if isinstance(value, dict) else {})
        if "path" not in fields:
            raise InvalidPath(fields, 'a reference must be like {"memory_type": …, "path": …}')
        path = fields["path"]
        names = tuple(cast("list[object]", path)) if isinstance(path, list) else path
        kind = fields.get("memory_type", MemoryKind.SHORT_TERM)
        return cls(_memory_kind(kind), dotted(path_names(names)))


def _memory_kind(kind: object) -> MemoryKind:
    if isinstance(kind, MemoryKind):
        return kind
    return MemoryKind(choice(kind, "a kind of exact memory", *(each.value for each in MemoryKind)))


# --- parsed paths -----------------------------------------------------------------------------


class ParsedPath:
    """A parsed path: its names from the root, and values that are computed only once.

    Attributes:
        path: The names from the root.
        key: `path_key` of the names.
        ref: The reference to the path.
        children: Parsed paths below, by their path from here. `PathCache.parse` adds them.
    """

    __slots__ = ("children", "key", "path", "ref")

    def __init__(self, path: Path, key: str, ref: MemoryRef) -> None:
        self.path, self.key, self.ref = path, key, ref
        self.children: dict[DottedPath, ParsedPath] = {}

    @property
    def text(self) -> str:
        """The path as an error shows it."""
        return str(self.ref.path)


class PathCache:
    """The parsed paths of one memory: each path is parsed once while it is in use."""

    __slots__ = ("_count", "kind", "root")

    def __init__(self, kind: MemoryKind) -> None:
        self.kind = kind
        self.root = ParsedPath((), "", MemoryRef(kind, ""))
        self._count = 0

    def parse(self, start: ParsedPath, path: object) -> ParsedPath:
        """Return the parsed path that *path* means from *start*. The empty path means *start*.

        Raises:
            InvalidPath: See `path_names`.
            TooLarge: See `path_names`; the names of *start* count too.
        """
        names = path_names(path)
        if not names:
            return start
        location = self._parsed_path(start.path + names)
        if self._count >= MAX_CACHED_PATHS:
            self._count = 0
            self.root.children.clear()
            start.children.clear()
        self._count += 1
        if type(path) is str:
            start.children[path] = location
        else:
            start.children[names] = location
        return location

    def _parsed_path(self, names: Path) -> ParsedPath:
        if len(names) > MAX_LEVELS:
            raise TooLarge(f"a path has {len(names)} names; at most {MAX_LEVELS} are accepted")
        text = dotted(names)
        ref = object.__new__(MemoryRef)  # its names were checked above; this is half of a write
        object.__setattr__(ref, "kind", self.kind)
        object.__setattr__(ref, "path", text)
        return ParsedPath(names, text if isinstance(text, str) else path_key(names), ref)

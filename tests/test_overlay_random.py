"""Random walks: an overlay, what a store makes of its deltas, and a plain model stay equal."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alveus.errors import TreeConflict
from alveus.state import ExactTree, MemoryKind, Overlay, Snapshot, Ttl, root_of
from alveus.store import Batch, Clear, Delete, Scope, TreeDelta
from alveus.store.ram import RamStore
from alveus.values.storable import Path, Value

SCOPE = Scope("space", "ada")
START = 1_000_000_000_000_000

# --- the model: nested dicts, and what has expired is thrown out before every step ------------


@dataclass
class Leaf:
    value: Value
    expires: int | None


@dataclass
class Branch:
    expires: int | None
    fields: dict[str, Leaf | Branch] = field(default_factory=dict)


Shape = list[tuple[str, object, int | None]]


def shape(node: Branch) -> Shape:
    return [
        (name, shape(n) if isinstance(n, Branch) else ("value", repr(n.value)), n.expires)
        for name, n in node.fields.items()
    ]


def later(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


class Model:
    """What the documentation says, in the plainest form; a step that fails raises TreeConflict."""

    def __init__(self, ttl: Ttl | None) -> None:
        self.root = Branch(None)
        self.ttl = ttl
        self.now = START

    def purge(self, node: Branch | None = None) -> None:
        node = node or self.root
        node.fields = {
            n: f for n, f in node.fields.items() if f.expires is None or f.expires > self.now
        }
        for inner in node.fields.values():
            if isinstance(inner, Branch):
                self.purge(inner)

    def until(self, ttl: int | None) -> int | None:
        if ttl is None and self.ttl is not None:
            return self.now + self.ttl.after // timedelta(microseconds=1)
        return None if ttl is None else self.now + ttl

    def find(self, path: Path) -> Leaf | Branch | None:
        node: Leaf | Branch | None = self.root
        for name in path:
            node = node.fields.get(name) if isinstance(node, Branch) else None
        return node

    def extend(self, path: Path, expires: int | None) -> None:
        for depth in range(1, len(path) + 1):
            if (node := self.find(path[:depth])) is not None:
                node.expires = later(node.expires, expires)

    def place(self, path: Path, node: Leaf | Branch) -> None:
        for depth in range(len(path)):
            if isinstance(self.find(path[:depth]), Leaf):
                raise TreeConflict(".".join(path), "below a value")
        at = self.root
        self.extend(path[:-1], node.expires)
        for name in path[:-1]:
            below = at.fields.setdefault(name, Branch(node.expires))
            assert isinstance(below, Branch)
            at = below
        at.fields[path[-1]] = node

    def set(self, path: Path, value: Value, ttl: int | None) -> None:
        if isinstance(self.find(path), Branch):
            raise TreeConflict(".".join(path), "is an object")
        self.place(path, Leaf(copy.deepcopy(value), self.until(ttl)))

    def new_object(self, path: Path, overwrite: bool, ttl: int | None) -> None:
        found = self.find(path)
        if isinstance(found, Branch):
            self.extend(path, self.until(ttl))
        elif found is not None and not overwrite:
            raise TreeConflict(".".join(path), "is a value")
        else:
            self.place(path, Branch(self.until(ttl)))

    def delete(self, path: Path) -> bool:
        parent = self.find(path[:-1])
        return isinstance(parent, Branch) and parent.fields.pop(path[-1], None) is not None

    def clear(self, path: Path) -> None:
        node = self.find(path)
        if not isinstance(node, Branch):
            raise TreeConflict(".".join(path), "is no object")
        node.fields = {}

    def grow(self, path: Path, ttl: int | None, kind: type, more: Any, zero: Any) -> None:
        found = self.find(path)
        if isinstance(found, Branch) or (found and type(found.value) is not kind):
            raise TreeConflict(".".join(path), "is something else")
        before: Any = zero if found is None else found.value
        expires = self.until(ttl)
        if expires is None and found is not None:
            expires = found.expires
        self.place(path, Leaf(before + more, expires))

    def copy(self, source: Path, path: Path, ttl: int | None) -> None:
        node = self.find(source)
        if not isinstance(node, Branch) or path[: len(source)] == source:
            raise TreeConflict(".".join(path), "cannot be copied")
        if isinstance(self.find(path), Branch):
            raise TreeConflict(".".join(path), "is an object")
        self.place(path, _renewed(node, self.until(ttl)))

    def read(self, path: Path) -> Leaf | Branch | None:
        node = self.find(path)
        if self.ttl is not None and self.ttl.refresh == "read" and isinstance(node, Leaf):
            until = self.until(None)
            if node.expires is not None and until is not None and until > node.expires:
                self.extend(path, until)
        return node


def _renewed(node: Branch, expires: int | None) -> Branch:
    return Branch(
        expires,
        {
            name: _renewed(n, expires)
            if isinstance(n, Branch)
            else Leaf(copy.deepcopy(n.value), expires)
            for name, n in node.fields.items()
        },
    )


def seen(tree: ExactTree, now: int, path: Path = ()) -> Shape:
    """The same of any `ExactTree`."""
    return [
        (
            name,
            seen(tree, now, (*path, name)) if node.is_object else ("value", repr(node.value)),
            node.expires,
        )
        for name, node in tree.children(path, now)
    ]


# --- the walk -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d.e", "é"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
INSIDE = st.lists(NAMES, max_size=3).map(tuple)
VALUES = st.sampled_from([None, True, 0, 7, 2.5, "text", b"x", [], [1, [2]], {"k": {"l": None}}])
TTLS = st.sampled_from([None, None, None, 5, 20, 60])
MEMORY_TTLS = st.sampled_from(
    [None, None, Ttl(timedelta(microseconds=30)), Ttl(timedelta(microseconds=30), refresh="read")]
)


def lasting(ttl: int | None) -> timedelta | None:
    return None if ttl is None else timedelta(microseconds=ttl)


class OverlayMachine(RuleBasedStateMachine):
    """An overlay over a store; commits go through the store."""

    def __init__(self) -> None:
        super().__init__()
        self.store = RamStore()
        self.model = Model(None)
        self.overlay = self.fresh()

    @initialize(ttl=MEMORY_TTLS)
    def begin(self, ttl: Ttl | None) -> None:
        self.model = Model(ttl)
        self.overlay = self.fresh()

    def fresh(self) -> Overlay:
        now = self.model.now
        return Overlay.over(self.base(), kind=MemoryKind.SHORT_TERM, now=now, ttl=self.model.ttl)

    def base(self) -> ExactTree:
        return Snapshot(self.store, SCOPE, self.store.head(SCOPE))

    def keep(self, deltas: tuple[TreeDelta, ...]) -> None:
        base = self.store.head(SCOPE)
        self.store.commit(Batch(scope=SCOPE, time=self.model.now, base=base, state=deltas))

    def both(self, theirs, ours) -> None:
        """The model and the overlay do the same, or refuse the same."""
        before = shape(self.model.root)
        try:
            expected = theirs()
        except TreeConflict:
            with pytest.raises(TreeConflict):
                ours()
            assert shape(self.model.root) == before
        else:
            assert ours() == expected

    # --- steps ---

    @rule(path=PATHS, value=VALUES, ttl=TTLS)
    def set(self, path, value, ttl):
        def ours():
            ref = root_of(self.overlay).set(path, value, ttl=lasting(ttl))
            assert ref.names == path

        self.both(lambda: self.model.set(path, value, ttl), ours)

    @rule(path=PATHS, overwrite=st.booleans(), ttl=TTLS)
    def new_object(self, path, overwrite, ttl):
        def ours():
            root_of(self.overlay).new_object(path, overwrite=overwrite, ttl=lasting(ttl))

        self.both(lambda: self.model.new_object(path, overwrite, ttl), ours)

    @rule(path=PATHS)
    def delete(self, path):
        self.both(lambda: self.model.delete(path), lambda: root_of(self.overlay).delete(path))

    @rule(path=INSIDE)
    def clear(self, path):
        def ours():
            (root_of(self.overlay).get_object(path) if path else root_of(self.overlay)).clear()

        self.both(lambda: self.model.clear(path), ours)

    @rule(path=PATHS, value=VALUES, ttl=TTLS)
    def append(self, path, value, ttl):
        def ours():
            root_of(self.overlay).append(path, value, ttl=lasting(ttl))

        self.both(lambda: self.model.grow(path, ttl, list, [value], []), ours)

    @rule(path=PATHS, by=st.integers(-3, 3), ttl=TTLS)
    def increment(self, path, by, ttl):
        def ours():
            root_of(self.overlay).increment(path, by, ttl=lasting(ttl))

        def theirs():
            found = self.model.find(path)
            kind = float if isinstance(found, Leaf) and type(found.value) is float else int
            self.model.grow(path, ttl, kind, by, 0)

        self.both(theirs, ours)

    @rule(source=INSIDE, path=PATHS, ttl=TTLS)
    def copy_subtree(self, source, path, ttl):
        if self.model.ttl is not None and self.model.ttl.refresh == "read":
            return  # the copy is a read of every value in it; `reads` has that law

        def ours():
            found = root_of(self.overlay).get_object(source)
            root_of(self.overlay).set(path, found, ttl=lasting(ttl))

        self.both(lambda: self.model.copy(source, path, ttl), ours)

    @rule(path=PATHS)
    def read(self, path):
        root = root_of(self.overlay)
        assert root.is_exist(path) == (self.model.find(path) is not None)
        found = self.model.read(path)
        got = root.get(path, "missing")
        if isinstance(found, Branch):
            assert got.get_field_names() == list(found.fields) == list(got)
            assert root.get_object(path) == got
        else:
            assert repr(got) == repr("missing" if found is None else found.value)

    @rule(path=INSIDE)
    def read_fields(self, path):
        found = self.model.find(path)
        if isinstance(found, Branch):
            for name in found.fields:
                self.model.read((*path, name))
            fields = root_of(self.overlay).get(path).get_fields()
            assert list(fields) == list(found.fields)

    @rule(us=st.integers(1, 40))
    def wait(self, us):
        """Time passes between runs: in one, and for its commit, it stands still."""
        self.commit()
        self.model.now += us
        self.model.purge()
        self.overlay = self.fresh()

    @rule()
    def commit(self):
        deltas = self.overlay.deltas()
        assert len(set(map(_place, deltas))) == len(deltas)
        if deltas:
            self.keep(deltas)
        self.overlay = self.fresh()
        assert self.overlay.deltas() == ()

    @rule()
    def abandon(self):
        """What was not committed never was."""
        if self.model.ttl is None:
            self.model.root = _model_of(self.base(), self.model.now)
            self.overlay = self.fresh()

    @rule()
    def sweep(self):
        self.store.sweep(now=self.model.now)

    @invariant()
    def same(self):
        """The overlay shows the model; so does what a store would make of it; so does a copy."""
        expected = shape(self.model.root)
        assert seen(self.overlay, self.model.now) == expected
        above = Overlay.over(self.overlay, kind=MemoryKind.SENSORY, now=self.model.now)
        assert root_of(above).to_dict() == _plain(self.model.root)
        assert [p for p, _ in root_of(above).walk()] == list(_paths(self.model.root))

    def teardown(self):
        self.commit()
        assert seen(self.base(), self.model.now) == shape(self.model.root)


class StackedMachine(OverlayMachine):
    """An overlay over an overlay, as an action's over its run's sensory memory."""

    def __init__(self) -> None:
        self.below = Overlay.over(None, kind=MemoryKind.SENSORY, now=lambda: self.model.now)
        super().__init__()

    def base(self) -> ExactTree:
        return self.below

    def fresh(self) -> Overlay:
        """An overlay whose clock runs while it is written to."""
        return Overlay.over(
            self.base(), kind=MemoryKind.SENSORY, now=lambda: self.model.now, ttl=self.model.ttl
        )

    @rule(us=st.integers(1, 40))
    def wait(self, us):
        self.model.now += us
        self.model.purge()

    def keep(self, deltas: tuple[TreeDelta, ...]) -> None:
        self.below.apply(deltas)


def _place(delta: TreeDelta) -> tuple[Path, bool]:
    return delta.path, isinstance(delta, Delete | Clear)


def _model_of(tree: ExactTree, now: int, path: Path = (), expires: int | None = None) -> Branch:
    return Branch(
        expires,
        {
            name: _model_of(tree, now, (*path, name), node.expires)
            if node.is_object
            else Leaf(node.value, node.expires)
            for name, node in tree.children(path, now)
        },
    )


def _plain(node: Branch) -> dict[str, object]:
    return {n: _plain(f) if isinstance(f, Branch) else f.value for n, f in node.fields.items()}


def _paths(node: Branch, path: Path = ()) -> Iterator[str | Path]:
    for name, inner in node.fields.items():
        names = (*path, name)
        if isinstance(inner, Branch):
            yield from _paths(inner, names)
        else:
            yield names if any("." in n for n in names) else ".".join(names)


TestOverlayOverStore = OverlayMachine.TestCase
TestOverlayOverOverlay = StackedMachine.TestCase

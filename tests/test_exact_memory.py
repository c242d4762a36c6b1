"""Exact memory: cursors, paths, objects, values, references, expiry, commits of their own."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.errors import (
    CompareFailed,
    IdempotencyConflict,
    InvalidInput,
    InvalidPath,
    InvalidTime,
    InvalidValue,
    KeyBusy,
    NotAnObject,
    ObjectInTheWay,
    StoreReadOnly,
    TooLarge,
    TreeConflict,
    Unsupported,
)
from alveus.state import (
    MAX_LEVELS,
    MISSING,
    CommittedTree,
    MemoryKind,
    MemoryObject,
    MemoryRef,
    Overlay,
    PastTree,
    PathCache,
    Snapshot,
    TreeLimits,
    Ttl,
    root_of,
)
from alveus.state.paths import MAX_CACHED_PATHS
from alveus.state.tree_values import FEW_FIELDS, fast_copy, size_bound
from alveus.store import Batch, Clear, Commit, Create, Delete, Node, Put, Refresh, Scope
from alveus.store.ledger import SMALL_BYTES
from alveus.store.ram import RamStore
from alveus.store.scope import NameRange
from alveus.values import wire
from alveus.values.forks import HandleLock
from alveus.values.storable import MAX_NAME, Path, checked, moment
from waiting import SHORT_S

SCOPE = Scope("space", "ada")
NOW = 1_000_000_000_000_000
SECOND = 1_000_000


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


def sensory(**options) -> Overlay:
    return Overlay.over(None, kind=MemoryKind.SENSORY, now=NOW, **options)


def committed(store: RamStore | None = None, **options) -> CommittedTree:
    options = {"clock": Clock(), "writer_lock": HandleLock(reentrant=True), **options}
    return CommittedTree(store or RamStore(), SCOPE, **options)


@pytest.fixture(params=["overlay", "on an overlay", "committed"])
def m(request) -> MemoryObject:
    """An empty memory: an overlay over nothing, one on another, and one that commits each call."""
    if request.param == "overlay":
        return root_of(sensory())
    if request.param == "on an overlay":
        return root_of(Overlay.over(sensory(), kind=MemoryKind.SHORT_TERM, now=NOW))
    return root_of(committed())


def unchanged(m: MemoryObject, error: type[Exception], call: Callable[[], object]) -> str:
    """Expect *error* of *call*, and that it left everything as it was; return its message."""
    before = m.to_dict()
    with pytest.raises(error) as caught:
        call()
    assert m.to_dict() == before
    assert list(m) == list(before)
    return str(caught.value)


def test_the_program_of_the_short_term_memory_design(m):
    """The calls of Flink Agents' design document of short-term memory."""
    m.set("x", 100)
    m.set("y", "abc")
    obj_z = m.new_object("z")
    assert m.get_field_names() == ["x", "y", "z"]
    assert obj_z.get_fields() == {}
    obj_z.set("m", 0.5)
    obj_z.set("n.j", True)
    assert m.get("x") == 100
    assert m.get("z.m") == 0.5
    assert m.get("xx") is None
    assert m.get("z.mm") is None
    assert m.is_exist("x")
    assert not m.is_exist("xx")
    assert m.is_exist("z.m")
    assert not m.is_exist("z.mm")
    obj_n = m.get("z.n")
    assert isinstance(obj_n, MemoryObject)
    assert obj_n.get("j") is True
    assert obj_z.get_field_names() == ["m", "n"]
    fields = obj_z.get_fields()
    assert fields["m"] == 0.5
    assert isinstance(fields["n"], MemoryObject)
    m.set("copy", obj_z)
    obj_z.set("m", 1.0)
    assert m.get("copy.m") == 0.5
    assert m.get("copy.n.j") is True


# --- paths --------------------------------------------------------------------------------------


def test_the_empty_path_is_the_object_itself(m):
    """On the root and on any cursor; only writing to it is refused."""
    obj = m.new_object("a.b")
    assert m.get("") == m == m.get(())
    assert obj.get("") == obj
    assert m.is_exist("")
    assert obj.is_exist("")
    assert obj.get_object("") == obj
    for write in (
        lambda: m.set("", 1),
        lambda: obj.set((), 1),
        lambda: m.new_object(""),
        lambda: obj.delete(""),
        lambda: m.append("", 1),
        lambda: m.increment(""),
        lambda: m.update("", 1, expected=None),
    ):
        assert "is the object itself" in unchanged(m, InvalidPath, write)


@pytest.mark.parametrize("path", [".", "a.", ".a", "a..b", "..", ("a", ""), ("",)], ids=repr)
def test_an_empty_name_in_a_path_is_an_error_everywhere(m, path):
    """Reading and writing alike; nothing is half made."""
    m.set("a.b", 1)
    for call in (
        lambda: m.get(path),
        lambda: m.is_exist(path),
        lambda: m.get_object(path),
        lambda: path in m,
        lambda: m[path],
        lambda: m.set(path, 1),
        lambda: m.new_object(path),
        lambda: m.delete(path),
    ):
        assert "empty name" in unchanged(m, InvalidPath, call)


@pytest.mark.parametrize(
    "path", [None, 1, b"a", ["a"], ("a", 1), ("a", None), {"a": 1}, object], ids=repr
)
def test_what_is_no_path_is_refused(m, path):
    unchanged(m, InvalidPath, lambda: m.get(path))
    unchanged(m, InvalidPath, lambda: m.set(path, 1))


@pytest.mark.parametrize("path", ["a.\ud800", ("\udfff",), "\ud800"], ids=ascii)
def test_half_a_surrogate_pair_is_no_name(m, path):
    m.set(("a", "b.c"), 1)
    assert "surrogate" in unchanged(m, InvalidPath, lambda: m.get(path))


def test_names_with_dots_are_written_as_tuples(m):
    """They are other names than the ones that the text would mean."""
    ref = m.set(("hosts", "a.example"), 1)
    m.set("hosts.a.example", 2)
    assert m.get(("hosts", "a.example")) == 1
    assert m.get("hosts.a.example") == 2
    assert m.get("hosts").get_field_names() == ["a.example", "a"]
    assert ref.path == ("hosts", "a.example")
    assert m.get(ref) == 1
    assert m.get(MemoryRef.from_json(json.loads(json.dumps(ref.to_json())))) == 1
    assert m.set(("a", "b"), 1).path == "a.b"
    assert [path for path, _ in m.walk()] == [("hosts", "a.example"), "hosts.a.example", "a.b"]
    assert m.delete(("hosts", "a.example"))
    assert m.get(("hosts", "a.example")) is None
    assert "('x.y',)" in unchanged(m, NotAnObject, lambda: m.get_object(("x.y",)))


def test_a_str_subclass_is_the_text_it_holds(m):
    class Name(str):
        __slots__ = ()

    m.set(Name("a.b"), 1)
    m.set((Name("c"),), 2)
    assert m.to_dict() == {"a": {"b": 1}, "c": 2}
    assert all(type(name) is str for name in m)


def test_a_path_has_limits(m):
    deepest = ".".join(["x"] * MAX_LEVELS)
    m.set(deepest, 1)
    assert m.get(deepest) == 1
    unchanged(m, TooLarge, lambda: m.set(deepest + ".y", 1))
    unchanged(m, TooLarge, lambda: m.get("x.x").get(deepest))
    longest = "n" * MAX_NAME
    m.set(longest, 1)
    unchanged(m, TooLarge, lambda: m.set(longest + "n", 1))


def test_parsed_paths_are_bounded():
    """A memory that lives long does not grow with every path it was ever asked for."""
    m = root_of(sensory())
    for i in range(MAX_CACHED_PATHS + 10):
        m.get(f"asked-{i}")
    assert len(m._location.children) < MAX_CACHED_PATHS
    m.set("a", 1)
    assert m.get("a") == 1


# --- objects ------------------------------------------------------------------------------------


def test_a_value_has_no_fields(m):
    m.set("a", {"b": 1})
    for call in (
        lambda: m.set("a.b", 2),
        lambda: m.set("a.b.c", 2),
        lambda: m.new_object("a.b", overwrite=True),
        lambda: m.append("a.b", 2),
        lambda: m.increment("a.b"),
    ):
        message = unchanged(m, TreeConflict, call)
        assert "'a' holds a value (dict)" in message
        assert "overwrite=True" in message


def test_a_value_does_not_replace_an_object(m):
    m.set("o.k", 1)
    other = m.new_object("p")
    for call in (
        lambda: m.set("o", 1),
        lambda: m.set("o", other),
        lambda: m.append("o", 1),
        lambda: m.increment("o"),
        lambda: m.update("o", 1, expected=MISSING),
    ):
        assert "'o'" in unchanged(m, ObjectInTheWay, call)


def test_get_object_is_an_object_or_an_error_that_says_what_is_there(m):
    m.set("o.k", 1)
    assert m.get_object("o").get("k") == 1
    assert "'o.k'" in unchanged(m, NotAnObject, lambda: m.get_object("o.k"))
    assert "a value (int)" in unchanged(m, NotAnObject, lambda: m.get_object("o.k"))
    assert "nothing is there" in unchanged(m, NotAnObject, lambda: m.get_object("x"))


def test_fields_come_in_the_order_they_were_made(m):
    """Overwriting keeps a place; deleting gives it up."""
    for name in ("b", "a", "d", "c"):
        m.set(name, name)
    m.set("a", "again")
    m.new_object("d", overwrite=True)
    assert list(m) == ["b", "a", "d", "c"]
    assert list(m.get_fields()) == list(m.to_dict()) == ["b", "a", "d", "c"]
    m.delete("b")
    m.set("b", 1)
    assert m.get_field_names() == ["a", "d", "c", "b"]


def test_a_subtree_as_dicts_and_as_a_walk(m):
    m.set("a.b", 1)
    m.set("c", [1, {"x": 2}])
    m.new_object("e")
    m.set("a.d.f", None)
    assert m.to_dict() == {"a": {"b": 1, "d": {"f": None}}, "c": [1, {"x": 2}], "e": {}}
    assert list(m.walk()) == [("a.b", 1), ("a.d.f", None), ("c", [1, {"x": 2}])]
    assert list(m.get("a").walk()) == [("b", 1), ("d.f", None)]


def test_delete_says_whether_something_was_there(m):
    m.set("a.b.c", 1)
    assert m.delete("a.b")
    assert not m.delete("a.b")
    assert not m.delete("a.b.c")
    assert m.to_dict() == {"a": {}}


@pytest.mark.parametrize("path", ["a.b.c", ("a", "b.c", "d")], ids=repr)
def test_what_was_removed_is_not_remembered(m, path):
    """Values that were read or written a moment ago, below what is removed."""
    for remove in (lambda: m.delete("a"), lambda: m.get("a").clear(), m.clear):
        m.set(path, 1)
        assert m.get(path) == 1
        remove()
        assert m.get(path) is None
        assert path not in m
        m.set(path, 2)
        assert m.get(path) == 2
        m.delete(path)
        assert m.get(path) is None


def test_clear_empties_an_object_and_keeps_it(m):
    m.set("a.b.c", 1)
    m.set("d", 1)
    m.get("a").clear()
    assert m.to_dict() == {"a": {}, "d": 1}
    m.clear()
    assert m.to_dict() == {}


def test_the_cursor_of_what_is_gone(m):
    """Writing through it makes the object again; listing it is an error, not an empty list."""
    obj = m.new_object("o")
    m.delete("o")
    for call in (obj.get_field_names, obj.get_fields, obj.to_dict, obj.walk, obj.clear):
        assert "'o'" in unchanged(m, NotAnObject, call)
    assert obj.get("") is None
    assert not obj.is_exist()
    obj.set("k", 1)
    assert m.to_dict() == {"o": {"k": 1}}
    m.delete("o")
    m.set("o", 5)
    assert obj.get("") == 5
    unchanged(m, NotAnObject, obj.get_field_names)


def test_it_reads_like_a_mapping(m):
    m["a.b"] = 1
    assert m["a.b"] == 1
    assert m["a"]["b"] == 1
    assert "a.b" in m
    assert "a.c" not in m
    assert len(m) == 1
    assert [*m] == ["a"]
    with pytest.raises(KeyError, match=r"a\.c"):
        m["a.c"]
    m["none"] = None
    assert m["none"] is None
    del m["none"]
    with pytest.raises(KeyError, match="none"):
        del m["none"]
    assert m.get("a.c", 7) == 7
    assert bool(m.new_object("empty")), "an object that was found is not nothing"


def test_what_a_cursor_is(m):
    obj = m.new_object("a.b")
    assert (m.path, obj.path, obj.kind) == ("", "a.b", m.kind)
    assert obj.ref == MemoryRef.create(m.kind, "a.b")
    assert repr(obj) == f"<MemoryObject {m.kind} 'a.b'>"
    assert obj == m.get("a.b")
    assert len({obj, m.get("a.b"), m.get("a")}) == 2
    assert obj != root_of(sensory()).new_object("a.b")
    assert obj != "a.b"


# --- copies of objects --------------------------------------------------------------------------


def test_an_object_is_copied_as_it_is(m):
    """All below it, in order; afterwards the two are apart."""
    m.set("o.b", [1])
    m.set("o.a.k", 1)
    m.new_object("o.e")
    m.set("copy.deep", m.get("o"))
    m.set("o.b", 2)
    m.delete("o.a")
    assert m.get("copy").to_dict() == {"deep": {"b": [1], "a": {"k": 1}, "e": {}}}
    m.set("v", 1)
    m.set("v", m.get("o"))
    assert m.get("v").to_dict() == {"b": 2, "e": {}}
    assert list(m) == ["o", "copy", "v"]


def test_an_object_is_not_copied_into_itself(m):
    m.set("o.p.k", 1)
    for path in ("o", "o.p", "o.x", "o.p.k.y"):
        unchanged(m, TreeConflict, lambda path=path: m.set(path, m.get("o")))
    unchanged(m, TreeConflict, lambda: m.set("x", m))
    unchanged(m, NotAnObject, lambda: m.set("x", MemoryObject(m._memory, _place(m, "gone"))))
    m.set("o.q", m.get("o.p"))
    assert m.get("o").to_dict() == {"p": {"k": 1}, "q": {"k": 1}}


def _place(m: MemoryObject, path: str):
    return m._memory.paths.parse(m._location, path)


def test_an_object_crosses_memories(m):
    """From sensory to short-term memory, and from one key to another."""
    source = root_of(sensory())
    source.set("user.name", "Ada")
    m.set("kept", source)
    m.set("user", source.get("user"))
    source.set("user.name", "Bob")
    assert m.to_dict() == {"kept": {"user": {"name": "Ada"}}, "user": {"name": "Ada"}}


def test_two_handles_of_a_key_are_one_memory():
    """What one found the other cannot copy into itself."""
    tree = committed()
    again = CommittedTree(tree.ledger, SCOPE, clock=tree.clock, writer_lock=tree.writer_lock)
    root_of(tree).set("o.k", 1)
    assert root_of(tree) == root_of(again)
    unchanged(
        root_of(tree), TreeConflict, lambda: root_of(tree).set("o.x", root_of(again).get("o"))
    )
    other = CommittedTree(
        tree.ledger, Scope("space", "bob"), clock=tree.clock, writer_lock=tree.writer_lock
    )
    root_of(other).set("o.x", root_of(tree).get("o"))
    assert root_of(other).to_dict() == {"o": {"x": {"k": 1}}}


def test_an_object_inside_a_value_is_refused_with_a_hint(m):
    obj = m.new_object("o")
    for value in ([obj], {"o": obj}):
        message = unchanged(m, InvalidValue, lambda value=value: m.set("v", value))
        assert "copies it" in message


def test_a_copy_that_would_be_too_deep_is_refused(m):
    m.set(".".join(["x"] * (MAX_LEVELS - 1)), 1)
    unchanged(m, TooLarge, lambda: m.set("y.z.w", m.get("x")))


# --- values -------------------------------------------------------------------------------------


def test_values_are_copied_in_and_out(m):
    """Changing what was passed, or what was returned, changes nothing."""
    passed = {"list": [1, {"k": b"x"}]}
    m.set("v", passed)
    m.append("l", passed)
    passed["list"].append(2)
    m.get("v")["list"].append(3)
    m.get_fields()["v"]["list"][1]["k"] = 4
    m.to_dict()["v"]["list"].clear()
    next(iter(m.walk()))[1]["list"].clear()
    assert m.get("v") == {"list": [1, {"k": b"x"}]}
    assert m.get("l") == [{"list": [1, {"k": b"x"}]}]


def test_deltas_are_copies():
    overlay = sensory()
    root_of(overlay).append("l", 1)
    before = overlay.deltas()
    root_of(overlay).append("l", 2)
    assert before == (Put(("l",), [1]),)


def test_odd_numbers_come_back(m):
    m.set("nan", math.nan)
    m.set("inf", -math.inf)
    m.set("big", -(10**5000))
    assert math.isnan(m.get("nan"))
    assert m.get("inf") == -math.inf
    assert m.get("big") == -(10**5000)


@pytest.mark.parametrize("value", ["\ud800", ["a", "\ud800"], {"\ud800": 1}, [[float]]], ids=ascii)
def test_an_error_of_a_value_names_the_path(m, value):
    assert "value at 'a.b'" in unchanged(m, InvalidValue, lambda: m.set("a.b", value))


def test_a_value_that_contains_itself_is_refused(m):
    value = []
    value.append(value)
    unchanged(m, InvalidValue, lambda: m.set("v", value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_any_storable_value_comes_back(value):
    """Also through the shortcut for plain ones; and no value is larger than its bound."""
    m = root_of(sensory())
    m.set("v", value)
    assert repr(m.get("v")) == repr(value)
    assert len(wire.encode(checked(value, nan=True)).encode()) <= size_bound(value)


def test_plain_values_nest_as_deep_as_checked_ones(m):
    value = "x"
    for _ in range(100):
        value = [value]
    m.set("v", value)
    assert m.get("v") == value
    assert fast_copy(value) == checked(value)
    unchanged(m, InvalidValue, lambda: m.set("v", [value]))


def test_a_value_has_a_size_limit():
    """In bytes of its wire form, counted where a cheap bound does not settle it."""
    m = root_of(sensory(limits=TreeLimits(value_bytes=2000)))
    m.set("exact", "x" * 1998)
    unchanged(m, TooLarge, lambda: m.set("exact", "x" * 1999))
    unchanged(m, TooLarge, lambda: m.set("v", {"k": ["é" * 1000]}))
    unchanged(m, TooLarge, lambda: m.set("v", b"x" * 1500))
    unchanged(m, TooLarge, lambda: m.set("v", 10**2500))
    unchanged(m, TooLarge, lambda: m.append("l", "x" * 2000))
    m.set("v", 10**2000)


def test_a_list_that_grew_to_its_limit_stays_below_it():
    m = root_of(sensory(limits=TreeLimits(value_bytes=2000)))
    with pytest.raises(TooLarge):
        append_many(m)
    assert 1900 < len(wire.encode(m.get("l"))) <= 2000


def append_many(m: MemoryObject) -> None:
    for _ in range(1000):
        m.append("l", "x" * 8)


def test_a_limit_must_leave_room():
    with pytest.raises(InvalidInput):
        TreeLimits(value_bytes=10)


# --- append, increment, update ------------------------------------------------------------------


def test_append_makes_and_grows_a_list(m):
    assert m.append("a.l", 1).path == "a.l"
    m.append("a.l", [2])
    assert m.get("a.l") == [1, [2]]
    m.set("v", {"k": 1})
    assert "not a list" in unchanged(m, TreeConflict, lambda: m.append("v", 1))
    unchanged(m, InvalidValue, lambda: m.append("a.l", object()))


def test_increment_counts(m):
    assert m.increment("a.n") == 1
    assert m.increment("a.n", 5) == 6
    assert m.increment("a.n", -0.5) == 5.5
    assert m.get("a.n") == 5.5
    m.set("flag", True)
    assert "not a number" in unchanged(m, TreeConflict, lambda: m.increment("flag"))
    unchanged(m, InvalidValue, lambda: m.increment("a.n", True))
    unchanged(m, InvalidValue, lambda: m.increment("a.n", "1"))
    unchanged(m, InvalidValue, lambda: m.increment("a.n", 10**400))


def test_update_compares_and_sets(m):
    """1, 1.0 and True are three values; order of dict keys is none."""
    m.update("v", 1, expected=MISSING)
    for expected in (MISSING, 2, 1.0, True, None, [1]):
        unchanged(m, CompareFailed, lambda e=expected: m.update("v", 9, expected=e))
    assert m.update("v", {"a": [1, math.nan], "b": None}, expected=1).path == "v"
    for expected in (
        {"a": [1, math.nan]},
        {"a": [1.0, math.nan], "b": None},
        {"a": [1], "b": None},
    ):
        unchanged(m, CompareFailed, lambda e=expected: m.update("v", 9, expected=e))
    m.update("v", None, expected={"b": None, "a": [1, math.nan]})
    unchanged(m, CompareFailed, lambda: m.update("x", 1, expected=None))
    assert m.get("v", 0) is None


# --- references ---------------------------------------------------------------------------------


def test_a_reference_counts_from_the_root(m):
    """From any cursor, and in its form as JSON."""
    ref = m.set("a.b.c", 7)
    cursor = m.get("a.b")
    assert cursor.get(ref) == 7
    assert cursor.get(ref.to_json()) == 7
    assert cursor.get({"path": "a.b.c"} if m.kind == "short_term" else ref) == 7
    assert cursor.is_exist(ref)
    assert ref in cursor
    assert cursor[ref] == 7
    assert cursor.get_object(MemoryRef.create(m.kind, "a")).get("b.c") == 7
    assert cursor.get(MemoryRef.create(m.kind, "")) == m
    assert "pass ref.path" in unchanged(m, InvalidPath, lambda: cursor.set(ref, 1))


@pytest.mark.parametrize("kind", list(MemoryKind))
@pytest.mark.parametrize("path", ["a.b", "", ("a.b", "c")], ids=repr)
def test_a_reference_survives_json(kind, path):
    ref = MemoryRef.create(kind, path)
    assert MemoryRef.from_json(json.loads(json.dumps(ref.to_json()))) == ref
    assert checked(ref.to_json()) == ref.to_json()


def test_a_reference_has_one_spelling():
    assert MemoryRef(MemoryKind.SENSORY, ("a", "b")) == MemoryRef.create("sensory", "a.b")
    assert MemoryRef.create("sensory", ("a.b",)).path == ("a.b",)
    assert MemoryRef.create("sensory", "a.b").names == ("a", "b")


@pytest.mark.parametrize(
    "value",
    [None, "a.b", {}, {"path": 1}, {"path": "a..b"}, {"memory_type": ["sensory"], "path": "a"}],
    ids=repr,
)
def test_what_is_no_reference_is_refused(value):
    with pytest.raises(InvalidInput):
        MemoryRef.from_json(value)
    with pytest.raises(InvalidInput):
        MemoryRef.create("long_term", "a")


@dataclass(frozen=True)
class Context:
    sensory_memory: Any
    short_term_memory: Any


def test_a_reference_finds_the_other_memory_where_it_is_known():
    """Without a resolver it is an error, not a look-up in the wrong memory."""
    long, short = sensory(), committed()
    ref = root_of(long).set("a", 1)
    assert "in short_term memory" in unchanged(
        root_of(short), InvalidInput, lambda: root_of(short).get(ref)
    )
    context = Context(sensory_memory=root_of(long), short_term_memory=root_of(short))
    long.resolver = context
    other = root_of(short).set("b", 2)
    assert root_of(long).get(other) == 2
    assert root_of(long).is_exist(other)
    short = CommittedTree(
        RamStore(), SCOPE, clock=Clock(), writer_lock=HandleLock(reentrant=True), resolver=context
    )
    assert root_of(short).get(ref) == 1
    assert ref.resolve(context) == 1
    assert other.resolve(context) == 2
    assert MemoryRef.create("sensory", "gone").resolve(context) is None
    long.resolver = Context(sensory_memory=None, short_term_memory=None)
    unchanged(root_of(long), InvalidInput, lambda: root_of(long).get(other))


# --- expiry -------------------------------------------------------------------------------------


@pytest.fixture(params=["overlay", "on an overlay", "committed"])
def timed(request) -> Callable[..., tuple[MemoryObject, Clock]]:
    """Makes a memory and its clock."""

    def make(**options) -> tuple[MemoryObject, Clock]:
        clock = Clock()
        if request.param == "committed":
            return root_of(committed(clock=clock, **options)), clock
        below = None
        if request.param == "on an overlay":
            below = Overlay.over(None, kind=MemoryKind.SENSORY, now=clock)
        return root_of(Overlay.over(below, kind=MemoryKind.SENSORY, now=clock, **options)), clock

    return make


def test_an_expired_value_is_gone_everywhere(timed):
    m, clock = timed()
    m.set("a", 1, ttl=timedelta(seconds=10))
    m.set("b", 2)
    m.set("c", 3, expires_at=moment(NOW + 10 * SECOND))
    clock.wait(9.9)
    assert m.to_dict() == {"a": 1, "b": 2, "c": 3}
    clock.wait(0.1)
    assert m.get("a") is None
    assert "a" not in m
    assert m.get_field_names() == list(m.get_fields()) == list(m.to_dict()) == ["b"]
    assert not m.delete("a")
    m.set("a.x", 1)
    m.new_object("c")
    assert list(m) == ["b", "a", "c"], "what is made again stands at the end"


def test_what_was_made_on_the_way_expires_with_it(timed):
    """Explicit objects stay; nothing else is left behind."""
    m, clock = timed()
    m.new_object("kept")
    m.set("kept.a.b", 1, ttl=timedelta(seconds=10))
    m.set("a.b.c", 1, ttl=timedelta(seconds=10))
    m.new_object("d.e", ttl=timedelta(seconds=10))
    clock.wait(10)
    assert m.to_dict() == {"kept": {}}


def test_an_object_lives_as_long_as_what_is_in_it(timed):
    m, clock = timed()
    m.set("a.b.c", 1, ttl=timedelta(seconds=10))
    m.set("a.b.d", 1, ttl=timedelta(seconds=20))
    m.set("a.e", 1, ttl=timedelta(seconds=5))
    clock.wait(15)
    assert m.to_dict() == {"a": {"b": {"d": 1}}}
    m.set("a.b.f", 1)
    clock.wait(15)
    assert m.to_dict() == {"a": {"b": {"f": 1}}}


def test_overwriting_without_a_ttl_removes_the_expiry(timed):
    m, clock = timed()
    m.set("a.b", 1, ttl=timedelta(seconds=10))
    m.set("a.b", 2)
    m.set("o.k", 1, ttl=timedelta(seconds=10))
    m.new_object("o")
    clock.wait(100)
    assert m.to_dict() == {"a": {"b": 2}, "o": {}}


def test_a_shorter_ttl_holds_for_the_value_alone(timed):
    m, clock = timed()
    m.set("a.b", 1, ttl=timedelta(seconds=20))
    m.set("a.b", 2, ttl=timedelta(seconds=5))
    clock.wait(5)
    assert m.to_dict() == {"a": {}}
    clock.wait(15)
    assert m.to_dict() == {}


def test_growing_keeps_the_expiry(timed):
    """A counter of one minute counts for one minute."""
    m, clock = timed()
    m.increment("n", ttl=timedelta(seconds=10))
    m.append("l", 1, ttl=timedelta(seconds=10))
    clock.wait(6)
    assert m.increment("n") == 2
    m.append("l", 2)
    clock.wait(6)
    assert m.to_dict() == {}
    m.increment("n", ttl=timedelta(seconds=10))
    clock.wait(6)
    m.increment("n", ttl=timedelta(seconds=10))
    clock.wait(6)
    assert m.get("n") == 2


def test_a_memory_wide_ttl_is_the_default_of_every_write(timed):
    m, clock = timed(ttl=Ttl(timedelta(seconds=10)))
    m.set("a.b", 1)
    m.new_object("o")
    m.set("c", m.get("a"), ttl=timedelta(seconds=30))
    clock.wait(6)
    m.get("a.b")
    m.set("a.b", 2)
    clock.wait(6)
    assert m.to_dict() == {"a": {"b": 2}, "c": {"b": 1}}
    clock.wait(6)
    assert m.to_dict() == {"c": {"b": 1}}


def test_a_read_renews_where_it_was_asked_to(timed):
    """The value and the objects it is in; names and existence are no reads of it."""
    m, clock = timed(ttl=Ttl(timedelta(seconds=10), refresh="read"))
    m.set("a.b.c", 1)
    m.set("a.b.d", 1)
    clock.wait(6)
    assert m.get("a.b.c") == 1
    assert m.is_exist("a.b.d")
    assert m.get("a.b").get_field_names() == ["c", "d"]
    clock.wait(6)
    assert m.get("a.b").get_fields() == {"c": 1}
    clock.wait(6)
    assert m.to_dict() == {"a": {"b": {"c": 1}}}
    clock.wait(10)
    assert m.to_dict() == {}


def test_an_object_in_place_of_a_value_lasts_as_long_as_it_is_told(timed):
    m, clock = timed()
    m.set("a.b", 1, ttl=timedelta(seconds=5))
    m.new_object("a.b", overwrite=True, ttl=timedelta(seconds=10))
    clock.wait(5)
    assert m.to_dict() == {"a": {"b": {}}}
    clock.wait(5)
    assert m.to_dict() == {}


def test_an_expiry_in_the_past_leaves_nothing(timed):
    m, _ = timed()
    m.set("a", 1)
    m.set("a", 2, expires_at=moment(NOW - 1))
    m.set("b.c", 2, expires_at=moment(NOW))
    assert m.to_dict() == {}
    m.set("a", 3)
    assert m.to_dict() == {"a": 3}


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), 5, "5s"], ids=repr)
def test_a_ttl_is_a_time_of_more_than_zero(m, ttl):
    m.set("l", [1])
    for call in (
        lambda: m.set("a", 1, ttl=ttl),
        lambda: m.new_object("a", ttl=ttl),
        lambda: m.append("l", 2, ttl=ttl),
        lambda: Ttl(ttl),
    ):
        unchanged(m, InvalidInput, call)


@pytest.mark.parametrize("ttl", [timedelta.max, timedelta(days=3_000_000)])
def test_a_ttl_ends_within_the_calendar(m, ttl):
    """A longer one could be stored, and then neither shown nor exported."""
    with pytest.raises(InvalidInput, match=r"longer than 1,000 years; to keep"):
        m.set("a", 1, ttl=ttl)
    with pytest.raises(InvalidInput, match=r"longer than 1,000 years"):
        Ttl(after=ttl)
    assert "a" not in m
    m.set("a", 1, ttl=timedelta(days=365_000))
    assert "a" in m


def test_expiry_is_given_once_and_with_a_zone(m):
    later = datetime(2100, 1, 1, tzinfo=UTC)
    unchanged(m, InvalidInput, lambda: m.set("a", 1, ttl=timedelta(seconds=1), expires_at=later))
    unchanged(m, InvalidTime, lambda: m.set("a", 1, expires_at=later.replace(tzinfo=None)))
    with pytest.raises(InvalidInput):
        Ttl(timedelta(1), refresh="always")  # pyright: ignore[reportArgumentType] - the law
    m.set("a", 1, expires_at=later)
    assert m.get("a") == 1


# --- what an overlay reads and says ---------------------------------------------------------------


class Counted:
    """A tree that counts what it is asked."""

    def __init__(self, tree: Overlay) -> None:
        self.tree, self.asked = tree, Counter()

    def node(self, path: Path, now: int) -> Node | None:
        self.asked["node", path] += 1
        return self.tree.node(path, now)

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        self.asked["children", path] += 1
        return self.tree.children(path, now)

    def few_fields(self, path: Path) -> None:
        self.asked["few", path] += 1

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        self.asked["names", path] += 1
        return self.tree.field_names(path, now)

    def names_in_range(self, path: Path, chosen: NameRange, now: int) -> list[str]:
        self.asked["range", path] += 1
        return self.tree.names_in_range(path, chosen, now)


@pytest.fixture
def below() -> Counted:
    """A tree of an object with 100 fields, one of them deep."""
    base = sensory()
    for i in range(99):
        root_of(base).set(f"big.k{i}", i)
    root_of(base).set("big.deep.x.y", 1)
    return Counted(base)


def over(below: Counted) -> MemoryObject:
    return root_of(Overlay.over(below, kind=MemoryKind.SHORT_TERM, now=NOW))


def test_a_read_asks_once(below):
    m = over(below)
    for _ in range(3):
        assert m.get("big.deep.x.y") == 1
        assert m.get("big.k7") == 7
        assert m.get("no.such.thing") is None
    assert list(below.asked.values()) == [1, 1, 1]


def test_names_ask_for_one_object(below):
    m = over(below)
    big = m.get_object("big")
    for _ in range(3):
        assert len(big.get_field_names()) == len(big.get_fields()) == 100
    assert big.get("k3") == 3
    assert big.get("none") is None
    assert below.asked == Counter(
        {("node", ("big",)): 1, ("names", ("big",)): 1, ("children", ("big",)): 1}
    )


def test_names_show_what_was_done_before_they_were_asked_for(below):
    m = over(below)
    big = m.get("big")
    m.get("big.k1")
    m.set("big.k2", "new")
    m.delete("big.k3")
    m.delete("big.k4")
    m.set("big.k4", "again")
    m.get("big.deep.x.none")
    m.set("big.added", 1)
    names = [f"k{i}" for i in range(99) if i not in (3, 4)]
    assert big.get_field_names() == [*names, "deep", "k4", "added"]
    m.delete("big.k5")
    assert len(big) == 99
    assert big.get_fields()["k2"] == "new"


@pytest.mark.parametrize(
    ("count", "asked"), [(FEW_FIELDS, 2 + 1), (FEW_FIELDS + 1, 7 + 2 + 1)], ids=["few", "many"]
)
def test_whoever_reads_several_fields_of_a_small_object_reads_them_together(
    tmp_path, monkeypatch, count, asked
):
    """But a large value, which is read where it is asked for; what is not there is known."""
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        key = memory.key("ada")
        key.short_term.set("other", 1)
        with key.batch() as batch:
            for number in range(count - 1):
                batch.short_term.set(f"o.f{number}", [number])
            batch.short_term.set("o.large", "x" * (SMALL_BYTES + 1))
        calls = Counter[str]()
        for name in ("node", "few_fields"):
            call = getattr(memory.store, name)

            def counted(*args, call=call, name=name, **more):
                calls[name] += 1
                return call(*args, **more)

            monkeypatch.setattr(memory.store, name, counted)
        with key.batch() as batch:
            box = batch.short_term
            assert [box.get(f"o.f{number}") for number in range(7)] == [[n] for n in range(7)]
            key.short_term.set("other", 2)
            assert [box.get(f"o.none{number}") for number in range(2)] == [None] * 2
            assert len(str(box.get("o.large"))) == SMALL_BYTES + 1
        assert calls == {"few_fields": 1, "node": asked + 1}  # and the other field that is set


def test_a_write_asks_for_nothing_beside_it(below):
    """One field among many: the field and its object; a value again: the value alone."""
    m = over(below)
    m.set("big.k5", 6)
    m.set("big.new", 1)
    m.delete("big.k6")
    m.increment("big.deep.x.y")
    assert below.asked == Counter(
        {
            ("node", ("big", "k5")): 1,
            ("node", ("big", "new")): 1,
            ("node", ("big",)): 1,
            ("node", ("big", "k6")): 1,
            ("few", ("big",)): 1,
            ("node", ("big", "deep", "x", "y")): 1,
        }
    )


def test_an_overlay_over_nothing_asks_nothing():
    m = root_of(sensory())
    m.set("a.b", 1)
    assert m.get_field_names() == ["a"]
    m.clear()
    assert m.to_dict() == {}


def test_deltas_are_the_shortest_list():
    """Typed, in order, the missing objects among them."""
    base = sensory()
    root_of(base).set("old.x", 1)
    root_of(base).set("old.y", 1)
    root_of(base).set("gone", 1)
    root_of(base).set("emptied.x", 1)
    overlay = Overlay.over(base, kind=MemoryKind.SHORT_TERM, now=NOW)
    m = root_of(overlay)
    assert not overlay.deltas()
    m.set("new.deep.v", 1)
    m.set("new.deep.v", 2)
    m.set("temporary.v", 1)
    m.delete("temporary")
    m.set("old.x", 3)
    m.delete("gone")
    m.get("emptied").clear()
    assert overlay.deltas()
    assert overlay.deltas() == (
        Put(("old", "x"), 3),
        Delete(("gone",)),
        Clear(("emptied",)),
        Create(("new",)),
        Create(("new", "deep")),
        Put(("new", "deep", "v"), 2),
    )
    m.delete("old.y")
    m.new_object("old.y")
    m.clear()
    m.set("only", 1)
    assert overlay.deltas() == (Clear(()), Put(("only",), 1))


def test_what_is_made_and_deleted_was_never_there():
    overlay = sensory()
    root_of(overlay).set("a.b", 1)
    root_of(overlay).delete("a")
    assert not overlay.deltas()
    assert overlay.deltas() == ()


def test_refreshes_name_what_has_to_last():
    base = sensory()
    root_of(base).set("a.b.c", 1, expires_at=moment(NOW + 10))
    overlay = Overlay.over(base, kind=MemoryKind.SHORT_TERM, now=NOW)
    root_of(overlay).set("a.b.d", 1, expires_at=moment(NOW + 30))
    assert overlay.deltas() == (
        Refresh(("a",), NOW + 30),
        Refresh(("a", "b"), NOW + 30),
        Put(("a", "b", "d"), 1, NOW + 30),
    )


def test_a_batch_notes_what_was_asked_as_passed():
    """So that a repetition is recognised, whatever it would do by then."""
    overlay = Overlay.over(Snapshot(RamStore(), SCOPE, 0), kind=MemoryKind.SHORT_TERM, now=NOW)
    overlay.records_requests = True
    m = root_of(overlay)
    m.set("a", [1], ttl=timedelta(seconds=1))
    m.set("n", 1)
    m.set("n", 1)
    m.increment("n", 2)
    m.update("n", 5, expected=3)
    m.append("l", "x")
    m.new_object("o")
    m.set("copy", m.get("o"))
    m.delete("n")
    m.get("o").clear()
    kind = m.kind.value
    assert overlay.requests == [
        ["set", ["a"], [1], ["ttl", SECOND]],
        ["set", ["n"], 1, None],
        ["set", ["n"], 1, None],
        ["increment", ["n"], 2, None],
        ["update", ["n"], 5, [3], None],
        ["append", ["l"], "x", None],
        ["new_object", ["o"], False, None],
        ["copy", ["copy"], {"memory_type": kind, "path": "o"}, None],
        ["delete", ["n"]],
        ["clear", ["o"]],
    ]
    with pytest.raises(Unsupported):
        m.once("key")


# --- commits of their own -------------------------------------------------------------------------


def test_each_change_is_one_commit_and_a_read_is_none():
    tree = committed()
    m = root_of(tree)
    m.set("a.b.c", 1)
    m.append("l", 1)
    assert tree.ledger.head(SCOPE) == 2
    m.get("a.b.c")
    m.get_fields()
    m.to_dict()
    m.new_object("a")
    m.delete("nothing")
    with pytest.raises(TreeConflict):
        m.set("l.x", 1)
    assert tree.ledger.head(SCOPE) == 2
    effects = tree.ledger.effects(2)
    assert effects is not None
    assert [path for path, _ in effects.put_nodes] == [("l",)]


def test_keys_are_apart():
    store = RamStore()
    ada, bob = (
        root_of(
            CommittedTree(
                store, Scope("space", key), clock=Clock(), writer_lock=HandleLock(reentrant=True)
            )
        )
        for key in ("ada", "bob")
    )
    ada.set("a", 1)
    assert bob.to_dict() == {}


class Contended(RamStore):
    """A store in which somebody else always commits first, *times* times."""

    times: float = 0

    def commit(self, batch: Batch) -> Commit:
        if self.times > 0:
            self.times -= 1
            other = {"base": self.head(SCOPE), "state": (Put(("other",), self.times),)}
            super().commit(Batch(scope=SCOPE, time=NOW, **other))
        return super().commit(batch)


def test_a_change_is_repeated_on_what_others_wrote():
    store = Contended()
    m = root_of(committed(store))
    m.set("n", 1)
    store.times = 3
    assert m.increment("n") == 2
    assert m.to_dict() == {"n": 2, "other": 0}


def test_a_change_that_never_gets_its_turn_says_so():
    store = Contended()
    store.times = math.inf
    m = root_of(committed(store, wait_s=SHORT_S))
    with pytest.raises(KeyBusy, match="'ada'"):
        m.increment("n")
    assert not m.is_exist("n")


@contextmanager
def held_elsewhere(lock: HandleLock) -> Iterator[None]:
    """Have another thread hold a lock for a block."""
    with ThreadPoolExecutor(1) as other:
        other.submit(lock.acquire).result()
        yield
        other.submit(lock.release).result()


def test_a_change_waits_for_its_lane():
    tree = committed(wait_s=SHORT_S)
    with held_elsewhere(tree.writer_lock):
        with pytest.raises(KeyBusy):
            root_of(tree).set("a", 1)
        assert root_of(tree).get("a") is None
    root_of(tree).set("a", 1)
    assert tree.writer_lock.acquire(blocking=False), "the writer lock is released"


def test_threads_lose_no_increment():
    tree = committed()
    threads = [
        threading.Thread(target=lambda: [root_of(tree).increment("n") for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert root_of(tree).get("n") == 200


def test_a_change_under_a_key_happens_once():
    """Its repetition returns the first result, whatever the memory holds by then."""
    m = root_of(committed())
    assert m.once("k").increment("n", 2) == 2
    m.increment("n")
    assert m.once("k").increment("n", 2) == 2
    assert m.get("n") == 3
    assert m.once("set").set("v", 1) == m.once("set").set("v", 1)
    assert m.once("delete").delete("v")
    m.set("v", 2)
    assert m.once("delete").delete("v")
    assert m.get("v") == 2
    assert m.once("object").new_object("o") == m.once("object").new_object("o")
    assert not m.once("nothing").delete("x")
    m.set("x", 1)
    assert not m.once("nothing").delete("x")


def test_a_key_is_used_for_one_request():
    m = root_of(committed())
    m.once("k").increment("n")
    for other in (
        lambda: m.once("k").increment("n", 2),
        lambda: m.once("k").increment("m"),
        lambda: m.once("k").set("n", 1),
        lambda: m.once("k").increment("n", ttl=timedelta(seconds=1)),
    ):
        unchanged(m, IdempotencyConflict, other)
    unchanged(m, InvalidInput, lambda: m.once(""))
    unchanged(m, InvalidValue, lambda: m.once("bad").set("v", object()))


def test_a_comparison_that_was_done_is_not_made_again():
    """The first one changed the value, so a second comparison could only fail."""
    m = root_of(committed())
    m.set("v", 1)
    assert m.once("k").update("v", 2, expected=1).path == "v"
    assert m.once("k").update("v", 2, expected=1).path == "v"
    unchanged(m, CompareFailed, lambda: m.once("other").update("v", 2, expected=1))


def test_a_renewal_waits_for_a_tenth_of_its_time():
    """And it never stands in the way of a read."""
    clock = Clock()
    tree = committed(clock=clock, ttl=Ttl(timedelta(seconds=100), refresh="read"))
    m = root_of(tree)
    m.set("a", 1)
    clock.wait(9.9)
    m.get("a")
    assert tree.ledger.head(SCOPE) == 1
    clock.wait(0.1)
    with held_elsewhere(tree.writer_lock):
        assert m.get("a") == 1
    assert tree.ledger.head(SCOPE) == 1
    m.get("a")
    assert tree.ledger.head(SCOPE) == 2
    clock.wait(99)
    assert m.get("a") == 1


def test_a_renewal_that_came_too_late_is_left_to_a_later_read():
    clock = Clock()
    store = Contended()
    tree = committed(store, clock=clock, ttl=Ttl(timedelta(seconds=100), refresh="read"))
    root_of(tree).set("a", 1)
    clock.wait(50)
    store.times = 1
    assert root_of(tree).get("a") == 1
    clock.wait(49)
    assert root_of(tree).get("a") == 1
    clock.wait(99)
    assert root_of(tree).get("a") == 1


def test_the_past_can_be_read_and_not_written():
    clock = Clock()
    tree = committed(clock=clock)
    m = root_of(tree)
    m.set("a.b", 1)
    m.set("t", 1, ttl=timedelta(seconds=10))
    m.set("a.b", 2)
    m.delete("t")
    past = root_of(PastTree(tree.ledger, SCOPE, at=2, now=NOW))
    assert past.to_dict() == {"a": {"b": 1}, "t": 1}
    assert past.get("a.b") == 1
    assert past.get_object("a").get_field_names() == ["b"]
    assert "a.b" in past
    assert past.kind is MemoryKind.SHORT_TERM
    later = root_of(PastTree(tree.ledger, SCOPE, at=2, now=NOW + 10 * SECOND))
    assert later.to_dict() == {"a": {"b": 1}}
    assert past != later.get("a")
    assert past == root_of(PastTree(tree.ledger, SCOPE, at=2, now=NOW))
    for write in (
        lambda: past.set("a.b", 3),
        lambda: past.increment("a.b"),
        lambda: past.get("a").clear(),
        lambda: past.once("k"),
    ):
        assert "as of commit 2" in unchanged(past, StoreReadOnly, write)
    m.set("restored", past.get("a"))
    assert m.to_dict() == {"a": {"b": 2}, "restored": {"b": 1}}


def test_applying_deltas_is_what_a_store_does():
    """`Overlay.apply` makes of them what the store makes of them."""
    store = RamStore()
    overlay = Overlay.over(Snapshot(store, SCOPE, 0), kind=MemoryKind.SHORT_TERM, now=NOW)
    root_of(overlay).set("a.b", [1], ttl=timedelta(seconds=10))
    root_of(overlay).set("c", 1)
    applied = sensory()
    applied.apply(overlay.deltas())
    applied.apply(
        (Refresh(("c",), NOW + 5), Refresh(("none",), NOW), Delete(("x",)), Clear(("c",)))
    )
    assert applied.node(("c",), NOW + 5) is None
    assert applied.node(("c",), NOW + 4) == Node(is_object=False, value=1, expires=NOW + 5)
    assert applied.node(("a",), NOW) == Node(is_object=True, expires=NOW + 10 * SECOND)
    assert applied.children(("c",), NOW) == []


def test_parsed_paths_are_shared_where_they_are_given():
    paths = PathCache(MemoryKind.SENSORY)
    first, second = sensory(paths=paths), sensory(paths=paths)
    assert first.identity == second.identity
    assert first.identity != sensory().identity

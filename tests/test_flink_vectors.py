"""The vectors of Apache Flink Agents, by their ids; those where alveus differs are in the guide.

A test is named after its vector: `test_a1_…` is vector A1. Those of runs (G, J) and of memory
events (H, I) are in files of their own. The rows of the table in docs/coming-from/flink-agents.md
are the others; no vector is in both places, or in none.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest

from alveus.errors import AlveusError
from alveus.state import (
    CommittedTree,
    MemoryKind,
    MemoryObject,
    MemoryRef,
    Overlay,
    Snapshot,
    Ttl,
    root_of,
)
from alveus.store import Batch, Put, Scope
from alveus.store.ram import RamStore
from alveus.values.forks import HandleLock
from pages import ROOT

SCOPE = Scope("space", "ada")
NOW = 1_000_000_000_000_000
PAGE = ROOT / "docs" / "coming-from" / "flink-agents.md"

VECTORS = [
    f"{group}{number}"
    for group, last in zip("ABCDEFGHIJ", (14, 13, 14, 7, 9, 4, 10, 6, 21, 22), strict=True)
    for number in range(1, last + 1)
]
FILES = ("test_flink_vectors.py", "test_flink_runs.py", "test_memory_events.py")


def committed(store: RamStore, now: list[int], ttl: Ttl | None = None) -> MemoryObject:
    return root_of(
        CommittedTree(
            store, SCOPE, clock=lambda: now[0], writer_lock=HandleLock(reentrant=True), ttl=ttl
        )
    )


@pytest.fixture(params=["overlay", "committed"])
def m(request) -> MemoryObject:
    """A fresh short-term root: an action's, or one where every call is a commit."""
    if request.param == "overlay":
        return root_of(Overlay.over(None, kind=MemoryKind.SHORT_TERM, now=NOW))
    return committed(RamStore(), [NOW])


def test_every_vector_has_one_place():
    """A vector is a test, or a row that says how alveus differs; never both."""
    text = "".join((ROOT / "tests" / name).read_text(encoding="utf-8") for name in FILES)
    tests = re.findall(r"^def test_([a-j]\d+)_", text, re.MULTILINE)
    rows = re.findall(r"^\| ([A-J]\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted([*(t.upper() for t in tests), *rows]) == sorted(VECTORS)


# --- A: set, get, fields ------------------------------------------------------------------------


def test_a1_an_int(m):
    m.set("int", 1)
    assert m.get("int") == 1
    assert m.get_field_names() == ["int"]
    assert m.get_fields() == {"int": 1}


def test_a2_a_float_and_a_str(m):
    m.set("float", 3.14)
    m.set("str", "hello")
    assert (m.get("float"), m.get("str")) == (3.14, "hello")


def test_a3_a_list(m):
    m.set("list", ["a", "b"])
    assert m.get("list") == ["a", "b"]


def test_a4_a_dict(m):
    m.set("dict", {"x": 10})
    assert m.get("dict") == {"x": 10}


def test_a6_a_nested_path(m):
    m.set("a.b.c", True)
    assert m.get("a.b.c") is True
    assert m.get("a").get("b").get("c") is True
    assert m.get("a.b").get("c") is True


def test_a7_writing_through_a_nested_object(m):
    m.set("a.b.c", True)
    m.get("a.b").set("tmp", 10)
    assert m.get("a.b.tmp") == 10
    assert "tmp" in m.get("a.b").get_field_names()


def test_a9_a_deep_path(m):
    value = {"id": 123, "tags": ["x", "y"]}
    m.set("a.b.c.d.e", value)
    assert m.get("a.b.c.d.e") == value
    names = ["a", "b", "c", "d", "e"]
    for depth, name in enumerate(names):
        assert m.get(".".join(names[:depth])).get_field_names() == [name]


def test_a11_is_exist(m):
    m.set("exist", 1)
    assert m.is_exist("exist")
    assert not m.is_exist("not.exist")


def test_a12_an_unknown_path(m):
    assert m.get("unknown") is None
    assert m.get("un.known") is None


def test_a13_none_is_a_value(m):
    m.set("p", None)
    assert m.is_exist("p")
    assert m.get("p") is None
    assert m.get_fields() == {"p": None}


def test_a14_inside_a_dict_there_are_no_paths(m):
    m.set("d", {"x": {"y": 1}})
    assert m.get("d.x") is None


# --- B: objects ---------------------------------------------------------------------------------


def test_b3_a_new_object_is_an_object(m):
    assert isinstance(m.new_object("level1"), MemoryObject)
    assert isinstance(m.get("level1"), MemoryObject)


def test_b4_an_object_over_a_value(m):
    m.set("profile", "active")
    with pytest.raises(ValueError, match="profile"):
        m.new_object("profile")


def test_b5_an_object_over_a_value_when_asked(m):
    m.set("profile", "active")
    m.new_object("profile", overwrite=True).set("status", "ok")
    assert m.get("profile.status") == "ok"


def test_b6_a_value_over_an_object(m):
    m.new_object("obj")
    with pytest.raises(ValueError, match="obj"):
        m.set("obj", 123)


def test_b7_a_scalar_becomes_an_object(m):
    m.set("scalar", 5)
    m.new_object("scalar", overwrite=True).set("k", "v")
    assert m.get("scalar.k") == "v"


def test_b10_a_child_under_a_value(m):
    m.set("a", 1)
    with pytest.raises(ValueError, match="'a' holds a value"):
        m.set("a.b", 2)
    assert m.to_dict() == {"a": 1}


def test_b12_an_object_again_keeps_its_fields(m):
    m.new_object("o").set("k", 1)
    assert m.new_object("o").get_field_names() == ["k"]
    assert m.new_object("o", overwrite=True).get("k") == 1


def test_b13_a_refused_set_records_nothing():
    overlay = Overlay.over(None, kind=MemoryKind.SHORT_TERM, now=NOW)
    root_of(overlay).new_object("o")
    before = overlay.deltas()
    with pytest.raises(ValueError, match="'o'"):
        root_of(overlay).set("o", 1)
    assert overlay.deltas() == before


# --- C: values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [None, True, False, 0, 1, -3, 3.14, "", "hello", b"", b"hello"], ids=repr
)
def test_c1_scalars(m, value):
    m.set("p", value)
    assert m.get("p") == value
    assert type(m.get("p")) is type(value)


@pytest.mark.parametrize(
    "value",
    [[1, "a", [2, 3], {"k": [4, None]}], {"a": 1, "b": {"c": [True, "x"]}}, [b"x", {"k": b"y"}]],
    ids=repr,
)
def test_c2_containers(m, value):
    m.set("p", value)
    assert m.get("p") == value


class Model:
    def model_dump(self) -> dict[str, int]:
        return {"a": 1}


def test_c3_a_pydantic_model(m):
    refused(m, Model(), "model_dump")


def test_c4_a_uuid(m):
    refused(m, uuid4(), r"str\(value\)")


@pytest.mark.parametrize(
    "value", [(1, 2), {1, 2}, frozenset({1})], ids=lambda value: type(value).__name__
)
def test_c5_tuples_and_sets(m, value):
    refused(m, value, r"list\(value\)")


def test_c8_an_instance_of_a_class(m):
    refused(m, SimpleNamespace(), "SimpleNamespace")


def test_c9_a_dict_with_an_int_key(m):
    refused(m, {1: "v"}, "non-str key")


def test_c10_the_place_is_named(m):
    refused(m, [1, 2, {"bad": object()}], re.escape("[2]['bad']"))


def test_c11_it_is_a_type_error_and_nothing_is_written():
    overlay = Overlay.over(None, kind=MemoryKind.SHORT_TERM, now=NOW)
    with pytest.raises(TypeError, match="value at 'p'"):
        root_of(overlay).set("p", object())
    assert not overlay.deltas()


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal(1),
        1j,
        np.int64(1),
        OrderedDict(a=1),
        defaultdict(int),
        range(3),
        memoryview(b"x"),
        Number.ONE,
    ],
    ids=lambda value: type(value).__name__,
)
def test_c12_other_types(m, value):
    refused(m, value, "cannot be stored")


def refused(m: MemoryObject, value: object, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        m.set("p", value)
    assert not m.is_exist("p")


# --- D: time to live ----------------------------------------------------------------------------


class Counters:
    """The agent of group D: an action reads a counter and increments it."""

    def __init__(self, ttl: Ttl | None) -> None:
        self.now = [NOW]
        self.memory = committed(RamStore(), self.now, ttl)

    def handle(self, name: str, *, after_s: float = 0, write: bool = True) -> str:
        self.now[0] += round(after_s * 1_000_000)
        count = self.memory.get(name)
        if write:
            self.memory.set(name, (count or 0) + 1)
        return "NEW" if count is None else "EXISTING"


def test_d1_nothing_expires_early():
    agent = Counters(Ttl(timedelta(milliseconds=1000)))
    assert [agent.handle(e) for e in ("e1", "e2", "e1")] == ["NEW", "NEW", "EXISTING"]


def test_d3_without_a_ttl_nothing_expires():
    agent = Counters(None)
    outputs = [agent.handle(e, after_s=10**9) for e in ("e1", "e2", "e1")]
    assert outputs == ["NEW", "NEW", "EXISTING"]


def test_d4_everything_expires_in_between():
    agent = Counters(Ttl(timedelta(milliseconds=50)))
    outputs = [agent.handle(e, after_s=0.2) for e in ("e1", "e2", "e1")]
    assert outputs == ["NEW", "NEW", "NEW"]


def test_d5_also_where_reads_refresh():
    agent = Counters(Ttl(timedelta(milliseconds=50), refresh="read"))
    outputs = [agent.handle(e, after_s=0.2) for e in ("e1", "e2", "e1")]
    assert outputs == ["NEW", "NEW", "NEW"]


def test_d6_a_read_refreshes():
    agent = Counters(Ttl(timedelta(seconds=3), refresh="read"))
    assert agent.handle("e") == "NEW"
    assert agent.handle("e", after_s=2, write=False) == "EXISTING"
    assert agent.handle("e", after_s=2, write=False) == "EXISTING"


def test_d7_a_read_does_not_refresh():
    agent = Counters(Ttl(timedelta(seconds=3)))
    assert agent.handle("e") == "NEW"
    assert agent.handle("e", after_s=2, write=False) == "EXISTING"
    assert agent.handle("e", after_s=2, write=False) == "NEW"


# --- E: references ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, 1.5, "text", [1], {"x": 1}], ids=repr)
def test_e1_set_returns_a_reference(m, value):
    ref = m.set("my_value", value)
    assert ref.path == "my_value"
    assert m.get(ref) == value


def test_e2_a_reference_from_a_path():
    assert MemoryRef.create(MemoryKind.SHORT_TERM, "a.b.c").path == "a.b.c"


def test_e3_a_reference_is_resolved_in_a_context(m):
    ref = m.set("a.b", 7)
    assert ref.resolve(SimpleNamespace(short_term_memory=m, sensory_memory=None)) == 7


def test_e4_a_reference_to_an_object(m):
    m.new_object("a.b").set("c", 10)
    assert m.get(MemoryRef.create(MemoryKind.SHORT_TERM, "a")).get("b.c") == 10


def test_e5_a_dangling_reference(m):
    assert m.get(MemoryRef.create(MemoryKind.SHORT_TERM, "this.path.does.not.exist")) is None


def test_e6_references_compare_by_path():
    first, second, third = (MemoryRef.create("short_term", p) for p in ("a.b", "a.b", "a.c"))
    assert first == second
    assert hash(first) == hash(second)
    assert first != third
    assert len({first, second, third}) == 2


def test_e7_a_reference_is_frozen():
    ref = MemoryRef.create("short_term", "a")
    with pytest.raises(AttributeError):
        ref.path = "b"  # pyright: ignore[reportAttributeAccessIssue] - the law


def test_e8_references_compare_by_memory():
    assert MemoryRef.create("short_term", "a") != MemoryRef.create("sensory", "a")


def test_a_reference_is_stored_as_its_json(m):
    """The error names the form that `get` follows."""
    ref = m.set("a", 1)
    refused(m, ref, r"use value\.to_json\(\)")
    m.set("ref", ref.to_json())
    assert m.get(m.get("ref")) == 1


# --- F: buffered writes -------------------------------------------------------------------------


@pytest.fixture
def cached():
    """A store that holds k1 and k2, and an overlay on it: their cache and state."""
    store = RamStore()
    state = [Put(("k1",), "v1"), Put(("k2",), "v2")]
    store.commit(Batch(scope=SCOPE, time=NOW, base=0, state=state))
    tree = Snapshot(store, SCOPE, store.head(SCOPE))
    return store, Overlay.over(tree, kind=MemoryKind.SHORT_TERM, now=NOW)


def in_store(store: RamStore, name: str) -> object:
    node = store.node(SCOPE, (name,), at=None, now=NOW)
    return None if node is None else node.value


def test_f1_writes_stay_in_the_overlay(cached):
    store, overlay = cached
    root_of(overlay).set("k3", "v3")
    root_of(overlay).set("k4", "v4")
    assert (root_of(overlay).get("k3"), root_of(overlay).get("k4")) == ("v3", "v4")
    assert in_store(store, "k3") is None


def test_f2_a_write_hides_what_is_below(cached):
    _, overlay = cached
    root_of(overlay).set("k1", "v11")
    assert (root_of(overlay).get("k1"), root_of(overlay).get("k2")) == ("v11", "v2")


def test_f3_contains_looks_into_both(cached):
    _, overlay = cached
    root_of(overlay).set("k3", "v3")
    assert [name in root_of(overlay) for name in ("k1", "k2", "k3", "k4")] == [
        True,
        True,
        True,
        False,
    ]


def test_f4_what_is_committed_is_what_was_written(cached):
    store, overlay = cached
    root_of(overlay).set("k1", "v11")
    batch = Batch(scope=SCOPE, time=NOW, base=store.head(SCOPE), state=overlay.deltas())
    assert len(batch.state) == 1
    store.commit(batch)
    assert (in_store(store, "k1"), in_store(store, "k2")) == ("v11", "v2")


def test_refusals_are_errors_of_alveus(m):
    """What the vectors ask to be a TypeError or ValueError is an AlveusError as well."""
    m.new_object("o")
    for path, value in (("o", 1), ("p", object())):
        with pytest.raises(AlveusError):
            m.set(path, value)

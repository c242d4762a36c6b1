"""Anything may be passed: a right answer or an AlveusError, never another's data, nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from alveus import Item, KeyMemory, Memory
from alveus.errors import AlveusError, InvalidName, TooLarge
from doors import Letters

ODD = ["", " ", "\0", ".", "..", "a.b", "\\", "\\.", "%", "_", "*", "?", "'", '"', "';--", "$",
       "$id", "$bytes", "🦊", "e\u0301", "\u00e9", "\ud800", "\uffff", "\u202e", "any", "not",
       "None", "0",
       "AND", "NEAR(", '"x', "x" * 5_000, "../..", "/", "\n", "\t", "\x7f", "ß", "İ"]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(ODD), st.text(st.characters(), max_size=30))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.binary(max_size=20)
)
FOREIGN = st.sampled_from([(), {1}, object(), 1j, bytearray(b"x"), [1, (2,)], {1: 2}, {"a": {2}}])
VALUES = st.recursive(
    st.one_of(SCALARS, FOREIGN),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=10,
)
NAMES = st.one_of(TEXTS, st.none(), st.integers(), st.binary(max_size=3))
OPERATORS = st.sampled_from(
    ["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "exists", "contains", "like", ""]
)
FIELDS = st.one_of(
    TEXTS, st.sampled_from(["n", "deep.x", "$time", "$speaker", "$importance", "$row"])
)
FILTERS = st.recursive(
    st.dictionaries(
        FIELDS, st.one_of(VALUES, st.dictionaries(OPERATORS, VALUES, max_size=2)), max_size=2
    ),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["any", "all"]), st.lists(inner, max_size=2), max_size=2),
        st.dictionaries(st.just("not"), inner, max_size=1),
    ),
    max_leaves=4,
)
QUERIES = st.one_of(
    TEXTS,
    st.sampled_from(["when did Ada say that?", "yesterday", "on 7 May 2023", "a" * 100_000, "?!"]),
)


@pytest.fixture(scope="module", params=["ram", "file"])
def memory(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Memory]:
    """One for all examples, with something of everybody's in it."""
    url = ":memory:" if request.param == "ram" else tmp_path_factory.mktemp("fuzz") / "app.db"
    with Memory.open(url, embedder=Letters(), durability="normal") as memory:
        other = memory.key("other")
        other.add("SECRET of the other key", metadata={"n": 1}, speaker="Eve", importance=0.5)
        other.set("notes").add("SECRET too")
        other.short_term.set("secret", "SECRET")
        memory.knowledge.set("facts").add("common knowledge", metadata={"n": 1})
        yield memory


def same(one: Any, two: Any) -> bool:
    """Return whether two values are equal, types and order too; NaN is like NaN."""
    if type(one) is not type(two):
        return False
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(map(same, one.values(), two.values()))
    if isinstance(one, float):
        return repr(one) == repr(two)
    return one == two


def check_nothing_leaked(found: object) -> None:
    assert "SECRET" not in repr(found)


def fresh(memory: Memory) -> KeyMemory:
    """Return a key that has nothing in it."""
    key = memory.key("fuzz")
    for name in key.sets():
        key.set(name).clear()
    key.short_term.clear()
    return key


fuzzed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@fuzzed
@given(name=NAMES, set_name=NAMES, item_id=NAMES)
@example(name="other\0", set_name="default", item_id="x")
def test_names(memory: Memory, name: Any, set_name: Any, item_id: Any) -> None:
    """Any name is either refused, or names exactly what it named before."""
    try:
        key = memory.key(name)
        notes = key.set(set_name)
        made = notes.add("text", id=item_id, on_existing="update")
    except (InvalidName, TooLarge):
        return
    assert type(name) is type(set_name) is str
    found = notes.get(made)
    assert found is not None
    assert (found.id, found.set_name, key.key) == (made, set_name, name)
    assert item_id is None or made == item_id
    assert name in list(memory.keys())
    assert set_name in key.sets()
    assert [item.text for item in memory.key(name).set(set_name).list()] == ["text"] * len(notes)
    if name != "other":
        check_nothing_leaked(key.list())
    notes.clear()


@fuzzed
@given(VALUES, VALUES)
@example({"text": ""}, {"caption": ["a", 1]})
@example({"text": "x"}, {"caption": ""})
def test_items(memory: Memory, value: Any, metadata: Any) -> None:
    """What is taken comes back the same, by get, list, history and search."""
    key = fresh(memory)
    before = memory.stats().store.commits
    try:
        item_id = key.add(
            value, metadata=metadata if isinstance(metadata, dict) else {"m": metadata}
        )
    except AlveusError:
        assert memory.stats().store.commits == before, "refused, but something was committed"
        return
    item = key.get(item_id)
    assert item is not None
    assert same(item.value, value)
    assert same(dict(item.metadata), metadata if isinstance(metadata, dict) else {"m": metadata})
    assert [i.id for i in key.list()] == [item_id] == [i.id for i in key.history(item_id)]
    hits = key.search(item.text or "x")
    assert {hit.item.id for hit in hits} <= {item_id}
    assert key.update(item_id, importance=1.0).version == 2


@fuzzed
@given(st.data())
def test_fields_of_items(memory: Memory, data: st.DataObject) -> None:
    """Speaker, role, session, importance, time, limits: anything at all in any place."""
    key = fresh(memory)
    zoned = st.datetimes(timezones=st.timezones() | st.just(UTC))
    anything: st.SearchStrategy[Any] = st.one_of(VALUES, st.datetimes(), zoned)
    fields = st.sampled_from(["id", "text", "speaker", "role", "session", "importance", "time"])
    given_ = data.draw(st.dictionaries(fields, anything, max_size=3))
    try:
        item_id = key.add("text", **given_)
    except AlveusError:
        return
    item = key.get(item_id)
    assert isinstance(item, Item)
    for name, value in given_.items():
        if value is not None:
            assert getattr(item, name) == value, name


@fuzzed
@given(path=st.one_of(TEXTS, st.lists(TEXTS, max_size=4).map(tuple), VALUES), value=VALUES)
@example(path=("a.b", "\\"), value={"x": math.nan})
@example(path="a." * 200, value=1)
def test_paths(memory: Memory, path: Any, value: Any) -> None:
    """A path is refused, or holds what was put there, and nothing beside it changed."""
    tree = fresh(memory).short_term
    tree.set("beside", 1)
    try:
        tree.set(path, value)
    except AlveusError:
        assert tree.to_dict() == {"beside": 1}
        return
    assert same(tree.get(path), value)
    assert tree.is_exist(path)
    walked = {p if isinstance(p, tuple) else tuple(p.split(".")): v for p, v in tree.walk()}
    if path not in ("beside", ("beside",)):
        assert walked.pop(("beside",)) == 1
    assert len(walked) == 1
    assert tree.delete(path)
    assert not tree.is_exist(path)
    check_nothing_leaked(tree.to_dict())


@fuzzed
@given(where=st.one_of(FILTERS, VALUES), query=QUERIES)
@example(where={"$speaker": "Eve"}, query="secret")
@example(where={"any": []}, query="x")
@example(where={"not": {}}, query="x")
def test_filters(memory: Memory, where: Any, query: str) -> None:
    """list, search and delete agree about what a filter means, and stay with their own."""
    key = fresh(memory)
    items = [
        Item("one", id="1", metadata={"n": 1, "deep": {"x": [1]}}, speaker="Ada"),
        Item("two", id="2", metadata={"n": "1", "$id": 0}, importance=1.0),
        Item("three", id="3", metadata={"n": None, "any": True}),
    ]
    key.add_many(items)
    try:
        listed = {item.id for item in key.list(where=where)}
    except AlveusError:
        for call in (lambda: key.search("x", where=where), lambda: key.delete(where=where)):
            if where is not None:
                with pytest.raises(AlveusError):
                    call()
        assert len(key.list()) == 3
        return
    assert listed <= {"1", "2", "3"}
    assert {hit.item.id for hit in key.search("one two three", where=where)} == listed
    try:
        hits = key.search(query, where=where)
    except AlveusError:
        pass
    else:
        assert {hit.item.id for hit in hits} <= listed
        check_nothing_leaked(hits)
    if where is not None:
        assert key.delete(where=where) == len(listed)
        assert {item.id for item in key.list()} == {"1", "2", "3"} - listed


@fuzzed
@given(query=st.one_of(QUERIES, VALUES), limit=st.one_of(st.integers(-2, 1_100), VALUES))
def test_queries(memory: Memory, query: Any, limit: Any) -> None:
    """Any text is a question; what is none, and any other limit, is refused."""
    for place in (memory.key("reader"), memory.knowledge, memory.key("reader").set("none")):
        try:
            hits = place.search(query, limit=limit)
        except AlveusError:
            continue
        assert isinstance(query, str)
        assert len(hits) <= limit
        assert hits == tuple(sorted(hits, key=lambda hit: (-hit.score, hit.item.id)))
        assert all(math.isfinite(hit.score) for hit in hits)
        check_nothing_leaked(hits)
        hits.explain()


@fuzzed
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ada", "other", "b\0b"]),
            st.sampled_from(["default", "s"]),
            st.sampled_from(["1", "2", "3"]),
            st.sampled_from(["add", "update", "delete", "get", "history", "search"]),
        ),
        max_size=12,
    )
)
def test_keys_never_see_each_other(steps: list[tuple[str, str, str, str]]) -> None:
    """Whatever is done under the same ids: every answer has only what was written there."""
    with Memory.open(embedder=Letters()) as memory:
        model: dict[tuple[str, str], dict[str, str]] = {}
        for number, (key, name, item_id, what) in enumerate(steps):
            notes, mine = memory.key(key).set(name), model.setdefault((key, name), {})
            text = f"{key}/{name}/{number}"
            try:
                if what == "add":
                    notes.add(text, id=item_id)
                    mine[item_id] = text
                elif what == "update":
                    notes.update(item_id, text)
                    mine[item_id] = text
                elif what == "delete":
                    assert notes.delete(item_id) == (mine.pop(item_id, None) is not None)
            except AlveusError:
                assert (what == "add") == (item_id in mine)
            found = notes.get(item_id)
            assert (found and found.text) == mine.get(item_id)
            assert {i.id: i.text for i in notes} == mine
            every = [*notes.history(item_id), *(hit.item for hit in notes.search(text))]
            assert all(str(item.text).startswith(f"{key}/{name}/") for item in every)

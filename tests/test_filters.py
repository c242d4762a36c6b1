"""`where=`: what it accepts, what it refuses, and what matches."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus.errors import InvalidFilter
from alveus.search.index import column_filters
from alveus.search.index.column_filters import Field
from alveus.store.filters import MAX_CONDITIONS, MAX_DEPTH, Filter

OWN = {
    "$id": "a1",
    "$importance": 0.5,
    "$role": None,
    "$session": "s1",
    "$speaker": "Ada",
    "$time": 1_714_521_600_000_000,  # 2024-05-01T00:00Z
    "$value": {"city": "Lisbon", "a.b": [1, 2.0, {"x": True}], "n": 3},
}


def matches(where, metadata=None, own=OWN):
    found = Filter.parse(where)
    assert found is not None
    assert Filter.parse(json.loads(found.text)) == found
    return found.matches(metadata or {}, own)


@pytest.mark.parametrize(
    ("where", "metadata"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1.5}, {"a": 1.5}),
        ({"a": None}, {"a": None}),
        ({"a": True}, {"a": True}),
        ({"a": "x"}, {"a": "x"}),
        ({"a": {"eq": "x"}}, {"a": "x"}),
        ({"a": {"ne": "x"}}, {"a": "y"}),
        ({"a": {"ne": 1}}, {"a": 2.5}),
        ({"a": {"gt": 1}}, {"a": 1.5}),
        ({"a": {"gte": 2, "lt": 3}}, {"a": 2}),
        ({"a": {"lte": "b"}}, {"a": "b"}),
        ({"a": {"gt": 2**53}}, {"a": 2**53 + 1}),
        ({"a": {"in": [1, "x", None]}}, {"a": None}),
        ({"a": {"in": ("x",)}}, {"a": "x"}),
        ({"a": {"nin": [1, 2]}}, {"a": 3}),
        ({"a": {"nin": []}}, {"a": "anything"}),
        ({"a": {"exists": True}}, {"a": None}),
        ({"a": {"exists": False}}, {"b": 1}),
        ({"a": {"contains": "x"}}, {"a": ["w", "x"]}),
        ({"a": {"contains": 1}}, {"a": [1.0]}),
        ({"a": {"contains": "tub"}}, {"a": "a bathtub"}),
        ({"a.b": 1}, {"a": {"b": 1}}),
        ({"a.b.c": {"exists": True}}, {"a": {"b": {"c": []}}}),
        ({r"a\.b": 1}, {"a.b": 1}),
        ({r"a\\b": 1}, {r"a\b": 1}),
        ({r"\any": 1}, {"any": 1}),
        ({r"\not.x": 1}, {"not": {"x": 1}}),
        ({"any.x": 1}, {"any": {"x": 1}}),
        ({r"\$time": 1}, {"$time": 1}),
        ({"any": [{"a": 1}, {"a": 2}]}, {"a": 2}),
        ({"all": [{"a": {"gt": 1}}, {"a": {"lt": 3}}]}, {"a": 2}),
        ({"not": {"a": 1}}, {}),
        ({"not": {"a": {"ne": 1}}}, {"a": "of another type"}),
        ({"all": []}, {}),
        ({"any": [{}]}, {}),
        ({"$speaker": "Ada"}, {}),
        ({"$role": {"exists": False}}, {}),
        ({"$time": {"gte": "2024-05-01T02:00:00+02:00"}}, {}),
        ({"$time": {"lt": datetime(2024, 5, 2, tzinfo=UTC)}}, {}),
        ({"$time": {"in": ["2024-05-01T00:00Z"]}}, {}),
        ({"$time": {"exists": True}}, {}),
        ({"$importance": {"gt": 0}, "$id": "a1", "$session": {"contains": "s"}}, {}),
        ({"a": {"eq": [1, "x"]}}, {"a": [1.0, "x"]}),
        ({"a": {"eq": {"x": [1], "y": None}}}, {"a": {"y": None, "x": [1]}}),
        ({"a": {"ne": [1]}}, {"a": [2]}),
        ({"a": {"in": [1, [2], {"$x": 3}]}}, {"a": {"$x": 3}}),
        ({"a": {"nin": [[1], [2]]}}, {"a": [1, 2]}),
        ({"a": {"eq": []}}, {"a": []}),
        ({"$value.city": "Lisbon", "$value.n": {"gte": 3}}, {}),
        ({r"$value.a\.b": {"eq": [1, 2, {"x": True}]}}, {}),
        ({r"$value.a\.b": {"contains": 2}}, {}),
        ({"$value": {"exists": True}}, {}),
        ({"$value": {"eq": {"n": 3, "city": "Lisbon", "a.b": [1, 2, {"x": True}]}}}, {}),
        ({"any": [{"$value.zip": 1}, {"$value.zip": {"exists": False}}]}, {}),
    ],
)
def test_what_matches(where, metadata):
    assert matches(where, metadata)


@pytest.mark.parametrize(
    ("where", "metadata"),
    [
        ({"a": 1}, {}),
        ({"a": 1}, {"a": True}),
        ({"a": True}, {"a": 1}),
        ({"a": 0}, {"a": None}),
        ({"a": "1"}, {"a": 1}),
        ({"a": {"ne": 1}}, {}),
        ({"a": {"ne": 1}}, {"a": "1"}),
        ({"a": {"ne": 1}}, {"a": [2]}),
        ({"a": {"ne": 1}}, {"a": True}),
        ({"a": {"nin": [1]}}, {"a": "1"}),
        ({"a": {"nin": []}}, {}),
        ({"a": {"nin": []}}, {"a": [1]}),
        ({"a": {"eq": [1]}}, {"a": [True]}),
        ({"a": {"eq": [1, 2]}}, {"a": [2, 1]}),
        ({"a": {"eq": [1]}}, {"a": 1}),
        ({"a": {"ne": [1]}}, {"a": 1}),
        ({"a": {"eq": {}}}, {"a": []}),
        ({"$value": "Lisbon"}, {}),
        ({"$value.city.x": {"exists": True}}, {}),
        ({"$value.city": "lisbon"}, {}),
        ({"a": {"gt": 0}}, {"a": True}),
        ({"a": {"gt": 0}}, {"a": "1"}),
        ({"a": {"gt": ""}}, {"a": 1}),
        ({"a": {"gt": 2**53}}, {"a": 2.0**53}),
        ({"a": {"in": []}}, {"a": 1}),
        ({"a": {"exists": True}}, {}),
        ({"a": {"contains": 1}}, {"a": [True]}),
        ({"a": {"contains": "x"}}, {"a": {"x": 1}}),
        ({"a": {"contains": 1}}, {"a": "1"}),
        ({"a.b": 1}, {"a.b": 1}),
        ({"a.b": 1}, {"a": [{"b": 1}]}),
        ({"a.b": {"ne": 1}}, {"a": 2}),
        ({"any": []}, {}),
        ({"not": {}}, {}),
        ({"a": 1, "b": 1}, {"a": 1}),
        ({"$role": "user"}, {}),
        ({"$role": {"ne": "user"}}, {}),
        ({"$speaker": "Ada"}, {"$speaker": "Bob", "speaker": "Ada", "x": {"exists": False}}),
    ],
)
def test_what_does_not_match(where, metadata):
    assert not matches(where, metadata, OWN if "$speaker" not in metadata else {"$speaker": "Bob"})


@pytest.mark.parametrize(
    ("where", "place"),
    [
        (5, "where must be a dict"),
        ({1: 2}, "where[1]"),
        ({"year": {"gt3": 1}}, "where['year']['gt3'] is not an operator; the operators are eq, ne"),
        ({"year": {1: 1}}, "where['year'][1]"),
        ({"year": {}}, "where['year'] has no operator"),
        ({"year": [1]}, "where['year'] is a list; use {'in': […]} for one value of several"),
        ({"year": b"x"}, "where['year']"),
        ({"year": {"eq": {"a": b"x"}}}, "where['year']['eq'] has a value that cannot be"),
        ({"year": {"eq": [float("nan")]}}, "where['year']['eq'] has a value that cannot be"),
        ({"year": {"gt": [1]}}, "where['year']['gt'] must be None, bool, int, float or str, not"),
        ({"year": {"contains": [1]}}, "where['year']['contains'] must be None"),
        ({"$value..x": 1}, "where['$value..x'] contains an empty name"),
        ({"$values": 1}, "where['$values'] is not a field of an item; the fields are $id"),
        ({"$id": {"eq": ["x"]}}, "where['$id']['eq'] must be a str, not ['x']"),
        ({"year": {"gt": True}}, "where['year']['gt'] must be a number or a str"),
        ({"year": {"gt": None}}, "where['year']['gt']"),
        ({"year": float("nan")}, "where['year'] must be a finite number"),
        ({"year": {"lt": float("inf")}}, "where['year']['lt']"),
        ({"year": 10**601}, "more than 600 digits"),
        ({"year": "\ud800"}, "lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        ({"year": {"in": 5}}, "where['year']['in'] must be a list"),
        ({"year": {"in": [1, [b"x"]]}}, "where['year']['in'][1]"),
        ({"year": {"exists": 1}}, "where['year']['exists'] must be True or False"),
        ({"any": {"a": 1}}, "where['any'] must be a list of dicts"),
        ({"any": [{"a": 1}, 3]}, "where['any'][1] must be a dict"),
        ({"not": [{"a": 1}]}, "where['not'] must be a dict"),
        ({"any": [{"not": {"a": {"x": 1}}}]}, "where['any'][0]['not']['a']['x']"),
        ({"a..b": 1}, "where['a..b'] contains an empty name"),
        ({"": 1}, "where[''] contains an empty name"),
        ({"a": 1, r"\a": 2}, "contains a field twice"),
        ({"$x": 1}, "where['$x'] is not a field of an item; the fields are $id"),
        ({"$time.x": 1}, "where['$time.x']"),
        ({"$speaker": None}, "where['$speaker'] must be a str, not None; for a missing value"),
        ({"$importance": "high"}, "where['$importance'] must be a number"),
        ({"$time": "2024-05-01"}, "where['$time'] must be a datetime with a zone"),
        ({"$time": "yesterday"}, "where['$time']"),
        ({"$time": {"gt": 5}}, "where['$time']['gt']"),
        ({"$time": datetime(2024, 5, 1)}, "where['$time']"),  # noqa: DTZ001 - the point
        ({"$time": {"contains": "2024"}}, "where['$time']['contains']: a time cannot contain"),
        ({"$time": datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))}, "where['$time']"),
    ],
)
def test_what_is_refused(where, place):
    """The message leads to the place in the filter."""
    with pytest.raises(InvalidFilter) as error:
        Filter.parse(where)
    assert place in str(error.value)


def test_nothing_asked_is_no_filter():
    assert Filter.parse(None) is None
    assert Filter.parse({}) is None


def test_too_deep_or_too_long_is_refused():
    deep = {"a": 1}
    for _ in range(MAX_DEPTH):
        deep = {"not": deep}
    assert Filter.parse(deep)
    with pytest.raises(InvalidFilter, match="deeper than 32"):
        Filter.parse({"not": deep})
    itself = {}
    itself["any"] = [itself]
    with pytest.raises(InvalidFilter, match="contains itself"):
        Filter.parse(itself)
    long = [{"a": number} for number in range(MAX_CONDITIONS)]
    assert Filter.parse({"any": long})
    with pytest.raises(InvalidFilter, match="at most 1000"):
        Filter.parse({"any": [*long, {"b": 1}]})


def test_filters_are_values():
    """Equal however they were written; 1 and True stay apart."""
    assert Filter.parse({"a": 1, "b": 2}) == Filter.parse({"b": {"eq": 2}, "a": {"eq": 1}})
    assert len({Filter.parse({"a": 1}), Filter.parse({"a": True}), Filter.parse({"a": 1})}) == 2
    assert Filter.parse({"a": {"in": {3, 1, 2}}}) == Filter.parse({"a": {"in": [2, 2, 1, 3]}})


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from("abc")


@given(scalars, scalars)
def test_ne_and_nin_are_eq_turned_round_within_a_type(value, operand):
    """Of a value and an operand of one kind exactly one of eq and ne holds; of others neither."""
    equal, unequal = (
        matches({"a": operand}, {"a": value}),
        matches({"a": {"ne": operand}}, {"a": value}),
    )
    numbers = {int, float}
    alike = type(value) is type(operand) or {type(value), type(operand)} <= numbers
    assert (equal, unequal).count(True) == (1 if alike else 0)
    assert matches({"a": {"in": [operand]}}, {"a": value}) == equal
    assert matches({"a": {"nin": [operand]}}, {"a": value}) == unequal


@given(st.text(min_size=1), scalars)
def test_every_name_can_be_asked_for(name, value):
    r"""With a backslash before dots, backslashes, dollars and the words any, all, not."""
    spelled = name.replace("\\", "\\\\").replace(".", r"\.")
    if name in {"any", "all", "not"} or name.startswith("$"):
        spelled = "\\" + spelled
    assert matches({spelled: value}, {name: value})


@pytest.mark.parametrize("op", ["gt", "gte", "lt", "lte"])
def test_many_texts_are_compared_as_each_alone(monkeypatch, op):
    """They are sorted once, and the operand is looked up; it may be one of them."""
    monkeypatch.setattr(column_filters, "FEW", 2)
    monkeypatch.setattr(column_filters, "MANY", 3)
    values, field = ["d", "b", 5, "a", "c", "b", "e"], Field()
    field.extend(values)
    for operand in ("", "a", "b", "bb", "e", "f"):
        parsed = Filter.parse({"name": {op: operand}})
        assert parsed is not None
        (condition,) = parsed.conditions()
        assert field.truth(condition).tolist() == [condition.accepts(value) for value in values]

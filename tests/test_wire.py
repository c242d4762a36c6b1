"""The wire form: whatever can be stored comes back the same, and digests tell values apart."""

from __future__ import annotations

import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alveus.errors import InvalidInput, InvalidTime, InvalidValue
from alveus.values import wire
from alveus.values.storable import MAX_DEPTH, checked, microseconds, moment

TEXTS = st.one_of(
    st.text(),
    st.sampled_from(["$", "$bytes", "$float", "$int", "$$", '"$', "\0", "\\", "\u2028", "🦊"]),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(600, 700).map(lambda digits: 10**digits - 1),
    st.integers(1890, 1910).map(lambda bits: -(1 << bits)),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


def same(one: Any, two: Any) -> bool:
    """Return whether two values are equal in all that can be seen: types, order, signs, NaN."""
    if type(one) is not type(two):
        return False
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(map(same, one.values(), two.values()))
    if isinstance(one, float):
        return repr(one) == repr(two)
    return one == two


def shared(one: Any, two: Any) -> bool:
    """Return whether two values have a list or a dict in common."""
    if not isinstance(one, list | dict):
        return False
    if one is two:
        return True
    inner = (
        zip(one, two, strict=True)
        if isinstance(one, list)
        else zip(one.values(), two.values(), strict=True)
    )
    return any(shared(a, b) for a, b in inner)


@given(VALUES)
@example({"$bytes": "AA=="})
@example({"$float": "nan"})
@example({"$int": "0x10"})
@example({"$$int": 1, "$": {"$bytes": b"x"}})
@example([1 << 1900, -(1 << 1900), (1 << 1900) - 1, 10**599, 10**600])
@example({"": "", "b": 1, "a": 2})
@example([0.0, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308])
def test_what_is_encoded_comes_back(value: Any) -> None:
    """With the same types, signs, and order of keys; as JSON that others can read too."""
    text = wire.encode(value)
    assert same(wire.decode(text), value)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    text.encode()


def test_nan_comes_back() -> None:
    """The exact tree stores it."""
    assert same(wire.decode(wire.encode([math.nan])), [math.nan])


def test_large_ints_need_no_setting_of_python() -> None:
    """Python's guard against long ints, at its lowest, stands in nobody's way."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        for value in (10**639, 10**640, 10**5000, -(10**700), [10**610, "x" * 700, {"a": 7**900}]):
            assert same(wire.decode(wire.encode(value)), value)
            wire.digest(value, salt=b"s")
    finally:
        sys.set_int_max_str_digits(before)


@given(VALUES)
def test_a_checked_value_is_a_copy(value: Any) -> None:
    """Equal, and nothing that can change is shared."""
    copy = checked(value)
    assert same(copy, value)
    assert not shared(copy, value)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_json_of_a_thousand_levels_is_refused_before_it_is_parsed():
    """The stack would come near its end, where finalizers of other objects fail."""
    for text in ('{"not":' * 950 + "{}" + "}" * 950, "[" * 950 + "]" * 950, "[" * 100_000):
        with pytest.raises(RecursionError, match="200 levels"):
            wire.decode_user_json(text)
    flat = ["[{" * 300, '\\"[', {"a[": []}] + [[], {}] * 500
    assert wire.decode_user_json(json.dumps(flat)) == flat


def test_depth_is_bounded() -> None:
    """A hundred levels go through; one more, and a value that contains itself, does not."""
    deep = nested(MAX_DEPTH)
    assert same(wire.decode(wire.encode(checked(deep))), deep)
    with pytest.raises(InvalidValue, match="deeper"):
        checked(nested(MAX_DEPTH + 1))
    loop: list[Any] = []
    loop.append({"me": loop})
    with pytest.raises(InvalidValue, match="contains itself"):
        checked(loop)


class Text(str):
    """A str that is more than one."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ((1, 2), "value"),
        ([{1, 2}], r"value\[0\]"),
        ({"a": [0, object()]}, r"value\['a'\]\[1\]"),
        ({1: 2}, "value"),
        ({"a": {None: 2}}, r"value\['a'\]"),
        ("\ud800", "value"),
        ({"\udfff": 1}, "a key of value"),
        ([Text("x")], r"value\[0\]"),
        (bytearray(b"x"), "value"),
        (datetime(2026, 1, 1, tzinfo=UTC), "value"),
        ([float("nan")], r"value\[0\]"),
        (1j, "value"),
    ],
)
def test_what_cannot_be_stored_is_named_by_its_place(value: object, where: str) -> None:
    """The message leads there, and says how to convert it."""
    with pytest.raises(InvalidValue, match=rf"^{where}: .+; ") as caught:
        checked(value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)


@given(VALUES, VALUES)
def test_digests_tell_values_apart(one: Any, two: Any) -> None:
    """Equal ones digest alike, others do not: types and signs count, the order of keys does not."""
    alike = wire.digest(one, salt=b"s") == wire.digest(two, salt=b"s")
    assert alike == same(_sorted(one), _sorted(two))


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted(v) for v in value]
    if isinstance(value, dict):
        return {k: _sorted(value[k]) for k in sorted(value)}
    return value


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (None, "null"),
        (b"", ""),
        (b"x", {"$bytes": "eA=="}),
        ([], {}),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"$a": 1}),
        ("1", 1),
    ],
)
def test_what_looks_alike_digests_apart(one: Any, two: Any) -> None:
    """A repetition is recognised by what was asked, exactly."""
    assert wire.digest(one, salt=b"s") != wire.digest(two, salt=b"s")


def test_digests_are_of_their_store() -> None:
    """Salted: the same request of two stores has two digests; order of keys does not count."""
    assert wire.digest("x", salt=b"a") != wire.digest("x", salt=b"b")
    one, two = {"a": 1, "b": [2]}, {"b": [2], "a": 1}
    assert wire.digest(one, salt=b"s") == wire.digest(two, salt=b"s")
    assert len(wire.digest(None, salt=b"")) == 16


@given(st.datetimes(timezones=st.timezones() | st.just(UTC)))
def test_times_come_back(time: datetime) -> None:
    """To the microsecond, in UTC, whatever their zone; those out of range are refused."""
    try:
        expected = time.astimezone(UTC)
    except OverflowError:
        return
    assert moment(microseconds(time)) == expected


@pytest.mark.parametrize("time", [datetime(2026, 1, 1), "2026-01-01", 0, None])  # noqa: DTZ001 - no zone, on purpose
def test_times_without_a_zone_are_refused(time: Any) -> None:
    """Their meaning would depend on the machine."""
    with pytest.raises(InvalidTime, match="zone"):
        microseconds(time)


def test_odd_zones_count() -> None:
    """Offsets of seconds are part of a time."""
    zone = timezone(timedelta(hours=1, seconds=1))
    assert microseconds(datetime(1970, 1, 1, 1, 0, 1, tzinfo=zone)) == 0


def test_names_of_a_users_json_are_theirs() -> None:
    """JSON as a user writes it may have names that start with $; only three forms are special."""
    text = '{"$defs": 1, "defs": [{"$ref": "#/x"}], "b": {"$bytes": "AA=="}}'
    assert wire.decode_user_json(text) == {"$defs": 1, "defs": [{"$ref": "#/x"}], "b": b"\0"}
    assert wire.decode(wire.encode(wire.decode_user_json(text))) == wire.decode_user_json(text)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 400 + ".5"])
def test_a_users_number_does_not_become_infinite(number: str) -> None:
    """JSON has no limit and a float has one: what is beyond it is told, not changed."""
    with pytest.raises(InvalidInput, match=r"too large for a float.*\$float"):
        wire.decode_user_json(f'{{"a": [{number}]}}')
    assert wire.decode_user_json('{"$float": "inf"}') == math.inf


@pytest.mark.parametrize("digits", ["ab_-cd-_", "ab\\ncd", "YWI=YWI=", "YW!I=", "\u00e9"])
def test_bytes_are_of_standard_base64(digits: str) -> None:
    """Of another alphabet, or of two values, a part would be left out without a word."""
    for read in (wire.decode_user_json, wire.parse):
        with pytest.raises((ValueError, InvalidInput)):
            read(f'{{"$bytes": "{digits}"}}')


NAMED = [
    *({"$ref": "#/x"}, {"$$": {"$": 1}}, {"$bytes": 1}, {"$int": "1", "$float": "nan"}, {"$": ""})
]


@pytest.mark.parametrize("value", NAMED, ids=repr)
def test_names_that_begin_with_a_dollar_are_written_as_they_are(value: Any) -> None:
    """Whoever reads the JSON, without knowing of any marks, sees the names that were stored."""
    assert json.loads(wire.encode(value)) == value


MARKED_LOOK = ["$bytes", "$$bytes", "$$$float", "$int"]


@pytest.mark.parametrize("name", MARKED_LOOK)
def test_only_what_looks_like_another_value_has_one_dollar_more(name: str) -> None:
    """A dict with just such a name and a text would be read as bytes, or as a number."""
    assert json.loads(wire.encode({name: "AA=="})) == {f"${name}": "AA=="}
    assert json.loads(wire.encode({name: "AA==", "x": 1})) == {name: "AA==", "x": 1}


@pytest.mark.parametrize("read", [wire.parse, wire.decode_user_json])
def test_a_mark_may_be_written_with_an_escape(read: Any) -> None:
    """Programs write JSON in many ways that mean the same."""
    assert read('{"\\u0024bytes": "AA=="}') == b"\0"


@given(st.lists(st.tuples(st.text("ab,", max_size=5), st.integers(0, 1300)), max_size=4))
@example([("a" * 599, 600)])
@example([("a" * 601, 599), ("a", 600)])
def test_a_long_number_is_found_wherever_it_stands(parts: list[tuple[str, int]]) -> None:
    """Only every 600th character is looked at first."""
    text = "".join(letters + "7" * digits for letters, digits in parts)
    assert wire._has_long_int(text) == bool(re.search("[0-9]{600}", text))

"""Events: classes of frozen, storable values; what their runner gives them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from alveus import Event, InputEvent, OutputEvent
from alveus.errors import AgentChanged, InvalidInput, InvalidValue, Unusable
from alveus.values.events import plain, restored, written

NOW = 1_000_000


class Empty(Event):
    pass


class Ordered(Event):
    tent: str
    count: int = 1
    notes: list = field(default_factory=list)


def test_a_subclass_is_a_frozen_dataclass():
    """Without being told; its fields are its data, and it is compared by them."""
    event = Ordered("K2")
    assert (event.tent, event.count, event.type) == ("K2", 1, "Ordered")
    assert event.data == {"tent": "K2", "count": 1, "notes": []}
    assert Ordered("K2") == event != Ordered("K2", count=2)
    assert (Empty(), Empty().data) == (Empty(), {})
    with pytest.raises(FrozenInstanceError):
        event.tent = "Lhotse"  # pyright: ignore[reportAttributeAccessIssue] - the law
    assert repr(event) == "Ordered(tent='K2', count=1, notes=[])"
    assert (InputEvent(7).value, OutputEvent(8).value) == (7, 8)


@pytest.mark.parametrize(
    "name", ["id", "key", "time", "type", "data", "checked", "stamped", "type_name", "field_names"]
)
def test_some_names_are_taken(name):
    """By what every event has; the error names another one."""
    with pytest.raises(InvalidInput, match=f"'{name}'.*other_{name}|'{name}'"):
        type("Other", (Event,), {"__annotations__": {name: "str"}})


@pytest.mark.parametrize("name", ["id", "key", "time"])
def test_an_event_has_no_id_before_it_is_sent(name):
    with pytest.raises(Unusable, match="before it is sent"):
        getattr(Ordered("K2"), name)
    sent = Ordered("K2").stamped("e1", "ada", NOW)
    assert (sent.id, sent.key, sent.time) == (
        "e1",
        "ada",
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    )
    assert sent == Ordered("K2")


def test_a_field_that_cannot_be_stored_is_named():
    with pytest.raises(InvalidValue, match=r"Ordered\.tent"):
        Ordered(cast("Any", {1})).checked()
    with pytest.raises(InvalidValue, match=r"Ordered\.notes\[1\]"):
        Ordered("K2", notes=[1, object()]).checked()


def test_data_is_copied():
    """In and out: nobody changes what another one has."""
    notes: list[Any] = [["a"]]
    event = Ordered("K2", notes=notes).checked().stamped("e1", "ada", NOW)
    notes[0].append("b")
    copy = event.copied()
    copy.notes[0].append("c")
    assert (event.notes, copy.notes, copy.id) == ([["a"]], [["a", "c"]], "e1")
    assert (Empty().shared(), InputEvent(1).shared(), event.shared()) == (True, True, False)


def test_an_event_comes_back_from_the_store():
    event = Ordered("K2", notes=[b"\x00", None]).checked().stamped("e1", "ada", NOW)
    again = restored(plain(event), key="ada", types={"Ordered": Ordered})
    assert (again, again.id, again.key, again.time) == (event, "e1", "ada", event.time)
    assert "Ordered" in written(event)
    early = restored(
        plain(Ordered("K2")), key="bob", types={"Ordered": Ordered}, event_id="7", time=1
    )
    assert (early.id, early.key) == ("7", "bob")


def test_a_class_may_grow():
    """A new field has its default; what a run needs and the class lacks is an error."""
    old = ["Ordered", "e1", NOW, {"tent": "K2"}]
    again = restored(cast("Any", old), key="ada", types={"Ordered": Ordered})
    assert again == Ordered("K2")
    for data in ({}, {"tent": "K2", "gone": 1}):
        stored = cast("Any", ["Ordered", "e1", NOW, data])
        with pytest.raises(AgentChanged, match="its class has"):
            restored(stored, key="ada", types={"Ordered": Ordered})
    with pytest.raises(AgentChanged, match="no longer has an event"):
        restored(cast("Any", old), key="ada", types={})

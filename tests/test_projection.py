"""Items as points of a plane: near each other what means nearly the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from alveus import Memory
from alveus.errors import InvalidInput
from alveus.search import projection
from alveus.search.projection import MapPoints
from alveus.store.items import Item

TRAINS = [
    "The night train to Lisbon.",
    "A train to Porto.",
    "Trains leave at nine.",
    "Train fares.",
]
SOUPS = ["Lentil soup with bread.", "Soup of peas.", "A recipe for onion soup.", "Hot soup."]
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="static") as opened:
        yield opened


def filled(memory):
    """Return a key with two sets, of trains and of soups."""
    ada = memory.key("ada")
    for name, texts, who in (("trains", TRAINS, "Grace"), ("soups", SOUPS, None)):
        ada.set(name).add_many(
            [
                Item(text, id=f"{name}-{n}", speaker=who, time=BEGUN + timedelta(days=n))
                for n, text in enumerate(texts)
            ]
        )
    return ada


def placed(points: MapPoints) -> dict[str, tuple[float, float]]:
    return dict(
        zip(points.ids, zip(points.x.tolist(), points.y.tolist(), strict=True), strict=True)
    )


def test_what_means_nearly_the_same_is_near(memory):
    """Along the first direction trains are on one side and soups on the other."""
    points = filled(memory).points()
    assert len(points) == 8
    sides = np.sign(points.x)
    of_trains = np.array([name == "trains" for name in points.sets])
    assert len({*sides[of_trains]}) == len({*sides[~of_trains]}) == 1
    assert sides[of_trains][0] != sides[~of_trains][0]
    assert max(np.abs(points.x).max(), np.abs(points.y).max()) == 1.0
    assert (points.unplaced, points.left_out) == (0, 0)
    assert 0 < points.share < 1


def test_points_say_what_they_are(memory):
    """Ids, sets, times and speakers are columns of one length; a filter and names leave some."""
    ada = filled(memory)
    points = ada.points(sets=["trains"], where={"$time": {"gte": "2026-01-03T00:00:00+00:00"}})
    assert [*points.ids] == ["trains-2", "trains-3"]
    assert [*points.speakers] == ["Grace", "Grace"]
    assert points.times[0] == np.datetime64("2026-01-03T00:00:00")
    assert [*ada.set("soups").points().speakers] == [None] * 4
    assert len(ada.points(sets=["nothing"])) == len(memory.key("nobody").points()) == 0


def test_the_same_items_give_the_same_points(memory, tmp_path):
    """Read again, from a file of the index or after others went, a picture does not turn over."""
    notes = filled(memory).set("trains")
    notes.add("Gone tomorrow.", id="gone")
    notes.delete("gone")
    first = placed(notes.points())
    with Memory.open(tmp_path / "memory.db", embedder="static", mode="ro") as other:
        again = placed(other.key("ada").set("trains").points())
    assert first.keys() == again.keys()
    assert np.allclose([*first.values()], [*again.values()], atol=1e-5)


def test_parts_and_samples_show_the_same_plane(memory, monkeypatch):
    """Read in small parts it is the same; chosen by some of the vectors, nearly the same."""
    notes = memory.key("ada").set("notes")
    notes.add_many(
        [Item(f"{text} {n}", id=f"{text}{n}") for n in range(40) for text in TRAINS + SOUPS]
    )
    whole = np.array([*placed(notes.points()).values()])
    monkeypatch.setattr(projection, "STEP", 7)
    assert np.allclose(np.array([*placed(notes.points()).values()]), whole, atol=1e-5)
    monkeypatch.setattr(projection, "SAMPLE", 160)
    some = np.array([*placed(notes.points()).values()])
    assert np.abs(np.abs(some) - np.abs(whole)).max() < 0.3  # which side is up may be another one


def test_a_limit_leaves_some_from_everywhere(memory):
    """Both sets keep points, and the others are counted."""
    points = filled(memory).points(limit=4)
    assert sorted({*points.sets}) == ["soups", "trains"]
    assert (len(points), points.left_out) == (4, 4)
    assert len(memory.key("ada").points(limit=0)) == 0
    with pytest.raises(InvalidInput, match="limit"):
        memory.key("ada").points(limit=-1)


def test_long_texts_are_one_point_and_silent_items_none(memory):
    """Of a text of many windows the middle counts; what has no text has no place."""
    notes = memory.key("ada").set("notes")
    notes.add("Soup and bread. " * 600, id="long")
    notes.add("Soup and bread.", id="short")
    notes.add("The night train.", id="train")
    notes.add({"n": 1}, id="silent", text="")
    points = placed(notes.points())
    assert {*points} == {"long", "short", "train"}
    assert (
        abs(points["long"][0] - points["short"][0])
        < 0.5
        < abs(points["train"][0] - points["short"][0])
    )
    assert notes.points().unplaced == 1


@pytest.mark.parametrize("texts", [["One."], ["Same.", "Same."]])
def test_what_does_not_differ_is_in_the_middle(memory, texts):
    notes = memory.key("ada").set("notes")
    notes.add_many(texts)
    points = notes.points()
    assert np.abs(points.x).max() < 1e-6 or len(texts) > 1
    assert np.isfinite([points.x, points.y]).all()


def test_without_vectors_there_is_no_map():
    """The error names the embedder, and what to do."""
    with Memory.open(embedder="words") as memory, pytest.raises(InvalidInput, match="'words'"):
        memory.key("ada").points()

"""Days are counted by the clock of who spoke, or asks, and times keep the offset they came with."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Item, Memory
from alveus.facts import Fact
from alveus.llm import ScriptedChat
from alveus.store.records import decoded_metadata, offset_in, with_offset
from alveus.values import wire
from alveus.values.dates import past_days, with_dates
from alveus.values.storable import checked
from alveus.values.times import Zone, offset_name

NEW_YORK = ZoneInfo("America/New_York")

ZONES = ("America/Los_Angeles", "Asia/Kolkata", "Pacific/Kiritimati", "UTC")
"""Where the machine of a test may be."""


def learnt(stamp: object, text: str, *, timezone: str | None = "UTC") -> Fact:
    """Return the one fact that a message of a time states."""
    with Memory.open(":memory:", embedder="words", timezone=timezone) as memory:
        key = memory.key("ada")
        chat = key.conversation("chat")
        chat.add({"role": "user", "name": "Ada", "content": text, "timestamp": stamp})
        (fact,) = key.learn(chat, model=None).added
    return fact


@pytest.mark.parametrize(
    ("stamp", "words", "day"),
    [
        ("2026-03-01T23:30:00-05:00", "yesterday", "2026-02-28"),
        ("2026-03-01T23:30:00-05:00", "tomorrow", "2026-03-02"),
        ("2026-03-02T00:30:00-05:00", "yesterday", "2026-03-01"),
        ("2026-03-02T04:30:00Z", "yesterday", "2026-03-01"),
        ("2026-03-02T00:30:00+05:30", "yesterday", "2026-03-01"),
        ("2026-03-02T00:30:00+05:45", "today", "2026-03-02"),
        ("2026-03-02T00:30:00+12:45", "tomorrow", "2026-03-03"),
        ("2026-03-02T09:00:00+14:00", "yesterday", "2026-03-01"),
        ("2026-03-01T22:00:00-12:00", "today", "2026-03-01"),
        ("2026-03-01T22:00:00-09:30", "tonight", "2026-03-01"),
        ("2025-12-31T23:30:00-08:00", "tomorrow", "2026-01-01"),
        ("2026-01-01T00:30:00+09:00", "yesterday", "2025-12-31"),
        ("2024-02-28T23:30:00-10:00", "tomorrow", "2024-02-29"),
        ("2026-03-05T23:30:00-05:00", "last Friday", "2026-02-27"),
        ("2026-03-06T00:30:00+09:00", "last Thursday", "2026-03-05"),
        ("2026-03-01T23:30:00-05:00", "two days ago", "2026-02-27"),
    ],
)
def test_a_word_for_a_day_counts_by_the_offset_of_the_message(
    stamp: str, words: str, day: str
) -> None:
    """An evening west of Greenwich is the same day for who spoke, and so is a morning east."""
    fact = learnt(stamp, f"I was at the dentist {words}.")
    assert fact.when == (day, day)
    written = date.fromisoformat(day)
    assert f"on {written.day} {written:%B %Y}" in fact.text
    assert fact.zone == offset_name(
        (datetime.fromisoformat(stamp).utcoffset() or timedelta()) // timedelta(minutes=1)
    )


@pytest.mark.parametrize(
    ("stamp", "zone", "day", "named"),
    [
        ("2026-03-01T23:30:00", "America/New_York", "2026-02-28", "UTC-05:00"),
        (1772425800, "America/New_York", "2026-02-28", "UTC-05:00"),
        (1772425800, "UTC", "2026-03-01", "UTC"),
        (1772425800, "Asia/Kolkata", "2026-03-01", "UTC+05:30"),
        (1772425800000, "-12:00", "2026-02-28", "UTC-12:00"),
        ("2026-07-01T23:30:00", "America/New_York", "2026-06-30", "UTC-04:00"),
        ("2026-03-02T04:30:00+00:00", "America/New_York", "2026-03-01", "UTC"),
    ],
)
def test_a_stamp_without_an_offset_counts_by_the_timezone(
    stamp: object, zone: str, day: str, named: str
) -> None:
    """Of the memory, with the offset that the zone has on that day; an offset wins over it."""
    fact = learnt(stamp, "I was at the dentist yesterday.", timezone=zone)
    assert (fact.when[0], fact.zone) == (day, named)


def test_a_conversation_may_take_place_elsewhere() -> None:
    """Its timezone wins over the memory's, also for a message of this moment, and stays."""
    now = datetime(2026, 3, 2, 4, 30, tzinfo=UTC)
    with Memory.open(":memory:", embedder="words", clock=lambda: now, timezone="UTC") as memory:
        key = memory.key("ada")
        said = {"role": "user", "name": "Ada", "content": "I was at the dentist yesterday."}
        key.conversation("chat", timezone=NEW_YORK).add(said)
        key.conversation("chat", timezone="-05:00").update_messages_mark("seen")
        (fact,) = key.learn(key.conversation("chat"), model=None).added
        assert fact.when == ("2026-02-28", "2026-02-28")
        with key.batch() as batch:
            batch.conversation("other", timezone="Asia/Kolkata").add(said)
        (other,) = key.learn(key.conversation("other"), model=None).added
        assert other.zone == "UTC+05:30"


def test_a_stamp_of_this_moment_keeps_its_offset() -> None:
    """The item takes the time of its commit, by the clock of who spoke."""
    now = datetime(2026, 3, 2, 4, 30, tzinfo=UTC)
    with Memory.open(":memory:", embedder="words", clock=lambda: now, timezone="UTC") as memory:
        chat = memory.key("ada").conversation("chat")
        (name,) = chat.add({"content": "Hello.", "timestamp": "2026-03-01T23:29:59-05:00"})
        kept = memory.key("ada").set("chat").get(name)
        assert kept is not None
        assert kept.time == now
        assert kept.time.utcoffset() == timedelta(hours=-5)


def test_the_day_after_the_clocks_were_changed_follows_the_day_before() -> None:
    """Days of 23 and of 25 hours are days."""
    for stamp, before in (
        ("2026-03-09T00:15:00-04:00", "2026-03-08"),
        ("2026-03-08T23:45:00-04:00", "2026-03-07"),
        ("2026-11-01T23:45:00-05:00", "2026-10-31"),
        ("2026-11-02T00:15:00-05:00", "2026-11-01"),
    ):
        assert learnt(stamp, "I was ill yesterday.").when[0] == before
        naive = stamp[: len("2026-03-09T00:15:00")]
        assert learnt(naive, "I was ill yesterday.", timezone="America/New_York").when[0] == before


OFFSETS = st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))

MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2199, 12, 30))  # noqa: DTZ001 - of any zone


@given(MOMENTS, OFFSETS)
def test_yesterday_is_the_local_day_before_in_every_offset(local: datetime, zone: tzinfo) -> None:
    """Whatever the day is elsewhere."""
    said = local.replace(tzinfo=zone)
    before = (local - timedelta(days=1)).date().isoformat()
    assert with_dates("We met yesterday", Zone.of(zone).local(said).date()).begins == before
    seen = Zone.of("Pacific/Kiritimati").local(said)
    assert Zone.of(zone).local(seen).date() == local.date()


def test_a_fact_holds_from_the_begin_of_its_day_where_it_was_said() -> None:
    """Not of the day in UTC."""
    fact = learnt("2026-03-01T23:30:00-05:00", "I moved to Porto yesterday.")
    assert fact.valid_from == datetime(2026, 2, 28, 5, tzinfo=UTC)


def test_a_model_reads_when_a_message_was_said_with_its_zone() -> None:
    """And the dates that it answers are of that zone."""
    found = {
        "fact": "Ada lives in Porto.",
        "subject": "Ada",
        "kind": "profile",
        "from": "2026-03-01",
        "evidence": [{"message": 1, "quote": "Since today I live in Porto"}],
    }
    model = ScriptedChat([json.dumps({"facts": [found]})])
    with Memory.open(":memory:", embedder="words", timezone="UTC") as memory:
        key = memory.key("ada")
        chat = key.conversation("chat")
        said = "Since today I live in Porto."
        chat.add({"role": "user", "content": said, "timestamp": "2026-03-01T23:30:00-05:00"})
        (fact,) = key.learn(chat, model=model).added
    assert "Sunday 2026-03-01 23:30 UTC-05:00" in model.requests[0].messages[-1]["content"]
    assert fact.valid_from == datetime(2026, 3, 1, 5, tzinfo=UTC)
    assert fact.zone == "UTC-05:00"


# --- search -------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 9, 17, tzinfo=UTC)
"""A Monday: 13:00 in New York, on the day after its clocks were put forward."""


def found_by_date(question: str, *items: Item, timezone: str, now: datetime = NOW) -> list[str]:
    """Return the ids of items that are as close as can be to the date that a question names."""
    with Memory.open(":memory:", embedder="words", clock=lambda: now, timezone=timezone) as memory:
        key = memory.key("ada")
        key.add_many(items)
        hits = key.search(question)
        best = max((hit.parts.get("date", 0.0) for hit in hits), default=0.0)
        return sorted(str(hit.item.id) for hit in hits if best and hit.parts.get("date") == best)


def said(name: str, stamp: str) -> Item:
    """Return an item of a time; its text holds no date."""
    return Item(f"Dentist, {name}.", id=name, time=datetime.fromisoformat(stamp))


def test_yesterday_in_a_question_is_the_day_before_where_the_asker_is() -> None:
    """Items are of the day that it was where they came from."""
    items = (
        said("sunday in New York", "2026-03-08T23:30:00-04:00"),
        said("saturday in New York", "2026-03-07T23:30:00-05:00"),
        said("sunday in Kiritimati", "2026-03-08T00:30:00+14:00"),
        said("friday in Kiritimati", "2026-03-06T23:30:00+14:00"),
        said("sunday in UTC", "2026-03-08T00:00:00+00:00"),
    )
    asked = "What of the dentist yesterday?"
    # People tell it later: the day after the one that is named counts as much.
    sunday = ["sunday in Kiritimati", "sunday in New York", "sunday in UTC"]
    assert found_by_date(asked, *items, timezone="America/New_York") == sunday
    early = NOW - timedelta(hours=16)  # 1:00 in UTC on Monday, Sunday evening in New York
    saturday = sorted([*sunday, "saturday in New York"])
    assert found_by_date(asked, *items, timezone="America/New_York", now=early) == saturday
    assert found_by_date(asked, *items, timezone="UTC", now=early) == sunday


def test_a_named_day_is_the_day_where_an_item_came_from() -> None:
    """An evening is of its day, also where it was the next day in UTC."""
    evening, next_evening = "2026-03-08T23:30:00-04:00", "2026-03-10T20:30:00-04:00"
    items = said("evening", evening), said("two days later", next_evening)
    asked = "What of the dentist on 8 March 2026?"
    assert found_by_date(asked, *items, timezone="UTC") == ["evening"]
    morning = (
        said("morning", "2026-03-08T07:30:00+09:00"),
        said("before", "2026-03-07T07:30:00+09:00"),
    )
    assert found_by_date(asked, *morning, timezone="UTC") == ["morning"]


def test_what_is_added_without_a_time_is_of_the_day_of_the_reader() -> None:
    """The words of its date are those of that day, and the item keeps the offset."""
    evening = datetime(2026, 3, 9, 3, 30, tzinfo=UTC)
    with Memory.open(
        ":memory:", embedder="words", clock=lambda: evening, timezone="America/New_York"
    ) as memory:
        key = memory.key("ada")
        name = key.add("The dentist called.")
        key.add_many([f"Note {count}." for count in range(3)])
        kept = key.get(name)
        assert kept is not None
        assert (kept.time, kept.time.utcoffset()) == (evening, timedelta(hours=-4))
        assert kept.metadata == {}
        assert key.search("8 March 2026")[0].parts["words"] > 0
        assert not [hit for hit in key.search("9") if hit.parts["words"]]
        assert {item.time.utcoffset() for item in key.list()} == {timedelta(hours=-4)}


def test_a_search_names_the_days_and_the_zone() -> None:
    """In the result, and in its explanation."""
    with Memory.open(
        ":memory:", embedder="words", clock=lambda: NOW, timezone="America/New_York"
    ) as memory:
        key = memory.key("ada")
        key.add("I was at the dentist.")
        hits = key.search("Was I at the dentist last week?")
        assert hits.dated == "2026-03-02 to 2026-03-08, counted in America/New_York"
        assert "the question means 2026-03-02 to 2026-03-08" in hits.explain()
        assert key.search("the dentist").dated is None
        assert key.search("the dentist on 3 May 2025, not yesterday").dated is None
        elsewhere = memory.in_timezone("+05:45").key("ada")
        assert elsewhere.search("the dentist yesterday").dated == "2026-03-08, counted in UTC+05:45"
        with key.batch() as batch:
            batch.add("A draft.")
            assert batch.search("a draft of yesterday").dated is not None


@given(MOMENTS, OFFSETS)
def test_a_question_means_the_local_day_before_in_every_offset(
    local: datetime, zone: tzinfo
) -> None:
    """Of the asker, and only where it speaks of the past."""
    today = Zone.of(zone).local(local.replace(tzinfo=zone)).date()
    before = today - timedelta(days=1)
    assert past_days("What did I do yesterday?", today) == (before, before)
    earlier = today - timedelta(days=2)
    assert past_days("What did I do the day before yesterday?", today) == (earlier, earlier)
    assert past_days("What happened today?", today) == (today, today)
    assert past_days("What shall I do today?", today) is None
    assert past_days("What shall I do tomorrow?", today) is None


# --- offsets are kept -----------------------------------------------------------------------------


@given(
    offset=st.integers(-23 * 60 - 59, 23 * 60 + 59),
    metadata=st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=3),
)
def test_metadata_never_take_the_offset_for_theirs(
    offset: int, metadata: dict[str, object]
) -> None:
    """Whatever a user calls a field, also ``$offset``, both come back as they were."""
    for one in (metadata, {"$offset": 7, **metadata}, {**metadata, "$offset": "x"}):
        kept = with_offset(wire.encode(checked(dict(one))), offset)
        assert offset_in(kept) == offset
        assert decoded_metadata(kept) == one


def test_a_conversation_goes_on_after_a_clock_was_ahead() -> None:
    """What is added comes last, though its commit has the lower time; an older stamp stays so."""
    now = [NOW]
    with Memory.open(":memory:", embedder="words", clock=lambda: now[0]) as memory:
        chat = memory.key("ada").conversation("chat")
        chat.add([{"content": "one"}, {"content": "two"}])
        now[0] = NOW + timedelta(days=365)
        chat.add({"content": "three"})
        now[0] = NOW + timedelta(minutes=2)
        chat.add([{"content": "four"}, {"content": "five"}])
        chat.add({"content": "zero", "timestamp": "2026-03-01T10:00:00Z"})
        said_in_order = [message["content"] for message in chat.messages()]
        assert said_in_order == ["zero", "one", "two", "three", "four", "five"]

"""What was, what holds and what has expired: on RAM and on a file, by a clock moved by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alveus import Item, KeyMemory, Memory, Signals, Ttl
from alveus.errors import (
    DuplicateItem,
    HistoryPruned,
    IdempotencyConflict,
    InvalidInput,
    InvalidTime,
    NotFound,
    SetFull,
    StoreReadOnly,
    Unsupported,
)
from alveus.store import Define, Definition, Scope, SetRef
from alveus.testing import batch
from alveus.transfer import export_lines, import_file, migrate
from doors import START, Clock, texts

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
REF = SetRef(Scope("default", "ada"), "default")


@pytest.fixture
def clock() -> Clock:
    return Clock(step=timedelta(0))


def said(item: Item | None) -> str | None:
    return None if item is None else item.text


def head(memory: Memory) -> int:
    return memory.store.commit_at(1 << 60)


def keep(memory: Memory, retention: str | int) -> None:
    """Define how long the set "default" of ada keeps ended versions."""
    definition = Define(REF, Definition(retention=retention), replace=True)
    memory.store.commit(batch(definition, scope=REF.scope, time=memory.engine.clock()))


# --- exact memory as it was


def test_the_past_of_exact_memory_is_read_only(memory: Memory, ada: KeyMemory, clock) -> None:
    """By commit and by time, from any place in it; writing says where it would have to go."""
    ada.short_term.set("profile.city", "Lisbon")
    one = head(memory)
    clock.elapse(hours=1)
    ada.short_term.set("profile.city", "Porto")
    for moment in (one, START, START + timedelta(minutes=59)):
        past = ada.short_term.at(moment)
        assert past.to_dict() == {"profile": {"city": "Lisbon"}}
        assert past.get_object("profile").get("city") == "Lisbon"
        assert ada.short_term.get_object("profile").at(moment).get("city") == "Lisbon"
        for write_it in (
            lambda past=past: past.set("a", 1),
            lambda past=past: past.delete("profile"),
            lambda past=past: past.increment("n"),
            past.clear,
            lambda past=past: past.once("key"),
        ):
            with pytest.raises(StoreReadOnly, match="as of commit 1 cannot be changed; write to"):
                write_it()
    assert ada.short_term.at(START + HOUR).get("profile.city") == "Porto"
    assert ada.short_term.at(one).at(START + HOUR).get("profile.city") == "Porto"
    assert ada.short_term.at(0).to_dict() == {}
    assert ada.short_term.at(START - DAY).to_dict() == {}


def test_a_moment_is_a_commit_or_a_time_with_a_zone(ada: KeyMemory) -> None:
    """Anything else is refused."""
    wrong: Any
    for wrong in (-1, True, "yesterday", 1.5):
        with pytest.raises(InvalidInput):
            ada.short_term.at(wrong)
        with pytest.raises(InvalidInput):
            ada.list(as_of=wrong)
    with pytest.raises(InvalidTime):
        ada.short_term.at(datetime(2025, 1, 1))  # noqa: DTZ001 - that is the mistake


def test_a_commit_to_come_is_refused(memory: Memory, ada: KeyMemory) -> None:
    """However large its number: a mistake is not answered with the present."""
    ada.add("one")
    last = head(memory)
    for later in (last + 1, (1 << 63) - 1, 10**30):
        problem = rf"={later} is a commit of the future; the last one is {last}$"
        for call in (
            lambda: ada.list(as_of=later),  # noqa: B023 - called in this turn
            lambda: ada.short_term.at(later).to_dict(),  # noqa: B023 - called in this turn
            lambda: memory.diff("ada", later),  # noqa: B023 - called in this turn
            lambda: memory.diff("ada", 0, later),  # noqa: B023 - called in this turn
        ):
            with pytest.raises(InvalidInput, match=problem):
                call()
    ada.add("two")
    assert texts(ada.list(as_of=last)) == ["one"]


def test_a_clock_that_goes_back_hides_no_past(ada: KeyMemory, clock) -> None:
    """Times of commits never go back, so that a moment of them is none to come."""
    ada.add("one", id="a")
    ada.short_term.set("n", 1)
    clock.elapse(days=1)
    ada.update("a", "two")
    then = clock.now
    clock.move(days=-400)
    assert [said(ada.get("a", as_of=at)) for at in (START, then, then + DAY)] == [
        "one",
        "two",
        "two",
    ]
    assert ada.short_term.at(START).get("n") == 1
    ada.update("a", "three")
    assert [said(ada.get("a", as_of=at)) for at in (START, then)] == ["one", "three"]


def test_what_had_expired_then_is_not_there(memory: Memory, ada: KeyMemory, clock) -> None:
    """Judged by the moment that is asked for: a commit by its time, a time by itself."""
    ada.short_term.set("code", 42, ttl=2 * HOUR)
    one = head(memory)
    clock.elapse(hours=3)
    ada.short_term.set("later", 1)
    assert "code" not in ada.short_term
    assert ada.short_term.at(one).get("code") == 42
    assert ada.short_term.at(START + HOUR).get("code") == 42
    assert ada.short_term.at(START + 2 * HOUR).get("code") is None


def test_inside_a_batch_the_past_is_not_read(ada: KeyMemory) -> None:
    """It says where to read it instead."""
    ada.short_term.set("a", 1)
    with ada.batch() as b, pytest.raises(Unsupported, match="outside"):
        b.short_term.at(1)


def test_what_was_pruned_is_not_told_in_part(memory: Memory, ada: KeyMemory, clock) -> None:
    """Below the floor there is an error, and from it on all is right."""
    for n in range(3):
        ada.short_term.set("n", n)
        clock.elapse(days=2)
    assert memory.prune_history(before=START + timedelta(days=3)) == 1
    assert memory.prune_history(before=START + timedelta(days=3)) == 0
    assert [ada.short_term.at(n).get("n") for n in (2, 3)] == [1, 2]
    with pytest.raises(HistoryPruned, match="begins at commit 2") as caught:
        ada.short_term.at(1)
    assert (caught.value.commit, caught.value.floor) == (1, 2)
    with pytest.raises(HistoryPruned):
        memory.diff("ada", 1, 3)
    assert memory.key("bob").short_term.at(1).to_dict() == {}
    assert ada.short_term.get("n") == 2


def test_a_swept_expiry_is_a_floor_too(memory: Memory, ada: KeyMemory, clock) -> None:
    """What had been there is gone, so that the past before it expired is not whole."""
    ada.short_term.set("code", 42, ttl=HOUR)
    ada.short_term.set("name", "Ada")
    clock.elapse(days=2)
    assert ada.short_term.at(1).get("code") == 42
    memory.sweep()
    for moment in (1, 2, START):
        with pytest.raises(HistoryPruned):
            ada.short_term.at(moment)
    assert ada.short_term.at(START + HOUR).to_dict() == {"name": "Ada"}


# --- items as they were


def test_before_1970_there_was_nothing_rather_than_something_pruned(ada: KeyMemory) -> None:
    """No sweep took it: nothing was there yet."""
    ada.short_term.set("a", 1)
    ada.add("an item")
    then = datetime(1969, 7, 20, tzinfo=UTC)
    assert ada.short_term.at(then).to_dict() == {}
    assert ada.list(as_of=then) == []


def test_a_clock_before_1970_expires_values_and_prunes_their_past(tmp_path: Path) -> None:
    """Until they expire they are there; once they were swept, their past is refused."""
    clock = Clock(datetime(1960, 1, 1, tzinfo=UTC), step=timedelta(0))
    for place in (":memory:", tmp_path / "old.db"):
        with Memory.open(place, embedder="words", clock=clock) as memory:
            ada = memory.key("ada")
            ada.short_term.set("a", 1, ttl=timedelta(hours=1))
            ada.short_term.set("b", 2)
            then = clock.now
            assert ada.short_term.to_dict() == {"a": 1, "b": 2}
            clock.elapse(hours=2)
            assert ada.short_term.at(then).to_dict() == {"a": 1, "b": 2}
            ada.short_term.set("a", 3)
            assert list(ada.short_term) == ["b", "a"]
            clock.elapse(days=2)
            assert memory.sweep() > 0
            with pytest.raises(HistoryPruned):
                ada.short_term.at(then)
            assert ada.short_term.at(clock.now).to_dict() == {"b": 2, "a": 3}


def test_every_read_of_a_set_can_be_of_the_past(memory: Memory, ada: KeyMemory, clock) -> None:
    """get, list, recent, search, of the set and of the key; in a batch as well."""
    ada.add("green tea", id="i")
    one = head(memory)
    clock.elapse(hours=1)
    ada.update("i", "black tea")
    ada.add("coffee", id="j")
    clock.elapse(hours=1)
    ada.delete("i")
    with ada.batch() as b:
        b.add("mint tea")
        for place in (ada, b):
            for moment in (one, START):
                found = place.get("i", as_of=moment)
                assert found is not None
                assert found.text == "green tea"
                assert texts(place.list(as_of=moment)) == ["green tea"]
                assert texts(place.recent(as_of=moment)) == ["green tea"]
                assert [h.item.text for h in place.search("tea", as_of=moment)] == ["green tea"]
            assert sorted(map(str, texts(place.list(as_of=START + HOUR)))) == [
                "black tea",
                "coffee",
            ]
            assert place.get("i") is None
    assert texts(ada.history("i")) == ["green tea", "black tea"]
    assert ada.history("i")[-1].retired == START + 2 * HOUR


def test_a_set_does_not_tell_a_past_that_it_no_longer_keeps(
    memory: Memory, ada: KeyMemory, clock
) -> None:
    """Not in part, and not in a search of the whole key."""
    ada.add("one", id="i")
    keep(memory, 3600 * 1_000_000)
    ada.update("i", "two")
    last = head(memory)
    clock.elapse(hours=1)
    assert memory.sweep() == 1
    for read in (
        lambda: ada.get("i", as_of=1),
        lambda: ada.list(as_of=1),
        lambda: ada.recent(as_of=1),
        lambda: ada.search("one", as_of=1),
        lambda: memory.diff("ada", 1),
    ):
        with pytest.raises(HistoryPruned, match="set 'default' is no longer kept"):
            read()
    assert texts(ada.list(as_of=last)) == ["two"]
    assert texts(ada.history("i")) == ["two"]
    assert ada.set("other").list(as_of=1) == []


# --- differences


def test_what_changed_between_two_moments(memory: Memory, ada: KeyMemory, clock) -> None:
    """Added, removed and changed, with what was there before and after."""
    ada.short_term.set("city", "Lisbon")
    ada.short_term.set("x.gone", float("nan"))
    ada.add("green tea", id="i")
    ada.add("coffee", id="j")
    ada.set("other").add("same", id="s")
    one = head(memory)
    clock.elapse(hours=1)
    ada.short_term.set("city", "Porto")
    ada.short_term.delete("x.gone")
    ada.short_term.set(("a.b", "c"), 1)
    ada.short_term.new_object("empty")
    ada.update("i", "black tea")
    ada.delete("j")
    ada.add("water", id="k")
    found = memory.diff("ada", one)
    assert [(c.kind, c.path, c.before, c.after) for c in found.tree] == [
        ("added", ("a.b", "c"), None, 1),
        ("changed", "city", "Lisbon", "Porto"),
        ("added", "empty", None, {}),
        ("added", "x", None, {}),
        ("removed", "x.gone", pytest.approx(float("nan"), nan_ok=True), None),
    ]
    assert [(c.kind, c.set_name, c.id) for c in found.items] == [
        ("changed", "default", "i"),
        ("removed", "default", "j"),
        ("added", "default", "k"),
    ]
    both = [found.items[0].before, found.items[0].after]
    assert [item and item.text for item in both] == ["green tea", "black tea"]
    assert (found.since, found.until, found.since_time) == (one, head(memory), START)
    assert memory.diff("ada", START, START + HOUR).items == found.items
    back = memory.diff("ada", head(memory), one)
    assert [c.kind for c in back.items] == ["changed", "added", "removed"]
    assert not memory.diff("ada", one, one)
    assert not memory.diff("nobody", 0)
    assert memory.diff("ada", one, sets=[]).items == ()
    assert not memory.diff("ada", one, sets=["other"], tree="skip")


def test_what_expired_meanwhile_is_a_difference(memory: Memory, ada: KeyMemory, clock) -> None:
    """Without any commit."""
    ada.short_term.set("code", 1, ttl=HOUR)
    ada.add("soon gone", id="i", expire_at=START + HOUR)
    clock.elapse(hours=1)
    found = memory.diff("ada", START)
    assert [c.kind for c in (*found.tree, *found.items)] == ["removed", "removed"]


# --- what expires


def test_an_expired_item_is_in_no_read_of_the_present(
    memory: Memory, ada: KeyMemory, clock
) -> None:
    """Nor counted; its history and the past keep it."""
    ada.add("green tea", id="i", expire_at=START + HOUR)
    ada.add("black tea", id="j")
    ada.set("notes").add("red tea", id="n", expire_at=START + HOUR)
    one = head(memory)
    default = ada.set("default")
    assert (len(default), "i" in default) == (2, True)
    clock.elapse(minutes=59)
    assert len(ada.search("tea")) == 3
    clock.elapse(minutes=1)
    assert (len(default), "i" in default) == (1, False)
    assert ada.get("i") is None
    assert [item and item.id for item in ada.get(["i", "j"])] == [None, "j"]
    assert texts(ada.list()) == texts(ada.recent(1)) == texts(list(default)) == ["black tea"]
    assert [hit.item.id for hit in ada.search("tea")] == ["j"]
    assert not ada.set("notes").search("tea", valid_at="any")
    assert len(ada.set("notes")) == 0
    assert len(ada.search("tea", as_of=one)) == 3
    assert len(ada.list(as_of=START + timedelta(minutes=59))) == 2
    assert len(ada.list(as_of=START + HOUR)) == 1
    assert ada.history("i")[-1].retired == START + HOUR
    with pytest.raises(NotFound):
        ada.update("i", "again")
    assert ada.delete("i") == 0


@pytest.mark.parametrize(
    ("ttl", "says"),
    [
        (60, "ttl: 60 must be a duration with a unit"),
        ("60", "ttl: '60' must be a duration with a unit"),
        ("0s", "ttl: '0s' must be a duration above zero"),
        (timedelta(minutes=-1), "ttl: -1 day, 23:59:00 must be a duration above zero"),
    ],
)
def test_a_ttl_that_is_no_span_is_told_why(ada: KeyMemory, ttl, says) -> None:
    """A number is above zero, and lacks its unit."""
    with pytest.raises(InvalidInput, match=says):
        ada.add("a", ttl=ttl)


@pytest.mark.parametrize("ttl", ["2h", "120m", timedelta(hours=2)])
def test_a_ttl_counts_from_the_commit(ada: KeyMemory, clock, ttl) -> None:
    """Wherever an item is written; its `expire_at` says when that is."""
    due = clock() + 2 * HOUR
    ids = [ada.add("a", ttl=ttl), ada.add(Item("b", ttl=ttl)), *ada.add_many([Item("c", ttl=ttl)])]
    with ada.batch() as batch:
        ids.append(batch.add("d", ttl=ttl))
    ids.append(ada.add("e"))
    ada.update(ids[-1], ttl=ttl)
    ids.append(ada.supersede(ada.add("f"), "g", ttl=ttl))
    found = ada.get(ids)
    assert [item and (item.expire_at, item.ttl) for item in found] == [(due, None)] * 6
    clock.elapse(hours=2)
    assert ada.get(ids) == [None] * 6


def test_a_ttl_takes_the_place_of_the_time_that_was_there(ada: KeyMemory, clock) -> None:
    """Also of an `Item` that is passed; but not of one that is passed with it."""
    sale = ada.add("sale", expire_at=clock() + DAY)
    assert ada.update(sale, ttl="2d").version == 2
    clock.elapse(days=1)
    assert ada.get(sale)
    refused: list[dict[str, Any]] = [
        {"ttl": "2d", "expire_at": clock() + DAY},
        {"ttl": "soon"},
        {"ttl": "0s"},
        {"ttl": timedelta(0)},
        {"ttl": 7},
        {"ttl": "9999999d"},
    ]
    for wrong in refused:
        with pytest.raises(InvalidInput, match="ttl"):
            ada.add("x", **wrong)
        with pytest.raises(InvalidInput, match="ttl"):
            ada.update(sale, **wrong)


def test_the_same_add_with_a_ttl_later_is_a_repetition(ada: KeyMemory, clock) -> None:
    """What was asked for is compared, not when it would expire; the first one counts."""
    first = ada.add("x", ttl="2h", idempotency_key="k")
    clock.elapse(hours=1)
    assert ada.add("x", ttl="120m", idempotency_key="k") == first
    with pytest.raises(IdempotencyConflict):
        ada.add("x", ttl="3h", idempotency_key="k")
    clock.elapse(hours=1)
    assert ada.get(first) is None


def test_a_sweep_retires_what_expired(memory: Memory, ada: KeyMemory, clock) -> None:
    """Then it takes no room, and its retention begins."""
    keep(memory, "purge")
    ada.add("soon gone", id="i", expire_at=START + HOUR)
    ada.add("stays", id="j")
    clock.elapse(hours=1)
    info = memory.store.set_info(REF)
    assert info is not None
    assert info.items == 2
    assert memory.sweep() == 2  # retired, and removed
    info = memory.store.set_info(REF)
    assert info is not None
    assert (info.items, info.next_expiry) == (1, None)
    assert ada.history("i") == []
    assert memory.sweep() == 0


def test_an_expiry_can_be_moved_and_lifted(ada: KeyMemory, clock) -> None:
    """As any field of an item, before it has passed."""
    ada.add("tea", id="i", expire_at=START + HOUR)
    assert ada.update("i", expire_at=START + DAY).expire_at == START + DAY
    clock.elapse(hours=2)
    assert ada.update("i", importance=0.5).expire_at == START + DAY
    assert ada.update("i", expire_at=None).expire_at is None
    clock.elapse(days=9)
    assert ada.get("i") is not None


def test_what_is_over_at_once_is_told_once_more(ada: KeyMemory) -> None:
    """An expiry in the past is no mistake: the item is gone, and the change is answered."""
    ada.add("tea", id="i")
    assert ada.update("i", expire_at=START - HOUR).expire_at == START - HOUR
    assert ada.get("i") is None
    with ada.batch() as b:
        b.add("coffee", id="j", expire_at=START - HOUR)
        b.add("water", id="k")
        assert b.update("k", expire_at=START).version == 2
        assert b.list() == []
    assert ada.list() == []


def test_the_id_of_what_expired_is_free(ada: KeyMemory, clock) -> None:
    """Whatever is asked to happen with one that is taken; also in a batch."""
    for name in ("a", "b", "c", "d"):
        ada.add("old", id=name, expire_at=START + HOUR)
    with pytest.raises(DuplicateItem):
        ada.add("new", id="a")
    clock.elapse(hours=1)
    ada.add("new", id="a")
    ada.add("new", id="b", on_existing="keep")
    ada.add("new", id="c", on_existing="update")
    with ada.batch() as b:
        b.add("new", id="d")
        assert texts(b.list()) == ["new"] * 4
        assert [hit.item.text for hit in b.search("new old")] == ["new"] * 4
    assert texts(ada.list()) == ["new"] * 4
    assert [item.version for item in ada.list()] == [2] * 4


def test_what_expired_takes_no_room(memory: Memory, clock) -> None:
    """A set that is full lets go of it first."""
    notes = memory.key("ada").set("notes", capacity=1, compaction="reject")
    notes.add("old", expire_at=START + HOUR)
    with pytest.raises(SetFull):
        notes.add("new")
    clock.elapse(hours=1)
    notes.add("new")
    assert texts(notes.list()) == ["new"]


def test_many_expired_items_hide_no_others(memory: Memory, ada: KeyMemory, clock) -> None:
    """Pages go on past them."""
    ada.add("first", time=START - DAY)
    ada.add_many([Item(f"{n}", expire_at=START + HOUR) for n in range(600)])
    clock.elapse(hours=1)
    ada.add("last", time=START + DAY)
    assert texts(ada.list()) == texts(ada.recent(2)) == ["first", "last"]
    assert texts(ada.list(limit=1, newest_first=True)) == ["last"]
    assert memory.sweep() == 600


# --- what holds


def test_search_and_recent_find_what_holds(ada: KeyMemory, clock) -> None:
    """Now, at another time, or whenever; get, list and history have all unless asked."""
    ada.add("lives in Lisbon", id="l", valid_to=START + HOUR)
    ada.add("lives in Porto", id="p", valid_from=START + HOUR, valid_to=START + DAY)
    ada.add("lives by the sea", id="s")

    def found(**asked: Any) -> list[str]:
        hits, recent = ada.search("lives", **asked), ada.recent(**asked)
        assert sorted(h.item.id or "" for h in hits) == sorted(i.id or "" for i in recent)
        return sorted(item.id or "" for item in recent)

    assert found() == ["l", "s"]
    clock.elapse(hours=1)
    assert found() == ["p", "s"]
    assert found(valid_at=START) == ["l", "s"]
    assert found(valid_at=START + DAY) == ["s"]
    assert found(valid_at="any") == ["l", "p", "s"]
    assert found(as_of=START) == ["l", "s"]
    assert found(as_of=START, valid_at=START + HOUR) == ["p", "s"]
    assert texts(ada.recent(1)) == ["lives by the sea"]
    assert len(ada.list()) == 3
    assert [item.id for item in ada.list(valid_at=START)] == ["l", "s"]
    assert len(ada.list(valid_at="any")) == 3
    assert ada.get("l") is not None
    with ada.batch() as b:
        b.add("lives no more", id="n", valid_to=START)
        b.add("lives well", id="w", valid_from=START)
        assert sorted(h.item.id or "" for h in b.search("lives")) == ["p", "s", "w"]
        assert sorted(i.id or "" for i in b.recent()) == ["p", "s", "w"]
        assert len(b.search("lives", valid_at="any")) == 5


def test_times_have_to_make_sense(ada: KeyMemory) -> None:
    """Whatever is wrong with them changes nothing."""
    wrong: Any
    for wrong in ("then", 5, "2025-01-01"):
        for read in (ada.recent, ada.list, lambda valid_at: ada.search("x", valid_at=valid_at)):
            with pytest.raises(InvalidInput, match="valid_at must be"):
                read(valid_at=wrong)
    with pytest.raises(InvalidInput, match="valid_to must not be before valid_from"):
        ada.add("x", valid_from=START, valid_to=START - HOUR)
    with pytest.raises(InvalidTime):
        ada.add("x", expire_at=datetime(2025, 1, 1))  # noqa: DTZ001 - that is the mistake
    assert ada.list() == []


def test_a_fact_takes_the_place_of_another(memory: Memory, ada: KeyMemory, clock) -> None:
    """One commit: the old one ends to hold, the new one begins, and knows what it came from."""
    ada.add("lives in Lisbon", id="l", time=START - DAY, metadata={"topic": "home"})
    before = head(memory)
    clock.elapse(hours=1)
    new = ada.supersede("l", "lives in Porto", metadata={"topic": "home"}, importance=0.5)
    assert head(memory) == before + 1
    old, fresh = ada.get(["l", new])
    assert old is not None
    assert fresh is not None
    assert (old.valid_to, old.version, old.time) == (START + HOUR, 2, START - DAY)
    assert (fresh.valid_from, fresh.valid_to, fresh.sources) == (START + HOUR, None, ("l",))
    assert (fresh.metadata, fresh.importance) == ({"topic": "home"}, 0.5)
    assert [hit.item.id for hit in ada.search("lives")] == [new]
    assert [hit.item.id for hit in ada.search("lives", valid_at=START)] == ["l"]
    rows = [stored.row for stored in memory.store.get(REF, ["l", new]) if stored is not None]
    assert memory.store.source_links([rows[1]]) == [(rows[1], rows[0])]


def test_a_fact_can_be_superseded_from_another_moment_on(ada: KeyMemory) -> None:
    """Before or after now; not before the old one began or after it ended."""
    ada.add("one", id="1", valid_from=START)
    assert ada.supersede("1", "two", at=START + DAY, new_id="2") == "2"
    assert [item.id for item in ada.recent()] == ["1"]
    with pytest.raises(InvalidInput, match="becomes valid"):
        ada.supersede("2", "x", at=START)
    with pytest.raises(InvalidInput, match="was valid until"):
        ada.supersede("1", "x", at=START + 2 * DAY)
    with pytest.raises(NotFound):
        ada.supersede("nobody", "x")
    with pytest.raises(DuplicateItem):
        ada.supersede("1", "x", at=START + HOUR, new_id="2")
    with pytest.raises(InvalidTime):
        ada.supersede("1", "x", at=datetime(2025, 1, 1))  # noqa: DTZ001 - that is the mistake
    assert [item.version for item in ada.list()] == [2, 1]


def test_a_fact_is_superseded_from_when_it_ended_on(ada: KeyMemory) -> None:
    """At that very moment it may be, so that nothing is left open between; not later."""
    ada.add("Lives in Lisbon.", id="home", valid_from=START, valid_to=START + DAY)
    with pytest.raises(InvalidInput, match="was valid until"):
        ada.supersede("home", "Lives in Porto.", at=START + DAY + HOUR)
    ada.supersede("home", "Lives in Porto.", at=START + DAY, new_id="porto")
    (old, new) = (item for item in ada.get(["home", "porto"]) if item is not None)
    assert old.valid_to == new.valid_from == START + DAY


def test_superseding_happens_once(ada: KeyMemory) -> None:
    """Under one idempotency key; and as a part of a batch."""
    ada.add("one", id="1")
    first = ada.supersede("1", "two", idempotency_key="k")
    assert ada.supersede("1", "two", idempotency_key="k") == first
    with ada.batch(idempotency_key="b") as b:
        third = b.supersede(first, "three")
        assert [item.id for item in b.recent()] == [third]
    assert [item.id for item in ada.recent()] == [third]
    assert len(ada.list()) == 3


# --- fading


def test_what_is_read_stays_and_what_is_grave_fades_slowly(ada: KeyMemory, clock) -> None:
    """decay: age counts from the last reading; an importance of 1 doubles the half-life."""
    for name, importance in (("a", 0.0), ("b", 0.0), ("c", 1.0)):
        ada.add("green tea", id=name, importance=importance)
    clock.elapse(days=20)
    ada.get("b")
    clock.elapse(days=10)
    signals = Signals(decay=1.0, half_life_days=10)
    hits = {hit.item.id: hit for hit in ada.search("tea", signals=signals)}
    base = {name: hit.score - hit.parts["decay"] for name, hit in hits.items()}
    left = {name: round(hit.score / base[name], 6) for name, hit in hits.items()}
    assert left == {"a": 0.125, "b": 0.5, "c": round(2**-1.5, 6)}
    assert list(hits) == ["b", "c", "a"]
    again = ada.search("tea", signals=signals)  # all of them were read just now
    assert {round(hit.parts["decay"], 9) for hit in again} == {0.0}


def test_fading_is_off_unless_it_is_asked_for(ada: KeyMemory, clock) -> None:
    """No part of it in a score."""
    ada.add("tea")
    clock.elapse(days=1000)
    assert "decay" not in ada.search("tea")[0].parts


def test_a_renewal_makes_no_version(memory: Memory, ada: KeyMemory, clock) -> None:
    """An item lives on from when it was read: same version, same number, found until then."""
    ada.add("Kept by use.", id="used", ttl=10 * HOUR)
    ada.add("Stays for good.", id="good")
    notes, before = ada.set("default"), head(memory)
    assert notes.renew(["used", "good", "none"], ttl=10 * HOUR) == 0
    clock.elapse(minutes=59)
    assert notes.renew("used", ttl=10 * HOUR) == 0
    clock.elapse(minutes=1)
    assert texts([hit.item for hit in ada.search("kept by use", limit=1)]) == ["Kept by use."]
    assert notes.renew(["used", "good"], ttl=10 * HOUR) == 1
    clock.elapse(hours=9.5)
    item = ada.get("used")
    assert item is not None
    assert (item.version, item.expire_at) == (1, START + 11 * HOUR)
    assert texts([hit.item for hit in ada.search("kept by use", limit=1)]) == ["Kept by use."]
    assert (len(ada.history("used")), head(memory)) == (1, before)
    assert said(notes.get("used", as_of=START)) == "Kept by use."
    clock.elapse(hours=1)
    assert (ada.get("used"), ada.sets(counts=True)) == (None, {"default": 1})
    assert notes.renew("used", ttl=10 * HOUR) == 0
    with pytest.raises(InvalidInput, match="ttl must be a timedelta"):
        notes.renew("good", ttl=timedelta(0))


def test_a_set_can_be_opened_so_that_reading_renews(memory: Memory, ada: KeyMemory, clock) -> None:
    """Reads through it renew; others do not. An item that says how long it lives has its way."""
    notes = ada.set("notes", ttl=Ttl(after=10 * HOUR, refresh="read"))
    for name in ("got", "found", "left"):
        notes.add(name, id=name)
    notes.add("short", id="short", ttl=HOUR)
    before = head(memory)
    clock.elapse(hours=2)
    assert said(notes.get("got")) == "got"
    assert texts([hit.item for hit in notes.search("found", limit=1)]) == ["found"]
    assert said(ada.set("notes").get("left")) == "left"
    clock.elapse(hours=9)
    assert sorted(said(item) or "" for item in notes) == ["found", "got"]
    assert head(memory) == before
    assert notes.update("got", "got again").expire_at == clock.now + 10 * HOUR
    assert notes.update("got", "soon over", ttl=HOUR).expire_at == clock.now + HOUR
    only_written = ada.set("notes", ttl=Ttl(after=10 * HOUR))
    clock.elapse(minutes=30)
    assert said(only_written.get("got")) == "soon over"
    clock.elapse(hours=1)
    assert only_written.get("got") is None


def test_a_renewed_item_lives_on_in_copies(tmp_path, clock) -> None:
    """In another store, in an export and its import; and forgetting erases it as any other."""
    source, copy, lines = tmp_path / "m.db", tmp_path / "copy.db", tmp_path / "m.jsonl"
    with Memory.open(source, clock=clock, embedder="words") as memory:
        ada = memory.key("ada")
        ada.add("Kept by use.", id="used", ttl=HOUR)
        ada.set("default").renew("used", ttl=10 * HOUR)
        lines.write_text("\n".join([*export_lines(memory), ""]), encoding="utf-8")
    migrate(source, copy)
    with Memory.open(tmp_path / "import.db", clock=clock, embedder="words") as memory:
        import_file(memory, lines)
    clock.elapse(hours=9)
    for path in (source, copy, tmp_path / "import.db"):
        with Memory.open(path, clock=clock, embedder="words") as memory:
            ada = memory.key("ada")
            assert [hit.item.expire_at for hit in ada.search("use")] == [START + 10 * HOUR]
            assert ada.sets(counts=True) == {"default": 1}
            assert ada.set("default").forget("used", scrub="later").counts["items"] == 1
            assert not ada.history("used")


def test_a_retry_is_the_same_request_under_another_ttl(ada: KeyMemory, clock) -> None:
    """How long items live by default is no part of what was asked."""
    once = ada.set("notes", ttl=Ttl(after=HOUR)).add("a", idempotency_key="k")
    assert ada.set("notes", ttl=Ttl(after=2 * HOUR)).add("a", idempotency_key="k") == once


def test_what_another_process_renewed_is_found(tmp_path, clock) -> None:
    """Also where this one had found it before, and remembers when it would have expired."""
    path = tmp_path / "m.db"
    with (
        Memory.open(path, clock=clock, embedder="words") as ours,
        Memory.open(path, clock=clock, embedder="words") as theirs,
    ):
        ours.key("ada").add("Seat by the glass.", id="seat", ttl=HOUR)
        assert ours.key("ada").search("seat")
        assert theirs.key("ada").set("default").renew("seat", ttl=10 * HOUR) == 1
        clock.elapse(hours=2)
        assert [hit.item.id for hit in ours.key("ada").search("seat")] == ["seat"]
    with Memory.open(path, clock=clock, embedder="words", mode="ro") as reader:
        clock.elapse(hours=2)
        notes = reader.key("ada").set("default", ttl=Ttl(after=10 * HOUR, refresh="read"))
        assert said(notes.get("seat")) == "Seat by the glass."
        with pytest.raises(StoreReadOnly):
            notes.renew("seat", ttl=20 * HOUR)


@pytest.mark.parametrize("place", [":memory:", "app.db"])
def test_reads_of_the_past_follow_commits_where_created_goes_back(
    tmp_path: Path, place: str
) -> None:
    """A clock was ahead for a commit: each read of a time is that of one commit, in their order."""
    url, now = place if place == ":memory:" else tmp_path / place, [START]
    with Memory.open(url, embedder="words", clock=lambda: now[0]) as memory:
        ada = memory.key("ada")
        ada.add("one", id="a")
        now[0] = START + timedelta(days=365)
        ada.add("two", id="b")
        ada.short_term.set("n", 2)
        now[0] = START + timedelta(seconds=90)
        ada.add("three", id="c")
        items = {str(item.id): item for item in ada.list()}
        assert items["c"].created < items["b"].created
        seen = [
            {item.id for item in ada.list(as_of=at)}
            for at in sorted([START, *(item.created for item in items.values())])
        ]
        assert seen == [{"a"}, {"a"}, {"a", "b", "c"}, {"a", "b", "c"}]
        then = items["c"].created
        assert [hit.item.id for hit in ada.search("two", as_of=then)][:1] == ["b"]
        assert ada.get("b", as_of=then) is not None
        assert ada.short_term.at(then).get("n") == 2
        assert {change.id for change in memory.diff("ada", START, then).items} == {"b", "c"}
        numbers = [memory.store.commit_at(int(at.timestamp() * 1e6)) for at in (START, then)]
        assert [len(ada.list(as_of=number)) for number in range(numbers[0], numbers[1] + 1)] == [
            1,
            2,
            2,
            3,
        ]

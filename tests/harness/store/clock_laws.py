"""Laws of clocks that are stepped."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from alveus.store import (
    CLOCK_STEP_US,
    OPS_KEPT,
    Add,
    Define,
    Definition,
    Put,
    QueuedInput,
    Replace,
    Retain,
    Retire,
    StatusChange,
    Store,
)
from alveus.testing.batches import (
    ADA,
    DAY,
    NOTES,
    NOW,
    SECOND,
    Laws,
    add,
    batch,
    present,
    record,
    write,
)
from alveus.testing.item_laws import ids, info

YEAR = 365 * DAY


SHORT = Retain(age=timedelta(0), dedupe_for=timedelta(0), dedupe_count=3)


def event(number: int, time: int = NOW) -> QueuedInput:
    """Return an input that has an id."""
    return QueuedInput(ADA, "1", time, b"event %d" % number, b"asked", f"event {number}")


def discard_all(store: Store) -> None:
    """End every run that waits."""
    for run in store.runs("app"):
        store.commit(batch(StatusChange(run.id, "waiting", "discarded"), scope=run.scope))


class ClockStepLaws(Laws):
    """Laws of times under a wrong clock."""

    def test_times_wait_for_a_clock_that_went_back_a_little(self, store: Store) -> None:
        """After a small step back of the clock, times still rise with the numbers."""
        write(store, add("i"))
        commit = write(store, add("j"), time=NOW - CLOCK_STEP_US)
        assert commit.time == NOW
        assert write(store, add("k"), time=NOW + 1).time == NOW + 1

    def test_times_return_with_a_clock_that_had_been_ahead(self, store: Store) -> None:
        """After a clock was ahead, times return at once. Numbers keep the order."""
        one = write(store, add("i"))
        ahead = write(store, add("j"), time=NOW + YEAR)
        back = write(store, add("k"), time=NOW + SECOND)
        assert [c.time for c in (one, ahead, back)] == [NOW, NOW + YEAR, NOW + SECOND]
        assert one.number < ahead.number < back.number
        found = present(store.get(NOTES, ["k"])[0])
        assert (found.created, found.record.time) == (NOW + SECOND, NOW + SECOND)
        assert ids(store.page(NOTES)) == ["i", "k", "j"]

    def test_a_time_of_the_past_means_one_moment(self, store: Store) -> None:
        """A time of the past means one moment.

        A jump of the clock belongs to the moment of its end.
        """
        numbers = [
            write(store, add(f"{time}"), time=NOW + time).number
            for time in (0, 10 * SECOND, YEAR, YEAR + 1, 20 * SECOND, 5 * DAY, 2 * YEAR, 6 * DAY)
        ]
        moments = {
            NOW - 1: 0,
            NOW: 1,
            NOW + 10 * SECOND: 2,
            NOW + 20 * SECOND - 1: 2,
            NOW + 20 * SECOND: 5,
            NOW + 5 * DAY: 6,
            NOW + 6 * DAY - 1: 6,
            NOW + 6 * DAY: 8,
            NOW + YEAR: 8,
            NOW + 3 * YEAR: 8,
        }
        found = {time: store.commit_at(time) for time in moments}
        assert found == {time: ([0, *numbers])[place] for time, place in moments.items()}
        assert store.time_of_commit(numbers[3]) == NOW + YEAR + 1

    def test_any_times_are_found_again(self, store: Store) -> None:
        """With random clock steps, a time finds the last commit that is not later."""
        rng, clock = Random(5), NOW
        for n in range(60):
            clock += rng.choice((0, 1, SECOND, 90 * SECOND, DAY, YEAR, -SECOND, -DAY, -YEAR))
            write(store, add(f"{n}"), time=clock)
        times = [store.time_of_commit(n + 1) for n in range(60)]
        for moment in sorted({t + by for t in times for by in (-1, 0, 1)}):
            last = max((n + 1 for n, time in enumerate(times) if time <= moment), default=0)
            assert store.commit_at(moment) == last

    def test_the_past_follows_the_order_of_commits(self, store: Store) -> None:
        """A later time never reads fewer commits, however the clock is stepped.

        It reads the state after a commit. `created` is the time of a commit, so it may go back.
        """
        rng, clock = Random(8), NOW
        states: list[tuple[tuple[str, ...], int | None]] = [((), None)]
        for n in range(40):
            clock += rng.choice((1, SECOND, 90 * SECOND, DAY, YEAR, -SECOND, -DAY, -YEAR))
            gone = [Retire(NOTES, f"{n - 3}", 1)] if n % 5 == 4 else []
            write(store, add(f"{n}"), Put(("n",), n), *gone, time=clock)
            states.append((tuple(sorted(ids(store.page(NOTES)))), n))
        times = [store.time_of_commit(number) for number in range(1, 41)]
        assert times != sorted(times)
        before = 0
        for moment in sorted({time + by for time in times for by in (-1, 0, 1)}):
            number = store.commit_at(moment)
            assert number >= before
            before = number
            page = store.page(NOTES, at=number) if number else []
            node = store.node(ADA, ("n",), at=number, now=NOW) if number else None
            assert (tuple(sorted(ids(page))), node and node.value) == states[number]
            assert page == sorted(page, key=lambda one: (one.record.time, one.first))
            for one in page:
                assert one.begin_commit <= number
                assert one.created == store.time_of_commit(one.begin_commit)
        assert before == len(times)

    def test_live_items_are_counted_by_their_commits(self, store: Store) -> None:
        """Live items are counted by the commit that added them, whatever updated them since."""
        write(store, add("a"), add("b"), time=NOW)
        write(store, add("c"), time=NOW + 1)
        write(store, Put(("a",), 1), time=NOW + 1)
        write(store, Replace(NOTES, 1, record("a", "A")), time=NOW + 2)
        assert store.live_items_by_commit() == [(1, 2), (2, 1)]
        write(store, Retire(NOTES, "c", 1), time=NOW + 3)
        assert store.live_items_by_commit() == [(1, 2)]

    # --- floors

    def test_the_last_ops_are_never_forgotten(self, store: Store) -> None:
        """A sweep never deletes the last ops, however old they seem. Earlier ones are deleted."""
        store.commit_many([batch(op=b"op %d" % n) for n in range(6)])
        assert store.sweep(now=NOW + YEAR) == 0
        assert store.sweep(now=NOW + YEAR, ops_kept=4) > 0
        again = [store.commit(batch(op=b"op %d" % n)).adopted for n in (5, 4, 3, 2, 1, 0)]
        assert again == [True, True, True, True, False, False]

    def test_ten_thousand_ops_are_enough(self, store: Store) -> None:
        """The last ten thousand ops are kept. Beyond, age alone decides."""
        many = [batch(op=b"op %d" % n) for n in range(OPS_KEPT + 2)]
        store.commit_many(many)
        store.sweep(now=NOW + YEAR)
        assert not store.commit(many[1]).adopted
        assert store.commit(many[2]).adopted

    def test_the_last_event_ids_are_never_forgotten(self, store: Store) -> None:
        """Pruning never deletes the last event ids, however old they seem."""
        store.accept("helper", [event(n) for n in range(5)])
        discard_all(store)
        store.prune_runs("helper", "app", SHORT, now=NOW + YEAR)
        again = store.accept("helper", [event(n) for n in (4, 3, 2, 1, 0)])
        assert [answer.repeated for answer in again] == [True, True, True, False, False]

    def test_repetitions_do_not_push_event_ids_out(self, store: Store) -> None:
        """Only accepted inputs count for the kept event ids, not repetitions."""
        store.accept("helper", [event(n) for n in range(3)])
        discard_all(store)
        for _ in range(4):
            store.accept("helper", [event(n) for n in range(3)])
        store.accept("helper", [QueuedInput(ADA, "1", NOW)])
        store.prune_runs("helper", "app", SHORT, now=NOW + YEAR)
        again = store.accept("helper", [event(n) for n in (2, 1, 0)])
        assert [answer.repeated for answer in again] == [True, True, False]

    # --- capacity

    @pytest.mark.parametrize("compaction", ["reject", "trim"])
    def test_what_only_the_clock_hides_is_not_ended_for_room(
        self, store: Store, compaction: str
    ) -> None:
        """Items hidden by a wrong clock use no capacity, and reappear with the right clock."""
        full = Definition(capacity=2, compaction=compaction)
        mortal = Add(NOTES, replace(record("mortal"), expires=NOW + DAY))
        write(store, Define(NOTES, full), mortal, add("i"))
        ahead = batch(add("j"), time=NOW + YEAR, corroborated=NOW + SECOND)
        store.commit(ahead)
        assert sorted(ids(store.page(NOTES))) == ["i", "j", "mortal"]
        assert info(store).items == 3
        store.commit(batch(Put(("a",), 1), base=0, time=NOW + SECOND))
        store.commit(batch(Define(NOTES, Definition(), replace=True), time=NOW + 2 * DAY))
        store.commit(batch(Define(NOTES, replace(full, capacity=3), replace=True)))
        store.commit(batch(add("k"), time=NOW + 2 * DAY, corroborated=NOW + 2 * DAY))
        assert sorted(ids(store.page(NOTES))) == ["i", "j", "k"]

"""Laws of threads: every method may be called from any of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import TypeVar

from fornix.errors import StaleItem, StaleRun
from fornix.store import Batch, Commit, Node, Put, Replace, SetRef, Store
from fornix.testing.batches import ADA, NOTES, NOW, Laws, add, batch, record, write
from fornix.testing.items import ids, only
from fornix.testing.reads import Follower, pages
from fornix.testing.sets import info

T = TypeVar("T")

LONG_S = 120.0
"""How long threads wait for each other at most: a guard against hanging, on any machine."""


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Return what *count* threads answer that all start *work* at the same time."""
    barrier = Barrier(count)

    def run(i: int) -> T:
        barrier.wait(LONG_S)
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def try_commit(store: Store, work: Batch) -> Commit | None:
    """Commit, or return None if somebody was first."""
    try:
        return store.commit(work)
    except (StaleRun, StaleItem):
        return None


class ThreadLaws(Laws):
    """What holds while many write."""

    def test_of_two_with_one_base_exactly_one_wins(self, store: Store) -> None:
        """Round after round; the loser changed nothing, and the winner's value stands."""

        def play(i: int) -> list[tuple[int, int]]:
            won: list[tuple[int, int]] = []
            for base in range(200):
                head = store.head(ADA)
                commit = try_commit(store, batch(Put(("a",), [i, base]), base=head))
                if commit is not None:
                    won.append((head, commit.number))
            return won

        won = [pair for part in at_once(2, play) for pair in part]
        bases = sorted(base for base, _ in won)
        numbers = sorted(number for _, number in won)
        assert len(set(bases)) == len(bases), "two commits were made from one base"
        assert len(set(numbers)) == len(numbers)
        assert bases == [0, *numbers[:-1]], "each commit builds on the one before it"

    def test_every_acknowledged_add_is_there(self, store: Store) -> None:
        """Of sixteen threads at once, each with a number of its own."""

        def play(i: int) -> list[int]:
            return [store.commit(batch(add(f"{i}.{j}"))).number for j in range(10)]

        numbers = [n for part in at_once(16, play) for n in part]
        expected = sorted(f"{i}.{j}" for i in range(16) for j in range(10))
        assert sorted(ids(pages(store, NOTES))) == expected
        assert len(set(numbers)) == len(numbers) == info(store).items == 160
        follower = Follower()
        follower.catch_up(store)
        assert follower.agrees_with(store)

    def test_of_one_op_exactly_one_is_done(self, store: Store) -> None:
        """All others adopt it and are told its result."""

        def play(i: int) -> Commit:
            return store.commit(batch(add(f"{i}"), op=b"op", result=i))

        answers = at_once(8, play)
        first = [answer for answer in answers if not answer.adopted]
        assert len(first) == 1
        assert {(a.number, a.result) for a in answers} == {(first[0].number, first[0].result)}
        assert ids(store.page(NOTES)) == [f"{first[0].result}"]

    def test_of_one_version_exactly_one_change_is_made(self, store: Store) -> None:
        """No edit is lost: whoever comes late is told to look again."""
        write(store, add("i", ""))

        def play(i: int) -> int:
            done = 0
            while done < 10:
                item = only(store)
                text = f"{item.record.text}{i}"
                work = batch(Replace(NOTES, item.version, record("i", text)))
                done += try_commit(store, work) is not None
            return done

        at_once(4, play)
        assert only(store).version == 41
        assert sorted(only(store).record.text or "") == sorted("0123" * 10)

    def test_nobody_sees_half_a_batch(self, store: Store) -> None:
        """Value and item of one commit appear together, whenever one looks."""
        write(store, Put(("a",), 0), add("i", "0"))
        done, seen = Event(), [Event(), Event()]

        def play(i: int) -> None:
            if i == 0:
                for n in range(1, 200):
                    write(store, Put(("a",), n), Replace(NOTES, n, record("i", f"{n}")))
                    if n == 100:  # nobody looks only before, or only after
                        assert all(each.wait(LONG_S) for each in seen)
                done.set()
                return
            while not done.is_set():
                head = store.head(ADA)
                node = store.node(ADA, ("a",), at=head, now=NOW)
                item = only(store, at=head)
                assert node == Node(is_object=False, value=int(item.record.text or ""))
                seen[i - 1].set()

        at_once(3, play)

    def test_a_set_that_many_begin_is_one(self, store: Store) -> None:
        """The first adds of two threads go to the same set."""
        for i in range(20):
            ref = SetRef(ADA, f"set {i}")
            at_once(2, lambda j, ref=ref: store.commit(batch(add(f"{j}", to=ref))))
            assert info(store, ref).items == 2

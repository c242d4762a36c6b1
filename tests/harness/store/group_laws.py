"""Laws of batches committed together."""

from __future__ import annotations

from dataclasses import replace

from alveus.errors import DuplicateItem, IdempotencyConflict, KeyBusy, NotFound, StaleRun
from alveus.store import Commit, Put, QueuedInput, Scope, SetRef, Step, Store
from alveus.testing.batches import ADA, BOB, NOTES, NOW, Laws, add, at_once, batch, present
from alveus.testing.run_laws import BEGIN, PUT, accept, committed, leased, queued_input, there


class GroupLaws(Laws):
    """Laws of batches and inputs in one write."""

    def test_many_batches_are_committed_in_order(self, store: Store) -> None:
        """Each batch of a group has its answer, and sees the changes of earlier batches."""
        run, lease = accept(store), leased(store)
        steps = [
            Step(run, 0, "greet", begin=BEGIN),
            Step(run, 0, "other"),
            Step(run, 1, "note", done=True),
        ]
        answers = [
            committed(answer)
            for answer in store.commit_many([batch(step, under=lease) for step in steps])
        ]
        assert [answer.adopted for answer in answers] == [False, True, False]
        assert answers[1] == replace(answers[0], adopted=True)
        assert answers[2].number == answers[0].number + 1
        assert there(store, run).status == "done"
        assert store.commit_many([]) == []

    def test_a_refused_batch_of_many_leaves_the_others(self, store: Store) -> None:
        """A refused batch of a group gets its error as the answer. The others are committed."""
        run, lease = accept(store), leased(store)
        good = batch(Step(run, 0, "greet", begin=BEGIN, outputs=["1"]), under=lease)
        answers = store.commit_many(
            [
                batch(add("i")),
                batch(add("j"), add("i")),
                good,
                batch(Step(run, 1, "note"), epoch=lease.epoch + 1),
                replace(good, scope=BOB),
                batch(Step(run + 1, 0, "note"), under=lease),
                batch(Put(("b",), 1), base=7, scope=BOB),
                batch(PUT, base=0),
                batch(add("j"), Put(("b",), 1), base=0, under=lease),
            ]
        )
        kinds = [type(answer) for answer in answers]
        assert kinds == [
            Commit,
            DuplicateItem,
            Commit,
            StaleRun,
            Commit,
            NotFound,
            StaleRun,
            KeyBusy,
            Commit,
        ]
        numbers = [committed(answers[i]).number for i in (0, 2, 4, 8)]
        assert numbers == [1, 2, 2, 3]
        assert [item.record.id for item in store.page(NOTES)] == ["i", "j"]
        assert store.head(ADA) == 3
        assert store.node(BOB, ("b",), at=None, now=NOW) is None

    def test_what_a_refused_batch_of_many_made_is_forgotten(self, store: Store) -> None:
        """A key, set, or run begin and end of a refused batch is made by the next batch."""
        notes = SetRef(BOB, "notes")
        run, lease = accept(store, BOB), leased(store, BOB)
        step = Step(run, 0, "greet", begin=BEGIN, done=True)
        good = batch(step, scope=BOB, under=lease, release=True)
        bad = replace(good, items=[add("i", to=notes), add("i", to=notes)])
        elsewhere = Scope("another app", "bob")
        fresh = batch(add("j", to=SetRef(elsewhere, "notes")), scope=elsewhere)
        refused, first, again, other, last = store.commit_many(
            [bad, replace(good, items=[add("i", to=notes)]), bad, replace(fresh, base=7), fresh]
        )
        assert isinstance(refused, DuplicateItem)
        assert committed(again) == replace(committed(first), adopted=True)
        assert isinstance(other, StaleRun)
        assert committed(last).number == committed(first).number + 1
        assert there(store, run).now == NOW
        assert there(store, run).status == "done"
        for ref, item in ((notes, "i"), (SetRef(elsewhere, "notes"), "j")):
            assert [found.record.id for found in store.page(ref)] == [item]
            found = present(store.set_info(ref))
            assert found.items == 1
        assert store.keys("another app") == ["bob"]
        assert store.accept("helper", [QueuedInput(BOB, "1", NOW)])[0].first

    def test_refused_inputs_leave_nothing_for_others_of_their_group(self, store: Store) -> None:
        """Numbers, leases and event ids of refused inputs stay free for others of the group."""
        store.accept("helper", [queued_input("e")])
        new = Scope("app", "new")

        def play(i: int) -> int:
            kept = 0
            for j in range(20):
                try:
                    inputs = [
                        QueuedInput(new, f"{i}.{j}", NOW),
                        queued_input("e", "other" if i % 2 else "asked"),
                    ]
                    kept += store.accept("helper", inputs, owner=f"{i}")[0].number >= 0
                except IdempotencyConflict:
                    continue
            return kept

        assert at_once(4, play) == [20, 0, 20, 0]
        assert [run.number for run in store.queued_runs("helper", new)] == list(range(40))
        assert {lease.owner for lease in store.stats().leases} <= {"0", "2"}

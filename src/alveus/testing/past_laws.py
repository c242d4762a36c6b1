"""Laws of imported history (`Past`), and of stores that are closed and opened again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from alveus.errors import DuplicateItem, InvalidInput, KeyBusy, NotFound, StaleRun
from alveus.store import (
    SWEEP_AFTER_US,
    Add,
    Commit,
    Compact,
    Compaction,
    Create,
    Define,
    Definition,
    Delete,
    DurableCall,
    Link,
    Past,
    Put,
    QueuedInput,
    Replace,
    Retain,
    Retire,
    StatusChange,
    Step,
    Store,
    StoredItem,
    Undo,
)
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.testing.batches import (
    ADA,
    BOOK,
    HANDBOOK,
    NOTES,
    NOW,
    OTHERS,
    SECOND,
    Laws,
    Opener,
    add,
    batch,
    derived,
    into,
    last,
    present,
    record,
    refused,
    write,
)
from alveus.testing.item_laws import ids, info, only
from alveus.testing.reads import FAR, Follower, differences, reads, tree
from alveus.testing.run_laws import BEGIN, accept, end, leased, queued_input
from alveus.testing.search_laws import waiting

LATE = NOW + 9 * SWEEP_AFTER_US


def following(store: Store, position: int = 0) -> int:
    """Return the row at a position in the next commit."""
    return ((store.commit_at(FAR) + 1) << ROW_BITS) + position


def version(store: Store, item_id: str, *, position: int = 0, number: int = 1) -> StoredItem:
    """Return a version of an older item that the next commit begins."""
    row = following(store, position)
    made, changed = NOW - 2 * SECOND, NOW - SECOND
    begun = row >> ROW_BITS
    return StoredItem(row, row, NOTES, begun, None, number, made, changed, None, record(item_id))


def done(store: Store, *, retired: Sequence[int], added: Sequence[int]) -> Compaction:
    """Return a compaction in the next commit."""
    row = following(store)
    return Compaction(row, NOTES, row >> ROW_BITS, NOW, "{}", retired, added, 0, None)


class PastLaws(Laws):
    """Laws of `Past`, `Batch.after` and `Batch.history_start`, and of their `Effects`.

    A `Past` contains the changes that a commit of another store made to a set.
    """

    # --- versions

    def test_a_past_version_is_what_it_was(self, store: Store) -> None:
        """An imported version keeps its number, its first row and its times.

        The commit of the version is the commit of the batch with the `Past`.
        """
        write(store, add("i"))
        item = version(store, "i", position=5, number=7)
        item = replace(item, first=3 << ROW_BITS)
        write(store, Past(NOTES, [item], [only(store, "i").row]))
        kept = only(store, "i")
        assert kept == replace(item, record=replace(item.record, time=item.updated))
        assert [v.version for v in store.versions(NOTES, "i")] == [1, 7]
        assert info(store).items == 1

    def test_a_past_makes_its_set(self, store: Store) -> None:
        """A `Past` for a missing set makes the set, with the default definition."""
        write(store, Past(NOTES, [version(store, "i")]))
        assert (info(store).definition, ids(store.page(NOTES))) == (Definition(), ["i"])

    def test_versions_that_ended_in_their_commit_were_live_at_none(self, store: Store) -> None:
        """Versions that begin and end in one commit were never live. Their successors are live."""
        one, two = version(store, "i"), version(store, "i", position=3, number=2)
        number = write(store, Past(NOTES, [one, two], [one.row])).number
        assert [v.end_commit for v in store.versions(NOTES, "i")] == [number, None]
        assert [item.version for item in store.page(NOTES, at=number)] == [2]
        found = present(store.effects(number))
        assert [i.row for i in found.begun_items] == [one.row, two.row]
        assert [i.row for i in found.ended_items] == [one.row]

    def test_a_follower_keeps_up_with_a_past(self, store: Store) -> None:
        """The change log contains the versions of a `Past`, whatever positions they have."""
        follower = Follower()
        write(store, add("i"))
        follower.catch_up(store)
        begun = [version(store, "i", position=2, number=2), version(store, "j", position=9)]
        write(store, Past(NOTES, begun, [only(store, "i").row]))
        follower.catch_up(store)
        assert follower.agrees_with(store)

    def test_no_capacity_holds_a_past(self, store: Store) -> None:
        """No capacity applies to the versions of a `Past`."""
        write(store, Define(NOTES, Definition(capacity=1, compaction="reject")))
        write(store, Past(NOTES, [version(store, "i"), version(store, "j", position=1)]))
        assert info(store).items == 2

    def test_a_past_that_cannot_be_is_refused(self, store: Store) -> None:
        """Rows of other commits or sets, unordered rows, and wrong versions are refused."""
        write(store, add("i"), add("gone"))
        write(store, Retire(NOTES, "gone", 1))
        ended = store.versions(NOTES, "gone")[0].row
        new = version(store, "new")
        early = replace(new, row=new.row - 1)
        others = replace(new, set=OTHERS)
        for past in (
            Past(NOTES, [early]),
            Past(NOTES, [version(store, "new", position=1), version(store, "k")]),
            Past(NOTES, [others]),
            Past(NOTES, compactions=[replace(done(store, retired=[], added=[]), id=early.row)]),
        ):
            refused(store, InvalidInput, past)
        refused(store, InvalidInput, Past(NOTES, [version(store, "gone")]))
        refused(store, DuplicateItem, Past(NOTES, [new, version(store, "i", position=1)]))
        for row in (ended, 1 << 50):
            refused(store, NotFound, Past(NOTES, [new], [row]))
        refused(store, NotFound, Past(OTHERS, ended_rows=[only(store, "i").row]))
        refused(store, NotFound, Past(NOTES, [new], undone_compactions=[1 << 50]))

    # --- lineage

    def test_a_past_has_the_links_it_is_given(self, store: Store) -> None:
        """A `Past` makes each of its links once, also links of earlier versions.

        Links to swept rows are skipped.
        """
        write(store, add("i"), add("j"))
        i, j = only(store, "i").row, only(store, "j").row
        new = version(store, "new")
        links = [(new.row, i), (new.row, 77), (77, i), (j, i)]
        write(store, Past(NOTES, [new], links=links))
        write(store, Past(NOTES, links=[(j, i)]))
        assert store.source_links([77, j, new.row]) == [(j, i), (new.row, i)]
        assert store.derived_links([i]) == [(j, i), (new.row, i)]

    def test_a_past_compaction_is_one(self, store: Store) -> None:
        """An imported compaction is listed with its remaining versions, and can be undone once."""
        write(store, add("i"))
        i, made = only(store, "i").row, version(store, "sum")
        recorded = replace(done(store, retired=[i], added=[made.row]), erased=2)
        write(store, Past(NOTES, [made], [i], [(made.row, i)], [recorded]))
        assert store.compactions(NOTES) == [recorded]
        number = write(store, Past(NOTES, undone_compactions=[recorded.id])).number
        assert store.compaction(recorded.id) == replace(recorded, undo_commit=number)
        again = replace(done(store, retired=[i], added=[made.row]), purged=True)
        write(store, Past(NOTES, compactions=[again]))
        assert store.compaction(again.id) == again

    def test_a_past_compaction_can_be_undone(self, store: Store) -> None:
        """Undoing an imported compaction restores the items that the compaction retired."""
        write(store, add("i"))
        i, made = only(store, "i").row, version(store, "sum")
        recorded = done(store, retired=[i], added=[made.row])
        write(store, Past(NOTES, [made], [i], compactions=[recorded]))
        write(store, Undo(NOTES, recorded.id))
        assert ids(store.page(NOTES)) == ["i"]

    # --- the start of a complete past

    @pytest.mark.parametrize("start", [NOW, -NOW])
    def test_a_past_says_from_when_on_it_is_whole(self, store: Store, start: int) -> None:
        """History has a start: for a set a commit, for a tree a commit and a time.

        The start never moves back.
        """
        for floor in (7, 5):
            write(store, Past(NOTES, history_start=floor))
            store.commit(batch(history_start=(floor, start + floor)))
        store.commit(batch(history_start=(5, 0)))
        assert (info(store).history_start, store.history_start(ADA)) == (7, (7, start + 7))

    def test_a_refused_batch_moves_no_start(self, store: Store) -> None:
        """A refused batch moves the start of no set and no tree."""
        write(store, add("i"), Put(("a",), 1))
        past = Past(NOTES, history_start=5, undone_compactions=[99])
        refused(store, NotFound, batch(past, history_start=(5, NOW)))
        assert (info(store).history_start, store.history_start(ADA)) == (0, (0, 0))

    # --- directly after

    def test_a_batch_may_have_to_come_directly_after_another(self, store: Store) -> None:
        """A batch may name the commit that must directly precede it.

        0 means it must be the first.
        """
        after: list[Commit] = [store.commit(batch(add("i"), after=0))]
        after.append(store.commit(batch(add("j"), after=after[0].number)))
        for number in (0, after[0].number, after[1].number + 1):
            error = refused(store, StaleRun, batch(add("k"), after=number))
            assert (error.expected, error.found) == (number, after[1].number)

    # --- effects

    def test_effects_say_how_nodes_got_their_positions(self, store: Store) -> None:
        """A replaced value keeps its position; a new node gets a position of its commit."""
        one = write(store, Put(("a",), 1), Put(("b",), 1)).number
        two = write(store, Put(("c",), 1), Put(("a",), 2)).number
        found, earlier = present(store.effects(two)), present(store.effects(one))
        assert [path for path, _ in found.put_nodes] == [("a",), ("c",)]
        assert [position >> ROW_BITS for position in found.positions] == [one, two]
        assert found.positions[0] == earlier.positions[0]
        assert list(found.positions) == sorted(found.positions)

    def test_effects_say_when_nodes_ended(self, store: Store) -> None:
        """Effects name the commit that replaced or deleted each node, also with its object."""
        one = write(
            store, Create(("o",)), Put(("o", "x"), 1), Put(("a",), 1), Put(("b",), 1)
        ).number
        two = write(store, Put(("a",), 2)).number
        three = write(store, Delete(("o",))).number
        found = present(store.effects(one))
        ends = dict(zip((path for path, _ in found.put_nodes), found.end_commits, strict=True))
        assert ends == {("o",): three, ("o", "x"): three, ("a",): two, ("b",): None}

    def test_effects_name_compactions(self, store: Store) -> None:
        """Effects name the compactions that a commit did, and the compactions that it undid."""
        write(store, add("i"), add("j"))
        both = write(store, into("sum", "i"), Compact(NOTES, [("j", 1)], [derived("s")], "{}"))
        kept = store.compactions(NOTES)
        undo = write(store, Undo(NOTES, kept[0].id)).number
        found, other = present(store.effects(both.number)), present(store.effects(undo))
        assert [c.id for c in found.compactions] == sorted(c.id for c in kept)
        assert (list(found.undone_compactions), list(other.compactions)) == ([], [])
        assert list(other.undone_compactions) == [last(store).id]

    # --- placeholders

    def test_what_stands_for_another_is_in_no_read(self, store: Store) -> None:
        """No read shows a placeholder node. A value that replaces it takes its position."""
        one = write(store, Put(("a",), 0, PLACEHOLDER_EXPIRY), Put(("b",), 1)).number
        for at in (None, one):
            assert [path for path, _ in tree(store, ADA, now=NOW, at=at)] == [("b",)]
            assert store.node(ADA, ("a",), at=at, now=NOW) is None
        write(store, Put(("a",), 1))
        assert [name for name, _ in store.children(ADA, (), at=None, now=NOW)] == ["a", "b"]

    def test_no_sweep_takes_what_stands_for_another(self, store: Store) -> None:
        """No sweep removes a placeholder: an item with its position may arrive late."""
        write(
            store, Put(("a",), 0, PLACEHOLDER_EXPIRY), Put(("b",), 1), Put(("c",), 1, NOW + SECOND)
        )
        assert store.sweep(now=LATE) == 1
        assert store.history_start(ADA) == (0, NOW + SECOND)
        write(store, Put(("a",), 1))
        assert [name for name, _ in store.children(ADA, (), at=None, now=NOW)] == ["a", "b"]

    def test_pruning_what_stood_for_another_loses_nothing(self, store: Store) -> None:
        """A replaced placeholder is pruned, and no moment of the past is lost."""
        one = write(store, Put(("a",), 0, PLACEHOLDER_EXPIRY)).number
        two = write(store, Put(("a",), 1)).number
        store.commit(batch(add("i"), time=LATE))
        assert store.prune_history(before=LATE) == (1, None)
        assert store.history_start(ADA) == (0, 0)
        assert tree(store, ADA, now=NOW, at=one) == []
        assert [path for path, _ in tree(store, ADA, now=NOW, at=two)] == [("a",)]

    def test_what_stood_for_another_is_not_among_the_removed(self, store: Store) -> None:
        """A placeholder never existed, so it is not among the removed nodes."""
        one = write(store, Put(("a",), 0, PLACEHOLDER_EXPIRY)).number
        two = write(store, Delete(("a",))).number
        found, other = present(store.effects(one)), present(store.effects(two))
        assert [(path, node.expires) for path, node in found.put_nodes] == [
            (("a",), PLACEHOLDER_EXPIRY)
        ]
        assert list(other.removed_paths) == []


def furnish(store: Store) -> None:
    """Fill a store with data of every kind."""
    write(store, Put(("a",), float("nan")), Create(("o",)), Put(("o", "x"), 1, NOW + SECOND))
    write(store, Define(NOTES, Definition(capacity=9)), add("i"), Add(NOTES, waiting("w")))
    write(store, Delete(("a",)), Replace(NOTES, 1, record("i", "new")), add("page", to=BOOK))
    store.commit(batch(Retire(BOOK, "page", 1), scope=HANDBOOK, op=b"op", result=[1]))
    summary = Add(NOTES, record("sum"), links=[Link(NOTES, "c"), Link(NOTES, "i")], accessed=NOW)
    write(store, add("c"), Compact(NOTES, [("c", 1)], [summary], '{"by": "hand"}'))
    store.put_note("n", "noted", expected=None)


class PersistenceLaws(Laws):
    """Laws of a closed and reopened store."""

    def test_all_is_there_after_a_close(self, store: Store, path: Path, opened: Opener) -> None:
        """After a close, every read of the present and the past is the same."""
        furnish(store)
        before, salt, seq = reads(store, now=NOW), store.salt(), store.seq()
        store.close()
        again = opened(path)
        assert not differences(before, reads(again, now=NOW))
        assert (again.salt(), again.seq(), again.note("n")) == (salt, seq, "noted")

    def test_numbers_go_on(self, store: Store, path: Path, opened: Opener) -> None:
        """Numbers of commits, rows and lines are never reused, and time does not go back."""
        furnish(store)
        number, seq, row = store.commit_at(FAR), store.seq(), only(store, "i").row
        write(store, Retire(NOTES, "i", 2), time=NOW + SECOND)
        store.close()
        again = opened(path)
        commit = write(again, add("new"))
        assert commit.number > number
        assert commit.time == NOW + SECOND
        assert only(again, "new").row > row
        assert again.seq() > seq

    def test_a_compaction_is_undone_after_a_close(
        self, store: Store, path: Path, opened: Opener
    ) -> None:
        """After a close, an undo restores retired items unchanged."""
        furnish(store)
        was, done = store.versions(NOTES, "c")[0], store.compactions(NOTES)[0]
        store.close()
        again = opened(path)
        assert again.compactions(NOTES) == [done]
        assert [row for row, _ in again.derived_links([was.row])] == list(done.added)
        write(again, Undo(NOTES, done.id))
        found = only(again, "c")
        assert replace(was, row=0, version=2, begin_commit=0, end_commit=None) == replace(
            found, row=0, begin_commit=0
        )
        assert again.get(NOTES, ["sum"]) == [None]

    def test_an_op_is_known_after_a_close(self, store: Store, path: Path, opened: Opener) -> None:
        """After a close, a repeated op is adopted."""
        furnish(store)
        store.close()
        again = opened(path)
        answer = again.commit(batch(add("x"), op=b"op"))
        assert (answer.adopted, answer.result) == (True, [1])

    def test_touches_are_flushed_by_a_close(self, store: Store, path: Path, opened: Opener) -> None:
        """A close keeps all touches. A kill may lose some."""
        furnish(store)
        store.touch([only(store).first], time=NOW + SECOND)
        store.close()
        again = opened(path)
        assert only(again).accessed == NOW + SECOND

    def test_a_follower_goes_on_after_a_close(
        self, store: Store, path: Path, opened: Opener
    ) -> None:
        """After a close, the change log continues."""
        furnish(store)
        follower = Follower()
        follower.catch_up(store)
        store.close()
        again = opened(path)
        write(again, Retire(NOTES, "w", 1), add("j"))
        follower.catch_up(again)
        assert follower.agrees_with(again)

    def test_the_owners_of_a_closed_handle_are_dead(
        self, store: Store, path: Path, opened: Opener
    ) -> None:
        """A close ends the owners of a handle: their leases can be taken over at once."""
        before = present(store.acquire_lease(ADA, "one"))
        store.close()
        again = opened(path)
        assert present(again.acquire_lease(ADA, "two")).epoch > before.epoch

    def test_runs_go_on_after_a_close(self, store: Store, path: Path, opened: Opener) -> None:
        """After a close, inputs, steps, calls, outputs and consumers exist; numbers continue."""
        first, second = (
            a.run or 0 for a in store.accept("helper", [queued_input("e"), queued_input("f")])
        )
        lease = leased(store)
        call = DurableCall(first, 0, 0, "fetch", "digest", "pending", begin=BEGIN)
        store.commit(batch(call, under=lease))
        step = Step(first, 0, "greet", sensory="1", outputs=["1"])
        work = batch(step, under=lease)
        commit = store.commit(work)
        store.consumer_position("helper", "app", "mail")
        store.advance_consumer("helper", "app", "mail", 3)
        before = [store.runs("app"), store.steps(first), store.outputs("helper", "app")]
        store.close()
        again = opened(path)
        after = [again.runs("app"), again.steps(first), again.outputs("helper", "app")]
        assert after == before
        assert again.durable_calls(first, 0) == [replace(call, begin=None)]
        assert again.consumer_position("helper", "app", "mail") == 3
        assert again.commit(work) == replace(commit, adopted=True)
        assert again.accept("helper", [queued_input("e")])[0].run == first
        third = again.accept("helper", [QueuedInput(ADA, "3", NOW)])[0]
        assert (third.number, third.first) == (2, False)
        assert (third.run or 0) > second
        heir = leased(again, owner="two")
        refused(again, StaleRun, batch(Step(first, 1, "note"), under=lease))
        again.commit(batch(Step(first, 1, "note", done=True), under=heir))
        assert [found.sensory for found in again.steps(first)] == [None, None]
        assert [run.id for run in again.queued_runs("helper", ADA)] == [second, third.run]

    def test_no_id_of_a_run_is_used_twice(self, store: Store, path: Path, opened: Opener) -> None:
        """The id of a run is never reused, even if the last run was pruned."""
        run = accept(store)
        end(store, run)
        store.prune_runs("helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW)
        store.close()
        again = opened(path)
        assert accept(again) > run
        assert [found.number for found in again.runs("app")] == [1]

    def test_two_handles_serve_one_lane(self, store: Store, path: Path, opened: Opener) -> None:
        """Two handles see each other's inputs, steps, parked runs and pruning, despite caches."""
        other = opened(path)
        ids = [accept(each) for each in (store, other, store)]
        lease = leased(store)
        step = Step(ids[0], 0, "greet", begin=BEGIN, outputs=["1"])
        work = batch(step, Put(("a",), 1), under=lease, base=0)
        store.commit(work)
        assert other.commit(work).adopted
        refused(other, KeyBusy, Put(("a",), 2))
        other.commit(batch(StatusChange(ids[0], "waiting", "parked", '"why"')))
        refused(store, StaleRun, batch(Step(ids[0], 1, "note"), under=lease))
        assert other.retry_run(ids[0], last=True, time=NOW) > ids[2]
        assert store.accept("helper", [QueuedInput(ADA, "5", NOW)])[0].number == 4
        store.release_lease(lease)
        present(other.accept("helper", [QueuedInput(ADA, "6", NOW)], owner="two")[0].lease)
        assert store.acquire_lease(ADA, "one") is None
        other.prune_runs("helper", "app", Retain(age=timedelta(microseconds=0)), now=NOW)
        refused(store, NotFound, batch(StatusChange(ids[0], "waiting", "parked")))
        for each in (store, other):
            assert [run.number for run in each.queued_runs("helper", ADA)] == [1, 2, 3, 4, 5]

    def test_another_handle_sees_every_commit(
        self, store: Store, path: Path, opened: Opener
    ) -> None:
        """Each of two handles sees every commit of the other handle, although both cache."""
        other = opened(path)
        furnish(store)
        assert not differences(reads(store, now=NOW), reads(other, now=NOW))
        write(other, Put(("b",), 1), add("j"), Define(BOOK, Definition(capacity=1), replace=True))
        write(store, Put(("c",), 1), add("k", to=BOOK), add("l", to=BOOK))
        assert not differences(reads(store, now=NOW), reads(other, now=NOW))
        assert other.acquire_lease(ADA, "one") is not None
        assert store.acquire_lease(ADA, "two") is None

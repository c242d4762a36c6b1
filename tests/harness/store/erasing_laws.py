"""Laws of forgetting: erased from every read of every time, and from runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alveus.errors import (
    AlveusError,
    Forgotten,
    IdempotencyConflict,
    KeyBusy,
    NotFound,
    SetMoved,
    StaleItem,
    StaleRun,
)
from alveus.store import (
    SWEEP_AFTER_US,
    Add,
    Begin,
    Commit,
    Compact,
    Define,
    Definition,
    DurableCall,
    Erased,
    Erasure,
    Link,
    NamedRequest,
    Put,
    QueuedInput,
    Replace,
    Retire,
    SetRef,
    StatusChange,
    Step,
    Store,
    Undo,
)
from alveus.testing.batches import (
    ADA,
    BOB,
    BOOK,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    Laws,
    add,
    batch,
    present,
    record,
    refused,
    write,
)
from alveus.testing.reads import FAR, reads
from alveus.testing.run_laws import there


def forget(store: Store, *ids: str, ref: SetRef = NOTES, receipt: str = "one") -> Erased:
    """Erase items of a set."""
    return store.erase(Erasure(ref.scope, NOW, receipt, items=[(ref, ids)]))


def forget_key(store: Store, receipt: str = "one", *, rehearse: bool = False) -> Erased:
    """Erase the key "ada"."""
    return store.erase(Erasure(ADA, NOW, receipt, whole_key=True, dry_run=rehearse))


def sum_up(store: Store, made: str, *sources: str, ref: SetRef = NOTES) -> int:
    """Compact *sources* into one item. Return the id of the compaction."""
    live = [item for item in store.get(ref, sources) if item is not None]
    links = [Link(ref, item_id) for item_id in sources]
    retired = [(item.record.id, item.version) for item in live]
    how = '{"strategy":"sum","topic":"secret"}'
    write(store, Compact(ref, retired, [Add(ref, record(made), links=links)], how), scope=ref.scope)
    return store.compactions(ref)[0].id


def ids(store: Store, ref: SetRef = NOTES) -> list[str]:
    """Return the ids of the live items."""
    return sorted(item.record.id for item in store.page(ref))


def run_of(store: Store, *, event: str = '"secret"', agent: str = "helper") -> int:
    """Accept an input of the key "ada"."""
    given = QueuedInput(ADA, event, NOW, event.encode(), b"asked", "it")
    return present(store.accept(agent, [given])[0].run)


def step(
    store: Store, run: int, ordinal: int = 0, *, read_set: str | None = None, done: bool = True
) -> Commit:
    """Commit a step of a run that adds an item, sends an event, and writes an output."""
    lease = present(store.acquire_lease(ADA, "worker"))
    told = Step(
        run, ordinal, "greet", sent='["secret"]', sensory='["secret"]', read_set=read_set,
        outputs=['"secret out"'], begin=Begin(NOW, ("greet",)), done=done,
    )  # fmt: skip
    changes = (told, Put(("seen",), ordinal), add(f"by {run} {ordinal}"))
    return store.commit(batch(*changes, under=lease, base=store.head(ADA), release=done))


class ErasingLaws(Laws):
    """Erased data is in no read, and nothing brings it back."""

    # --- names

    def test_an_erasure_takes_its_name_with_it(self, store: Store) -> None:
        """A repeated erasure of one name erases nothing. A commit with that name adopts it."""
        write(store, add("i"), add("j"))
        named = NamedRequest(b"erase", b"i", "erase")
        asked = Erasure(ADA, NOW, "one", items=[(NOTES, ["i"])], named=named)
        erased = store.erase(asked)
        assert store.erase(asked) == erased
        done = present(store.commit_of_op(b"erase", request=b"i", label="erase"))
        assert done.number == erased.commit
        assert store.erase(replace(asked, receipt="two", items=[(NOTES, ["j"])])).commit is None
        other = replace(asked, receipt="two", named=replace(named, request=b"j"))
        for repeated in (
            lambda: store.erase(other),
            lambda: store.commit_of_op(b"erase", request=b"j", label="erase"),
        ):
            with pytest.raises(IdempotencyConflict):
                repeated()
        assert ids(store) == ["j"]

    # --- items

    def test_an_erased_item_is_in_no_read_of_any_time(self, store: Store) -> None:
        """All versions of an erased item disappear from all reads. Other data stays."""
        write(store, add("i"), add("j"))
        write(store, Replace(NOTES, 1, record("i", "newer")))
        write(store, Retire(NOTES, "i", 2))
        rows = [item.row for item in store.versions(NOTES, "i")]
        info = present(store.set_info(NOTES))
        erased = forget(store, "i")
        assert erased.counts == {"items": 1, "versions": 2}
        assert store.versions(NOTES, "i") == []
        assert all(store.get(NOTES, ["i"], at=n) == [None] for n in range(1, 5))
        assert store.items_by_row(rows) == store.features_of(info.number, rows) == []
        assert all(item.record.id == "j" for n in range(1, 5) for item in store.page(NOTES, at=n))
        assert [item.record.id for item in store.all_versions(NOTES)] == ids(store) == ["j"]
        found = [store.effects(n) for n in range(1, 5)]
        assert [[i.record.id for i in e.begun_items] for e in found if e] == [["j"], [], [], []]
        assert [len(e.ended_items) for e in found if e] == [0, 0, 0, 0]

    def test_the_change_log_says_what_is_gone(self, store: Store) -> None:
        """The change log lists erased rows, so that caches drop them."""
        write(store, add("i"))
        row, seq = store.versions(NOTES, "i")[0].row, store.seq()
        forget(store, "i")
        assert [(c.row, c.kind) for c in store.changes(seq) or ()] == [(row, "removed")]

    def test_nothing_to_erase_is_no_commit(self, store: Store) -> None:
        """An erasure of nothing makes no commit and no receipt, nor does a repeated erasure."""
        write(store, add("i"))
        forget(store, "i")
        before = reads(store, now=NOW)
        assert forget(store, "i", "nobody", receipt="two") == Erased(None, NOW)
        assert forget(store, "i", ref=SetRef(BOB, "notes"), receipt="two").commit is None
        assert reads(store, now=NOW) == before
        assert [kept.id for kept in store.receipts(["space app"])] == ["one"]

    def test_an_erasure_is_a_commit_with_a_receipt(self, store: Store) -> None:
        """An erasure is a commit with a receipt. A repetition gets the same receipt."""
        last = write(store, add("i")).number
        erased = forget(store, "i")
        assert erased.commit is not None
        assert erased.commit > last
        kept = present(store.receipt("one"))
        assert (kept.id, kept.owner, kept.erased, kept.state) == (
            "one", "space app", erased, "erased",
        )  # fmt: skip
        assert forget(store, "i") == erased
        assert store.receipts(["space other", "knowledge app"]) == []
        assert store.receipt("two") is None
        effects = present(store.effects(erased.commit))
        assert (effects.put_nodes, effects.begun_items, effects.ended_items) == ([], [], [])

    def test_a_rehearsal_changes_nothing(self, store: Store) -> None:
        """A rehearsal changes nothing, and returns the counts of the real erasure."""
        write(store, Put(("a",), 1), add("i"), add("j"))
        sum_up(store, "s", "i", "j")
        step(store, run_of(store))
        before = reads(store, now=NOW)
        asked = Erasure(ADA, NOW, "one", items=[(NOTES, ["i"])], dry_run=True)
        some, whole = store.erase(asked), forget_key(store, rehearse=True)
        assert reads(store, now=NOW) == before
        assert store.receipts(["space app"]) == []
        assert some.counts == forget(store, "i").counts
        assert whole.commit is None
        assert whole.counts["runs"] == 1

    def test_an_id_may_be_used_again(self, store: Store) -> None:
        """A reused id starts again, without a past."""
        write(store, add("i", "old"))
        forget(store, "i")
        refused(store, StaleItem, Replace(NOTES, 1, record("i", "old and more")))
        write(store, add("i", "new"))
        assert [v.record.text for v in store.versions(NOTES, "i")] == ["new"]

    def test_an_op_whose_result_was_erased_says_so(self, store: Store) -> None:
        """A repeated op with an erased result is not done again, and the error says so."""
        store.commit(batch(add("i"), op=b"op", request=b"asked", label="order", result=["i"]))
        forget(store, "i")
        with pytest.raises(Forgotten, match="order"):
            store.commit(batch(add("i"), op=b"op", request=b"asked", label="order"))
        with pytest.raises(Forgotten):
            store.commit_of_op(b"op", request=b"other", label="order")
        assert present(store.effects(1)).commit.result is None

    def test_forgetting_reaches_past_what_was_purged_on_the_way(self, store: Store) -> None:
        """Forgetting reaches summaries of summaries, edits, and items derived into knowledge."""
        keeps = Definition(retention="purge")
        write(store, Define(NOTES, keeps), *map(add, "abcd"))
        sum_up(store, "ab", "a", "b")
        store.sweep(now=NOW + SECOND)
        write(store, Replace(NOTES, 1, record("ab", "edited")))
        sum_up(store, "abc", "ab", "c")
        write(store, Add(BOOK, record("lesson"), links=[Link(NOTES, "abc")]))
        store.sweep(now=NOW + SECOND)
        assert store.versions(NOTES, "ab") == []
        assert forget(store, "nobody").commit is None
        erased = forget(store, "a", receipt="two")
        assert (erased.counts["items"], erased.derived) == (2, 2)
        assert (ids(store), store.versions(BOOK, "lesson")) == (["d"], [])
        assert forget(store, "a", "ab", receipt="three").commit is None

    def test_a_key_takes_with_it_what_came_of_its_purged_items(self, store: Store) -> None:
        """Knowledge derived from purged items of a key is erased with the key."""
        write(store, Define(NOTES, Definition(retention="purge")), add("a"))
        lesson = Add(BOOK, record("lesson"), links=[Link(NOTES, "a")])
        write(store, lesson, Add(BOOK, record("kept")))
        write(store, Retire(NOTES, "a", 1))
        store.sweep(now=NOW + SECOND)
        assert store.versions(NOTES, "a") == []
        assert forget_key(store).derived == 1
        assert ids(store, BOOK) == ["kept"]

    def test_an_answer_that_names_what_is_gone_goes_too(self, store: Store) -> None:
        """A stored answer that names an erased item is erased. One about a kept item stays."""
        other, second = SetRef(ADA, "other"), SetRef(BOB, "notes")
        write(store, add("i"))
        store.commit(batch(op=b"kept", request=b"asked", label="again", result={"ids": ["i"]}))
        store.commit(batch(add("i", to=other), op=b"other", request=b"", label="x", result=["i"]))
        theirs = batch(add("i", to=second), op=b"theirs", request=b"", label="x", result=["i"])
        store.commit(replace(theirs, scope=BOB))
        assert forget(store, "i").counts["commits"] == 1
        with pytest.raises(Forgotten, match="again"):
            store.commit_of_op(b"kept", request=b"asked", label="again")
        for op in (b"other", b"theirs"):
            assert present(store.commit_of_op(op, request=b"", label="x")).result == ["i"]

    def test_answers_of_others_about_what_goes_with_a_key_go_too(self, store: Store) -> None:
        """Answers of other keys about knowledge derived from the key are erased too."""
        write(store, add("i"))
        derived = Add(BOOK, record("lesson"), links=[Link(NOTES, "i")])
        store.commit(batch(derived, op=b"made", request=b"", label="x", result=["lesson"]))
        late = batch(op=b"late", request=b"", label="late", result=["lesson"])
        store.commit(replace(late, scope=HANDBOOK))
        assert forget_key(store).derived == 1
        with pytest.raises(Forgotten, match="late"):
            store.commit_of_op(b"late", request=b"", label="late")

    def test_vectors_of_what_is_gone_are_not_kept(self, store: Store) -> None:
        """Vectors for erased items, computed meanwhile, are not stored."""
        write(store, add("i"), add("j"))
        info = present(store.set_info(NOTES))
        gone, kept = (store.versions(NOTES, item_id)[0].row for item_id in ("i", "j"))
        forget(store, "i")
        store.stage_vectors([(info.number, gone, b"\1"), (info.number, kept, b"\1")])
        store.store_vectors([(info.number, gone, b"\1")])
        store.use_staged_vectors([info.number], notes=[])
        assert store.features_of(info.number, [gone]) == []
        assert [f.vectors for f in store.features_of(info.number, [kept])] == [b"\1"]

    # --- what was derived

    def test_what_was_derived_goes_too(self, store: Store) -> None:
        """Derived items are erased at any depth, in knowledge too. Their other sources return."""
        write(store, *(add(item_id) for item_id in "abcd"))
        sum_up(store, "ab", "a", "b")
        sum_up(store, "abc", "ab", "c")
        write(store, Add(BOOK, record("lesson"), links=[Link(NOTES, "abc")]))
        assert ids(store) == ["abc", "d"]
        before = store.versions(NOTES, "b")[0]
        erased = forget(store, "a")
        assert (erased.derived, erased.restored, erased.lost) == (3, 2, 0)
        assert ids(store) == ["b", "c", "d"]
        assert ids(store, BOOK) == []
        again = present(store.get(NOTES, ["b"])[0])
        assert (again.version, again.first, again.record) == (2, before.first, before.record)
        assert tuple(erased.marks) == (NOTES,)

    def test_a_compaction_counts_as_undone_by_it(self, store: Store) -> None:
        """A compaction with an erased result counts as undone, and its description is erased."""
        write(store, add("a"), add("b"))
        done = sum_up(store, "s", "a", "b")
        erased = forget(store, "a")
        found = present(store.compaction(done))
        assert (found.undo_commit, found.how, found.added) == (erased.commit, "{}", [])
        with pytest.raises(AlveusError, match="undone"):
            write(store, Undo(NOTES, done))

    def test_sources_of_a_forgotten_summary_come_back_by_an_undo(self, store: Store) -> None:
        """The sources of a forgotten summary stay retired, and an undo can restore them."""
        write(store, add("a"), add("b"))
        done = sum_up(store, "s", "a", "b")
        assert forget(store, "s").restored == 0
        assert ids(store) == []
        found = present(store.compaction(done))
        assert (found.undo_commit, found.how, found.added) == (None, "{}", [])
        write(store, Undo(NOTES, done))
        assert ids(store) == ["a", "b"]

    def test_the_rest_of_a_compaction_can_still_be_undone(self, store: Store) -> None:
        """The rest of a compaction can be undone. Sources that have returned stay unchanged."""
        write(store, *(add(item_id) for item_id in "abcd"))
        live = store.get(NOTES, list("abcd"))
        retired = [(item.record.id, item.version) for item in live if item is not None]
        added = [
            Add(NOTES, record("ab"), links=[Link(NOTES, "a"), Link(NOTES, "b")]),
            Add(NOTES, record("cd"), links=[Link(NOTES, "c"), Link(NOTES, "d")]),
        ]
        write(store, Compact(NOTES, retired, added, "{}"))
        done = store.compactions(NOTES)[0]
        forget(store, "a")
        assert ids(store) == ["b", "cd"]
        write(store, Undo(NOTES, done.id))
        assert ids(store) == ["b", "c", "d"]

    def test_what_was_made_of_a_purged_item_goes_still(self, store: Store) -> None:
        """An item derived from a purged item is erased. The receipt counts the lost source."""
        write(store, Define(NOTES, Definition(retention="purge")), *map(add, "abc"))
        live = store.get(NOTES, list("ab"))
        retired = [(item.record.id, item.version) for item in live if item is not None]
        made = replace(record("s"), sources=["a", "b"])
        links = [Link(NOTES, "a"), Link(NOTES, "b")]
        write(store, Compact(NOTES, retired, [Add(NOTES, made, links=links)], "{}"))
        store.sweep(now=NOW + SECOND)
        assert store.versions(NOTES, "a") == []
        erased = forget(store, "a")
        assert (erased.derived, erased.restored, erased.lost) == (1, 0, 1)
        assert ids(store) == ["c"]
        assert forget(store, "a", receipt="two").commit is None

    def test_what_was_deleted_does_not_come_back(self, store: Store) -> None:
        """Retired sources return only from a compaction, and only if nothing used them since."""
        write(store, *(add(item_id) for item_id in "abc"))
        write(store, Add(NOTES, record("s"), links=[Link(NOTES, i) for i in "abc"]))
        write(store, Retire(NOTES, "b", 1))
        erased = forget(store, "a")
        assert (erased.derived, erased.restored) == (1, 0)
        assert ids(store) == ["c"]

    def test_a_source_that_is_live_again_stays_as_it_is(self, store: Store) -> None:
        """A source that is live again after an undo stays unchanged."""
        write(store, add("a"), add("b"))
        write(store, Undo(NOTES, sum_up(store, "s", "a", "b")))
        assert forget(store, "a").restored == 0
        expected = [(1, False), (2, True)]
        assert [(v.version, v.end_commit is None) for v in store.versions(NOTES, "b")] == expected

    def test_an_edited_summary_is_derived_still(self, store: Store) -> None:
        """Every version of an edited summary is erased."""
        write(store, add("a"), add("b"))
        sum_up(store, "s", "a", "b")
        write(store, Replace(NOTES, 1, record("s", "edited")))
        assert forget(store, "a").counts["versions"] == 3
        assert store.versions(NOTES, "s") == []

    def test_an_undo_is_of_what_was_there_when_it_was_made(self, store: Store) -> None:
        """An undo planned before an erasure is refused. A new one restores the rest."""
        write(store, add("i"), add("j"))
        retired = [("i", 1), ("j", 1)]
        write(store, Compact(NOTES, retired, [], "{}"))
        done = store.compactions(NOTES)[0].id
        forget(store, "i")
        refused(store, SetMoved, Undo(NOTES, done, erased=0))
        assert ids(store) == []
        write(store, Undo(NOTES, done, erased=1))
        assert ids(store) == ["j"]

    # --- a whole key

    def test_a_forgotten_key_has_no_past_that_was_pruned(self, store: Store) -> None:
        """A forgotten key starts with a complete past."""
        write(store, Put(("a",), 1))
        write(store, Put(("a",), 2))
        write(store, Put(("a",), 3), time=NOW + 3 * SWEEP_AFTER_US)
        assert store.prune_history(before=NOW + SECOND)[0] == 1
        assert store.history_start(ADA) != (0, 0)
        forget_key(store)
        assert store.history_start(ADA) == (0, 0)
        write(store, Put(("b",), 1), time=NOW + 3 * SWEEP_AFTER_US)
        assert store.history_start(ADA) == (0, 0)

    def test_nothing_is_read_of_a_forgotten_key(self, store: Store) -> None:
        """A forgotten key is in no listing. Other keys and knowledge stay unchanged."""
        write(store, Put(("a",), 1), add("i"))
        write(store, add("k", to=SetRef(BOB, "notes")), Put(("b",), 1), scope=BOB)
        write(store, add("h", to=BOOK))
        run = run_of(store)
        step(store, run)
        waits = run_of(store, event='"waits"')
        erased = forget_key(store)
        assert erased.counts.keys() >= {"nodes", "items", "sets", "commits", "runs", "steps"}
        assert erased.shared == 1
        assert store.keys("app") == ["bob"]
        assert store.set_infos(ADA) == store.all_sets(ADA) == []
        last = store.commit_at(FAR)
        for at in (None, *range(1, last + 1)):
            assert store.children(ADA, (), at=at, now=NOW) == []
            assert store.get(NOTES, ["i"], at=at) == [None]
        assert ids(store, BOOK) == ["h"]
        assert ids(store, SetRef(BOB, "notes")) == ["k"]
        for number in (run, waits):
            row = there(store, number)
            assert (row.event, row.error, row.forgotten) == ("", None, True)
            assert row.scope.key != "ada"
            assert (
                store.steps(number)
                == store.durable_calls(number, 0)
                == store.run_outputs(number)
                == []
            )
        assert [there(store, n).status for n in (run, waits)] == ["done", "discarded"]
        assert "'ada'" not in repr([store.effects(n) for n in range(1, last + 1)])
        assert (
            store.queued_runs("helper", ADA)
            == store.waiting_lanes("helper", "app", past_parked=True)
            == []
        )

    def test_a_forgotten_key_may_be_used_again(self, store: Store) -> None:
        """A reused forgotten key is empty. Numbers of its runs and commits continue."""
        write(store, Put(("a",), 1), add("i"))
        run_of(store)
        erased = forget_key(store)
        assert store.head(ADA) == erased.commit
        write(store, Put(("b",), 2), add("i", "new"))
        assert store.keys("app") == ["ada"]
        assert [name for name, _ in store.children(ADA, (), at=None, now=NOW)] == ["b"]
        assert store.children(ADA, (), at=1, now=NOW) == []
        accepted = store.accept("helper", [QueuedInput(ADA, '"next"', NOW)])[0]
        assert accepted.number == 1
        second = forget_key(store, "two")
        assert second.commit is not None
        assert forget_key(store, "three").commit is None

    def test_what_was_accepted_does_not_run_again(self, store: Store) -> None:
        """An accepted input of a forgotten key does not run again: its event id is kept."""
        run = run_of(store)
        forget_key(store)
        again = store.accept(
            "helper", [QueuedInput(ADA, '"secret"', NOW, b'"secret"', b"asked", "it")]
        )[0]
        assert (again.repeated, again.run, again.number) == (True, run, 0)
        assert store.queued_runs("helper", ADA) == []

    def test_a_zombie_brings_nothing_back(self, store: Store) -> None:
        """Work begun before the key was forgotten is refused, in a run and outside."""
        run = run_of(store)
        lease = present(store.acquire_lease(ADA, "worker"))
        write(store, add("i"))
        base = store.head(ADA)
        self.kill_owner(store, "worker")
        forget_key(store)
        told = Step(run, 0, "greet", begin=Begin(NOW, ("greet",)), done=True)
        late = batch(told, add("z"), under=lease)
        pending = DurableCall(run, 0, 0, "fetch", "digest", "returned", '"secret"')
        refused(store, StaleRun, late)
        refused(store, StaleRun, batch(pending, under=lease))
        refused(store, StaleRun, batch(StatusChange(run, "waiting", "parked", '"secret"')))
        refused(store, StaleRun, batch(Put(("z",), 1), base=base))
        store.release_lease(lease)
        assert store.keys("app") == []
        assert store.set_infos(ADA) == []

    def test_somebody_alive_is_not_robbed_of_a_key(self, store: Store) -> None:
        """A key whose lease a live owner holds cannot be forgotten."""
        write(store, add("i"))
        lease = present(store.acquire_lease(ADA, "worker"))
        with pytest.raises(KeyBusy):
            forget_key(store)
        store.release_lease(lease)
        assert forget_key(store).commit is not None
        assert present(store.acquire_lease(ADA, "other")).epoch > lease.epoch + 1

    def test_outputs_nobody_will_read_are_counted(self, store: Store) -> None:
        """The receipt counts unread outputs, and outputs that were read already."""
        store.consumer_position("helper", "app", "mail")
        for number in range(3):
            step(store, run_of(store, event=f'"{number}"'))
        first = store.outputs("helper", "app")[0].position
        store.advance_consumer("helper", "app", "mail", first)
        erased = forget_key(store)
        assert (erased.unread, erased.delivered) == (2, 1)
        assert store.outputs("helper", "app", after=first) == []

    # --- what else

    def test_scrubbing_changes_no_read(self, store: Store) -> None:
        """Scrubbing completes receipts, and changes no read and no number."""
        write(store, add("i"), add("j"), Put(("a",), 1))
        forget(store, "i")
        before = reads(store, now=NOW)
        assert store.scrub(now=NOW) == []
        assert reads(store, now=NOW) == before
        kept = present(store.receipt("one"))
        assert (kept.state, tuple(kept.blocked_by)) == ("scrubbed", ())
        assert kept.scrubbed is not None
        assert NOW <= kept.scrubbed < NOW + 3600 * SECOND
        assert store.scrub(now=NOW) == []

    def test_kept_versions_come_by_page(self, store: Store) -> None:
        """Kept versions are paged by id and version, ended ones too."""
        write(store, *(add(item_id) for item_id in "bac"))
        write(store, Replace(NOTES, 1, record("a", "new")), Retire(NOTES, "c", 1))
        places = [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
        found = [(item.record.id, item.version) for item in store.all_versions(NOTES)]
        assert found == places
        for i, place in enumerate(places):
            page = store.all_versions(NOTES, after=place, limit=2)
            assert [(v.record.id, v.version) for v in page] == places[i + 1 : i + 3]
        assert store.all_versions(SetRef(BOB, "notes")) == []

    def test_no_such_source_is_no_forgotten_one(self, store: Store) -> None:
        """A forgotten source is refused like a source that never existed."""
        write(store, add("i"))
        forget(store, "i")
        refused(store, NotFound, Add(NOTES, record("s"), links=[Link(NOTES, "i")]))


class ErasingRunLaws(Laws):
    """Laws of forgetting in the records of runs."""

    def test_runs_that_wrote_or_read_an_item_lose_their_records(self, store: Store) -> None:
        """Runs that wrote or read an erased item lose their records. Other runs keep theirs."""
        looked = '{"items":[["notes",["i"]]],"searches":[]}'
        write(store, add("i"))
        reader, other = run_of(store, event='"1"'), run_of(store, event='"2"')
        step(store, reader, read_set=looked)
        step(store, other, read_set='{"short_term":[["i"]]}')
        assert forget(store, "i").counts["runs"] == 1
        assert [there(store, n).forgotten for n in (reader, other)] == [True, False]
        erased = forget(store, f"by {other} 0", receipt="two")
        assert erased.counts["steps"] == 1
        assert there(store, other).forgotten
        assert len(erased.puts) == 1
        assert store.outputs("helper", "app") == []

    def test_an_item_is_known_by_its_set_and_owner(self, store: Store) -> None:
        """An item with the same id in another set or knowledge does not count as read."""
        looked = (
            '{"items":[[null,"other",["i"]],["handbook","notes",["i"]]],'
            '"searches":[[null,["other","notes"],"i",[["other","i"]]]]}'
        )
        hit = '{"items":[],"searches":[[null,["other","notes"],"q",[["notes","i"]]]]}'
        write(store, add("i"))
        other, reader = run_of(store, event='"1"'), run_of(store, event='"2"')
        step(store, other, read_set=looked)
        step(store, reader, read_set=hit)
        assert forget(store, "i").counts["runs"] == 1
        assert [there(store, n).forgotten for n in (other, reader)] == [False, True]

    @pytest.mark.parametrize(
        "read_set", ["1", "null", '"i"', "[]", '[["notes"],"i"]', '{"items":1}']
    )
    def test_what_was_looked_up_may_have_any_shape(self, store: Store, read_set: str) -> None:
        """A read set of an unknown shape is searched as texts, and blocks no forgetting."""
        write(store, add("i"))
        run = run_of(store, event='"1"')
        step(store, run, read_set=read_set)
        assert forget(store, "i").counts.get("runs", 0) == ("notes" in read_set)
        assert there(store, run).forgotten == ("notes" in read_set)

    def test_a_run_that_is_not_over_loses_them_once_it_is(self, store: Store) -> None:
        """An unfinished run loses its records at its end.

        Until then the receipt lists it as open.
        """
        run = run_of(store)
        step(store, run, done=False)
        with pytest.raises(KeyBusy):
            forget(store, f"by {run} 0")
        self.give_back(store)
        erased = forget(store, f"by {run} 0")
        assert tuple(erased.open) == (run,)
        assert len(store.steps(run)) == 1
        assert store.scrub(now=NOW)
        kept = present(store.receipt("one"))
        assert (tuple(kept.open_runs), kept.scrubbed) == ((run,), None)
        step(store, run, 1)
        assert store.scrub(now=NOW + SECOND) == []
        assert store.steps(run) == []
        kept = present(store.receipt("one"))
        assert (kept.state, tuple(kept.open_runs)) == ("scrubbed", ())
        assert kept.scrubbed is not None
        assert NOW + SECOND <= kept.scrubbed < NOW + 3600 * SECOND

    def test_a_heir_of_a_run_that_was_not_over_loses_them_later(self, store: Store) -> None:
        """A retry of a parked run loses the forgotten data later too."""
        run = run_of(store)
        step(store, run, done=False)
        store.commit(batch(StatusChange(run, "waiting", "parked", '"secret"')))
        self.give_back(store)
        assert tuple(forget(store, f"by {run} 0").open) == (run,)
        heir = store.retry_run(run, last=True, time=NOW)
        assert store.scrub(now=NOW)
        assert [there(store, n).forgotten for n in (run, heir)] == [True, False]
        step(store, heir)
        assert store.scrub(now=NOW) == []
        assert there(store, heir).forgotten

    def give_back(self, store: Store) -> None:
        """Release the lease of the key "ada"."""
        lease = present(store.acquire_lease(ADA, "worker"))
        store.release_lease(lease)

    def test_a_heir_of_an_input_loses_it_too(self, store: Store) -> None:
        """A run that took over the input of a parked run loses the event too."""
        run = run_of(store)
        write_turn = StatusChange(run, "waiting", "parked", '"secret"')
        store.commit(batch(write_turn))
        heir = store.retry_run(run, last=True, time=NOW)
        step(store, heir)
        forget(store, f"by {heir} 0")
        assert [there(store, n).event for n in (run, heir)] == ["", ""]

"""Laws of compactions: sources, undo and retention."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alveus.errors import (
    CompactionChanged,
    DuplicateItem,
    InvalidInput,
    NotFound,
    SetFull,
    StaleItem,
    StaleRun,
)
from alveus.store import (
    MAX_SWEPT_VERSIONS,
    SWEEP_AFTER_US,
    Add,
    Batch,
    Compact,
    Compaction,
    Define,
    Definition,
    Delete,
    Lease,
    Link,
    Put,
    Replace,
    Retire,
    Revive,
    SetRef,
    StatusChange,
    Step,
    Store,
    StoredItem,
    Undo,
)
from alveus.store.checks import ROW_BITS
from alveus.testing.batches import (
    ADA,
    BOB,
    BOOK,
    HANDBOOK,
    HOW,
    NOTES,
    NOW,
    OTHERS,
    SECOND,
    AnyChange,
    Laws,
    add,
    batch,
    compact,
    derived,
    into,
    last,
    present,
    record,
    refused,
    write,
)
from alveus.testing.item_laws import NEVER, WHOLE, ids, info, only
from alveus.testing.reads import Follower
from alveus.testing.run_laws import BEGIN, accept, leased


def fenced(change: Add, *leases: Lease) -> Batch:
    """Return a batch that requires these leases."""
    return replace(batch(change), fences=leases)


def without_version(item: StoredItem) -> StoredItem:
    """Return an item without the fields that a revival changes: position and version."""
    return replace(item, row=0, version=0, begin_commit=0, end_commit=None)


class LineageLaws(Laws):
    """Laws of links, compactions, undo and revival."""

    # --- links

    def test_links_are_of_versions(self, store: Store) -> None:
        """A link names the last version of its source, live or ended, also of the same batch."""
        write(store, add("i"), add("gone"))
        write(store, Replace(NOTES, 1, record("i", "new")), Retire(NOTES, "gone", 1))
        write(store, add("j"), derived("d", "i", "gone", "j", "i"))
        rows = {item.record.id: item.row for item in store.page(NOTES)}
        gone = store.versions(NOTES, "gone")[0].row
        pairs = sorted((rows["d"], source) for source in (rows["i"], gone, rows["j"]))
        assert store.source_links([rows["d"]]) == pairs
        assert store.source_links([rows["d"], rows["d"], rows["i"]]) == pairs
        assert store.derived_links([rows["i"]]) == [(rows["d"], rows["i"])]
        assert store.derived_links([store.versions(NOTES, "i")[0].row]) == []
        assert (
            store.source_links([]) == store.derived_links([]) == store.source_links([1 << 50]) == []
        )

    def test_links_reach_other_sets_and_knowledge(self, store: Store) -> None:
        """Links reach sets of the batch's key, and knowledge."""
        write(store, add("i", to=OTHERS), add("page", to=BOOK))
        sources = [Link(OTHERS, "i"), Link(BOOK, "page")]
        write(store, Add(NOTES, record("d"), links=sources))
        rows = [only(store, "i", OTHERS).row, only(store, "page", BOOK).row]
        assert [source for _, source in store.source_links([only(store, "d").row])] == sorted(rows)

    def test_what_is_not_there_is_no_source(self, store: Store) -> None:
        """A missing item, or one of another key, is refused as a source.

        The batch changes nothing.
        """
        write(store, add("i"))
        write(store, add("his", to=SetRef(BOB, "notes")), scope=BOB)
        for link in (Link(NOTES, "nobody"), Link(NEVER, "i"), Link(NOTES, "d")):
            refused(store, NotFound, Add(NOTES, record("d"), links=[link]))
        his = Link(SetRef(BOB, "notes"), "his")
        refused(store, InvalidInput, Add(NOTES, record("d"), links=[his]))
        refused(
            store, InvalidInput, compact(("i", 1), added=[Add(NOTES, record("d"), links=[his])])
        )
        assert store.set_info(NEVER) is None

    def test_an_edited_item_keeps_its_links(self, store: Store) -> None:
        """Every version of an edited item keeps the links."""
        write(store, add("i"), derived("d", "i"))
        write(store, Replace(NOTES, 1, record("d", "edited")))
        one, two = store.versions(NOTES, "d")
        source = only(store).row
        assert store.source_links([one.row, two.row]) == [(one.row, source), (two.row, source)]
        assert store.derived_links([source]) == [(one.row, source), (two.row, source)]
        refused(store, NotFound, Replace(NOTES, 2, record("d"), [Link(NOTES, "nobody")]))
        write(store, add("j"), Replace(NOTES, 2, record("d"), [Link(NOTES, i) for i in "ij"]))
        third = only(store, "d").row
        assert store.source_links([third]) == [(third, source), (third, only(store, "j").row)]

    def test_a_new_item_of_an_old_id_has_no_old_links(self, store: Store) -> None:
        """A new item with an old id has no links of the old item."""
        write(store, add("i"), derived("d", "i"))
        write(store, Retire(NOTES, "d", 1), add("d"))
        assert store.source_links([only(store, "d").row]) == []

    def test_what_stands_for_others_takes_their_reading(self, store: Store) -> None:
        """A summary has the access time of its sources, until it is read itself."""
        write(store, add("i"), Add(NOTES, record("d"), accessed=NOW - SECOND))
        assert only(store, "d").accessed == NOW - SECOND
        assert only(store, "i").accessed is None
        store.touch([only(store, "d").first], time=NOW)
        assert only(store, "d").accessed == NOW

    # --- compactions

    def test_a_compaction_is_one_commit(self, store: Store) -> None:
        """One commit retires the sources, adds the linked summaries, and records the compaction."""
        write(store, add("i"), add("j"), add("k"))
        rows = [only(store, name).row for name in ("i", "j")]
        number = write(store, compact(("i", 1), ("j", 1)), time=NOW + SECOND).number
        assert sorted(ids(store.page(NOTES))) == ["i+j", "k"]
        found, made = last(store), only(store, "i+j")
        assert found == Compaction(
            found.id, NOTES, number, NOW + SECOND, HOW, rows, [made.row], erased=0, undo_commit=None
        )
        assert store.compaction(found.id) == found
        assert store.source_links([made.row]) == [(made.row, row) for row in rows]
        effects = present(store.effects(number))
        assert [item.row for item in effects.begun_items] == [made.row]
        assert sorted(item.row for item in effects.ended_items) == rows

    def test_compactions_are_listed_by_set(self, store: Store) -> None:
        """Compactions of a set are listed latest first, by page. An unknown set has none."""
        write(store, *(add(f"{n}") for n in range(5)), add("o", to=OTHERS))
        for n in range(5):
            write(store, compact((f"{n}", 1), added=[]))
        write(store, into("c", "o", of=OTHERS))
        every = store.compactions(NOTES)
        assert [c.id for c in every] == sorted((c.id for c in every), reverse=True)
        assert (len(every), len(store.compactions(OTHERS))) == (5, 1)
        assert store.compactions(NOTES, limit=2) == every[:2]
        assert store.compactions(NOTES, before=every[1].id, limit=2) == every[2:4]
        assert store.compactions(NEVER) == []
        assert store.compaction(every[0].id + 1) is None
        assert store.compaction(0) is None

    def test_several_compactions_go_in_one_commit(self, store: Store) -> None:
        """Several compactions of one commit have separate ids, and are undone separately."""
        write(store, add("i"), add("j"), add("o", to=OTHERS))
        write(store, into("a", "i"), into("b", "j"), into("c", "o", of=OTHERS))
        two, one = store.compactions(NOTES)
        assert (one.commit, two.commit) == (two.commit, store.compactions(OTHERS)[0].commit)
        assert one.id < two.id < store.compactions(OTHERS)[0].id
        write(store, Undo(NOTES, one.id))
        assert only(store, "i").version == 2
        assert sorted(ids(store.page(NOTES))) == ["b", "i"]
        assert [c.undo_commit is None for c in store.compactions(NOTES)] == [True, False]

    def test_what_the_commit_began_can_be_compacted(self, store: Store) -> None:
        """A compaction may retire items that its commit adds."""
        write(store, add("i"))
        write(store, add("j"), compact(("i", 1), ("j", 1)), Replace(NOTES, 1, record("i+j", "e")))
        assert ids(store.page(NOTES)) == ["i+j"]
        before, after = store.versions(NOTES, "i+j")
        sources = [store.versions(NOTES, name)[0].row for name in ("i", "j")]
        assert store.source_links([after.row]) == [(after.row, source) for source in sources]
        assert last(store).added == [before.row]

    @pytest.mark.parametrize(
        "change",
        [
            compact(("i", 2), added=[]),
            compact(("i", 1), ("nobody", 1)),
            compact(("i", 1), ("i", 1)),
            compact(("gone", 1), added=[]),
            compact(("i", 1), added=[], of=NEVER),
        ],
    )
    def test_a_compaction_names_what_is_live(self, store: Store, change: Compact) -> None:
        """A compaction names each live version once. Any other version refuses the batch."""
        write(store, add("i"), add("gone"))
        write(store, Retire(NOTES, "gone", 1))
        refused(store, StaleItem, change)
        assert store.set_info(NEVER) is None

    def test_a_compaction_may_not_add_what_is_live(self, store: Store) -> None:
        """A compaction may not add a live id, except one that it retires."""
        write(store, add("i"), add("j"))
        refused(store, DuplicateItem, compact(("i", 1), added=[derived("j", "i")]))
        write(store, compact(("i", 1), ("j", 1), added=[derived("i", "i", "j")]))
        assert only(store, "i").version == 2
        write(store, Undo(NOTES, last(store).id))
        assert [item and item.version for item in store.get(NOTES, ["i", "j"])] == [3, 2]
        assert [item.record.text for item in store.versions(NOTES, "i")][::2] == ["text of i"] * 2

    def test_a_compaction_needs_its_set(self, store: Store) -> None:
        """A compaction of a missing set is refused."""
        refused(store, NotFound, Compact(NEVER, [], [], HOW))
        assert store.set_info(NEVER) is None

    def test_a_compaction_adds_to_its_set(self) -> None:
        """A compaction adds to the set that it compacts."""
        with pytest.raises(InvalidInput, match="notes"):
            compact(("i", 1), added=[derived("d", to=OTHERS)])

    # --- undo

    def test_undo_brings_back_what_was_there(self, store: Store) -> None:
        """Undo restores every field, the position and the features, as the next version."""
        whole = replace(WHOLE, sources=())
        write(store, Add(NOTES, whole), add("j", time=NOW - SECOND), add("k"))
        write(store, Replace(NOTES, 1, replace(whole, text="edited")), time=NOW + SECOND)
        store.touch([only(store).first], time=NOW + SECOND)
        before = store.page(NOTES)
        features = {f.id: f for f in store.features(info(store).number)}
        sizes = info(store)
        write(store, compact(("i", 2), ("j", 1)), time=NOW + 2 * SECOND)
        number = write(store, Undo(NOTES, last(store).id), time=NOW + 3 * SECOND).number
        after = store.page(NOTES)
        assert [without_version(item) for item in after] == [
            without_version(item) for item in before
        ]
        assert [item.version for item in after] == [3, 2, 1]
        assert info(store) == sizes
        for feature in store.features(info(store).number):
            was = features[feature.id]
            assert feature._replace(row=0, begin_commit=0) == was._replace(row=0, begin_commit=0)
        assert last(store).undo_commit == number
        assert store.get(NOTES, ["i+j"]) == [None]
        assert len(store.versions(NOTES, "i+j")) == 1

    def test_undo_brings_back_links(self, store: Store) -> None:
        """Undo restores the links of restored items."""
        write(store, add("i"), derived("d", "i"))
        write(store, compact(("d", 1), ("i", 1)))
        write(store, Undo(NOTES, last(store).id))
        source = store.versions(NOTES, "i")[0].row
        assert store.source_links([only(store, "d").row]) == [(only(store, "d").row, source)]

    def test_compactions_of_compactions_are_undone_from_the_last(self, store: Store) -> None:
        """Nested compactions are undone from the last. An earlier one is refused before."""
        write(store, add("i"), add("j"), add("k"))
        before = [without_version(item) for item in store.page(NOTES)]
        write(store, compact(("i", 1), ("j", 1)))
        write(store, compact(("i+j", 1), ("k", 1)))
        two, one = store.compactions(NOTES)
        assert "i+j" in str(refused(store, CompactionChanged, Undo(NOTES, one.id)))
        write(store, Undo(NOTES, two.id))
        assert sorted(ids(store.page(NOTES))) == ["i+j", "k"]
        write(store, Undo(NOTES, one.id))
        assert [without_version(item) for item in store.page(NOTES)] == before

    def test_undo_and_compaction_in_one_commit(self, store: Store) -> None:
        """One commit may undo a compaction and compact again."""
        write(store, add("i"), add("j"), add("k"))
        write(store, compact(("i", 1), ("j", 1)))
        write(store, Undo(NOTES, last(store).id), compact(("j", 2), ("k", 1)))
        assert sorted(ids(store.page(NOTES))) == ["i", "j+k"]
        write(store, Undo(NOTES, last(store).id))
        assert [item.version for item in store.page(NOTES)] == [2, 3, 2]

    @pytest.mark.parametrize(
        "meanwhile",
        [
            None,
            Replace(NOTES, 1, record("i+j", "edited")),
            Retire(NOTES, "i+j", 1),
            into("again", "i+j"),
            add("i"),
        ],
    )
    def test_what_changed_since_is_not_undone(
        self, store: Store, meanwhile: AnyChange | None
    ) -> None:
        """After an undo, edit, delete, compaction or reuse of an id, an undo is refused whole."""
        write(store, add("i"), add("j"))
        write(store, compact(("i", 1), ("j", 1)))
        done = last(store).id
        write(store, meanwhile or Undo(NOTES, done))
        error = refused(store, CompactionChanged, add("other"), Undo(NOTES, done))
        assert error.compaction == done

    def test_there_has_to_be_something_to_undo(self, store: Store) -> None:
        """An undo needs a compaction of its set, committed before."""
        write(store, add("i"), add("o", to=OTHERS))
        number = write(store, into("d", "i")).number
        done = last(store).id
        for change in (Undo(NOTES, done + 1), Undo(OTHERS, done), Undo(NEVER, done)):
            refused(store, NotFound, change)
        soon = (number + 1) << ROW_BITS
        refused(store, NotFound, into("e", "d"), Undo(NOTES, soon))

    # --- revival

    def test_a_revived_item_is_what_it_was(self, store: Store) -> None:
        """A revived version is the next version of its id, from any earlier version."""
        write(store, Add(NOTES, replace(WHOLE, sources=())), add("j"))
        first, sizes = only(store), info(store)
        write(store, Replace(NOTES, 1, record("i", "edited")))
        write(store, Retire(NOTES, "i", 2))
        number = write(store, Revive(NOTES, first.row), time=NOW + SECOND).number
        again = only(store)
        assert without_version(again) == without_version(first)
        assert (again.version, again.begin_commit) == (3, number)
        assert info(store) == sizes

    def test_only_what_is_gone_is_revived(self, store: Store) -> None:
        """Reviving a live id is a duplicate. A row of another set is not found."""
        write(store, add("i"), add("o", to=OTHERS))
        write(store, Replace(NOTES, 1, record("i", "new")))
        for version in store.versions(NOTES, "i"):
            refused(store, DuplicateItem, Revive(NOTES, version.row))
        row = only(store, "o", OTHERS).row
        for change in (Revive(NOTES, row), Revive(NEVER, row), Revive(NOTES, 1 << 50)):
            refused(store, NotFound, change)

    # --- what limits a set

    @pytest.mark.parametrize("what", ["tokens", "bytes"])
    def test_tokens_and_bytes_are_limited_as_items_are(self, store: Store, what: str) -> None:
        """A full set retires its oldest items until it is within each of its capacities."""
        size = {"tokens": 3, "bytes": 3 * 12}[what]
        capacity = {f"capacity_{what}": size}
        write(store, Define(NOTES, Definition(**capacity)))  # pyright: ignore[reportArgumentType] - by name
        for n in range(5):
            write(store, Add(NOTES, replace(record(f"{n}"), text=f"item no. {n}", tokens=1)))
        assert ids(store.page(NOTES)) == ["2", "3", "4"]
        found = info(store)
        assert (found.items, found.tokens, found.bytes) == (3, 3, 36)
        assert found.definition == Definition(**capacity)  # pyright: ignore[reportArgumentType] - by name
        large = replace(record("large"), text="x" * 40, tokens=4)
        write(store, Add(NOTES, large))
        assert store.page(NOTES) == []

    @pytest.mark.parametrize(
        ("definition", "expected"),
        [
            (Definition(capacity_tokens=2, compaction="reject"), ("tokens", 2)),
            (Definition(capacity_bytes=24, compaction="reject"), ("bytes", 24)),
            (Definition(capacity=2, compaction={"name": "m"}, execution="sync"), ("items", 2)),
        ],
    )
    def test_a_set_that_refuses_says_of_what_it_is_full(
        self, store: Store, definition: Definition, expected: tuple[str, int]
    ) -> None:
        """The error of a full set names the limit, items, tokens or bytes, and its present size."""
        write(store, Define(NOTES, definition))
        for n in range(2):
            write(store, Add(NOTES, replace(record(f"{n}"), text=f"item no. {n}", tokens=1)))
        error = refused(store, SetFull, Add(NOTES, replace(record("2"), tokens=1)))
        assert (error.what, error.capacity) == expected
        write(store, compact(("0", 1), ("1", 1), added=[]), add("2", "short"))

    def test_a_set_at_its_mark_is_reported(self, store: Store) -> None:
        """An add reports a set at its mark. Items compacted in the same commit do not count."""
        strategy = Definition(capacity=10, compaction={"name": "merge"}, high_water=0.5)
        write(store, Define(NOTES, strategy), Define(OTHERS, Definition(capacity=1)))
        marks = [
            list(write(store, add(f"{n}"), add(f"{n}", to=OTHERS)).sets_to_compact)
            for n in range(12)
        ]
        assert marks == [[]] * 4 + [[NOTES]] * 8
        assert info(store).items == 12
        assert list(write(store, Retire(NOTES, "0", 1)).sets_to_compact) == []
        answer = write(store, compact(*((f"{n}", 1) for n in range(1, 12))))
        assert list(answer.sets_to_compact) == []

    # --- time

    def test_items_out_of_time_are_known(self, store: Store) -> None:
        """Expired items, and items not valid at a moment, are listed, each at its exact bound."""
        times = {
            "always": {},
            "expires": {"expires": NOW},
            "later": {"expires": NOW + 1},
            "begins": {"valid_from": NOW},
            "ends": {"valid_to": NOW},
            "both": {"valid_from": NOW - 1, "valid_to": NOW + 1},
        }
        number = write(
            store, *(Add(NOTES, replace(record(n), **fields)) for n, fields in times.items())
        ).number
        home = info(store)
        assert (home.next_expiry, home.has_validity) == (NOW, True)
        rows = {item.row: item.record.id for item in store.page(NOTES)}

        def out(now: int, valid_at: int | None, at: int | None = None) -> list[str]:
            found = store.expired_or_invalid_rows(home.number, now=now, valid_at=valid_at, at=at)
            assert found == sorted(set(found))
            return sorted(rows[row] for row in found)

        for at in (None, number):
            assert out(NOW - 1, None, at) == []
            assert out(NOW, None, at) == ["expires"]
            assert out(NOW + 1, None, at) == ["expires", "later"]
            assert out(NOW - 1, NOW - 2, at) == ["begins", "both"]
            assert out(NOW - 1, NOW - 1, at) == ["begins"]
            assert out(NOW - 1, NOW, at) == ["ends"]
            assert out(NOW - 1, NOW + 1, at) == ["both", "ends"]
        write(store, *(Retire(NOTES, name, 1) for name in times))
        assert (info(store).next_expiry, info(store).has_validity) == (None, False)
        assert out(NOW, NOW - 2) == []
        assert out(NOW, None, number) == ["expires"]
        assert store.expired_or_invalid_rows(home.number + 1, now=NOW, valid_at=NOW) == []

    def test_times_of_an_item_come_back(self, store: Store) -> None:
        """The times of an item survive edits, compaction and undo."""
        times = replace(
            record("i"), until=NOW + 1, expires=NOW + 2, valid_from=NOW + 3, valid_to=NOW + 4
        )
        write(store, Add(NOTES, times))
        write(store, into("d", "i"))
        write(store, Undo(NOTES, last(store).id))
        found = only(store).record
        assert (found.until, found.expires) == (NOW + 1, NOW + 2)
        assert (found.valid_from, found.valid_to) == (NOW + 3, NOW + 4)
        assert info(store).has_validity

    # --- fences

    def test_a_fence_is_a_lease_that_must_be_held(self, store: Store) -> None:
        """A fence on a lease of any scope refuses a batch under another owner or epoch."""
        lease = present(store.acquire_lease(HANDBOOK, "one"))
        store.commit(fenced(add("i"), lease))
        other = replace(lease, owner="two"), replace(lease, epoch=lease.epoch + 1)
        for wrong in (*other, replace(lease, scope=BOB)):
            refused(store, StaleRun, fenced(add("j"), lease, wrong))
        store.release_lease(lease)
        refused(store, StaleRun, fenced(add("j"), lease))
        assert ids(store.page(NOTES)) == ["i"]

    def test_a_fence_of_who_died_holds_until_it_is_taken_over(self, store: Store) -> None:
        """A fence on a dead owner's lease holds until the lease is taken over."""
        lease = present(store.acquire_lease(HANDBOOK, "one"))
        self.kill_owner(store, "one")
        store.commit(fenced(add("i"), lease))
        assert store.acquire_lease(HANDBOOK, "two") is not None
        refused(store, StaleRun, fenced(add("j"), lease))


AGES = NOW + 3 * SWEEP_AFTER_US
PURGE = Definition(retention="purge")


def mortal(item_id: str, expires: int = NOW) -> Add:
    """Return a change that adds an item that expires."""
    return Add(NOTES, replace(record(item_id), expires=expires))


def prune(store: Store, *, before: int, limit: int = 10_000) -> int:
    """Prune trees, step by step. Return the number of deleted versions."""
    removed, after = store.prune_history(before=before, limit=limit)
    while after is not None:
        more, after = store.prune_history(before=before, after=after, limit=limit)
        removed += more
    return removed


class RetentionLaws(Laws):
    """Laws of the retention of the past."""

    def test_a_set_keeps_what_ended_for_as_long_as_it_says(self, store: Store) -> None:
        """A set keeps ended versions for its retention.

        A sweep deletes older ones, never a live row.
        """
        write(store, Define(NOTES, Definition(retention=SECOND)), add("i"), add("j"))
        one = write(store, Replace(NOTES, 1, record("i", "new"))).number
        two = write(store, Retire(NOTES, "j", 1), time=NOW + SECOND).number
        assert store.sweep(now=NOW + SECOND - 1) == 0
        assert info(store).history_start == 0
        assert store.sweep(now=NOW + SECOND) == 1
        assert [v.version for v in store.versions(NOTES, "i")] == [2]
        assert len(store.versions(NOTES, "j")) == 1
        assert info(store).history_start == one
        assert sorted(ids(store.page(NOTES, at=one))) == ["i", "j"]
        assert store.sweep(now=AGES) == 1
        assert (info(store).history_start, info(store).items) == (two, 1)
        assert store.versions(NOTES, "j") == []
        assert present(store.effects(two)).ended_items == []
        assert store.sweep(now=AGES) == 0

    def test_a_set_without_a_retention_keeps_everything(self, store: Store) -> None:
        """A set without a retention keeps everything, until a new definition."""
        write(store, add("i"))
        write(store, Retire(NOTES, "i", 1))
        assert store.sweep(now=AGES) == 0
        write(store, Define(NOTES, PURGE, replace=True))
        assert store.sweep(now=NOW) == 1
        assert store.versions(NOTES, "i") == []

    def test_a_sweep_has_bounded_steps(self, store: Store) -> None:
        """A sweep takes bounded steps. Further calls do the rest."""
        names = [f"{n}" for n in range(MAX_SWEPT_VERSIONS + 5)]
        write(store, Define(NOTES, PURGE), *map(add, names))
        write(store, *(Retire(NOTES, name, 1) for name in names))
        assert [store.sweep(now=NOW) for _ in range(3)] == [MAX_SWEPT_VERSIONS, 5, 0]

    def test_what_is_purged_takes_its_links_along(self, store: Store) -> None:
        """A purged version takes its links along. Derived items stay, and search is informed."""
        write(store, Define(NOTES, PURGE), add("i"), add("j"))
        write(store, derived("d", "i", "j"))
        follower = Follower()
        follower.catch_up(store)
        gone = only(store)
        write(store, Retire(NOTES, "i", 1))
        store.sweep(now=NOW)
        row = only(store, "d").row
        assert store.source_links([row]) == [(row, only(store, "j").row)]
        assert store.derived_links([gone.row]) == []
        assert store.items_by_row([gone.row]) == []
        assert store.features_of(info(store).number, [gone.row]) == []
        follower.catch_up(store)
        assert follower.agrees_with(store)

    def test_a_purged_compaction_is_not_undone(self, store: Store) -> None:
        """A purged compaction stays listed as purged, and cannot be undone, not even in part."""
        write(store, Define(NOTES, PURGE), add("i"), add("k"))
        write(store, into("d", "i"))
        done = last(store)
        store.sweep(now=NOW)
        found = store.compaction(done.id)
        assert found == replace(done, retired=[], erased=1, purged=True)
        with pytest.raises(CompactionChanged, match="purged") as caught:
            write(store, Undo(NOTES, done.id))
        assert caught.value.compaction == done.id
        assert ids(store.page(NOTES)) == ["k", "d"]

    def test_an_open_run_keeps_what_it_may_need(self, store: Store) -> None:
        """Versions that ended since the first step of an open run stay until the run has ended."""
        write(store, Define(NOTES, PURGE), add("i"), Put(("a",), 1))
        run = accept(store)
        lease = leased(store)
        step = batch(Step(run, 0, "greet", begin=BEGIN), under=lease)
        number = store.commit(step).number
        store.release_lease(lease)
        write(store, Retire(NOTES, "i", 1), Put(("a",), 2))
        write(store, add("late"), time=AGES)
        assert store.sweep(now=AGES) == 0
        assert prune(store, before=AGES) == 0
        assert present(store.node(ADA, ("a",), at=number, now=NOW)).value == 1
        store.commit(batch(StatusChange(run, "waiting", "discarded"), time=AGES))
        assert prune(store, before=AGES) == 1
        assert store.sweep(now=AGES) > 0

    # --- trees

    @pytest.mark.parametrize("limit", [1, 10_000])
    def test_the_past_of_trees_is_pruned(self, store: Store, limit: int) -> None:
        """Pruning deletes versions that ended before a time. The past is complete after it."""
        write(store, Put(("a",), 1), Put(("b",), 1))
        one = write(store, Put(("a",), 2), Delete(("b",))).number
        write(store, Put(("a",), 1), scope=BOB)
        two = write(store, Put(("a",), 3), time=NOW + SECOND).number
        assert prune(store, before=NOW, limit=limit) == 0
        write(store, add("late"), time=AGES)
        assert prune(store, before=NOW + SECOND, limit=limit) == 2
        assert (store.history_start(ADA), store.history_start(BOB)) == ((one, 0), (0, 0))
        seen = [store.node(ADA, ("a",), at=at, now=NOW) for at in (one, two, None)]
        assert [node and node.value for node in seen] == [2, 3, 3]
        assert store.node(ADA, ("b",), at=one - 1, now=NOW) is None
        assert prune(store, before=AGES, limit=limit) == 1
        assert store.history_start(ADA) == (two, 0)

    def test_what_is_under_way_keeps_its_past(self, store: Store) -> None:
        """Pruning keeps the last day, whatever time is given."""
        write(store, Put(("a",), 1))
        write(store, Put(("a",), 2))
        write(store, Put(("a",), 3), time=NOW + SWEEP_AFTER_US - 1)
        assert prune(store, before=AGES) == 0
        write(store, add("late"), time=NOW + SWEEP_AFTER_US)
        assert prune(store, before=AGES) == 1

    @pytest.mark.parametrize("start", [NOW, -NOW])
    def test_a_sweep_says_of_which_past_it_took(self, store: Store, start: int) -> None:
        """A sweep of an expired value moves the start of the complete past, before 1970 too."""
        first, second = Put(("a",), 1, start + SECOND), Put(("b",), 1, start + 2 * SECOND)
        write(store, first, second, Put(("c",), 1), time=start)
        write(store, Put(("c",), 1), scope=BOB, time=start)
        for gone in (SECOND, 2 * SECOND):
            store.sweep(now=start + gone + SWEEP_AFTER_US)
            assert store.history_start(ADA) == (0, start + gone)
        assert store.history_start(BOB) == (0, 0)

    def test_times_of_commits_are_known(self, store: Store) -> None:
        """The time of each commit is known, also of the last one before an unused number."""
        one = write(store, add("i")).number
        two = write(store, add("j"), time=NOW + SECOND).number
        expected = [0, NOW, NOW + SECOND, NOW + SECOND]
        assert [store.time_of_commit(n) for n in (0, one, two, two + 9)] == expected

    # --- items that expire

    def test_what_expired_is_listed(self, store: Store) -> None:
        """Expired live items of any set are listed."""
        write(store, mortal("i"), mortal("j", NOW + 1), add("k"))
        assert ids(store.expired_items(now=NOW)) == ["i"]
        assert ids(store.expired_items(now=NOW + 1)) == ["i", "j"]
        assert len(store.expired_items(now=NOW + 1, limit=1)) == 1
        write(store, Retire(NOTES, "i", 1))
        assert ids(store.expired_items(now=NOW)) == []

    @pytest.mark.parametrize("count", [1, 20])
    def test_the_id_of_what_expired_is_free(self, store: Store, count: int) -> None:
        """An add ends an item that expired before its commit. The versions of the id continue."""
        names = [f"{n}" for n in range(count)]
        write(store, *(mortal(name, NOW + SECOND) for name in names))
        number = write(store, *map(add, names), time=NOW + SECOND).number
        found = store.get(NOTES, names)
        assert [item and item.version for item in found] == [2] * count
        assert [item and item.record.expires for item in found] == [None] * count
        assert [v.end_commit for v in store.versions(NOTES, "0")] == [number, None]
        assert info(store).items == count

    def test_what_expired_takes_no_room(self, store: Store) -> None:
        """A set with a capacity retires expired items first."""
        full = Definition(capacity=2, compaction="reject")
        write(store, Define(NOTES, full), mortal("i", NOW + SECOND), add("j"))
        write(store, add("k"), time=NOW + SECOND)
        assert ids(store.page(NOTES)) == ["j", "k"]

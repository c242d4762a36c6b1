"""Laws of the data for search: the change log, features and vectors."""

from __future__ import annotations

from dataclasses import fields, replace

from alveus.store import (
    Add,
    Feature,
    ItemRecord,
    Put,
    Replace,
    Retire,
    Scope,
    SearchCache,
    SetRef,
    Store,
)
from alveus.store.records import MINUTE_US, terms_of
from alveus.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOTES,
    NOW,
    OTHERS,
    SECOND,
    Laws,
    add,
    batch,
    present,
    record,
    write,
)
from alveus.testing.item_laws import WHOLE, info, only
from alveus.testing.reads import FAR, Follower


def waiting(item_id: str, text: str | None = None) -> ItemRecord:
    """Return a record that waits for its vectors."""
    return replace(record(item_id, text), vectors=None)


def features(store: Store, ref: SetRef = NOTES, at: int | None = None) -> list[Feature]:
    """Return the features of a set."""
    return list(store.features(info(store, ref).number, at=at))


def row(store: Store, item_id: str, ref: SetRef = NOTES) -> int:
    """Return the row of a live item."""
    return only(store, item_id, ref).row


class FinderLaws(Laws):
    """Laws of the data that search reads."""

    def test_a_feature_says_all_that_search_needs(self, store: Store) -> None:
        """A feature has every field of its item, as added."""
        number = write(store, Add(NOTES, WHOLE)).number
        found = features(store)[0]
        for name in set(Feature._fields) & {f.name for f in fields(ItemRecord)}:
            assert getattr(found, name) == getattr(WHOLE, name), name
        item = only(store)
        expected = (item.row, item.row, number, None)
        assert (found.row, found.first, found.begin_commit, found.end_commit) == expected

    def test_a_feature_has_the_time_of_its_item(self, store: Store) -> None:
        """A feature without a time has the time of its item's commit."""
        write(store, add("i"), time=NOW + SECOND)
        assert features(store)[0].time == NOW + SECOND

    def test_features_are_of_live_items_by_row(self, store: Store) -> None:
        """A set has one feature for each live version, in the order of rows."""
        write(store, add("z", time=NOW + 1), add("y", time=NOW), add("x"))
        write(store, Replace(NOTES, 1, record("z", "new")), Retire(NOTES, "y", 1))
        assert [f.id for f in features(store)] == ["x", "z"]
        assert [f.row for f in features(store)] == [row(store, "x"), row(store, "z")]
        assert [f.first for f in features(store)][1] == only(store, "z").first

    def test_features_go_on_past_a_row(self, store: Store) -> None:
        """Features after a row do not contain this row."""
        write(store, add("i"), add("j"), add("k"))
        number = info(store).number
        found = store.features(number, after=row(store, "i"))
        assert [f.id for f in found] == ["j", "k"]
        assert list(store.features(number, after=row(store, "k"))) == []

    def test_features_of_the_past_are_those_that_lived_then(self, store: Store) -> None:
        """Features at a commit are of the versions that began by then and had not ended by then."""
        first = write(store, add("i"), add("j")).number
        second = write(store, Replace(NOTES, 1, record("i", "new")), Retire(NOTES, "j", 1)).number
        third = write(store, add("k")).number
        found = [
            sorted((f.id, f.end_commit) for f in features(store, at=n))
            for n in (0, first, second, third)
        ]
        expected = [[], [("i", second), ("j", second)], [("i", None)], [("i", None), ("k", None)]]
        assert found == expected

    def test_features_are_of_one_set(self, store: Store) -> None:
        """Each set, key and knowledge has a number. An unknown number has no features."""
        refs = (NOTES, OTHERS, SetRef(BOB, "notes"), SetRef(HANDBOOK, "notes"))
        for i, ref in enumerate(refs):
            write(store, *(add(f"{i}{j}", to=ref) for j in range(i + 1)), scope=ref.scope)
        for i, ref in enumerate(refs):
            assert [f.id for f in features(store, ref)] == [f"{i}{j}" for j in range(i + 1)]
        unknown = max(info(store, ref).number for ref in refs) + 1
        assert list(store.features(unknown)) == []

    def test_reading_features_goes_on_while_others_write(self, store: Store) -> None:
        """During writes, a reader sees each feature that stays live once."""
        write(store, *(add(f"{i}") for i in range(50)))
        reader = iter(store.features(info(store).number))
        found = [next(reader).id]
        write(store, Retire(NOTES, "49", 1), add("new"))
        found += [f.id for f in reader]
        assert [f for f in found if f not in {"49", "new"}] == [f"{i}" for i in range(49)]

    def test_a_view_says_what_its_parts_say(self, store: Store) -> None:
        """`search_view` equals what `seq_and_sets`, `changes`, `features` and the notes return."""
        write(store, add("first"), add("j", to=OTHERS))
        store.put_note("about", "it", expected=None)
        seq = 0
        for i in range(4):
            for sets in ([NOTES, OTHERS], [OTHERS], ADA):
                known = SearchCache(seq, {info(store).number} if i else (), ["about", "none"])
                view = store.search_view(sets, known)
                assert (view.seq, view.sets) == store.seq_and_sets(sets)
                assert view.changes is None or (view.since, view.changes) == (
                    seq,
                    store.changes(seq),
                )
                for number, brought in view.features.items():
                    assert brought == list(store.features(number))
                for each, feature in view.changed_features.items():
                    number = next(n.number for n in view.sets if feature in features(store, n.ref))
                    assert [feature] == store.features_of(number, [each])
                assert all(store.note(name) == text for name, text in view.notes.items())
            seq = store.seq() if i else 0
            write(store, add(f"{i}"), *([add(f"j{i}", to=OTHERS)] if i else []))
            write(store, *([Retire(OTHERS, f"j{i}", 1)] if i else []))

    def test_a_glance_is_of_now(self, store: Store) -> None:
        """`seq_and_sets` equals `seq`, `set_info` and `set_infos` after each commit."""
        for i in range(3):
            for refs in ([NOTES, OTHERS], [OTHERS], []):
                known = [known for ref in refs if (known := store.set_info(ref)) is not None]
                assert store.seq_and_sets(refs) == (store.seq(), known) == store.seq_and_sets(refs)
            assert (
                store.seq_and_sets(ADA)
                == (store.seq(), store.set_infos(ADA))
                == store.seq_and_sets(ADA)
            )
            write(store, add(f"{i}"), *([add(f"j{i}", to=OTHERS)] if i else []))
            write(store, *([Retire(OTHERS, f"j{i}", 1)] if i else []))

    def test_features_of_rows_include_what_ended(self, store: Store) -> None:
        """Features by row include ended versions of the set. Unknown rows are left out."""
        write(store, add("i"), add("j", to=OTHERS))
        old = row(store, "i")
        number = write(store, Replace(NOTES, 1, record("i", "new"))).number
        rows = [old, row(store, "i"), row(store, "j", OTHERS), 123_456]
        found = {f.row: f.end_commit for f in store.features_of(info(store).number, rows)}
        assert found == {old: number, row(store, "i"): None}
        assert store.features_of(info(store).number, []) == []

    def test_stored_answers_in_the_order_asked(self, store: Store) -> None:
        """`items_by_row` includes live and ended versions of any set, and no unknown rows."""
        write(store, add("i"), add("j", to=OTHERS))
        rows = [row(store, "j", OTHERS), row(store, "i")]
        write(store, Retire(NOTES, "i", 1))
        found = store.items_by_row([*rows, 123_456])
        assert [(item.row, item.set) for item in found] == [(rows[0], OTHERS), (rows[1], NOTES)]
        assert store.items_by_row(rows[::-1]) == found[::-1]
        assert store.items_by_row([]) == []

    # --- the change log

    def test_an_item_is_found_in_any_key_of_its_space(self, store: Store) -> None:
        """A search by id finds live and retired items in all keys of a space, not in knowledge."""
        elsewhere = SetRef(Scope("elsewhere", "ada"), "notes")
        others = SetRef(BOB, "a"), SetRef(BOB, "n\0"), SetRef(Scope(ADA.space, "agent:é\n"), "b")
        for ref in (NOTES, *others, SetRef(HANDBOOK, "notes"), elsewhere):
            write(store, Add(ref, record("odd 🦊")), Add(ref, record("other")), scope=ref.scope)
        found = sorted([NOTES, *others])
        assert store.sets_of_item(ADA.space, "odd 🦊") == found
        write(store, Retire(NOTES, "odd 🦊", 1))
        assert store.sets_of_item(ADA.space, "odd 🦊") == found
        assert store.sets_of_item("elsewhere", "odd 🦊") == [elsewhere]
        assert store.sets_of_item(ADA.space, "odd") == store.sets_of_item("never", "other") == []

    def test_sets_are_found_by_the_metadata_of_an_item(self, store: Store) -> None:
        """A set is found by a part of the metadata of a live item. Case and accents must match."""
        marked = replace(record("i"), metadata='{"a":{"run":"é\\"_%\\\\"},"b":"Run"}')
        others = SetRef(BOB, "notes"), SetRef(Scope(ADA.space, "agent:é"), "notes")
        elsewhere = SetRef(HANDBOOK, "notes"), SetRef(Scope("elsewhere", "ada"), "notes")
        for ref in (NOTES, *others, *elsewhere, SetRef(BOB, "Notes")):
            write(store, Add(ref, record("plain")), Add(ref, marked), scope=ref.scope)

        def found(text: str, space: str = ADA.space) -> list[SetRef]:
            return store.sets_with_metadata(space, "notes", text)

        everywhere = sorted([NOTES, *others])
        for text in ('"run":"é\\"_%\\\\"', '"Run"', "é"):
            assert found(text) == everywhere
        for text in ('"run"}', '"RUN"', '"run":"é%"', "e"):
            assert found(text) == []
        assert found("é", "elsewhere") == [elsewhere[1]]
        write(store, Retire(NOTES, "i", 1))
        assert found("é") == sorted(others)

    def test_the_log_starts_empty(self, store: Store) -> None:
        """A new change log has no lines, and `seq` is 0."""
        assert store.seq() == 0
        assert store.changes(0) == []

    def test_items_write_lines_and_the_tree_does_not(self, store: Store) -> None:
        """The log gets a line, with the set, whenever a version of an item begins or ends."""
        write(store, add("i"), add("j", to=OTHERS))
        first = store.seq()
        old = row(store, "i")
        write(store, Put(("a",), 1))
        store.commit(batch())
        assert store.seq() == first
        write(store, Replace(NOTES, 1, record("i", "new")))
        lines = present(store.changes(first))
        number = info(store).number
        expected = {(number, old, "ended"), (number, row(store, "i"), "added")}
        assert {(c.set_number, c.row, c.kind) for c in lines} == expected

    def test_lines_are_numbered_upwards(self, store: Store) -> None:
        """`seq` is the number of the last line.

        `changes` returns the lines after a number, by page.
        """
        write(store, *(add(f"{i}") for i in range(5)))
        lines = present(store.changes(0))
        numbers = [line.seq for line in lines]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == store.seq()
        assert store.changes(numbers[1]) == lines[2:]
        assert store.changes(numbers[1], limit=2) == lines[2:4]
        assert store.changes(store.seq()) == []

    def test_following_the_log_leads_to_the_features(self, store: Store) -> None:
        """A reader that follows the log, in pages of any size, has the features of every set."""
        follower = Follower()
        write(store, add("i"), Add(NOTES, waiting("w")), add("k", to=OTHERS), add("l"))
        follower.catch_up(store, limit=1)
        assert follower.agrees_with(store)
        write(
            store, Replace(NOTES, 1, waiting("i", "new")), Retire(NOTES, "l", 1), add("l", "again")
        )
        write(
            store, add("x"), Retire(NOTES, "x", 1), add("y"), Replace(NOTES, 1, record("y", "new"))
        )
        follower.catch_up(store, limit=2)
        assert follower.agrees_with(store)
        store.store_vectors([(p.set_number, p.row, b"\1") for p in store.pending_vectors(limit=9)])
        write(store, Retire(OTHERS, "k", 1), Retire(NOTES, "w", 1))
        follower.catch_up(store)
        assert follower.agrees_with(store)
        anew = Follower()
        anew.catch_up(store)
        assert anew.agrees_with(store)
        assert sum(map(len, follower.live.values())) == 3

    # --- what waits

    def test_what_has_no_vectors_waits(self, store: Store) -> None:
        """Items without vectors wait for them. An item with empty vectors does not wait."""
        write(store, Add(NOTES, waiting("i", "a text")), add("k"), Add(NOTES, WHOLE_J))
        found = store.pending_vectors(limit=10)
        assert [(p.set_number, p.row, p.text) for p in found] == [
            (info(store).number, row(store, "i"), "a text")
        ]

    def test_live_and_earlier_ones_wait_first(self, store: Store) -> None:
        """Live versions are read first, then ended versions, as searches of the past need them."""
        write(store, Add(NOTES, waiting("i", "old")), Add(NOTES, waiting("j")), time=NOW)
        write(store, Replace(NOTES, 1, waiting("i", "new")), Add(OTHERS, waiting("k")))
        found = [p.text for p in store.pending_vectors(limit=10)]
        assert found == ["text of j", "new", "text of k", "old"]
        assert [p.text for p in store.pending_vectors(limit=2)] == found[:2]

    def test_pending_of_sets(self, store: Store) -> None:
        """Pending items are read for the given sets only."""
        write(store, Add(NOTES, waiting("i")), Add(OTHERS, waiting("j")))
        numbers = [info(store).number, info(store, OTHERS).number]
        texts = [
            [p.text for p in store.pending_vectors(limit=9, set_numbers=chosen)]
            for chosen in ([numbers[1]], numbers, [])
        ]
        assert texts == [["text of j"], ["text of i", "text of j"], []]

    def test_vectors_are_filled_in(self, store: Store) -> None:
        """Filled vectors are in the feature and the change log, and the item no longer waits."""
        write(store, Add(NOTES, waiting("i")))
        seq = store.seq()
        position = (info(store).number, row(store, "i"))
        store.store_vectors([(*position, b"\0\xff")])
        assert features(store)[0].vectors == b"\0\xff"
        assert store.pending_vectors(limit=9) == []
        lines = present(store.changes(seq))
        assert [(c.set_number, c.row, c.kind) for c in lines] == [(*position, "embedded")]

    def test_embedding_is_no_commit(self, store: Store) -> None:
        """Filling vectors moves no number and changes no item."""
        number = write(store, Put(("a",), 1), Add(NOTES, waiting("i"))).number
        before = only(store)
        store.store_vectors([(info(store).number, before.row, b"\1")])
        assert only(store) == before
        assert store.head(ADA) == store.commit_at(FAR) == number

    def test_vectors_are_filled_in_once(self, store: Store) -> None:
        """Existing vectors stay. Vectors that a second embedder makes are ignored."""
        write(store, Add(NOTES, waiting("i")), Add(NOTES, replace(WHOLE_J, time=NOW)), add("k"))
        number = info(store).number
        store.store_vectors([(number, row(store, "i"), b"")])
        seq = store.seq()
        store.store_vectors([(number, row(store, item_id), b"late") for item_id in "ijk"])
        assert [f.vectors for f in features(store)] == [b"", WHOLE_J.vectors, b""]
        assert store.seq() == seq

    def test_one_row_in_one_call_twice(self, store: Store) -> None:
        """Of two vectors for one row in one call, the first is kept."""
        write(store, Add(NOTES, waiting("i")))
        position = (info(store).number, row(store, "i"))
        store.store_vectors([(*position, b"first"), (*position, b"second")])
        assert features(store)[0].vectors == b"first"

    def test_rows_that_are_gone_are_left_alone(self, store: Store) -> None:
        """Deleted rows and rows of other sets are skipped. The others are filled."""
        write(store, Add(NOTES, waiting("i")), add("k", to=OTHERS))
        position = row(store, "i")
        seq = store.seq()
        store.store_vectors(
            [(info(store).number, 123_456, b"\1"), (info(store, OTHERS).number, position, b"\1")]
        )
        assert store.seq() == seq
        assert [p.row for p in store.pending_vectors(limit=9)] == [position]
        store.store_vectors(
            [(info(store).number, 123_456, b"\1"), (info(store).number, position, b"\2")]
        )
        assert features(store)[0].vectors == b"\2"

    def test_words_are_those_of_the_minute_of_the_commit(self, store: Store) -> None:
        """The indexed date words of an item are those of the minute of its commit."""
        minute = NOW // MINUTE_US
        made = terms_of("tea", NOW, None, "{}")
        early = replace(record("i", "tea"), terms=made.packed, tokens=made.tokens, minute=minute)
        late = (minute + 1) * MINUTE_US
        store.commit(batch(Add(NOTES, early), time=NOW))
        store.commit(batch(Add(NOTES, replace(early, id="next")), time=late))
        store.commit(batch(Add(NOTES, replace(early, id="moved")), time=late - SECOND))
        store.commit(batch(Add(NOTES, replace(early, id="given", time=NOW)), time=late))
        found = {f.id: (f.time, f.terms, f.tokens) for f in features(store)}
        read = terms_of("tea", late, None, "{}")
        assert read.packed != made.packed
        assert found["i"] == (NOW, made.packed, made.tokens) == found["given"]
        assert found["next"] == (late, read.packed, read.tokens) == found["moved"]
        store.commit(batch(Add(NOTES, replace(early, id="again")), time=late))
        last = features(store)[-1]
        assert (last.id, last.terms) == ("again", read.packed)

    def test_an_ended_version_is_filled_in_too(self, store: Store) -> None:
        """Ended versions get vectors too, for searches of the past."""
        first = write(store, Add(NOTES, waiting("i"))).number
        old = row(store, "i")
        write(store, Retire(NOTES, "i", 1))
        store.store_vectors([(info(store).number, old, b"\1")])
        assert [f.vectors for f in features(store, at=first)] == [b"\1"]
        assert store.pending_vectors(limit=9) == []

    def test_embedding_nothing_is_no_error(self, store: Store) -> None:
        """An empty call raises no error and writes no line."""
        store.store_vectors([])
        assert store.seq() == 0


WHOLE_J = replace(WHOLE, id="j")

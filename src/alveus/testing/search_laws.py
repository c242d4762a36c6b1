"""Laws of what search reads: the log of changes, features, vectors, screening."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from alveus.errors import EmbedderConflict, SetMoved
from alveus.store import (
    Add,
    AdmissionCheck,
    Compact,
    Define,
    Definition,
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
    SECOND,
    AnyChange,
    Laws,
    add,
    batch,
    present,
    record,
    refused,
    write,
)
from alveus.testing.item_laws import WHOLE, ids, info, only
from alveus.testing.reads import FAR, Follower

OTHER = SetRef(ADA, "other")


def waiting(item_id: str, text: str | None = None) -> ItemRecord:
    """Return a record that waits for its vectors."""
    return replace(record(item_id, text), vectors=None)


def features(store: Store, ref: SetRef = NOTES, at: int | None = None) -> list[Feature]:
    """Return what search reads of a set."""
    return list(store.features(info(store, ref).number, at=at))


def row(store: Store, item_id: str, ref: SetRef = NOTES) -> int:
    """Return the row of a live item."""
    return only(store, item_id, ref).row


class FinderLaws(Laws):
    """What search reads."""

    def test_a_feature_says_all_that_search_needs(self, store: Store) -> None:
        """Every field of it, as it was added."""
        number = write(store, Add(NOTES, WHOLE)).number
        found = features(store)[0]
        for name in set(Feature._fields) & {f.name for f in fields(ItemRecord)}:
            assert getattr(found, name) == getattr(WHOLE, name), name
        item = only(store)
        expected = (item.row, item.row, number, None)
        assert (found.row, found.first, found.begin_commit, found.end_commit) == expected

    def test_a_feature_has_the_time_of_its_item(self, store: Store) -> None:
        """The commit's where none was given."""
        write(store, add("i"), time=NOW + SECOND)
        assert features(store)[0].time == NOW + SECOND

    def test_features_are_of_live_items_by_row(self, store: Store) -> None:
        """One for each, of its live version, in the order of rows."""
        write(store, add("z", time=NOW + 1), add("y", time=NOW), add("x"))
        write(store, Replace(NOTES, 1, record("z", "new")), Retire(NOTES, "y", 1))
        assert [f.id for f in features(store)] == ["x", "z"]
        assert [f.row for f in features(store)] == [row(store, "x"), row(store, "z")]
        assert [f.first for f in features(store)][1] == only(store, "z").first

    def test_features_go_on_past_a_row(self, store: Store) -> None:
        """Without it."""
        write(store, add("i"), add("j"), add("k"))
        number = info(store).number
        found = store.features(number, after=row(store, "i"))
        assert [f.id for f in found] == ["j", "k"]
        assert list(store.features(number, after=row(store, "k"))) == []

    def test_features_of_the_past_are_those_that_lived_then(self, store: Store) -> None:
        """Begun by then, and not ended by then."""
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
        """Another set, key or knowledge has its own; an unknown number has none."""
        refs = (NOTES, OTHER, SetRef(BOB, "notes"), SetRef(HANDBOOK, "notes"))
        for i, ref in enumerate(refs):
            write(store, *(add(f"{i}{j}", to=ref) for j in range(i + 1)), scope=ref.scope)
        for i, ref in enumerate(refs):
            assert [f.id for f in features(store, ref)] == [f"{i}{j}" for j in range(i + 1)]
        unknown = max(info(store, ref).number for ref in refs) + 1
        assert list(store.features(unknown)) == []

    def test_reading_features_goes_on_while_others_write(self, store: Store) -> None:
        """What lives all the time is seen once."""
        write(store, *(add(f"{i}") for i in range(50)))
        reader = iter(store.features(info(store).number))
        found = [next(reader).id]
        write(store, Retire(NOTES, "49", 1), add("new"))
        found += [f.id for f in reader]
        assert [f for f in found if f not in {"49", "new"}] == [f"{i}" for i in range(49)]

    def test_a_view_says_what_its_parts_say(self, store: Store) -> None:
        """Whatever it brings along is what `seq_and_sets`, `changes`, `features` and notes say."""
        write(store, add("first"), add("j", to=OTHER))
        store.put_note("about", "it", expected=None)
        seq = 0
        for i in range(4):
            for sets in ([NOTES, OTHER], [OTHER], ADA):
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
            write(store, add(f"{i}"), *([add(f"j{i}", to=OTHER)] if i else []))
            write(store, *([Retire(OTHER, f"j{i}", 1)] if i else []))

    def test_a_glance_is_of_now(self, store: Store) -> None:
        """It says what `seq`, `set_info` and `set_infos` say, after each commit."""
        for i in range(3):
            for refs in ([NOTES, OTHER], [OTHER], []):
                known = [known for ref in refs if (known := store.set_info(ref)) is not None]
                assert store.seq_and_sets(refs) == (store.seq(), known) == store.seq_and_sets(refs)
            assert (
                store.seq_and_sets(ADA)
                == (store.seq(), store.set_infos(ADA))
                == store.seq_and_sets(ADA)
            )
            write(store, add(f"{i}"), *([add(f"j{i}", to=OTHER)] if i else []))
            write(store, *([Retire(OTHER, f"j{i}", 1)] if i else []))

    def test_features_of_rows_include_what_ended(self, store: Store) -> None:
        """In the set asked for only; what never was is left out."""
        write(store, add("i"), add("j", to=OTHER))
        old = row(store, "i")
        number = write(store, Replace(NOTES, 1, record("i", "new"))).number
        rows = [old, row(store, "i"), row(store, "j", OTHER), 123_456]
        found = {f.row: f.end_commit for f in store.features_of(info(store).number, rows)}
        assert found == {old: number, row(store, "i"): None}
        assert store.features_of(info(store).number, []) == []

    def test_stored_answers_in_the_order_asked(self, store: Store) -> None:
        """Live and ended, of any set; what never was is left out."""
        write(store, add("i"), add("j", to=OTHER))
        rows = [row(store, "j", OTHER), row(store, "i")]
        write(store, Retire(NOTES, "i", 1))
        found = store.items_by_row([*rows, 123_456])
        assert [(item.row, item.set) for item in found] == [(rows[0], OTHER), (rows[1], NOTES)]
        assert store.items_by_row(rows[::-1]) == found[::-1]
        assert store.items_by_row([]) == []

    # --- the change log

    def test_an_item_is_found_in_any_key_of_its_space(self, store: Store) -> None:
        """By its id alone, also after it was retired; not in knowledge, nor in another space."""
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
        """By a part of it, letter for letter, of a live item in a set of that name and space."""
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
        """At 0, and nothing is past it."""
        assert store.seq() == 0
        assert store.changes(0) == []

    def test_items_write_lines_and_the_tree_does_not(self, store: Store) -> None:
        """One for what begins and one for what ends, of their sets."""
        write(store, add("i"), add("j", to=OTHER))
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
        """`seq` is the last; `changes` gives those past a number, so many at a time."""
        write(store, *(add(f"{i}") for i in range(5)))
        lines = present(store.changes(0))
        numbers = [line.seq for line in lines]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == store.seq()
        assert store.changes(numbers[1]) == lines[2:]
        assert store.changes(numbers[1], limit=2) == lines[2:4]
        assert store.changes(store.seq()) == []

    def test_following_the_log_leads_to_the_features(self, store: Store) -> None:
        """Of every set, however often and in whatever portions it is followed."""
        follower = Follower()
        write(store, add("i"), Add(NOTES, waiting("w")), add("k", to=OTHER), add("l"))
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
        write(store, Retire(OTHER, "k", 1), Retire(NOTES, "w", 1))
        follower.catch_up(store)
        assert follower.agrees_with(store)
        anew = Follower()
        anew.catch_up(store)
        assert anew.agrees_with(store)
        assert sum(map(len, follower.live.values())) == 3

    # --- what waits

    def test_what_has_no_vectors_waits(self, store: Store) -> None:
        """Empty vectors are an answer: such an item never waits."""
        write(store, Add(NOTES, waiting("i", "a text")), add("k"), Add(NOTES, WHOLE_J))
        found = store.pending_vectors(limit=10)
        assert [(p.set_number, p.row, p.text) for p in found] == [
            (info(store).number, row(store, "i"), "a text")
        ]

    def test_live_and_earlier_ones_wait_first(self, store: Store) -> None:
        """Then versions that ended, which searches of the past want too."""
        write(store, Add(NOTES, waiting("i", "old")), Add(NOTES, waiting("j")), time=NOW)
        write(store, Replace(NOTES, 1, waiting("i", "new")), Add(OTHER, waiting("k")))
        found = [p.text for p in store.pending_vectors(limit=10)]
        assert found == ["text of j", "new", "text of k", "old"]
        assert [p.text for p in store.pending_vectors(limit=2)] == found[:2]

    def test_pending_of_sets(self, store: Store) -> None:
        """Those asked for alone; of no sets nothing."""
        write(store, Add(NOTES, waiting("i")), Add(OTHER, waiting("j")))
        numbers = [info(store).number, info(store, OTHER).number]
        texts = [
            [p.text for p in store.pending_vectors(limit=9, set_numbers=chosen)]
            for chosen in ([numbers[1]], numbers, [])
        ]
        assert texts == [["text of j"], ["text of i", "text of j"], []]

    def test_vectors_are_filled_in(self, store: Store) -> None:
        """The feature has them, the item waits no longer, search is told."""
        write(store, Add(NOTES, waiting("i")))
        seq = store.seq()
        place = (info(store).number, row(store, "i"))
        store.store_vectors([(*place, b"\0\xff")])
        assert features(store)[0].vectors == b"\0\xff"
        assert store.pending_vectors(limit=9) == []
        lines = present(store.changes(seq))
        assert [(c.set_number, c.row, c.kind) for c in lines] == [(*place, "embedded")]

    def test_embedding_is_no_commit(self, store: Store) -> None:
        """No number moves, the item does not change."""
        number = write(store, Put(("a",), 1), Add(NOTES, waiting("i"))).number
        before = only(store)
        store.store_vectors([(info(store).number, before.row, b"\1")])
        assert only(store) == before
        assert store.head(ADA) == store.commit_at(FAR) == number

    def test_vectors_are_filled_in_once(self, store: Store) -> None:
        """What is there stays, given early or late; an embedder that comes second is ignored."""
        write(store, Add(NOTES, waiting("i")), Add(NOTES, replace(WHOLE_J, time=NOW)), add("k"))
        number = info(store).number
        store.store_vectors([(number, row(store, "i"), b"")])
        seq = store.seq()
        store.store_vectors([(number, row(store, item_id), b"late") for item_id in "ijk"])
        assert [f.vectors for f in features(store)] == [b"", WHOLE_J.vectors, b""]
        assert store.seq() == seq

    def test_one_row_in_one_call_twice(self, store: Store) -> None:
        """The first stands."""
        write(store, Add(NOTES, waiting("i")))
        place = (info(store).number, row(store, "i"))
        store.store_vectors([(*place, b"first"), (*place, b"second")])
        assert features(store)[0].vectors == b"first"

    def test_rows_that_are_gone_are_left_alone(self, store: Store) -> None:
        """Or in another set; the others of the call are filled in."""
        write(store, Add(NOTES, waiting("i")), add("k", to=OTHER))
        place = row(store, "i")
        seq = store.seq()
        store.store_vectors(
            [(info(store).number, 123_456, b"\1"), (info(store, OTHER).number, place, b"\1")]
        )
        assert store.seq() == seq
        assert [p.row for p in store.pending_vectors(limit=9)] == [place]
        store.store_vectors(
            [(info(store).number, 123_456, b"\1"), (info(store).number, place, b"\2")]
        )
        assert features(store)[0].vectors == b"\2"

    def test_words_are_those_of_the_minute_of_the_commit(self, store: Store) -> None:
        """A record may be made in the minute before, and a clock may be behind the last commit."""
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
        """For searches of the past."""
        first = write(store, Add(NOTES, waiting("i"))).number
        old = row(store, "i")
        write(store, Retire(NOTES, "i", 1))
        store.store_vectors([(info(store).number, old, b"\1")])
        assert [f.vectors for f in features(store, at=first)] == [b"\1"]
        assert store.pending_vectors(limit=9) == []

    def test_embedding_nothing_is_no_error(self, store: Store) -> None:
        """And no line."""
        store.store_vectors([])
        assert store.seq() == 0


WHOLE_J = replace(WHOLE, id="j")


MINE = [("embedder of app", "minilm")]


def vectors(store: Store, ref: SetRef = NOTES) -> dict[str, bytes | None]:
    """Return the vectors of live items."""
    return {feature.id: feature.vectors for feature in features(store, ref)}


class StagingLaws(Laws):
    """What notes guard, and how all vectors of a space change at once."""

    def test_a_batch_goes_in_if_the_notes_stand_as_expected(self, store: Store) -> None:
        """All of them."""
        store.put_note("embedder of app", "minilm", expected=None)
        store.put_note("other", "x", expected=None)
        store.commit(replace(batch(add("i")), expects=[*MINE, ("other", "x")]))
        assert info(store).items == 1

    @pytest.mark.parametrize("text", [None, "static", ""])
    def test_a_batch_that_expects_another_note_is_refused(
        self, store: Store, text: str | None
    ) -> None:
        """Vectors of one embedder never come under another; nothing is changed."""
        store.put_note("embedder of app", text, expected=None)
        work = replace(batch(add("i"), Put(("a",), 1), base=0, op=b"op"), expects=MINE)
        error = refused(store, EmbedderConflict, work)
        assert error.asked == "minilm"
        assert store.set_info(NOTES) is None
        assert store.head(ADA) == store.commit_at(FAR) == 0
        store.put_note("embedder of app", "minilm", expected=text)
        assert not store.commit(work).adopted

    def test_a_repetition_needs_no_note(self, store: Store) -> None:
        """It changes nothing."""
        store.put_note("embedder of app", "minilm", expected=None)
        work = replace(batch(add("i"), op=b"op"), expects=MINE)
        number = store.commit(work).number
        store.put_note("embedder of app", "static", expected="minilm")
        assert store.commit(work).number == number

    def test_vectors_are_filled_in_if_the_notes_stand_as_expected(self, store: Store) -> None:
        """Else none of them is."""
        write(store, Add(NOTES, waiting("i")))
        place = (info(store).number, row(store, "i"))
        seq = store.seq()
        with pytest.raises(EmbedderConflict):
            store.store_vectors([(*place, b"\1")], expects=MINE)
        assert vectors(store) == {"i": None}
        assert store.seq() == seq
        store.put_note("embedder of app", "minilm", expected=None)
        store.store_vectors([(*place, b"\1")], expects=MINE)
        assert vectors(store) == {"i": b"\1"}

    def test_what_meaning_can_read_is_to_be_staged(self, store: Store) -> None:
        """With vectors, or a text that is not blank, or a caption; waiting or not."""
        write(
            store,
            Add(NOTES, waiting("waits")),
            Add(NOTES, replace(record("vectors", ""), vectors=b"\1")),
            add("text"),
            Add(NOTES, ItemRecord("caption", "1", None, '{"caption":"a cat"}')),
            Add(NOTES, ItemRecord("nothing", "1", None)),
            add("blank", "  "),
        )
        found = store.versions_to_stage([info(store).number], limit=9)
        ids = [item.record.id for item in store.items_by_row([p.row for p in found])]
        assert ids == ["waits", "vectors", "text", "caption"]
        expected = [("text of text", "{}"), ("", '{"caption":"a cat"}')]
        assert [(p.text, p.metadata) for p in found][-2:] == expected

    def test_blank_is_what_python_calls_blank(self, store: Store) -> None:
        """Any white space of any script, a caption that is none; not what is merely unseen."""
        blank = [chr(code) for code in range(0x110000) if chr(code).isspace()]
        unseen = ["\u200b", "\ufeff", "\0", " \u2060 "]
        write(store, *[add(text, text) for text in [*blank, *unseen]], add("all", "".join(blank)))
        write(store, Add(NOTES, ItemRecord("no caption", "1", "\u3000", '{"caption":""}')))
        found = store.versions_to_stage([info(store).number], limit=99)
        assert [p.text for p in found] == unseen

    def test_what_waits_comes_with_its_metadata(self, store: Store) -> None:
        """Captions are meaning too."""
        write(store, Add(NOTES, ItemRecord("i", "1", None, '{"caption":"é"}', vectors=None)))
        assert [(p.text, p.metadata) for p in store.pending_vectors(limit=9)] == [
            ("", '{"caption":"é"}')
        ]

    def test_live_versions_are_staged_first(self, store: Store) -> None:
        """Then those that ended, of the sets asked for, so many at a time."""
        write(store, add("i", "old"), add("j"), add("k", to=OTHER))
        write(store, Replace(NOTES, 1, record("i", "new")), Retire(OTHER, "k", 1))
        numbers = [info(store).number, info(store, OTHER).number]
        texts = [p.text for p in store.versions_to_stage(numbers, limit=9)]
        assert texts == ["text of j", "new", "old", "text of k"]
        assert [p.text for p in store.versions_to_stage(numbers, limit=2)] == texts[:2]
        assert [p.text for p in store.versions_to_stage(numbers[1:], limit=9)] == ["text of k"]
        assert store.versions_to_stage([], limit=9) == []

    def test_staged_vectors_do_not_serve_yet(self, store: Store) -> None:
        """They lie beside the old ones; only that they are there is seen."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")), add("j"))
        number, seq = info(store).number, store.seq()
        store.stage_vectors([(number, row(store, "i"), b"new")])
        assert vectors(store) == {"i": b"old", "j": b""}
        assert store.seq() == seq
        assert [p.row for p in store.versions_to_stage([number], limit=9)] == [row(store, "j")]
        store.drop_staged_vectors()
        assert len(store.versions_to_stage([number], limit=9)) == len(["i", "j"])

    def test_a_swap_puts_staged_vectors_in_place(self, store: Store) -> None:
        """And changes the notes with them; what had none staged waits; search is told."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")), add("j"), add("", ""))
        write(store, add("k", to=SetRef(BOB, "n")), scope=BOB)
        follower = Follower()
        follower.catch_up(store)
        number, last = info(store).number, store.commit_at(FAR)
        store.stage_vectors(
            [(number, row(store, "i"), b"first"), (number, row(store, "i"), b"new")]
        )
        assert store.use_staged_vectors([number], notes=[("embedder of app", None, "minilm")])
        assert vectors(store) == {"i": b"new", "j": None, "": b""}
        assert vectors(store, SetRef(BOB, "n")) == {"k": b""}
        assert [p.row for p in store.pending_vectors(limit=9)] == [row(store, "j")]
        assert store.note("embedder of app") == "minilm"
        assert store.commit_at(FAR) == last
        follower.catch_up(store)
        assert follower.agrees_with(store)
        assert len(store.versions_to_stage([number], limit=9)) == len(["i", "j"])

    def test_a_swap_reaches_sets_that_were_made_since(self, store: Store) -> None:
        """All of a space, or of a knowledge: none keeps what the old embedder made."""
        places = {
            "of a key": NOTES,
            "of another key": SetRef(BOB, "n"),
            "known": SetRef(Scope(ADA.space, None), "n"),
            "elsewhere": SetRef(Scope("elsewhere", "ada"), "n"),
        }
        for ref in places.values():
            add = Add(ref, replace(record("i"), vectors=b"old"))
            store.commit(replace(batch(add), scope=ref.scope))
        kept: dict[str, bytes | None] = dict.fromkeys(places, b"old")
        assert {n: vectors(store, ref)["i"] for n, ref in places.items()} == kept
        assert store.use_staged_vectors([], notes=[], scopes=[Scope(ADA.space, "a key")])
        kept |= {"of a key": None, "of another key": None}
        assert {n: vectors(store, ref)["i"] for n, ref in places.items()} == kept
        assert store.use_staged_vectors([], notes=[], scopes=[Scope(ADA.space, None)])
        kept |= {"known": None}
        assert {n: vectors(store, ref)["i"] for n, ref in places.items()} == kept

    def test_a_swap_with_an_unexpected_note_does_nothing(self, store: Store) -> None:
        """Not a vector, not a note, not a line."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")))
        number, seq = info(store).number, store.seq()
        store.stage_vectors([(number, row(store, "i"), b"new")])
        notes = [("one", None, "x"), ("two", "y", "z")]
        assert not store.use_staged_vectors([number], notes=notes)
        assert (vectors(store), store.note("one"), store.seq()) == ({"i": b"old"}, None, seq)

    def test_a_swap_reaches_versions_that_ended(self, store: Store) -> None:
        """Searches of the past use the new embedder too."""
        first = write(store, Add(NOTES, replace(record("i"), vectors=b"old"))).number
        number, old = info(store).number, row(store, "i")
        write(store, Retire(NOTES, "i", 1))
        store.stage_vectors([(number, old, b"new")])
        assert store.use_staged_vectors([number], notes=[])
        assert [f.vectors for f in features(store, at=first)] == [b"new"]


RULES = [{"rule": "size", "most": 5}]
RULED = Definition(admission=RULES)


def commit_checked(store: Store, *changes: AnyChange, by: AdmissionCheck | None) -> None:
    """Commit *changes* that were checked, as *by* says; None: that pass every rule."""
    made = batch(*changes)
    store.commit(replace(made, admission_checks=None if by is None else [by]))


def last_row(store: Store, ref: SetRef = NOTES) -> int:
    """Return the row of the item of a set that came last."""
    return max(stored.row for stored in store.page(ref))


class ScreenLaws(Laws):
    """What holds for `Batch.admission_checks`."""

    def test_an_unchecked_add_to_a_set_with_rules_is_refused(self, store: Store) -> None:
        """Nothing is changed, and other sets are not asked."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=AdmissionCheck(NOTES, RULES))
        refused(store, SetMoved, add("j"), add("k", to=OTHER))
        assert ids(store.page(NOTES)) == ["i"]
        write(store, add("k", to=OTHER))

    def test_an_unchecked_replacement_is_refused_and_a_retirement_is_not(
        self, store: Store
    ) -> None:
        """What is in a set may go without being checked."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=AdmissionCheck(NOTES, RULES))
        refused(store, SetMoved, Replace(NOTES, 1, record("i", "new")))
        refused(store, SetMoved, Retire(NOTES, "i", 1), add("j"))
        write(store, Retire(NOTES, "i", 1))
        assert ids(store.page(NOTES)) == []

    def test_a_compaction_is_not_checked(self, store: Store) -> None:
        """What it adds stands for what was."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=AdmissionCheck(NOTES, RULES))
        write(store, Compact(NOTES, [("i", 1)], [add("sum")], "{}"))
        assert ids(store.page(NOTES)) == ["sum"]

    def test_other_rules_are_refused(self, store: Store) -> None:
        """Also those of a set that has none, or had none."""
        write(store, add("i"))
        with pytest.raises(SetMoved):
            commit_checked(store, add("j"), by=AdmissionCheck(NOTES, RULES))
        write(store, Define(NOTES, RULED, replace=True))
        with pytest.raises(SetMoved):
            commit_checked(store, add("j"), by=AdmissionCheck(NOTES, None))
        with pytest.raises(SetMoved):
            commit_checked(store, add("j"), by=AdmissionCheck(NOTES, []))
        commit_checked(store, add("j"), by=AdmissionCheck(NOTES, tuple(RULES)))
        assert ids(store.page(NOTES)) == ["i", "j"]

    def test_a_live_item_past_the_screen_is_refused(self, store: Store) -> None:
        """One that ended since does not count."""
        write(store, add("i"))
        row = last_row(store)
        write(store, add("j"))
        with pytest.raises(SetMoved):
            commit_checked(store, add("k"), by=AdmissionCheck(NOTES, None, row))
        write(store, Retire(NOTES, "j", 1))
        commit_checked(store, add("k"), by=AdmissionCheck(NOTES, None, row))
        assert ids(store.page(NOTES)) == ["i", "k"]

    def test_a_set_that_was_not_there_may_have_come_to_be(self, store: Store) -> None:
        """Its screen knows of no row; only the first of two that begin it is taken."""
        first = AdmissionCheck(NOTES, None, 0)
        commit_checked(store, add("i"), by=first)
        with pytest.raises(SetMoved):
            commit_checked(store, add("j"), by=first)

    def test_batches_of_one_transaction_are_checked_against_each_other(self, store: Store) -> None:
        """The second sees what the first added."""
        twice = [
            replace(batch(add(i)), admission_checks=[AdmissionCheck(NOTES, None, 0)]) for i in "ij"
        ]
        done, refused = store.commit_many(twice)
        assert not isinstance(done, Exception)
        assert isinstance(refused, SetMoved)
        assert ids(store.page(NOTES)) == ["i"]

    def test_what_passes_every_rule_is_taken(self, store: Store) -> None:
        """None instead of screens: a restored item, say."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=None)
        commit_checked(store, Replace(NOTES, 1, record("i", "new")), by=None)
        assert ids(store.page(NOTES)) == ["i"]

    def test_knowledge_is_checked_too(self, store: Store) -> None:
        """A batch of a key that adds to knowledge is held by its rules."""
        book = SetRef(HANDBOOK, "book")
        write(store, Define(book, RULED))
        refused(store, SetMoved, add("i", to=book))
        commit_checked(store, add("i", to=book), by=AdmissionCheck(book, RULES))

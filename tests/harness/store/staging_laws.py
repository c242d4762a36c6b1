"""Laws of the vectors of a new embedder, and of the results of admission rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alveus.errors import EmbedderConflict, SetMoved
from alveus.store import (
    Add,
    AdmissionCheck,
    Compact,
    Define,
    Definition,
    ItemRecord,
    Put,
    Replace,
    Retire,
    Scope,
    SetRef,
    Store,
)
from alveus.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOTES,
    OTHERS,
    AnyChange,
    Laws,
    add,
    batch,
    record,
    refused,
    write,
)
from alveus.testing.item_laws import ids, info
from alveus.testing.reads import FAR, Follower
from alveus.testing.search_laws import features, row, waiting

MINE = [("embedder of app", "minilm")]


def vectors(store: Store, ref: SetRef = NOTES) -> dict[str, bytes | None]:
    """Return the vectors of live items."""
    return {feature.id: feature.vectors for feature in features(store, ref)}


class StagingLaws(Laws):
    """Laws of guarding notes, and of the change of all vectors of a space at once."""

    def test_a_batch_goes_in_if_the_notes_stand_as_expected(self, store: Store) -> None:
        """A batch is accepted if all its expected notes are present."""
        store.put_note("embedder of app", "minilm", expected=None)
        store.put_note("other", "x", expected=None)
        store.commit(replace(batch(add("i")), expects=[*MINE, ("other", "x")]))
        assert info(store).items == 1

    @pytest.mark.parametrize("text", [None, "static", ""])
    def test_a_batch_that_expects_another_note_is_refused(
        self, store: Store, text: str | None
    ) -> None:
        """A batch with an unexpected note changes nothing: vectors of two embedders never mix."""
        store.put_note("embedder of app", text, expected=None)
        work = replace(batch(add("i"), Put(("a",), 1), base=0, op=b"op"), expects=MINE)
        error = refused(store, EmbedderConflict, work)
        assert error.asked == "minilm"
        assert store.set_info(NOTES) is None
        assert store.head(ADA) == store.commit_at(FAR) == 0
        store.put_note("embedder of app", "minilm", expected=text)
        assert not store.commit(work).adopted

    def test_a_repetition_needs_no_note(self, store: Store) -> None:
        """A repetition needs no note, since it changes nothing."""
        store.put_note("embedder of app", "minilm", expected=None)
        work = replace(batch(add("i"), op=b"op"), expects=MINE)
        number = store.commit(work).number
        store.put_note("embedder of app", "static", expected="minilm")
        assert store.commit(work).number == number

    def test_vectors_are_filled_in_if_the_notes_stand_as_expected(self, store: Store) -> None:
        """Vectors are stored only if all expected notes are present."""
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
        """Items with vectors, a text that is not blank, or a caption are to be staged."""
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
        """Blank means white space as in Python, of any script, and an empty caption."""
        blank = [chr(code) for code in range(0x110000) if chr(code).isspace()]
        unseen = ["\u200b", "\ufeff", "\0", " \u2060 "]
        write(store, *[add(text, text) for text in [*blank, *unseen]], add("all", "".join(blank)))
        write(store, Add(NOTES, ItemRecord("no caption", "1", "\u3000", '{"caption":""}')))
        found = store.versions_to_stage([info(store).number], limit=99)
        assert [p.text for p in found] == unseen

    def test_what_waits_comes_with_its_metadata(self, store: Store) -> None:
        """A waiting item is returned with its metadata: captions are embedded too."""
        write(store, Add(NOTES, ItemRecord("i", "1", None, '{"caption":"é"}', vectors=None)))
        assert [(p.text, p.metadata) for p in store.pending_vectors(limit=9)] == [
            ("", '{"caption":"é"}')
        ]

    def test_live_versions_are_staged_first(self, store: Store) -> None:
        """Live versions are staged first, then ended ones, of the given sets, up to a limit."""
        write(store, add("i", "old"), add("j"), add("k", to=OTHERS))
        write(store, Replace(NOTES, 1, record("i", "new")), Retire(OTHERS, "k", 1))
        numbers = [info(store).number, info(store, OTHERS).number]
        texts = [p.text for p in store.versions_to_stage(numbers, limit=9)]
        assert texts == ["text of j", "new", "old", "text of k"]
        assert [p.text for p in store.versions_to_stage(numbers, limit=2)] == texts[:2]
        assert [p.text for p in store.versions_to_stage(numbers[1:], limit=9)] == ["text of k"]
        assert store.versions_to_stage([], limit=9) == []

    def test_staged_vectors_do_not_serve_yet(self, store: Store) -> None:
        """Staged vectors do not serve searches, and only their existence is visible."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")), add("j"))
        number, seq = info(store).number, store.seq()
        store.stage_vectors([(number, row(store, "i"), b"new")])
        assert vectors(store) == {"i": b"old", "j": b""}
        assert store.seq() == seq
        assert [p.row for p in store.versions_to_stage([number], limit=9)] == [row(store, "j")]
        store.drop_staged_vectors()
        assert len(store.versions_to_stage([number], limit=9)) == len(["i", "j"])

    def test_a_swap_replaces_vectors(self, store: Store) -> None:
        """A swap replaces vectors and notes.

        Items without staged vectors wait. Search is informed.
        """
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
        """A swap reaches all sets of a space or knowledge, new ones too."""
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
        """A swap with an unexpected note changes no vector, note or line."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")))
        number, seq = info(store).number, store.seq()
        store.stage_vectors([(number, row(store, "i"), b"new")])
        notes = [("one", None, "x"), ("two", "y", "z")]
        assert not store.use_staged_vectors([number], notes=notes)
        assert (vectors(store), store.note("one"), store.seq()) == ({"i": b"old"}, None, seq)

    def test_a_swap_reaches_versions_that_ended(self, store: Store) -> None:
        """A swap reaches ended versions, for searches of the past."""
        first = write(store, Add(NOTES, replace(record("i"), vectors=b"old"))).number
        number, old = info(store).number, row(store, "i")
        write(store, Retire(NOTES, "i", 1))
        store.stage_vectors([(number, old, b"new")])
        assert store.use_staged_vectors([number], notes=[])
        assert [f.vectors for f in features(store, at=first)] == [b"new"]


RULES = [{"rule": "size", "most": 5}]


RULED = Definition(admission=RULES)


def commit_checked(store: Store, *changes: AnyChange, by: AdmissionCheck | None) -> None:
    """Commit *changes* with these admission checks. None means they pass every rule."""
    made = batch(*changes)
    store.commit(replace(made, admission_checks=None if by is None else [by]))


def last_row(store: Store, ref: SetRef = NOTES) -> int:
    """Return the row of the newest item of a set."""
    return max(stored.row for stored in store.page(ref))


class ScreenLaws(Laws):
    """Laws of `Batch.admission_checks`."""

    def test_an_unchecked_add_to_a_set_with_rules_is_refused(self, store: Store) -> None:
        """An unchecked add to a set with rules changes nothing. Other sets need no check."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=AdmissionCheck(NOTES, RULES))
        refused(store, SetMoved, add("j"), add("k", to=OTHERS))
        assert ids(store.page(NOTES)) == ["i"]
        write(store, add("k", to=OTHERS))

    def test_an_unchecked_replacement_is_refused_and_a_retirement_is_not(
        self, store: Store
    ) -> None:
        """An unchecked replacement is refused. A retirement needs no check."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=AdmissionCheck(NOTES, RULES))
        refused(store, SetMoved, Replace(NOTES, 1, record("i", "new")))
        refused(store, SetMoved, Retire(NOTES, "i", 1), add("j"))
        write(store, Retire(NOTES, "i", 1))
        assert ids(store.page(NOTES)) == []

    def test_a_compaction_is_not_checked(self, store: Store) -> None:
        """A compaction needs no check: its items replace checked ones."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=AdmissionCheck(NOTES, RULES))
        write(store, Compact(NOTES, [("i", 1)], [add("sum")], "{}"))
        assert ids(store.page(NOTES)) == ["sum"]

    def test_other_rules_are_refused(self, store: Store) -> None:
        """A check under other rules is refused, also of a set without rules."""
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
        """A live item newer than the check refuses the batch. An ended one does not."""
        write(store, add("i"))
        row = last_row(store)
        write(store, add("j"))
        with pytest.raises(SetMoved):
            commit_checked(store, add("k"), by=AdmissionCheck(NOTES, None, row))
        write(store, Retire(NOTES, "j", 1))
        commit_checked(store, add("k"), by=AdmissionCheck(NOTES, None, row))
        assert ids(store.page(NOTES)) == ["i", "k"]

    def test_a_set_that_was_not_there_may_have_come_to_be(self, store: Store) -> None:
        """Of two checked batches that begin a set, the second is refused."""
        first = AdmissionCheck(NOTES, None, 0)
        commit_checked(store, add("i"), by=first)
        with pytest.raises(SetMoved):
            commit_checked(store, add("j"), by=first)

    def test_batches_of_one_transaction_are_checked_against_each_other(self, store: Store) -> None:
        """A check of a group's second batch fails on the items of the first."""
        twice = [
            replace(batch(add(i)), admission_checks=[AdmissionCheck(NOTES, None, 0)]) for i in "ij"
        ]
        done, refused = store.commit_many(twice)
        assert not isinstance(done, Exception)
        assert isinstance(refused, SetMoved)
        assert ids(store.page(NOTES)) == ["i"]

    def test_what_passes_every_rule_is_taken(self, store: Store) -> None:
        """None instead of checks passes every rule, for example for a restored item."""
        commit_checked(store, Define(NOTES, RULED), add("i"), by=None)
        commit_checked(store, Replace(NOTES, 1, record("i", "new")), by=None)
        assert ids(store.page(NOTES)) == ["i"]

    def test_knowledge_is_checked_too(self, store: Store) -> None:
        """A batch of a key that adds to knowledge is checked by the knowledge's rules."""
        book = SetRef(HANDBOOK, "book")
        write(store, Define(book, RULED))
        refused(store, SetMoved, add("i", to=book))
        commit_checked(store, add("i", to=book), by=AdmissionCheck(book, RULES))

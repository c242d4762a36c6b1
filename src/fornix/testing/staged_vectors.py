"""Laws of changing the embedder: what a batch expects of notes, and vectors staged and swapped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import EmbedderConflict
from fornix.store import Add, ItemRecord, Put, Replace, Retire, SetRef, Store
from fornix.testing.batches import ADA, BOB, NOTES, Laws, add, batch, record, write
from fornix.testing.finder import OTHER, features, row, waiting
from fornix.testing.reads import FAR, Follower
from fornix.testing.sets import info

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
        with pytest.raises(EmbedderConflict) as caught:
            store.commit(work)
        assert caught.value.asked == "minilm"
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
            store.embed([(*place, b"\1")], expects=MINE)
        assert vectors(store) == {"i": None}
        assert store.seq() == seq
        store.put_note("embedder of app", "minilm", expected=None)
        store.embed([(*place, b"\1")], expects=MINE)
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
        found = store.unstaged([info(store).number], limit=9)
        ids = [item.record.id for item in store.stored([p.row for p in found])]
        assert ids == ["waits", "vectors", "text", "caption"]
        assert [(p.text, p.metadata) for p in found][-2:] == [
            ("text of text", "{}"),
            ("", '{"caption":"a cat"}'),
        ]

    def test_blank_is_what_python_calls_blank(self, store: Store) -> None:
        """Any white space of any script, a caption that is none; not what is merely unseen."""
        blank = [chr(code) for code in range(0x110000) if chr(code).isspace()]
        unseen = ["\u200b", "\ufeff", "\0", " \u2060 "]
        write(store, *[add(text, text) for text in [*blank, *unseen]], add("all", "".join(blank)))
        write(store, Add(NOTES, ItemRecord("no caption", "1", "\u3000", '{"caption":""}')))
        found = store.unstaged([info(store).number], limit=99)
        assert [p.text for p in found] == unseen

    def test_what_waits_comes_with_its_metadata(self, store: Store) -> None:
        """Captions are meaning too."""
        write(store, Add(NOTES, ItemRecord("i", "1", None, '{"caption":"é"}', vectors=None)))
        assert [(p.text, p.metadata) for p in store.pending(limit=9)] == [("", '{"caption":"é"}')]

    def test_live_versions_are_staged_first(self, store: Store) -> None:
        """Then those that ended, of the sets asked for, so many at a time."""
        write(store, add("i", "old"), add("j"), add("k", to=OTHER))
        write(store, Replace(NOTES, 1, record("i", "new")), Retire(OTHER, "k", 1))
        numbers = [info(store).number, info(store, OTHER).number]
        texts = [p.text for p in store.unstaged(numbers, limit=9)]
        assert texts == ["text of j", "new", "old", "text of k"]
        assert [p.text for p in store.unstaged(numbers, limit=2)] == texts[:2]
        assert [p.text for p in store.unstaged(numbers[1:], limit=9)] == ["text of k"]
        assert store.unstaged([], limit=9) == []

    def test_staged_vectors_do_not_serve_yet(self, store: Store) -> None:
        """They lie beside the old ones; only that they are there is seen."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")), add("j"))
        number, seq = info(store).number, store.seq()
        store.stage([(number, row(store, "i"), b"new")])
        assert vectors(store) == {"i": b"old", "j": b""}
        assert store.seq() == seq
        assert [p.row for p in store.unstaged([number], limit=9)] == [row(store, "j")]
        store.unstage()
        assert len(store.unstaged([number], limit=9)) == len(["i", "j"])

    def test_a_swap_puts_staged_vectors_in_place(self, store: Store) -> None:
        """And changes the notes with them; what had none staged waits; search is told."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")), add("j"), add("", ""))
        write(store, add("k", to=SetRef(BOB, "n")), scope=BOB)
        follower = Follower()
        follower.catch_up(store)
        number, last = info(store).number, store.commit_at(FAR)
        store.stage([(number, row(store, "i"), b"first"), (number, row(store, "i"), b"new")])
        assert store.swap([number], notes=[("embedder of app", None, "minilm")])
        assert vectors(store) == {"i": b"new", "j": None, "": b""}
        assert vectors(store, SetRef(BOB, "n")) == {"k": b""}
        assert [p.row for p in store.pending(limit=9)] == [row(store, "j")]
        assert store.note("embedder of app") == "minilm"
        assert store.commit_at(FAR) == last
        follower.catch_up(store)
        assert follower.agrees_with(store)
        assert len(store.unstaged([number], limit=9)) == len(["i", "j"])

    def test_a_swap_with_an_unexpected_note_does_nothing(self, store: Store) -> None:
        """Not a vector, not a note, not a line."""
        write(store, Add(NOTES, replace(record("i"), vectors=b"old")))
        number, seq = info(store).number, store.seq()
        store.stage([(number, row(store, "i"), b"new")])
        notes = [("one", None, "x"), ("two", "y", "z")]
        assert not store.swap([number], notes=notes)
        assert (vectors(store), store.note("one"), store.seq()) == ({"i": b"old"}, None, seq)

    def test_a_swap_reaches_versions_that_ended(self, store: Store) -> None:
        """Searches of the past use the new embedder too."""
        first = write(store, Add(NOTES, replace(record("i"), vectors=b"old"))).number
        number, old = info(store).number, row(store, "i")
        write(store, Retire(NOTES, "i", 1))
        store.stage([(number, old, b"new")])
        assert store.swap([number], notes=[])
        assert [f.vectors for f in features(store, at=first)] == [b"new"]

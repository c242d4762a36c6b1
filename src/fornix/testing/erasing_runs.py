"""Laws of forgetting: what becomes of the runs that wrote or read an item."""

from __future__ import annotations

import pytest

from fornix.errors import KeyBusy
from fornix.store import Batch, StatusChange, Store
from fornix.testing.batches import ADA, NOW, SECOND, Laws, add, write
from fornix.testing.erasing import forget, known, run_of, step


class ErasingRunLaws(Laws):
    """What runs wrote or read leaves no trace with them."""

    def test_runs_that_wrote_or_read_an_item_lose_their_records(self, store: Store) -> None:
        """Other runs keep theirs."""
        looked = '{"items":[["notes",["i"]]],"searches":[]}'
        write(store, add("i"))
        reader, other = run_of(store, event='"1"'), run_of(store, event='"2"')
        step(store, reader, looked=looked)
        step(store, other, looked='{"short_term":[["i"]]}')
        assert forget(store, "i").counts["runs"] == 1
        assert [known(store, n).forgotten for n in (reader, other)] == [True, False]
        erased = forget(store, f"by {other} 0", receipt="two")
        assert erased.counts["steps"] == 1
        assert known(store, other).forgotten
        assert len(erased.puts) == 1
        assert store.outputs("helper", "app") == []

    def test_an_item_is_told_by_its_set_and_owner(self, store: Store) -> None:
        """Of the same id in another set, or in knowledge, nothing was read."""
        looked = (
            '{"items":[[null,"other",["i"]],["handbook","notes",["i"]]],'
            '"searches":[[null,["other","notes"],"i",[["other","i"]]]]}'
        )
        hit = '{"items":[],"searches":[[null,["other","notes"],"q",[["notes","i"]]]]}'
        write(store, add("i"))
        other, reader = run_of(store, event='"1"'), run_of(store, event='"2"')
        step(store, other, looked=looked)
        step(store, reader, looked=hit)
        assert forget(store, "i").counts["runs"] == 1
        assert [known(store, n).forgotten for n in (other, reader)] == [False, True]

    @pytest.mark.parametrize("looked", ["1", "null", '"i"', "[]", '[["notes"],"i"]', '{"items":1}'])
    def test_what_was_looked_up_may_have_any_shape(self, store: Store, looked: str) -> None:
        """A step that somebody else kept is read as texts; it stops no forgetting."""
        write(store, add("i"))
        run = run_of(store, event='"1"')
        step(store, run, looked=looked)
        assert forget(store, "i").counts.get("runs", 0) == ("notes" in looked)
        assert known(store, run).forgotten == ("notes" in looked)

    def test_a_run_that_is_not_over_loses_them_once_it_is(self, store: Store) -> None:
        """Until then the receipt says that it is open."""
        run = run_of(store)
        step(store, run, done=False)
        with pytest.raises(KeyBusy):
            forget(store, f"by {run} 0")
        self.give_back(store)
        erased = forget(store, f"by {run} 0")
        assert tuple(erased.open) == (run,)
        assert len(store.steps(run)) == 1
        assert store.scrub(now=NOW)
        kept = store.receipt("one")
        assert kept is not None
        assert (tuple(kept.open), kept.scrubbed) == ((run,), None)
        step(store, run, 1)
        assert store.scrub(now=NOW + SECOND) == []
        assert store.steps(run) == []
        kept = store.receipt("one")
        assert kept is not None
        assert (kept.state, kept.scrubbed, tuple(kept.open)) == ("scrubbed", NOW + SECOND, ())

    def test_a_heir_of_a_run_that_was_not_over_loses_them_later(self, store: Store) -> None:
        """Retrying what is parked does not save what was forgotten."""
        run = run_of(store)
        step(store, run, done=False)
        store.commit(
            Batch(scope=ADA, time=NOW, run=StatusChange(run, "waiting", "parked", '"secret"'))
        )
        self.give_back(store)
        assert tuple(forget(store, f"by {run} 0").open) == (run,)
        heir = store.retry(run, last=True, time=NOW)
        assert store.scrub(now=NOW)
        assert [known(store, n).forgotten for n in (run, heir)] == [True, False]
        step(store, heir)
        assert store.scrub(now=NOW) == []
        assert known(store, heir).forgotten

    def give_back(self, store: Store) -> None:
        """Have nobody run Ada's key."""
        lease = store.lease(ADA, "worker")
        assert lease is not None
        store.release(lease)

    def test_a_heir_of_an_input_loses_it_too(self, store: Store) -> None:
        """A parked run whose input a later one took over has the same event."""
        run = run_of(store)
        write_turn = StatusChange(run, "waiting", "parked", '"secret"')
        store.commit(Batch(scope=ADA, time=NOW, run=write_turn))
        heir = store.retry(run, last=True, time=NOW)
        step(store, heir)
        forget(store, f"by {heir} 0")
        assert [known(store, n).event for n in (run, heir)] == ["", ""]

"""Laws of the handle: leases, notes, figures, and how it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fornix.errors import ForkedStore, StoreClosed
from fornix.store import (
    Add,
    Create,
    Delete,
    Lease,
    Put,
    QueuedInput,
    Replace,
    Retain,
    Retire,
    Scope,
    Store,
)
from fornix.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    Laws,
    add,
    batch,
    record,
    write,
)
from fornix.testing.finder import waiting
from fornix.testing.items import only
from fornix.testing.sets import BOOK, info

CALLS: dict[str, Callable[[Store], object]] = {
    "commit": lambda s: s.commit(batch()),
    "adopted": lambda s: s.adopted(b"op", request=None, label=""),
    "head": lambda s: s.head(ADA),
    "node": lambda s: s.node(ADA, ("a",), at=None, now=NOW),
    "root": lambda s: s.node(ADA, (), at=None, now=NOW),
    "children": lambda s: s.children(ADA, (), at=None, now=NOW),
    "field_names": lambda s: s.field_names(ADA, (), at=None, now=NOW),
    "effects": lambda s: s.effects(1),
    "commit_at": lambda s: s.commit_at(NOW),
    "set_info": lambda s: s.set_info(NOTES),
    "glance": lambda s: s.glance([NOTES]),
    "glance at a scope": lambda s: s.glance(ADA),
    "set_infos": lambda s: s.set_infos(ADA),
    "keys": lambda s: s.keys("app"),
    "spaces": lambda s: s.spaces(),
    "get": lambda s: s.get(NOTES, ["i"]),
    "page": lambda s: s.page(NOTES),
    "versions": lambda s: s.versions(NOTES, "i"),
    "touch": lambda s: s.touch([1], time=NOW),
    "lease": lambda s: s.lease(ADA, "one"),
    "release": lambda s: s.release(Lease(ADA, "one", 1)),
    "note": lambda s: s.note("n"),
    "put_note": lambda s: s.put_note("n", "x", expected=None),
    "sweep": lambda s: s.sweep(now=NOW),
    "shrink": lambda s: s.shrink(),
    "stats": lambda s: s.stats(),
    "salt": lambda s: s.salt(),
    "seq": lambda s: s.seq(),
    "sync": lambda s: s.sync(),
    "changes": lambda s: s.changes(0),
    "features": lambda s: list(s.features(1)),
    "features_of": lambda s: s.features_of(1, [1]),
    "stored": lambda s: s.stored([1]),
    "pending": lambda s: s.pending(limit=1),
    "embed": lambda s: s.embed([(1, 1, b"")]),
    "unstaged": lambda s: s.unstaged([1], limit=1),
    "stage": lambda s: s.stage([(1, 1, b"")]),
    "unstage": lambda s: s.unstage(),
    "swap": lambda s: s.swap([1], notes=[]),
    "commit_many": lambda s: s.commit_many([batch()]),
    "accept": lambda s: s.accept("helper", [QueuedInput(ADA, "1", NOW)]),
    "run": lambda s: s.run(1),
    "runs": lambda s: s.runs("app"),
    "queue": lambda s: s.queue("helper", ADA),
    "lanes": lambda s: s.lanes("helper", "app", past_parked=True),
    "steps": lambda s: s.steps(1),
    "calls": lambda s: s.calls(1, 0),
    "retry": lambda s: s.retry(1, last=True, time=NOW),
    "outputs": lambda s: s.outputs("helper", "app"),
    "outputs_of": lambda s: s.outputs_of(1),
    "consumer": lambda s: s.consumer("helper", "app", "mail"),
    "advance": lambda s: s.advance("helper", "app", "mail", 1),
    "drop_consumer": lambda s: s.drop_consumer("helper", "app", "mail"),
    "prune": lambda s: s.prune("helper", "app", Retain(), now=NOW),
}
"""Every method of a store but `close`."""


class HandleLaws(Laws):
    """What belongs to the store itself."""

    # --- leases

    def test_a_lease_is_given_to_one(self, store: Store) -> None:
        """While its owner lives nobody else gets it; other keys are others'."""
        lease = store.lease(ADA, "one")
        assert lease is not None
        assert (lease.scope, lease.owner) == (ADA, "one")
        assert store.lease(ADA, "two") is None
        for scope in (BOB, Scope("other app", "ada"), HANDBOOK):
            assert store.lease(scope, "two") is not None

    def test_who_has_a_lease_gets_the_same_again(self, store: Store) -> None:
        """Asking twice does no harm."""
        assert store.lease(ADA, "one") == store.lease(ADA, "one")

    def test_a_dead_owners_lease_is_taken_over_at_once(self, store: Store) -> None:
        """Under a higher epoch."""
        before = store.lease(ADA, "one")
        self.kill_owner(store, "one")
        after = store.lease(ADA, "two")
        assert before is not None
        assert after is not None
        assert after.owner == "two"
        assert after.epoch > before.epoch
        assert store.lease(ADA, "one") is None

    def test_a_lease_given_back_is_free(self, store: Store) -> None:
        """For anyone, under a higher epoch."""
        epochs: list[int] = []
        for owner in ("one", "two", "two"):
            lease = store.lease(ADA, owner)
            assert lease is not None
            epochs.append(lease.epoch)
            store.release(lease)
        assert epochs == sorted(set(epochs))

    def test_giving_back_what_was_taken_over_does_nothing(self, store: Store) -> None:
        """The heir keeps it; nor does giving back twice, or what never was."""
        zombie = store.lease(ADA, "one")
        assert zombie is not None
        self.kill_owner(store, "one")
        heir = store.lease(ADA, "two")
        store.release(zombie)
        store.release(Lease(BOB, "one", 1))
        assert store.lease(ADA, "two") == heir
        assert store.lease(ADA, "three") is None

    def test_an_old_lease_of_the_same_owner_is_not_the_new_one(self, store: Store) -> None:
        """Its epoch tells them apart."""
        old = store.lease(ADA, "one")
        assert old is not None
        store.release(old)
        new = store.lease(ADA, "one")
        store.release(old)
        assert store.lease(ADA, "two") is None
        assert store.lease(ADA, "one") == new

    # --- notes

    def test_a_note_is_put_if_it_is_as_expected(self, store: Store) -> None:
        """Otherwise what stands there stays."""
        assert store.note("n") is None
        assert store.put_note("n", "one", expected=None)
        assert not store.put_note("n", "two", expected=None)
        assert not store.put_note("n", "two", expected="zero")
        assert store.note("n") == "one"
        assert store.put_note("n", "two", expected="one")
        assert store.note("n") == "two"

    def test_a_note_can_be_taken_away(self, store: Store) -> None:
        """If it is as expected; then there is none."""
        store.put_note("n", "", expected=None)
        assert store.note("n") == ""
        assert not store.put_note("n", None, expected="one")
        assert store.put_note("n", None, expected="")
        assert store.note("n") is None
        assert store.put_note("n", None, expected=None)

    def test_notes_are_apart(self, store: Store) -> None:
        """By all of their names; texts of any kind."""
        for name in ("a", "A", "a\0", "🦊", "a.b"):
            assert store.put_note(name, f"{name}\0", expected=None)
        assert [store.note(n) for n in ("a", "A", "a\0", "🦊", "a.b", "b")] == [
            "a\0",
            "A\0",
            "a\0\0",
            "🦊\0",
            "a.b\0",
            None,
        ]

    # --- the store itself

    def test_figures(self, store: Store) -> None:
        """What is live is told from all that is kept."""
        write(store, Create(("o",)), Put(("o", "a"), 1), Put(("b",), 1), Add(NOTES, waiting("i")))
        write(store, Put(("o", "a"), 2), Delete(("b",)), Replace(NOTES, 1, waiting("i", "new")))
        write(store, add("page", to=BOOK), add("j"), scope=ADA, time=NOW + SECOND)
        store.commit(batch(Retire(BOOK, "page", 1), scope=HANDBOOK))
        lease = store.lease(BOB, "one")
        found = store.stats()
        assert (found.commits, found.keys, found.sets) == (4, 1, 2)
        assert (found.items, found.item_versions, found.nodes) == (2, 4, 2)
        assert (found.pending, found.oldest_pending) == (2, NOW)
        assert list(found.leases) == [lease]
        store.embed([(p.set_number, p.row, b"") for p in store.pending(limit=9)])
        assert (store.stats().pending, store.stats().oldest_pending) == (0, None)

    def test_the_figures_of_a_new_store(self, store: Store) -> None:
        """All of them 0, and nobody has a lease."""
        found = replace(store.stats(), file_bytes=0, wal_bytes=0, details={})
        assert (found.commits, found.keys, found.sets, found.items, found.nodes) == (0, 0, 0, 0, 0)
        assert (found.pending, found.oldest_pending, list(found.leases)) == (0, None, [])

    def test_the_salt_stays(self, store: Store, tmp_path: Path) -> None:
        """16 bytes of its own."""
        salt = store.salt()
        assert len(salt) == 16
        write(store, add("i"))
        assert store.salt() == salt
        other = self.open(tmp_path / "other.db")
        assert other.salt() != salt
        other.close()

    def test_it_says_where_it_is(self, store: Store, path: Path) -> None:
        """And whether it can be written."""
        assert store.location in {":memory:", str(path), str(path.resolve())}
        assert store.read_only is False

    def test_two_stores_are_two(self, store: Store, tmp_path: Path) -> None:
        """Nothing is shared between stores at different places."""
        other = self.open(tmp_path / "other.db")
        write(store, Put(("a",), 1), add("i"), time=NOW + SECOND)
        assert (other.head(ADA), other.keys("app"), other.seq()) == (0, [], 0)
        assert write(other, add("i")).time == NOW
        other.close()

    def test_closing_twice_is_fine(self, store: Store) -> None:
        """The end is the end."""
        store.close()
        store.close()

    @pytest.mark.parametrize("call", CALLS)
    def test_a_closed_store_says_so(self, store: Store, call: str) -> None:
        """Whatever is asked of it."""
        write(store, Put(("a",), 1), add("i"))
        store.close()
        with pytest.raises(StoreClosed):
            CALLS[call](store)

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child_is_told_to_open_its_own(self, store: Store) -> None:
        """Whatever it asks; the parent goes on undisturbed, also after the child closed it."""
        write(store, Put(("a",), 1), add("i"))
        child = os.fork()
        if not child:
            os._exit(_refused(store))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert write(store, Put(("b",), 1)).number == 2
        assert only(store).record == replace(record("i"), time=NOW)
        assert info(store).items == 1


def _refused(store: Store) -> int:
    """Return how many calls did not raise `ForkedStore`."""
    left = len(CALLS)
    try:
        for call in CALLS.values():
            try:
                call(store)
            except ForkedStore:
                left -= 1
        store.close()
    except BaseException:  # noqa: BLE001 - the edge of a process: it answers with its exit code
        return 99
    return left

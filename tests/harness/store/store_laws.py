"""Laws of a whole store: handles, leases and notes, threads, outputs and pruning."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from alveus.errors import ForkedStore, NotFound, OutputsPruned, StaleItem, StaleRun, StoreClosed
from alveus.store import (
    Add,
    Batch,
    Commit,
    Create,
    Delete,
    DurableCall,
    Lease,
    Node,
    Put,
    QueuedInput,
    Replace,
    Retain,
    Retire,
    Revive,
    Scope,
    SetRef,
    Step,
    Store,
)
from alveus.store.scope import NameRange
from alveus.testing.batches import (
    ADA,
    BOB,
    BOOK,
    DAY,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    Laws,
    Opener,
    add,
    at_once,
    batch,
    present,
    record,
    write,
)
from alveus.testing.item_laws import ids, info, only
from alveus.testing.reads import Follower, pages
from alveus.testing.run_laws import BEGIN, accept, end, leased, queued_input, there, turn
from alveus.testing.search_laws import waiting
from waiting import LIMIT_S

CALLS: dict[str, Callable[[Store], object]] = {
    "commit": lambda s: s.commit(batch()),
    "adopted": lambda s: s.commit_of_op(b"op", request=None, label=""),
    "head": lambda s: s.head(ADA),
    "node": lambda s: s.node(ADA, ("a",), at=None, now=NOW),
    "root": lambda s: s.node(ADA, (), at=None, now=NOW),
    "children": lambda s: s.children(ADA, (), at=None, now=NOW),
    "field_names": lambda s: s.field_names(ADA, (), at=None, now=NOW),
    "few_fields": lambda s: s.few_fields(ADA, (), at=None, most=1),
    "names_in_range": lambda s: s.names_in_range(ADA, (), NameRange(), at=None, now=NOW),
    "effects": lambda s: s.effects(1),
    "commit_at": lambda s: s.commit_at(NOW),
    "scopes": lambda s: s.scopes_of_commits(0),
    "set_info": lambda s: s.set_info(NOTES),
    "glance": lambda s: s.seq_and_sets([NOTES]),
    "glance at a scope": lambda s: s.seq_and_sets(ADA),
    "set_infos": lambda s: s.set_infos(ADA),
    "keys": lambda s: s.keys("app"),
    "spaces": lambda s: s.spaces(),
    "get": lambda s: s.get(NOTES, ["i"]),
    "page": lambda s: s.page(NOTES),
    "versions": lambda s: s.versions(NOTES, "i"),
    "touch": lambda s: s.touch([1], time=NOW),
    "renew": lambda s: s.renew([(1, NOW)], now=NOW),
    "lease": lambda s: s.acquire_lease(ADA, "one"),
    "release": lambda s: s.release_lease(Lease(ADA, "one", 1)),
    "note": lambda s: s.note("n"),
    "put_note": lambda s: s.put_note("n", "x", expected=None),
    "sweep": lambda s: s.sweep(now=NOW),
    "shrink": lambda s: s.shrink(),
    "stats": lambda s: s.stats(),
    "size": lambda s: s.size_bytes(),
    "how many are pending": lambda s: s.count_pending(),
    "salt": lambda s: s.salt(),
    "seq": lambda s: s.seq(),
    "sync": lambda s: s.sync(),
    "changes": lambda s: s.changes(0),
    "features": lambda s: list(s.features(1)),
    "features_of": lambda s: s.features_of(1, [1]),
    "stored": lambda s: s.items_by_row([1]),
    "pending": lambda s: s.pending_vectors(limit=1),
    "embed": lambda s: s.store_vectors([(1, 1, b"")]),
    "unstaged": lambda s: s.versions_to_stage([1], limit=1),
    "stage": lambda s: s.stage_vectors([(1, 1, b"")]),
    "unstage": lambda s: s.drop_staged_vectors(),
    "swap": lambda s: s.use_staged_vectors([1], notes=[]),
    "commit_many": lambda s: s.commit_many([batch()]),
    "accept": lambda s: s.accept("helper", [QueuedInput(ADA, "1", NOW)]),
    "run": lambda s: s.run(1),
    "runs": lambda s: s.runs("app"),
    "queue": lambda s: s.queued_runs("helper", ADA),
    "statuses": lambda s: s.run_statuses([1]),
    "lanes": lambda s: s.waiting_lanes("helper", "app", past_parked=True),
    "steps": lambda s: s.steps(1),
    "calls": lambda s: s.durable_calls(1, 0),
    "retry": lambda s: s.retry_run(1, last=True, time=NOW),
    "outputs": lambda s: s.outputs("helper", "app"),
    "outputs_of": lambda s: s.run_outputs(1),
    "consumer": lambda s: s.consumer_position("helper", "app", "mail"),
    "advance": lambda s: s.advance_consumer("helper", "app", "mail", 1),
    "drop_consumer": lambda s: s.drop_consumer("helper", "app", "mail"),
    "prune": lambda s: s.prune_runs("helper", "app", Retain(), now=NOW),
}
"""Every method of a store except `close`."""


class HandleLaws(Laws):
    """Laws of a handle."""

    # --- leases

    def test_a_lease_is_given_to_one(self, store: Store) -> None:
        """A live owner's lease is refused to others, and returned to the owner again.

        Keys are separate.
        """
        lease = present(store.acquire_lease(ADA, "one"))
        assert (lease.scope, lease.owner) == (ADA, "one")
        assert store.acquire_lease(ADA, "two") is None
        assert store.acquire_lease(ADA, "one") == lease
        for scope in (BOB, Scope("other app", "ada"), HANDBOOK):
            assert store.acquire_lease(scope, "two") is not None

    def test_a_dead_owners_lease_is_taken_over_at_once(self, store: Store) -> None:
        """A dead owner's lease is taken over at once, under a higher epoch."""
        before = present(store.acquire_lease(ADA, "one"))
        self.kill_owner(store, "one")
        after = present(store.acquire_lease(ADA, "two"))
        assert after.owner == "two"
        assert after.epoch > before.epoch
        assert store.acquire_lease(ADA, "one") is None

    def test_a_lease_given_back_is_free(self, store: Store) -> None:
        """A released lease is free for any owner, under a higher epoch."""
        epochs: list[int] = []
        for owner in ("one", "two", "two"):
            lease = present(store.acquire_lease(ADA, owner))
            epochs.append(lease.epoch)
            store.release_lease(lease)
        assert epochs == sorted(set(epochs))

    def test_giving_back_what_was_taken_over_does_nothing(self, store: Store) -> None:
        """Releasing a lost, released or unknown lease changes nothing."""
        zombie = present(store.acquire_lease(ADA, "one"))
        self.kill_owner(store, "one")
        heir = store.acquire_lease(ADA, "two")
        store.release_lease(zombie)
        store.release_lease(Lease(BOB, "one", 1))
        assert store.acquire_lease(ADA, "two") == heir
        assert store.acquire_lease(ADA, "three") is None

    def test_an_old_lease_of_the_same_owner_is_not_the_new_one(self, store: Store) -> None:
        """The epoch distinguishes an old lease from a new one of the same owner."""
        old = present(store.acquire_lease(ADA, "one"))
        store.release_lease(old)
        new = store.acquire_lease(ADA, "one")
        store.release_lease(old)
        assert store.acquire_lease(ADA, "two") is None
        assert store.acquire_lease(ADA, "one") == new

    # --- notes

    def test_a_note_is_put_if_it_is_as_expected(self, store: Store) -> None:
        """A note is put or deleted only if the present text is as expected. "" is a text."""
        assert store.note("n") is None
        assert store.put_note("n", "one", expected=None)
        for expected in (None, "zero"):
            assert not store.put_note("n", "two", expected=expected)
            assert not store.put_note("n", None, expected=expected)
        assert store.note("n") == "one"
        assert store.put_note("n", "", expected="one")
        assert store.note("n") == ""
        assert store.put_note("n", None, expected="")
        assert store.note("n") is None
        assert store.put_note("n", None, expected=None)

    def test_notes_are_apart(self, store: Store) -> None:
        """Notes are distinct by all parts of their names, with any text."""
        texts = {name: f"{name}\0" for name in ("a", "A", "a\0", "🦊", "a.b")}
        for name, text in texts.items():
            assert store.put_note(name, text, expected=None)
        assert {name: store.note(name) for name in texts} == texts
        assert store.note("b") is None

    # --- the store itself

    def test_figures(self, store: Store) -> None:
        """The figures distinguish live rows from all kept rows."""
        write(store, Create(("o",)), Put(("o", "a"), 1), Put(("b",), 1), Add(NOTES, waiting("i")))
        write(store, Put(("o", "a"), 2), Delete(("b",)), Replace(NOTES, 1, waiting("i", "new")))
        write(store, add("page", to=BOOK), add("j"), scope=ADA, time=NOW + SECOND)
        store.commit(batch(Retire(BOOK, "page", 1), scope=HANDBOOK))
        lease = store.acquire_lease(BOB, "one")
        found = store.stats()
        assert (found.commits, found.keys, found.sets) == (4, 1, 2)
        assert (found.items, found.item_versions, found.nodes) == (2, 4, 2)
        assert (found.pending, found.oldest_pending) == (2, NOW)
        assert list(found.leases) == [lease]
        store.store_vectors([(p.set_number, p.row, b"") for p in store.pending_vectors(limit=9)])
        assert (store.stats().pending, store.stats().oldest_pending) == (0, None)
        write(store, Add(NOTES, waiting("k")), time=NOW + 2 * SECOND)
        (first,) = store.pending_vectors(limit=9)
        write(store, Retire(NOTES, "k", 1), time=NOW + 3 * SECOND)
        write(store, Revive(NOTES, first.row), time=NOW + 4 * SECOND)
        assert (store.stats().pending, store.stats().oldest_pending) == (2, NOW + 2 * SECOND)
        store.store_vectors([(first.set_number, first.row, b"")])
        assert (store.stats().pending, store.stats().oldest_pending) == (1, NOW + 4 * SECOND)

    def test_the_figures_of_a_new_store(self, store: Store) -> None:
        """The figures of a new store are 0, and no owner has a lease."""
        found = replace(store.stats(), file_bytes=0, wal_bytes=0, details={})
        assert (found.commits, found.keys, found.sets, found.items, found.nodes) == (0, 0, 0, 0, 0)
        assert (found.pending, found.oldest_pending, list(found.leases)) == (0, None, [])

    def test_the_salt_stays(self, store: Store, tmp_path: Path, opened: Opener) -> None:
        """A store keeps its random salt of 16 bytes."""
        salt = store.salt()
        assert len(salt) == 16
        write(store, add("i"))
        assert store.salt() == salt
        other = opened(tmp_path / "other.db")
        assert other.salt() != salt

    def test_it_says_where_it_is(self, store: Store, path: Path) -> None:
        """A store reports its location, and whether it is writable."""
        assert store.location == self.location(path)
        assert store.read_only is False

    def test_two_stores_are_two(self, store: Store, tmp_path: Path, opened: Opener) -> None:
        """Stores at different locations share nothing."""
        other = opened(tmp_path / "other.db")
        write(store, Put(("a",), 1), add("i"), time=NOW + SECOND)
        assert (other.head(ADA), other.keys("app"), other.seq()) == (0, [], 0)
        assert write(other, add("i")).time == NOW

    @pytest.mark.parametrize("call", CALLS)
    def test_a_closed_store_says_so(self, store: Store, call: str) -> None:
        """Every call of a closed store raises, except a second close."""
        write(store, Put(("a",), 1), add("i"))
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            CALLS[call](store)

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child_must_open_another(self, store: Store) -> None:
        """Every call in a forked child raises.

        The parent continues, also after the child's close.
        """
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
    """Return the number of calls that did not raise `ForkedStore`."""
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


def try_commit(store: Store, work: Batch) -> Commit | None:
    """Commit, or return None after a conflict."""
    try:
        return store.commit(work)
    except (StaleRun, StaleItem):
        return None


class ThreadLaws(Laws):
    """Laws of concurrent writers."""

    def test_of_two_with_one_base_exactly_one_wins(self, store: Store) -> None:
        """Of two commits with one base exactly one succeeds. The other changes nothing."""

        def play(i: int) -> list[tuple[int, int]]:
            won: list[tuple[int, int]] = []
            for base in range(200):
                head = store.head(ADA)
                commit = try_commit(store, batch(Put(("a",), [i, base]), base=head))
                if commit is not None:
                    won.append((head, commit.number))
            return won

        won = [pair for part in at_once(2, play) for pair in part]
        bases = sorted(base for base, _ in won)
        numbers = sorted(number for _, number in won)
        assert len(set(bases)) == len(bases), "two commits were made from one base"
        assert len(set(numbers)) == len(numbers)
        assert bases == [0, *numbers[:-1]], "each commit builds on the one before it"

    def test_every_acknowledged_add_is_there(self, store: Store) -> None:
        """Every acknowledged add of sixteen threads is stored, each with its number."""

        def play(i: int) -> list[int]:
            return [store.commit(batch(add(f"{i}.{j}"))).number for j in range(10)]

        numbers = [n for part in at_once(16, play) for n in part]
        expected = sorted(f"{i}.{j}" for i in range(16) for j in range(10))
        assert sorted(ids(pages(store, NOTES))) == expected
        assert len(set(numbers)) == len(numbers) == info(store).items == 160
        follower = Follower()
        follower.catch_up(store)
        assert follower.agrees_with(store)

    def test_of_one_op_exactly_one_is_done(self, store: Store) -> None:
        """Of concurrent commits of one op, one is done. The others adopt its result."""

        def play(i: int) -> Commit:
            return store.commit(batch(add(f"{i}"), op=b"op", result=i))

        answers = at_once(8, play)
        first = [answer for answer in answers if not answer.adopted]
        assert len(first) == 1
        assert {(a.number, a.result) for a in answers} == {(first[0].number, first[0].result)}
        assert ids(store.page(NOTES)) == [f"{first[0].result}"]

    def test_of_one_version_exactly_one_change_is_made(self, store: Store) -> None:
        """Of concurrent changes of one version, one succeeds. The others are refused."""
        write(store, add("i", ""))

        def play(i: int) -> int:
            done = 0
            while done < 10:
                item = only(store)
                text = f"{item.record.text}{i}"
                work = batch(Replace(NOTES, item.version, record("i", text)))
                done += try_commit(store, work) is not None
            return done

        at_once(4, play)
        assert only(store).version == 41
        assert sorted(only(store).record.text or "") == sorted("0123" * 10)

    def test_nobody_sees_half_a_batch(self, store: Store) -> None:
        """Value and item of one commit appear together in every read."""
        write(store, Put(("a",), 0), add("i", "0"))
        done, seen = Event(), [Event(), Event()]

        def play(i: int) -> None:
            if i == 0:
                for n in range(1, 200):
                    write(store, Put(("a",), n), Replace(NOTES, n, record("i", f"{n}")))
                    if n == 100:  # ensures reads before and after
                        assert all(each.wait(LIMIT_S) for each in seen)
                done.set()
                return
            while not done.is_set():
                head = store.head(ADA)
                node = store.node(ADA, ("a",), at=head, now=NOW)
                item = only(store, at=head)
                assert node == Node(is_object=False, value=int(item.record.text or ""))
                seen[i - 1].set()

        at_once(3, play)

    def test_a_set_that_many_begin_is_one(self, store: Store) -> None:
        """The first adds of two threads make one set."""
        for i in range(20):
            ref = SetRef(ADA, f"set {i}")
            at_once(2, lambda j, ref=ref: store.commit(batch(add(f"{j}", to=ref))))
            assert info(store, ref).items == 2


ALL = Retain(age=timedelta(microseconds=0), dedupe_for=timedelta(microseconds=0), dedupe_count=0)
"""A retention of nothing."""


def events(store: Store, after: int = 0, *, agent: str = "helper", limit: int = 100) -> list[str]:
    """Return the outputs of an agent after a position."""
    return [o.event for o in store.outputs(agent, "app", after=after, limit=limit)]


def position(store: Store, event: str) -> int:
    """Return the position of an output."""
    found = store.outputs("helper", "app", after=store.consumer_position("helper", "app", "look"))
    store.drop_consumer("helper", "app", "look")
    return next(output.position for output in found if output.event == event)


class OutputLaws(Laws):
    """Laws of `outputs`, `consumer`, `advance`, `drop_consumer` and `prune`."""

    # --- outputs

    def test_outputs_are_read_in_the_order_of_commits(self, store: Store) -> None:
        """Outputs of one agent and space are in the order of commits, after a position, by page."""
        runs = [accept(store, scope) for scope in (ADA, BOB, ADA)]
        end(store, runs[1], ["1", "2"])
        end(store, runs[0], ["3"])
        end(store, accept(store, agent="other"), ["theirs"])
        end(store, accept(store, Scope("other app", "ada")), ["elsewhere"])
        end(store, runs[2], ["4"])
        assert events(store) == ["1", "2", "3", "4"]
        page = store.outputs("helper", "app", limit=2)
        assert [output.event for output in page] == ["1", "2"]
        assert events(store, page[-1].position, limit=1) == ["3"]
        assert events(store, store.outputs("helper", "app")[-1].position) == []
        assert events(store, agent="other") == ["theirs"]
        assert events(store, agent="nobody") == []
        assert [output.event for output in store.run_outputs(runs[1])] == ["1", "2"]
        assert store.outputs("helper", "app")[2:3] == store.run_outputs(runs[0])
        assert store.run_outputs(10**6) == []

    # --- consumers

    def test_a_new_consumer_begins_at_the_first_output(self, store: Store) -> None:
        """A new consumer starts at the first kept output, or at 0 before any pruning."""
        assert store.consumer_position("helper", "app", "mail") == 0
        end(store, accept(store), ["1"])
        assert store.consumer_position("helper", "app", "mail") == 0
        store.drop_consumer("helper", "app", "mail")
        last = position(store, "1")
        store.prune_runs("helper", "app", ALL, now=NOW)
        assert store.consumer_position("helper", "app", "mail") == last

    def test_a_consumer_moves_forward_only(self, store: Store) -> None:
        """A consumer only moves forward. Consumers are separate by name, agent and space."""
        for name, position in (("mail", 5), ("mail", 3), ("log", 2)):
            store.consumer_position("helper", "app", name)
            store.advance_consumer("helper", "app", name, position)
        assert store.consumer_position("helper", "app", "mail") == 5
        assert store.consumer_position("helper", "app", "log") == 2
        assert store.consumer_position("other", "app", "mail") == 0
        assert store.consumer_position("helper", "other app", "mail") == 0

    def test_a_consumer_that_is_not_there_cannot_advance(self, store: Store) -> None:
        """A dropped consumer cannot advance: its next outputs may be pruned."""
        for _ in range(2):
            with pytest.raises(NotFound):
                store.advance_consumer("helper", "app", "mail", 1)
            store.consumer_position("helper", "app", "mail")
            assert store.drop_consumer("helper", "app", "mail")
            assert not store.drop_consumer("helper", "app", "mail")

    # --- pruning

    def test_a_pruned_run_is_gone_with_all_that_hung_on_it(self, store: Store) -> None:
        """A pruned run is deleted with its records.

        Its changes in memory stay; ids are not reused.
        """
        run, lease = accept(store), leased(store)
        call = DurableCall(run, 0, 0, "fetch", "digest", "returned", "1", begin=BEGIN)
        store.commit(batch(call, under=lease))
        step = Step(run, 0, "greet", outputs=["1"], done=True)
        number = store.commit(batch(step, under=lease, release=True)).number
        assert store.prune_runs("helper", "app", ALL, now=NOW) == 1
        assert store.run(run) is None
        assert (store.steps(run), store.durable_calls(run, 0), store.run_outputs(run)) == (
            [],
            [],
            [],
        )
        assert store.runs("app") == []
        assert store.effects(number) is not None
        assert store.commit_at(NOW) == number
        again = store.accept("helper", [QueuedInput(ADA, "1", NOW)])[0]
        assert again.number == 1
        assert again.run is not None
        assert again.run > run

    def test_runs_are_kept_for_their_age(self, store: Store) -> None:
        """The age of a run counts from its end."""
        ids = [accept(store, scope, time=NOW - DAY) for scope in (ADA, BOB)]
        end(store, ids[1], time=NOW)
        end(store, ids[0], time=NOW + SECOND)
        retain = Retain(age=timedelta(microseconds=DAY))
        assert store.prune_runs("helper", "app", retain, now=NOW + DAY - 1) == 0
        assert store.prune_runs("helper", "app", retain, now=NOW + DAY) == 1
        assert [run.id for run in store.runs("app")] == [ids[0]]
        assert store.prune_runs("helper", "app", Retain(age=None), now=NOW + 9 * DAY) == 0

    def test_runs_are_kept_by_count(self, store: Store) -> None:
        """The last ended runs of each agent are kept by count."""
        ids = [accept(store) for _ in range(4)]
        for i, place in enumerate((2, 0, 3, 1)):
            end(store, ids[place], time=NOW + i)
        end(store, accept(store, agent="other"))
        assert store.prune_runs("helper", "app", Retain(age=None, count=4), now=NOW) == 0
        assert store.prune_runs("helper", "app", Retain(age=None, count=2), now=NOW) == 2
        assert [run.id for run in store.runs("app", agent="helper")] == [ids[3], ids[1]]
        assert len(store.runs("app", agent="other")) == 1
        assert store.prune_runs("helper", "app", Retain(age=None, count=0), now=NOW) == 2

    def test_what_has_not_ended_is_never_pruned(self, store: Store) -> None:
        """Waiting and parked runs, and their event ids, are never pruned."""
        waiting = store.accept("helper", [queued_input("e")])[0].run
        parked = accept(store)
        turn(store, parked, "parked")
        assert store.prune_runs("helper", "app", ALL, now=NOW + 900 * DAY) == 0
        assert [run.id for run in store.queued_runs("helper", ADA)] == [waiting, parked]
        assert store.accept("helper", [queued_input("e")])[0].run == waiting

    def test_pruning_takes_the_longest_ended_first(self, store: Store) -> None:
        """Pruning deletes the runs that ended first, up to the limit. Further calls continue."""
        ids = [accept(store) for _ in range(3)]
        for i, place in enumerate((1, 2, 0)):
            end(store, ids[place], [f"{place}"], time=NOW + i)
        late = NOW + SECOND
        assert store.prune_runs("helper", "app", ALL, now=late, limit=2) == 2
        assert [run.id for run in store.runs("app")] == [ids[0]]
        assert store.prune_runs("helper", "app", ALL, now=late, limit=2) == 1
        assert store.prune_runs("helper", "app", ALL, now=late, limit=2) == 0
        assert store.prune_runs("nobody", "app", ALL, now=late) == 0
        assert store.prune_runs("helper", "other app", ALL, now=late) == 0

    def test_pruned_outputs_are_said_to_be_gone(self, store: Store) -> None:
        """A read before the first kept output raises, with its position."""
        for text in "123":
            end(store, accept(store), [text])
        floor = position(store, "2")
        store.prune_runs("helper", "app", Retain(age=None, count=1), now=NOW)
        with pytest.raises(OutputsPruned) as caught:
            store.outputs("helper", "app")
        assert (caught.value.agent, caught.value.after, caught.value.floor) == ("helper", 0, floor)
        with pytest.raises(OutputsPruned):
            store.outputs("helper", "app", after=floor - 1)
        assert events(store, floor) == ["3"]
        assert events(store, agent="other") == []

    def test_the_first_position_is_past_every_pruned_output(self, store: Store) -> None:
        """The first kept position is after every pruned output, whatever the order of sending."""
        slow, quick = accept(store), accept(store, BOB)
        lease = leased(store)
        step = Step(slow, 0, "greet", outputs=["1"], begin=BEGIN)
        store.commit(batch(step, under=lease))
        end(store, quick, ["2"])
        floor = position(store, "2")
        last = Step(slow, 1, "greet", done=True)
        store.commit(batch(last, under=lease, time=NOW + SECOND))
        assert store.prune_runs("helper", "app", ALL, now=NOW + SECOND) == 2
        assert store.consumer_position("helper", "app", "mail") == floor
        with pytest.raises(OutputsPruned):
            store.outputs("helper", "app", after=floor - 1)

    def test_no_output_goes_before_its_consumers_read_it(self, store: Store) -> None:
        """No output is pruned before every consumer has read it, whatever `Retain` says."""
        for scope, outputs in ((ADA, ["1"]), (BOB, ["2", "3"]), (ADA, []), (ADA, ["4"])):
            end(store, accept(store, scope), outputs)
        for name, event in (("mail", "2"), ("log", "4")):
            store.consumer_position("helper", "app", name)
            store.advance_consumer("helper", "app", name, position(store, event))
        assert store.prune_runs("helper", "app", ALL, now=NOW) == 1
        mail = store.consumer_position("helper", "app", "mail")
        assert events(store, mail) == ["3", "4"]
        store.advance_consumer("helper", "app", "mail", position(store, "3"))
        assert store.prune_runs("helper", "app", ALL, now=NOW) == 2
        store.drop_consumer("helper", "app", "mail")
        assert store.prune_runs("helper", "app", ALL, now=NOW) == 1
        assert store.runs("app") == []

    def test_event_ids_outlive_their_runs(self, store: Store) -> None:
        """Event ids outlive their runs, for the time of recognition. The run counts as pruned."""
        run = present(store.accept("helper", [queued_input("e")])[0].run)
        end(store, run)
        retain = Retain(age=timedelta(0), dedupe_for=timedelta(days=1), dedupe_count=0)
        assert store.prune_runs("helper", "app", retain, now=NOW + DAY - 1) == 1
        answer = store.accept("helper", [queued_input("e")], owner="one")[0]
        assert (answer.run, answer.number, answer.repeated) == (None, 0, True)
        assert (answer.lease, answer.first) == (None, False)
        assert store.prune_runs("helper", "app", retain, now=NOW + DAY) == 0
        again = store.accept("helper", [queued_input("e", "other")])[0]
        assert (again.number, again.repeated) == (1, False)
        assert again.run is not None
        assert there(store, again.run).event == '"hello"'

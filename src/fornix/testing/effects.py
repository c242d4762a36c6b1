"""Laws of the journal: what a commit did can be read for as long as it is kept."""

from __future__ import annotations

from fornix.store import Clear, Create, Delete, Effects, Put, Refresh, Replace, Retire, Store
from fornix.testing.batches import (
    ADA,
    NOTES,
    NOW,
    SECOND,
    AnyChange,
    Laws,
    add,
    batch,
    record,
    write,
)
from fornix.testing.reads import FAR, tree
from fornix.values.storable import Path

FURNITURE: tuple[AnyChange, ...] = (
    Put(("first",), 1),
    Create(("object",)),
    Put(("object", "a"), 1),
    Create(("object", "b")),
    Put(("object", "b", "deep"), 1),
    Put(("last",), 1),
)


def effects_of(store: Store, *changes: AnyChange) -> Effects:
    """Commit *changes*; return what the journal says they did."""
    found = store.effects(write(store, *changes).number)
    assert found is not None
    return found


class EffectsLaws(Laws):
    """What `effects` and `commit_at` say."""

    def test_effects_carry_the_commit_itself(self, store: Store) -> None:
        """As it was answered, with its scope."""
        commit = store.commit(batch(add("i"), result={"a": b"\0"}))
        found = store.effects(commit.number)
        assert found is not None
        assert (found.commit, found.scope) == (commit, ADA)

    def test_there_are_no_effects_of_what_never_was(self, store: Store) -> None:
        """None, for 0, for negative numbers and for the future."""
        last = write(store, add("i")).number
        assert [store.effects(n) for n in (0, -1, last + 1)] == [None, None, None]

    def test_put_nodes_come_parents_first_and_as_made(self, store: Store) -> None:
        """So that they can be put again in that order."""
        found = effects_of(store, *FURNITURE)
        paths = [path for path, _ in found.put]
        assert paths == [change.path for change in FURNITURE if isinstance(change, (Put, Create))]
        assert found.removed == []

    def test_a_value_put_twice_counts_once(self, store: Store) -> None:
        """With what stands there in the end."""
        found = effects_of(store, Put(("a",), 1), Put(("b",), 1), Put(("a",), 2))
        assert [(path, node.value) for path, node in sorted(found.put)] == [
            (("a",), 2),
            (("b",), 1),
        ]

    def test_what_came_and_went_in_one_batch_never_was(self, store: Store) -> None:
        """Neither put nor removed."""
        found = effects_of(
            store, Create(("a",)), Put(("a", "b"), 1), Put(("c",), 1), Delete(("a",)), Clear(())
        )
        assert (list(found.put), list(found.removed)) == ([], [])
        assert tree(store, ADA, now=NOW) == []

    def test_a_replaced_value_is_put_but_not_removed(self, store: Store) -> None:
        """It keeps its place."""
        write(store, *FURNITURE)
        found = effects_of(store, Put(("first",), 2), Create(("last",)))
        assert sorted(path for path, _ in found.put) == [("first",), ("last",)]
        assert list(found.removed) == []

    def test_every_node_of_a_removed_subtree_is_named(self, store: Store) -> None:
        """A deleted object takes what is below it along."""
        write(store, *FURNITURE)
        found = effects_of(store, Delete(("object",)))
        assert sorted(found.removed) == [
            ("object",),
            ("object", "a"),
            ("object", "b"),
            ("object", "b", "deep"),
        ]

    def test_clearing_names_all_but_the_object(self, store: Store) -> None:
        """Which stays."""
        write(store, *FURNITURE)
        found = effects_of(store, Clear(("object",)))
        assert sorted(found.removed) == [("object", "a"), ("object", "b"), ("object", "b", "deep")]

    def test_effects_done_again_give_the_same_tree(self, store: Store) -> None:
        """First what was removed, then what was put: order of fields included."""
        write(store, *FURNITURE)
        model = _ordered(store)
        found = effects_of(
            store,
            Put(("last",), 2),
            Delete(("first",)),
            Put(("first",), 3),
            Delete(("object", "b")),
            Create(("object", "b")),
            Put(("object", "c"), 1),
            Put(("new",), 4),
        )
        for path in found.removed:
            model.pop(path, None)
        for path, node in found.put:
            model[path] = None if node.is_object else node.value
        for parent in ((), ("object",), ("object", "b")):
            fields = store.children(ADA, parent, at=None, now=NOW)
            again = [path[-1] for path in model if path[:-1] == parent and path]
            assert [name for name, _ in fields] == again
        assert model == _ordered(store)

    def test_a_refresh_makes_no_version(self, store: Store) -> None:
        """It is no effect."""
        write(store, Put(("a",), 1, NOW + SECOND))
        found = effects_of(store, Refresh(("a",), NOW + 2 * SECOND))
        assert (list(found.put), list(found.removed)) == ([], [])

    def test_effects_name_versions_of_items(self, store: Store) -> None:
        """What began and what ended: an edit is both."""
        write(store, add("old"), add("gone"))
        found = effects_of(
            store, add("new"), Replace(NOTES, 1, record("old", "edited")), Retire(NOTES, "gone", 1)
        )
        begun = [(item.record.id, item.version, item.record.text) for item in found.begun]
        assert begun == [("new", 1, "text of new"), ("old", 2, "edited")]
        assert sorted((i.record.id, i.version) for i in found.ended) == [("gone", 1), ("old", 1)]

    def test_an_item_that_came_and_went_in_one_batch_was_live_at_no_commit(
        self, store: Store
    ) -> None:
        """Its version is kept, so that nothing that was accepted is without a trace."""
        found = effects_of(store, add("i"), Retire(NOTES, "i", 1), add("j"))
        assert [item.record.id for item in found.begun] == ["i", "j"]
        assert [item.record.id for item in found.ended] == ["i"]
        (version,) = store.versions(NOTES, "i")
        assert version.begun == version.ended == found.commit.number
        assert store.get(NOTES, ["i"], at=found.commit.number) == [None]

    def test_later_commits_do_not_change_effects(self, store: Store) -> None:
        """What was put stays readable after it was overwritten or deleted."""
        number = write(store, Put(("a",), 1), Put(("b",), 2), add("i")).number
        write(store, Put(("a",), 5), Delete(("b",)), Replace(NOTES, 1, record("i", "edited")))
        found = store.effects(number)
        assert found is not None
        assert [(path, node.value) for path, node in found.put] == [(("a",), 1), (("b",), 2)]
        assert [item.record.text for item in found.begun] == ["text of i"]

    def test_commit_at_finds_the_last_commit_by_a_time(self, store: Store) -> None:
        """At or before it; of several at one time the last; 0 before all."""
        assert store.commit_at(FAR) == 0
        numbers = [store.commit(batch(time=t)).number for t in (NOW, NOW, NOW + SECOND)]
        found = [store.commit_at(t) for t in (NOW - 1, NOW, NOW + 1, NOW + SECOND, FAR)]
        assert found == [0, numbers[1], numbers[1], numbers[2], numbers[2]]


def _ordered(store: Store) -> dict[Path, object]:
    """Return the tree by path; fields of an object come in their order."""
    found: dict[Path, object] = {}
    stack: list[Path] = [()]
    while stack:
        parent = stack.pop()
        for name, node in store.children(ADA, parent, at=None, now=NOW):
            found[(*parent, name)] = None if node.is_object else node.value
            if node.is_object:
                stack.append((*parent, name))
    return found

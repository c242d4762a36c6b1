"""Laws of the journal's effects of a commit."""

from __future__ import annotations

import pytest

from alveus.store import (
    Clear,
    Create,
    Delete,
    Erasure,
    Put,
    Refresh,
    Replace,
    Retire,
    SetRef,
    Store,
)
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
    write,
)
from alveus.testing.commit_laws import effects_of
from alveus.testing.reads import FAR
from alveus.values.storable import Path, Value

FURNITURE: tuple[AnyChange, ...] = (
    Put(("first",), 1),
    Create(("object",)),
    Put(("object", "a"), 1),
    Create(("object", "b")),
    Put(("object", "b", "deep"), 1),
    Put(("last",), 1),
    Put(("mortal",), 1, NOW + SECOND),
)


BELOW = [("object", "a"), ("object", "b"), ("object", "b", "deep")]


EFFECTS: dict[str, tuple[tuple[AnyChange, ...], list[tuple[Path, Value]], list[Path]]] = {
    "a value that is put twice counts once": (
        (Put(("a",), 1), Put(("b",), 1), Put(("a",), 2)),
        [(("a",), 2), (("b",), 1)],
        [],
    ),
    "what came and went in one batch never was": (
        (Create(("c",)), Put(("c", "b"), 1), Put(("d",), 1), Delete(("c",)), Delete(("d",))),
        [],
        [],
    ),
    "what came with the batch that clears the root never was": (
        (Put(("d",), 1), Clear(())),
        [],
        sorted([("first",), ("last",), ("mortal",), ("object",), *BELOW]),
    ),
    "a value that is replaced is put but not removed": (
        (Put(("first",), 2), Create(("last",))),
        [(("first",), 2), (("last",), None)],
        [],
    ),
    "a deleted object takes what is below it along": (
        (Delete(("object",)),),
        [],
        [("object",), *BELOW],
    ),
    "an object that is cleared stays": ((Clear(("object",)),), [], BELOW),
    "a refresh makes no version": ((Refresh(("mortal",), NOW + 2 * SECOND),), [], []),
}


class EffectsLaws(Laws):
    """Laws of `effects` and `commit_at`."""

    def test_commits_say_whose_they_are(self, store: Store) -> None:
        """Commits are listed with their scope, in order, after a number, up to a limit."""
        scopes = [ADA, HANDBOOK, BOB, ADA]
        for scope in scopes:
            write(store, add(f"{store.stats().commits}", to=SetRef(scope, "set")), scope=scope)
        told = [*enumerate(scopes, 1)]
        assert store.scopes_of_commits(0) == told
        assert store.scopes_of_commits(1, limit=2) == told[1:3]
        assert store.scopes_of_commits(len(told)) == []
        store.erase(Erasure(BOB, NOW, "one", whole_key=True))
        found = store.scopes_of_commits(2)
        assert BOB not in [scope for _, scope in found]
        assert [number for number, _ in found] == [3, 4, 5]

    def test_there_are_no_effects_of_what_never_was(self, store: Store) -> None:
        """`effects` returns None for 0, negative numbers and future commits."""
        last = write(store, add("i")).number
        assert [store.effects(n) for n in (0, -1, last + 1)] == [None, None, None]

    def test_put_nodes_come_parents_first_and_as_made(self, store: Store) -> None:
        """Put nodes are listed parents first and in order of creation, so they can be put again."""
        found = effects_of(store, *FURNITURE)
        paths = [path for path, _ in found.put_nodes]
        assert paths == [change.path for change in FURNITURE if isinstance(change, (Put, Create))]
        assert found.removed_paths == []

    @pytest.mark.parametrize("case", EFFECTS)
    def test_effects_name_what_was_put_and_removed(self, store: Store, case: str) -> None:
        """Effects list each put and removed node once, in its final state."""
        changes, put, removed = EFFECTS[case]
        write(store, *FURNITURE)
        found = effects_of(store, *changes)
        assert sorted((path, node.value) for path, node in found.put_nodes) == put
        assert sorted(found.removed_paths) == removed

    def test_effects_done_again_give_the_same_tree(self, store: Store) -> None:
        """Effects reproduce the tree and its order of fields: first removals, then puts."""
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
        for path in found.removed_paths:
            model.pop(path, None)
        for path, node in found.put_nodes:
            model[path] = None if node.is_object else node.value
        for parent in ((), ("object",), ("object", "b")):
            fields = store.children(ADA, parent, at=None, now=NOW)
            again = [path[-1] for path in model if path[:-1] == parent and path]
            assert [name for name, _ in fields] == again
        assert model == _ordered(store)

    def test_effects_name_versions_of_items(self, store: Store) -> None:
        """Effects list begun and ended versions. An edit is both."""
        write(store, add("old"), add("gone"))
        found = effects_of(
            store, add("new"), Replace(NOTES, 1, record("old", "edited")), Retire(NOTES, "gone", 1)
        )
        begun = [(item.record.id, item.version, item.record.text) for item in found.begun_items]
        assert begun == [("new", 1, "text of new"), ("old", 2, "edited")]
        assert sorted((i.record.id, i.version) for i in found.ended_items) == [
            ("gone", 1),
            ("old", 1),
        ]

    def test_an_item_that_came_and_went_in_one_batch_was_live_at_no_commit(
        self, store: Store
    ) -> None:
        """An item added and deleted in one batch was never live, but its version is kept."""
        found = effects_of(store, add("i"), Retire(NOTES, "i", 1), add("j"))
        assert [item.record.id for item in found.begun_items] == ["i", "j"]
        assert [item.record.id for item in found.ended_items] == ["i"]
        (version,) = store.versions(NOTES, "i")
        assert version.begin_commit == version.end_commit == found.commit.number
        assert store.get(NOTES, ["i"], at=found.commit.number) == [None]

    def test_later_commits_do_not_change_effects(self, store: Store) -> None:
        """Put nodes stay readable in effects after they were replaced or deleted."""
        number = write(store, Put(("a",), 1), Put(("b",), 2), add("i")).number
        write(store, Put(("a",), 5), Delete(("b",)), Replace(NOTES, 1, record("i", "edited")))
        found = present(store.effects(number))
        assert [(path, node.value) for path, node in found.put_nodes] == [(("a",), 1), (("b",), 2)]
        assert [item.record.text for item in found.begun_items] == ["text of i"]

    def test_commit_at_finds_the_last_commit_by_a_time(self, store: Store) -> None:
        """`commit_at` returns the last commit at or before a time, or 0."""
        assert store.commit_at(FAR) == 0
        numbers = [store.commit(batch(time=t)).number for t in (NOW, NOW, NOW + SECOND)]
        found = [store.commit_at(t) for t in (NOW - 1, NOW, NOW + 1, NOW + SECOND, FAR)]
        assert found == [0, numbers[1], numbers[1], numbers[2], numbers[2]]


def _ordered(store: Store) -> dict[Path, object]:
    """Return the tree by path. Fields of an object keep their order."""
    found: dict[Path, object] = {}
    stack: list[Path] = [()]
    while stack:
        parent = stack.pop()
        for name, node in store.children(ADA, parent, at=None, now=NOW):
            found[(*parent, name)] = None if node.is_object else node.value
            if node.is_object:
                stack.append((*parent, name))
    return found

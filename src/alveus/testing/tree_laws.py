"""Laws of the exact tree: values come back unchanged, objects nest, nodes expire."""

from __future__ import annotations

from typing import cast

import pytest

from alveus.errors import NotAnObject, ObjectInTheWay
from alveus.store import SWEEP_AFTER_US, Clear, Create, Delete, Node, Put, Refresh, Scope, Store
from alveus.store.scope import NameRange
from alveus.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOW,
    SECOND,
    VALUES,
    AnyChange,
    Laws,
    add,
    batch,
    present,
    refused,
    write,
)
from alveus.testing.reads import FAR, Follower, differences, reads, tree
from alveus.values import wire
from alveus.values.storable import Path, Value

OBJECT = Node(is_object=True)

WORDS = (
    "a", "a.b", "a\0b", "\0", "a\\b", "\\", "\\.", ".", "..", " ", "%", "_", "'", '"', "🦊", "é",
    "e\u0301", "A", "x" * 4096, "🦊" * 1000,
)  # fmt: skip
"""Names that a store may confuse with others."""


def node(store: Store, *path: str, at: int | None = None, scope: Scope = ADA) -> Node | None:
    """Return the node at *path*."""
    return store.node(scope, path, at=at, now=NOW)


def fields(store: Store, *path: str, at: int | None = None) -> list[str]:
    """Return the names of the fields of an object, in their order."""
    return [name for name, _ in store.children(ADA, path, at=at, now=NOW)]


class TreeLaws(Laws):
    """Laws of the exact tree of a key."""

    def test_the_root_is_an_object_that_always_exists(self, store: Store) -> None:
        """The root exists before the first write, in the past, and after all was deleted."""
        assert node(store) == OBJECT
        first = write(store, Put(("a",), 1)).number
        write(store, Clear(()))
        assert node(store) == OBJECT
        assert node(store, at=0) == OBJECT
        assert node(store, at=first) == OBJECT

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_a_value_comes_back_as_it_was(self, store: Store, value: Value) -> None:
        """A value keeps its type and the order of its keys, also NaN, bytes and long ints."""
        write(store, Put(("a",), value))
        found = present(node(store, "a"))
        assert not found.is_object
        assert wire.encode(found.value) == wire.encode(value)
        assert type(found.value) is type(value)
        assert wire.encode(store.children(ADA, (), at=None, now=NOW)[0][1].value) == wire.encode(
            value
        )

    def test_a_stored_none_is_not_nothing(self, store: Store) -> None:
        """None is a value. A missing node is different."""
        write(store, Put(("a",), None))
        assert node(store, "a") == Node(is_object=False, value=None)
        assert node(store, "b") is None

    def test_a_dict_is_a_value_and_not_an_object(self, store: Store) -> None:
        """The keys of a dict are not fields."""
        write(store, Put(("a",), {"b": 1}))
        assert node(store, "a", "b") is None
        assert fields(store, "a") == []

    def test_values_are_copied_in_and_out(self, store: Store) -> None:
        """Later changes to a passed or returned value change nothing in the store."""
        value: list[Value] = [1, [2]]
        number = write(store, Put(("a",), value)).number
        value.append(3)
        for _ in range(2):
            found = (
                node(store, "a"),
                store.children(ADA, (), at=None, now=NOW)[0][1],
                next(n for _, n in getattr(store.effects(number), "put_nodes")),  # noqa: B009 - effects are there
            )
            for each in found:
                assert each is not None
                assert each.value == [1, [2]]
                cast("list[Value]", each.value).append(4)

    def test_a_batch_is_read_when_it_is_committed(self, store: Store) -> None:
        """Later changes to a committed list of changes change nothing in the store."""
        changes: list[AnyChange] = [Put(("a",), 1)]
        write(store, *changes)
        changes.clear()
        assert fields(store) == ["a"]

    def test_fields_come_in_the_order_they_were_made(self, store: Store) -> None:
        """Fields are in the order of their creation, even if several commits created them."""
        write(store, Put(("z",), 1), Create(("m",)))
        write(store, Put(("a",), 1))
        write(store, Put(("k",), 1))
        assert fields(store) == ["z", "m", "a", "k"]

    def test_children_are_the_direct_fields_only(self, store: Store) -> None:
        """Children include objects, but no deeper nodes and no names with the same prefix."""
        write(store, Create(("a",)), Put(("a", "b"), 1), Create(("a", "c")), Put(("ab",), 1))
        write(store, Put(("a", "c", "d"), 1))
        expected = [("b", Node(is_object=False, value=1)), ("c", OBJECT)]
        assert store.children(ADA, ("a",), at=None, now=NOW) == expected
        assert fields(store) == ["a", "ab"]

    def test_nothing_and_values_have_no_fields(self, store: Store) -> None:
        """A missing node or a value has an empty list of fields."""
        write(store, Put(("a",), 1))
        assert fields(store, "a") == fields(store, "b") == fields(store, "a", "b") == []

    def test_a_put_over_a_value_keeps_its_position(self, store: Store) -> None:
        """A replaced value keeps its position, like a key of a dict."""
        write(store, Put(("a",), 1), Put(("b",), 1))
        write(store, Put(("a",), 2))
        assert fields(store) == ["a", "b"]
        assert node(store, "a") == Node(is_object=False, value=2)

    def test_an_object_that_replaces_a_value_keeps_its_position(self, store: Store) -> None:
        """An object that replaces a value is empty, and takes fields at once."""
        write(store, Put(("a",), 1), Put(("b",), 1))
        write(store, Create(("a",)), Put(("a", "x"), 1))
        assert fields(store) == ["a", "b"]
        assert fields(store, "a") == ["x"]

    def test_what_is_deleted_and_put_again_comes_last(self, store: Store) -> None:
        """A node that is deleted and added again is last, in one batch or in two."""
        write(store, Put(("a",), 1), Put(("b",), 1), Put(("c",), 1))
        write(store, Delete(("a",)), Put(("a",), 2))
        assert fields(store) == ["b", "c", "a"]
        write(store, Delete(("b",)))
        write(store, Put(("b",), 2))
        assert fields(store) == ["c", "a", "b"]

    def test_an_object_created_again_keeps_its_fields(self, store: Store) -> None:
        """Creating an existing object changes nothing."""
        write(store, Create(("a",)), Put(("a", "b"), 1))
        write(store, Create(("a",)))
        assert fields(store, "a") == ["b"]

    def test_a_value_does_not_replace_an_object(self, store: Store) -> None:
        """A value cannot replace an object, empty or not: the object has to be deleted first."""
        write(store, Create(("a",)))
        error = refused(store, ObjectInTheWay, Put(("a",), 1))
        assert error.path == "a"
        write(store, Delete(("a",)), Put(("a",), 1))
        assert node(store, "a") == Node(is_object=False, value=1)

    @pytest.mark.parametrize(
        "parent", [("nothing",), ("value",), ("object", "nothing"), ("value", "x")]
    )
    def test_a_node_needs_an_object_above_it(self, store: Store, parent: Path) -> None:
        """A node needs an existing object above it. No object is made implicitly."""
        write(store, Put(("value",), 1), Create(("object",)))
        for change in (Put((*parent, "a"), 1), Create((*parent, "a"))):
            refused(store, NotAnObject, change)
        assert fields(store) == ["value", "object"]

    def test_deltas_apply_in_order(self, store: Store) -> None:
        """Each change sees the changes before it."""
        write(
            store,
            Put(("a",), 1),
            Create(("a",)),
            Put(("a", "b"), 1),
            Delete(("a",)),
            Put(("a",), 2),
            Delete(("a",)),
            Create(("a",)),
            Put(("a", "c"), 3),
        )
        assert tree(store, ADA, now=NOW) == [(("a",), ("object", None)), (("a", "c"), ("3", None))]

    def test_delete_takes_the_whole_subtree(self, store: Store) -> None:
        """Delete removes the whole subtree. An object made there later is empty."""
        write(store, Create(("a",)), Create(("a", "b")), Put(("a", "b", "c"), 1), Put(("ab",), 1))
        write(store, Delete(("a",)))
        assert tree(store, ADA, now=NOW) == [(("ab",), ("1", None))]
        assert node(store, "a", "b", "c") is None
        write(store, Create(("a",)), Create(("a", "b")))
        assert fields(store, "a", "b") == []

    def test_deleting_nothing_is_no_error(self, store: Store) -> None:
        """Deleting a missing node raises no error, not even below a value."""
        write(store, Put(("a",), 1))
        write(store, Delete(("b",)), Delete(("b", "c")), Delete(("a", "c")))
        assert fields(store) == ["a"]

    def test_clear_empties_an_object_that_stays(self, store: Store) -> None:
        """A cleared object keeps its position."""
        write(store, Create(("a",)), Create(("a", "b")), Put(("a", "b", "c"), 1), Put(("d",), 1))
        write(store, Clear(("a",)))
        assert tree(store, ADA, now=NOW) == [(("a",), ("object", None)), (("d",), ("1", None))]

    def test_clearing_the_root_empties_the_tree(self, store: Store) -> None:
        """Clearing the root empties the tree of this key only."""
        for scope in (ADA, BOB):
            write(store, Create(("a",)), Put(("a", "b"), 1), scope=scope)
        write(store, Clear(()))
        assert tree(store, ADA, now=NOW) == []
        assert len(tree(store, BOB, now=NOW)) == 2

    def test_clearing_a_value_or_nothing_is_no_error(self, store: Store) -> None:
        """Clearing a value or a missing node changes nothing."""
        write(store, Put(("a",), 1))
        write(store, Clear(("a",)), Clear(("b",)))
        assert node(store, "a") == Node(is_object=False, value=1)

    def test_keys_and_spaces_are_apart(self, store: Store) -> None:
        """Equal paths of different keys are independent."""
        scopes = (ADA, BOB, Scope("other app", "ada"), Scope("ada", "app"), Scope("ap", "pada"))
        for i, scope in enumerate(scopes):
            write(store, Put(("a",), i), scope=scope)
        expected = [0, 1, 2, 3, 4]
        assert [getattr(node(store, "a", scope=s), "value", None) for s in scopes] == expected
        write(store, Delete(("a",)))
        assert [node(store, "a", scope=s) is None for s in scopes] == [True, *[False] * 4]

    def test_a_key_that_never_wrote_has_an_empty_tree(self, store: Store) -> None:
        """A key without writes has an empty tree, as has a key with items only, and knowledge."""
        write(store, add("i"), scope=ADA)
        for scope in (ADA, BOB, HANDBOOK):
            assert node(store, scope=scope) == OBJECT
            assert store.children(scope, (), at=None, now=NOW) == []
            assert store.head(scope) == 0

    def test_odd_names_are_distinct(self, store: Store) -> None:
        """Names may contain dots, NUL, backslashes, quotes and emoji; case and accents differ."""
        write(store, *(Create((word,)) for word in WORDS))
        write(
            store, *(Put((word, inner), i) for i, word in enumerate(WORDS) for inner in WORDS[:8])
        )
        assert fields(store) == list(WORDS)
        for i, word in enumerate(WORDS):
            assert fields(store, word) == list(WORDS[:8])
            assert node(store, word, "a.b") == Node(is_object=False, value=i)
        write(store, Delete(("a.b",)))
        assert node(store, "a", "b") is None
        assert fields(store) == [word for word in WORDS if word != "a.b"]
        assert fields(store, "a") == list(WORDS[:8])

    def test_odd_keys_are_distinct(self, store: Store) -> None:
        """Keys and spaces may contain any characters."""
        scopes = [Scope(space, key) for space in WORDS[:6] for key in WORDS]
        for i, scope in enumerate(scopes):
            write(store, Put(("a",), i), scope=scope)
        found = [getattr(node(store, "a", scope=scope), "value", None) for scope in scopes]
        assert found == list(range(len(scopes)))

    def test_deep_trees_work(self, store: Store) -> None:
        """Trees deeper than Python's recursion limit can be written, read and deleted."""
        path = tuple("d" * 300)
        write(store, *(Create(path[: i + 1]) for i in range(len(path))))
        assert node(store, *path) == OBJECT
        found = present(store.effects(write(store, Delete(path[:1])).number))
        assert len(found.removed_paths) == len(path)
        assert tree(store, ADA, now=NOW) == []

    # --- the past

    def test_the_past_is_read_at_its_commit(self, store: Store) -> None:
        """A read at a commit shows the values and objects of that commit, without later nodes."""
        first = write(store, Put(("a",), 1), Create(("o",)), Put(("o", "x"), 1)).number
        second = write(store, Put(("a",), 2), Delete(("o",)), Put(("b",), 1)).number
        write(store, Create(("a",)), Create(("o",)))
        assert node(store, "a", at=first) == Node(is_object=False, value=1)
        assert node(store, "a", at=second) == Node(is_object=False, value=2)
        assert node(store, "a") == OBJECT
        assert node(store, "o", "x", at=first) == Node(is_object=False, value=1)
        assert node(store, "o", at=second) is None
        assert node(store, "o", "x", at=second) is None
        assert node(store, "o", "x") is None
        assert fields(store, at=first) == ["a", "o"]
        assert fields(store, at=second) == ["a", "b"]
        assert fields(store) == ["a", "b", "o"]
        assert fields(store, "o", at=first) == ["x"]
        assert fields(store, "o", at=second) == fields(store, "o") == []

    def test_names_are_read_as_a_range(self, store: Store) -> None:
        """Names are read by prefix, after a name, up to a limit, in both directions."""
        write(store, Create(("o",)), *(Put(("o", word), word) for word in WORDS))
        write(store, Put(("o", "gone"), 1), Put(("o", "brief"), 1, NOW + SECOND), Put(("p",), 1))
        before = store.head(ADA)
        write(store, Delete(("o", "gone")), Delete(("o", WORDS[0])), Put(("o", "zz"), 1))
        now = [*WORDS[1:], "brief", "zz"]
        starts = ("", "\U0010ffff", "\ud7ff", *{word[:1] for word in WORDS}, "no such")
        for start in starts:
            for after in (None, *WORDS, "gone"):
                for newest_first in (False, True):
                    for limit in (None, 0, 2):
                        chosen = NameRange(start, after, limit, newest_first)
                        found = store.names_in_range(ADA, ("o",), chosen, at=None, now=NOW)
                        assert found == chosen.choose(now)
                        past = store.names_in_range(ADA, ("o",), chosen, at=before, now=NOW)
                        assert past == chosen.choose([*WORDS, "gone", "brief"])
        late = store.names_in_range(ADA, ("o",), NameRange("b"), at=None, now=NOW + SECOND)
        assert late == NameRange("b").choose(WORDS)
        for path in (("p",), ("nothing",), ("o", "zz")):
            assert store.names_in_range(ADA, path, NameRange(), at=None, now=NOW) == []
        assert store.names_in_range(BOB, ("o",), NameRange(), at=None, now=NOW) == []

    def test_the_commits_of_a_node_are_known(self, store: Store) -> None:
        """The commits of a node are those that put, replaced or removed the node or its parent.

        The commits of the root are those that changed the tree of its key.
        """
        made = write(store, Create(("a",)), Put(("a", "b"), 1)).number
        other = write(store, Put(("a", "c"), 1)).number
        changed = write(store, Put(("a", "b"), 2)).number
        gone = write(store, Delete(("a",))).number
        again = write(store, Create(("a",)), Put(("a", "b"), 3)).number
        assert store.node_commits(ADA, ("a", "b")) == [made, changed, gone, again]
        assert store.node_commits(ADA, ("a",)) == [made, gone, again]
        assert store.node_commits(ADA, ("x", "b")) == []
        assert store.node_commits(ADA, ()) == [made, other, changed, gone, again]
        assert store.node_commits(BOB, ()) == []

    def test_before_the_first_commit_there_was_nothing(self, store: Store) -> None:
        """The tree is empty at commit 0, and at commits of other keys before its first commit."""
        before = write(store, Put(("a",), 1), scope=BOB).number
        write(store, Put(("a",), 1))
        for at in (0, before):
            assert node(store, "a", at=at) is None
            assert fields(store, at=at) == []

    def test_the_past_keeps_its_order(self, store: Store) -> None:
        """In the past, a deleted and re-added field has its old position."""
        first = write(store, Put(("a",), 1), Put(("b",), 1)).number
        write(store, Delete(("a",)))
        third = write(store, Put(("a",), 2)).number
        assert fields(store, at=first) == ["a", "b"]
        assert fields(store, at=third) == ["b", "a"]

    def test_a_read_at_the_latest_commit_is_the_present(self, store: Store) -> None:
        """A read at the latest commit equals the present, with commits of other keys between."""
        write(store, Put(("a",), 1), Create(("o",)), Put(("o", "x"), 1))
        last = write(store, Put(("a",), 1), scope=BOB).number
        assert tree(store, ADA, now=NOW, at=last) == tree(store, ADA, now=NOW)


SOON = NOW + SECOND
LATER = NOW + 10 * SECOND
SWEPT = SOON + SWEEP_AFTER_US


def names(store: Store, *, now: int, at: int | None = None) -> list[str]:
    """Return the names at the root."""
    return [name for name, _ in store.children(ADA, (), at=at, now=now)]


class ExpiryLaws(Laws):
    """Laws of `expires`, `Refresh` and `sweep`."""

    def test_a_node_is_there_until_it_expires(self, store: Store) -> None:
        """A node disappears at the exact microsecond of its expiry."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        assert store.node(ADA, ("a",), at=None, now=SOON - 1) == Node(
            is_object=False, value=1, expires=SOON
        )
        assert store.node(ADA, ("a",), at=None, now=SOON) is None
        assert names(store, now=SOON - 1) == ["a", "b"]
        assert names(store, now=SOON) == ["b"]

    def test_an_expired_node_is_not_in_the_past_either(self, store: Store) -> None:
        """A node that expired before *now* is hidden from reads of every past commit, too."""
        first = write(store, Put(("a",), 1, SOON)).number
        write(store, Put(("b",), 1))
        assert names(store, now=SOON, at=first) == []
        assert store.node(ADA, ("a",), at=first, now=SOON) is None
        assert names(store, now=NOW, at=first) == ["a"]

    def test_what_is_below_an_expired_object_is_not_there(self, store: Store) -> None:
        """An expired object hides its fields."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON))
        assert store.node(ADA, ("o", "a"), at=None, now=NOW) is not None
        assert store.node(ADA, ("o", "a"), at=None, now=SOON) is None
        assert store.children(ADA, ("o",), at=None, now=SOON) == []
        assert tree(store, ADA, now=SOON) == []

    def test_a_put_deletes_what_had_expired(self, store: Store) -> None:
        """A put over an expired node makes a new node at the end, without the old expiry."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        write(store, Delete(("a",)), Put(("a",), 2), time=SOON)
        assert names(store, now=SOON) == ["b", "a"]
        assert store.node(ADA, ("a",), at=None, now=FAR) == Node(is_object=False, value=2)

    def test_applying_looks_at_no_expiry(self, store: Store) -> None:
        """A commit ignores expiry: nodes that existed at planning exist for the batch."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON))
        write(store, Refresh(("o",), LATER), Put(("o", "b"), 2, LATER), time=SOON + 1)
        assert names(store, now=SOON + 1) == ["o"]
        expected = [(("o",), ("object", LATER)), (("o", "b"), ("2", LATER))]
        assert tree(store, ADA, now=SOON + 1) == expected
        store.commit(batch(scope=BOB, time=LATER))
        write(store, Put(("o", "b"), 3), Refresh(("o",), None), time=NOW)
        assert [path for path, _ in tree(store, ADA, now=FAR)] == [("o",), ("o", "b")]

    def test_a_put_before_the_expiry_keeps_the_position(self, store: Store) -> None:
        """A put before the expiry keeps the position, and replaces the expiry."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        write(store, Put(("a",), 2))
        assert names(store, now=FAR) == ["a", "b"]

    def test_a_refresh_moves_the_expiry(self, store: Store) -> None:
        """A refresh moves or removes the expiry. Value and position stay."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        write(store, Refresh(("a",), LATER))
        assert names(store, now=SOON) == ["a", "b"]
        assert names(store, now=LATER) == ["b"]
        write(store, Refresh(("a",), None))
        assert store.node(ADA, ("a",), at=None, now=FAR) == Node(is_object=False, value=1)
        write(store, Refresh(("a",), SOON))
        assert names(store, now=SOON) == ["b"]

    def test_a_refresh_is_taken_back_with_its_batch(self, store: Store) -> None:
        """A refused batch undoes its refresh, although a refresh makes no version."""
        write(store, Put(("a",), 1, SOON))
        refused(store, NotAnObject, Refresh(("a",), LATER), Put(("no", "way"), 1))
        assert names(store, now=SOON) == []

    def test_refreshing_nothing_is_no_error(self, store: Store) -> None:
        """Refreshing a missing node creates nothing and raises no error."""
        write(store, Refresh(("b",), None))
        assert names(store, now=NOW) == []

    def test_a_new_version_does_not_inherit_a_later_expiry_into_the_past(
        self, store: Store
    ) -> None:
        """A read of the past uses the expiry of the version that it reads, not of a later one."""
        first = write(store, Put(("a",), 1, SOON)).number
        write(store, Put(("a",), 2, LATER))
        assert names(store, now=SOON, at=first) == []
        assert names(store, now=SOON) == ["a"]

    def test_a_node_may_be_deleted_after_it_expired(self, store: Store) -> None:
        """Deleting or clearing an expired node raises no error."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON), Put(("b",), 1, SOON))
        write(store, Delete(("o",)), Clear(()), time=SOON)
        assert tree(store, ADA, now=SOON) == []

    # --- sweeping

    def test_reads_are_the_same_before_and_after_a_sweep(self, store: Store) -> None:
        """A sweep changes no read, of the present, of the past or of the change log."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1), Create(("o",), SOON), add("i"))
        write(store, Put(("o", "x"), 1, SOON), Put(("c",), 1, LATER), add("j"))
        write(store, Put(("a",), 2), Delete(("b",)), scope=ADA)
        write(store, Put(("a",), 1, SOON), scope=BOB)
        follower = Follower()
        follower.catch_up(store)
        before, seq = reads(store, now=SOON), store.seq()
        last = store.commit_at(FAR)
        assert store.sweep(now=SWEPT) > 0
        after = reads(store, now=SOON)
        for answers in (before, after):  # otherwise the test would have no past
            answers.pop("commits")
            answers.pop(f"floor of {ADA}")
            answers.pop(f"floor of {BOB}")
        assert not differences(before, after)
        assert store.commit_at(FAR) == last
        assert store.seq() == seq
        assert follower.agrees_with(store)

    def test_a_sweep_removes_for_good(self, store: Store) -> None:
        """A sweep deletes nodes a day after their expiry, from the journal too."""
        number = write(store, Put(("a",), "secret", SOON), Put(("b",), 1, LATER)).number
        store.sweep(now=SWEPT)
        assert names(store, now=NOW) == ["b"]
        assert [path for path, _ in present(store.effects(number)).put_nodes] == [("b",)]

    def test_a_sweep_removes_past_versions_that_expired(self, store: Store) -> None:
        """A sweep also deletes overwritten versions that have expired."""
        first = write(store, Put(("a",), "secret", SOON)).number
        write(store, Put(("a",), 2))
        store.sweep(now=SWEPT)
        assert store.node(ADA, ("a",), at=first, now=NOW) is None
        assert store.node(ADA, ("a",), at=None, now=NOW) == Node(is_object=False, value=2)

    def test_a_sweep_with_nothing_to_do_does_nothing(self, store: Store) -> None:
        """A sweep without expired nodes returns 0."""
        write(store, Put(("a",), 1, SOON), add("i"))
        assert store.sweep(now=SWEPT - 1) == 0
        assert store.sweep(now=SWEPT) > 0
        assert store.sweep(now=SWEPT) == 0

    def test_writing_goes_on_after_a_sweep(self, store: Store) -> None:
        """Writing continues after a sweep, also at the position of a swept value."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON), Put(("b",), 1))
        store.sweep(now=SWEPT)
        write(store, Create(("o",)), Put(("o", "a"), 2), time=SOON)
        assert names(store, now=SOON) == ["b", "o"]

    # --- shrinking

    def test_reads_are_the_same_before_and_after_shrinking(self, store: Store) -> None:
        """Shrinking changes no read of the present or the past."""
        write(store, *[Put((f"n{n}",), "x" * 5_000, SOON) for n in range(40)], Put(("b",), 1))
        write(store, add("i"), add("j"))
        write(store, *[Delete((f"n{n}",)) for n in range(0, 40, 2)])
        store.sweep(now=SWEPT)
        before = reads(store, now=SWEPT)
        follower = Follower()
        follower.catch_up(store)
        while store.shrink(limit=10_000):
            pass
        assert not differences(before, reads(store, now=SWEPT))
        assert follower.agrees_with(store)
        write(store, Put(("c",), "x" * 5_000), time=SWEPT)
        assert names(store, now=SWEPT) == ["b", "c"]

    def test_shrinking_tells_how_much_it_gave_back(self, store: Store) -> None:
        """Shrinking returns the number of freed bytes: at most the limit, and 0 at the end."""
        write(store, *[Put((f"n{n}",), "x" * 5_000, SOON) for n in range(40)])
        store.sweep(now=SWEPT)
        free, given = store.stats().free_bytes, list[int]()
        while some := store.shrink(limit=20_000):
            given.append(some)
        assert max(given, default=0) <= 20_000
        assert sum(given) >= free
        assert (store.stats().free_bytes, store.shrink()) == (0, 0)

"""Laws of the exact tree: values come back as they were, objects nest, the past stays."""

from __future__ import annotations

from typing import cast

import pytest

from fornix.errors import NotAnObject, ObjectInTheWay
from fornix.store import Clear, Create, Delete, Node, Put, Scope, Store
from fornix.testing.batches import ADA, BOB, HANDBOOK, NOW, AnyChange, Laws, add, write
from fornix.testing.random_batches import VALUES
from fornix.testing.reads import tree
from fornix.values import wire
from fornix.values.storable import Path, Value

OBJECT = Node(is_object=True)

WORDS = (
    "a",
    "a.b",
    "a\0b",
    "\0",
    "a\\b",
    "\\",
    "\\.",
    ".",
    "..",
    " ",
    "%",
    "_",
    "'",
    '"',
    "🦊",
    "é",
    "e\u0301",
    "A",
    "x" * 4096,
    "🦊" * 1000,
)
"""Names that a store may mistake for something, or for each other."""


def node(store: Store, *path: str, at: int | None = None, scope: Scope = ADA) -> Node | None:
    """Return the node at *path*."""
    return store.node(scope, path, at=at, now=NOW)


def fields(store: Store, *path: str, at: int | None = None) -> list[str]:
    """Return the names of the fields of an object, in their order."""
    return [name for name, _ in store.children(ADA, path, at=at, now=NOW)]


class TreeLaws(Laws):
    """What the exact tree of a key keeps."""

    def test_the_root_is_an_object_that_always_exists(self, store: Store) -> None:
        """Before anything was written, in the past, and after all was deleted."""
        assert node(store) == OBJECT
        first = write(store, Put(("a",), 1)).number
        write(store, Clear(()))
        assert node(store) == OBJECT
        assert node(store, at=0) == OBJECT
        assert node(store, at=first) == OBJECT

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_a_value_comes_back_as_it_was(self, store: Store, value: Value) -> None:
        """Of the same types and with the order of its keys; NaN, bytes and long ints too."""
        write(store, Put(("a",), value))
        found = node(store, "a")
        assert found is not None
        assert not found.is_object
        assert wire.encode(found.value) == wire.encode(value)
        assert type(found.value) is type(value)
        assert wire.encode(store.children(ADA, (), at=None, now=NOW)[0][1].value) == wire.encode(
            value
        )

    def test_a_stored_none_is_not_nothing(self, store: Store) -> None:
        """None is a value; where nothing is there is no node."""
        write(store, Put(("a",), None))
        assert node(store, "a") == Node(is_object=False, value=None)
        assert node(store, "b") is None

    def test_a_dict_is_a_value_and_not_an_object(self, store: Store) -> None:
        """Its keys are no fields."""
        write(store, Put(("a",), {"b": 1}))
        assert node(store, "a", "b") is None
        assert fields(store, "a") == []

    def test_values_are_copied_in_and_out(self, store: Store) -> None:
        """The caller may go on using what it passed, and what it got."""
        value: list[Value] = [1, [2]]
        number = write(store, Put(("a",), value)).number
        value.append(3)
        for _ in range(2):
            found = (
                node(store, "a"),
                store.children(ADA, (), at=None, now=NOW)[0][1],
                next(n for _, n in getattr(store.effects(number), "put")),  # noqa: B009 - effects are there
            )
            for each in found:
                assert each is not None
                assert each.value == [1, [2]]
                cast("list[Value]", each.value).append(4)

    def test_a_batch_is_read_when_it_is_committed(self, store: Store) -> None:
        """A list of changes that its maker reuses does not reach into the store."""
        changes: list[AnyChange] = [Put(("a",), 1)]
        write(store, *changes)
        changes.clear()
        assert fields(store) == ["a"]

    def test_fields_come_in_the_order_they_were_made(self, store: Store) -> None:
        """Whatever their names, and over several commits."""
        write(store, Put(("z",), 1), Create(("m",)))
        write(store, Put(("a",), 1))
        write(store, Put(("k",), 1))
        assert fields(store) == ["z", "m", "a", "k"]

    def test_children_are_the_direct_fields_only(self, store: Store) -> None:
        """Objects among them as objects; not what is below, not names that begin alike."""
        write(store, Create(("a",)), Put(("a", "b"), 1), Create(("a", "c")), Put(("ab",), 1))
        write(store, Put(("a", "c", "d"), 1))
        assert store.children(ADA, ("a",), at=None, now=NOW) == [
            ("b", Node(is_object=False, value=1)),
            ("c", OBJECT),
        ]
        assert fields(store) == ["a", "ab"]

    def test_nothing_and_values_have_no_fields(self, store: Store) -> None:
        """An empty list, not an error."""
        write(store, Put(("a",), 1))
        assert fields(store, "a") == fields(store, "b") == fields(store, "a", "b") == []

    def test_a_put_over_a_value_keeps_its_position(self, store: Store) -> None:
        """As assigning to a key of a dict does."""
        write(store, Put(("a",), 1), Put(("b",), 1))
        write(store, Put(("a",), 2))
        assert fields(store) == ["a", "b"]
        assert node(store, "a") == Node(is_object=False, value=2)

    def test_an_object_in_place_of_a_value_keeps_its_position(self, store: Store) -> None:
        """It is empty, and takes fields at once."""
        write(store, Put(("a",), 1), Put(("b",), 1))
        write(store, Create(("a",)), Put(("a", "x"), 1))
        assert fields(store) == ["a", "b"]
        assert fields(store, "a") == ["x"]

    def test_what_is_deleted_and_put_again_comes_last(self, store: Store) -> None:
        """In one batch or in two."""
        write(store, Put(("a",), 1), Put(("b",), 1), Put(("c",), 1))
        write(store, Delete(("a",)), Put(("a",), 2))
        assert fields(store) == ["b", "c", "a"]
        write(store, Delete(("b",)))
        write(store, Put(("b",), 2))
        assert fields(store) == ["c", "a", "b"]

    def test_an_object_created_again_keeps_its_fields(self, store: Store) -> None:
        """Nothing happens."""
        write(store, Create(("a",)), Put(("a", "b"), 1))
        write(store, Create(("a",)))
        assert fields(store, "a") == ["b"]

    def test_a_value_does_not_replace_an_object(self, store: Store) -> None:
        """Empty or not: it has to be deleted first."""
        write(store, Create(("a",)))
        with pytest.raises(ObjectInTheWay) as caught:
            write(store, Put(("a",), 1))
        assert caught.value.path == "a"
        write(store, Delete(("a",)), Put(("a",), 1))
        assert node(store, "a") == Node(is_object=False, value=1)

    @pytest.mark.parametrize(
        "parent", [("nothing",), ("value",), ("object", "nothing"), ("value", "x")]
    )
    def test_a_node_needs_an_object_above_it(self, store: Store, parent: Path) -> None:
        """Not a value, not nothing; no object is made in passing."""
        write(store, Put(("value",), 1), Create(("object",)))
        for change in (Put((*parent, "a"), 1), Create((*parent, "a"))):
            with pytest.raises(NotAnObject):
                write(store, change)
        assert fields(store) == ["value", "object"]

    def test_deltas_apply_in_order(self, store: Store) -> None:
        """Each sees what those before it did."""
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
        """What is made there later is empty."""
        write(store, Create(("a",)), Create(("a", "b")), Put(("a", "b", "c"), 1), Put(("ab",), 1))
        write(store, Delete(("a",)))
        assert tree(store, ADA, now=NOW) == [(("ab",), ("1", None))]
        assert node(store, "a", "b", "c") is None
        write(store, Create(("a",)), Create(("a", "b")))
        assert fields(store, "a", "b") == []

    def test_deleting_nothing_is_no_error(self, store: Store) -> None:
        """Nor below a value."""
        write(store, Put(("a",), 1))
        write(store, Delete(("b",)), Delete(("b", "c")), Delete(("a", "c")))
        assert fields(store) == ["a"]

    def test_clear_empties_an_object_that_stays(self, store: Store) -> None:
        """In its place; its neighbours too."""
        write(store, Create(("a",)), Create(("a", "b")), Put(("a", "b", "c"), 1), Put(("d",), 1))
        write(store, Clear(("a",)))
        assert tree(store, ADA, now=NOW) == [(("a",), ("object", None)), (("d",), ("1", None))]

    def test_clearing_the_root_empties_the_tree(self, store: Store) -> None:
        """Of this key alone."""
        for scope in (ADA, BOB):
            write(store, Create(("a",)), Put(("a", "b"), 1), scope=scope)
        write(store, Clear(()))
        assert tree(store, ADA, now=NOW) == []
        assert len(tree(store, BOB, now=NOW)) == 2

    def test_clearing_a_value_or_nothing_is_no_error(self, store: Store) -> None:
        """And changes nothing."""
        write(store, Put(("a",), 1))
        write(store, Clear(("a",)), Clear(("b",)))
        assert node(store, "a") == Node(is_object=False, value=1)

    def test_keys_and_spaces_are_apart(self, store: Store) -> None:
        """Equal paths of different keys have nothing to do with each other."""
        scopes = (ADA, BOB, Scope("other app", "ada"), Scope("ada", "app"), Scope("ap", "pada"))
        for i, scope in enumerate(scopes):
            write(store, Put(("a",), i), scope=scope)
        assert [getattr(node(store, "a", scope=s), "value", None) for s in scopes] == [
            0,
            1,
            2,
            3,
            4,
        ]
        write(store, Delete(("a",)))
        assert [node(store, "a", scope=s) is None for s in scopes] == [True, *[False] * 4]

    def test_a_key_that_never_wrote_has_an_empty_tree(self, store: Store) -> None:
        """Also one that only has items, and knowledge."""
        write(store, add("i"), scope=ADA)
        for scope in (ADA, BOB, HANDBOOK):
            assert node(store, scope=scope) == OBJECT
            assert store.children(scope, (), at=None, now=NOW) == []
            assert store.head(scope) == 0

    def test_odd_names_are_told_apart(self, store: Store) -> None:
        """Dots, NUL, backslashes, quotes, emoji, case, accents, thousands of characters."""
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

    def test_odd_keys_are_told_apart(self, store: Store) -> None:
        """Keys and spaces take any characters."""
        scopes = [Scope(space, key) for space in WORDS[:6] for key in WORDS]
        for i, scope in enumerate(scopes):
            write(store, Put(("a",), i), scope=scope)
        found = [getattr(node(store, "a", scope=scope), "value", None) for scope in scopes]
        assert found == list(range(len(scopes)))

    def test_deep_trees_work(self, store: Store) -> None:
        """Beyond Python's own limits of recursion, down and away."""
        path = tuple("d" * 300)
        write(store, *(Create(path[: i + 1]) for i in range(len(path))))
        assert node(store, *path) == OBJECT
        found = store.effects(write(store, Delete(path[:1])).number)
        assert found is not None
        assert len(found.removed) == len(path)
        assert tree(store, ADA, now=NOW) == []

    # --- the past

    def test_the_past_is_read_at_its_commit(self, store: Store) -> None:
        """Values, objects, what was deleted since and what was not there yet."""
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

    def test_before_the_first_commit_there_was_nothing(self, store: Store) -> None:
        """At 0 and at commits of other keys."""
        before = write(store, Put(("a",), 1), scope=BOB).number
        write(store, Put(("a",), 1))
        for at in (0, before):
            assert node(store, "a", at=at) is None
            assert fields(store, at=at) == []

    def test_the_past_has_its_own_order(self, store: Store) -> None:
        """A field that was deleted and made again stands where it stood."""
        first = write(store, Put(("a",), 1), Put(("b",), 1)).number
        write(store, Delete(("a",)))
        third = write(store, Put(("a",), 2)).number
        assert fields(store, at=first) == ["a", "b"]
        assert fields(store, at=third) == ["b", "a"]

    def test_a_read_at_the_latest_commit_is_the_present(self, store: Store) -> None:
        """Commits of other keys lie between."""
        write(store, Put(("a",), 1), Create(("o",)), Put(("o", "x"), 1))
        last = write(store, Put(("a",), 1), scope=BOB).number
        assert tree(store, ADA, now=NOW, at=last) == tree(store, ADA, now=NOW)

"""The promises of a store, one per test, as classes to inherit from."""

from __future__ import annotations

from alveus.testing.commit_laws import CommitLaws, OpLaws
from alveus.testing.item_laws import ItemLaws, SetLaws, UpsertLaws
from alveus.testing.past_laws import PastLaws, PersistenceLaws
from alveus.testing.run_laws import LaneLaws, ProgressLaws
from alveus.testing.search_laws import FinderLaws
from alveus.testing.tree_laws import ExpiryLaws, TreeLaws


class StoreContract(
    CommitLaws,
    OpLaws,
    TreeLaws,
    ExpiryLaws,
    ItemLaws,
    UpsertLaws,
    SetLaws,
    PastLaws,
    FinderLaws,
    LaneLaws,
    ProgressLaws,
):
    """The laws of an `alveus.store.Store`.

    A test class inherits from this class, and defines how to open a store and how to end an owner::

        class TestMine(StoreContract):
            def open(self, path):
                return MyStore(path)

            def kill_owner(self, store, owner):
                store.forget_owner(owner)
    """


class PersistentStoreContract(StoreContract, PersistenceLaws):
    """The laws of a store that keeps its data when it is closed."""

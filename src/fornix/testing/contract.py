"""The promise of a store, sentence by sentence, as two classes to inherit from."""

from __future__ import annotations

from fornix.testing.clock_steps import ClockStepLaws
from fornix.testing.commits import CommitLaws
from fornix.testing.effects import EffectsLaws
from fornix.testing.erasing import ErasingLaws
from fornix.testing.erasing_runs import ErasingRunLaws
from fornix.testing.expiry import ExpiryLaws
from fornix.testing.finder import FinderLaws
from fornix.testing.groups import GroupLaws
from fornix.testing.handle import HandleLaws
from fornix.testing.items import ItemLaws
from fornix.testing.lanes import LaneLaws
from fornix.testing.lineage import LineageLaws
from fornix.testing.ops import OpLaws
from fornix.testing.outputs import OutputLaws
from fornix.testing.past_commits import PastLaws
from fornix.testing.persistence import PersistenceLaws
from fornix.testing.progress import ProgressLaws
from fornix.testing.retention import RetentionLaws
from fornix.testing.screening import ScreenLaws
from fornix.testing.sets import SetLaws
from fornix.testing.staged_vectors import StagingLaws
from fornix.testing.threads import ThreadLaws
from fornix.testing.tree import TreeLaws
from fornix.testing.upserts import UpsertLaws


class StoreContract(
    CommitLaws,
    OpLaws,
    EffectsLaws,
    TreeLaws,
    ExpiryLaws,
    ItemLaws,
    UpsertLaws,
    SetLaws,
    LineageLaws,
    RetentionLaws,
    ClockStepLaws,
    ScreenLaws,
    PastLaws,
    FinderLaws,
    StagingLaws,
    LaneLaws,
    ProgressLaws,
    OutputLaws,
    GroupLaws,
    HandleLaws,
    ThreadLaws,
    ErasingLaws,
    ErasingRunLaws,
):
    """What every `fornix.store.Store` promises.

    A test class inherits from it and says how to open a store and how to end an owner::

        class TestMine(StoreContract):
            def open(self, path):
                return MyStore(path)

            def kill_owner(self, store, owner):
                store.forget_owner(owner)
    """


class PersistentStoreContract(StoreContract, PersistenceLaws):
    """What a store promises that keeps what it holds when it is closed."""

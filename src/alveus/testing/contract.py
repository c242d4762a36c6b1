"""The promises of stores and of runners, sentence by sentence, as classes to inherit from."""

from __future__ import annotations

from alveus.testing.commit_laws import CommitLaws, EffectsLaws, GroupLaws, OpLaws
from alveus.testing.erasing_laws import ErasingLaws, ErasingRunLaws
from alveus.testing.item_laws import ItemLaws, SetLaws, UpsertLaws
from alveus.testing.lineage_laws import LineageLaws, RetentionLaws
from alveus.testing.past_laws import ClockStepLaws, PastLaws, PersistenceLaws
from alveus.testing.run_laws import LaneLaws, ProgressLaws
from alveus.testing.runner.durable import AsyncLaws, DurableLaws, ReconcilerLaws
from alveus.testing.runner.failures import FailureLaws, RecoveryLaws
from alveus.testing.runner.inputs import InputLaws, OrderLaws
from alveus.testing.runner.memory import ConsumerLaws, RunMemoryLaws, WrongClockLaws
from alveus.testing.search_laws import FinderLaws, ScreenLaws, StagingLaws
from alveus.testing.store_laws import HandleLaws, OutputLaws, ThreadLaws
from alveus.testing.tree_laws import ExpiryLaws, TreeLaws


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
    """What every `alveus.store.Store` promises.

    A test class inherits from it and says how to open a store and how to end an owner::

        class TestMine(StoreContract):
            def open(self, path):
                return MyStore(path)

            def kill_owner(self, store, owner):
                store.forget_owner(owner)
    """


class PersistentStoreContract(StoreContract, PersistenceLaws):
    """What a store promises that keeps what it holds when it is closed."""


class RunnerContract(
    InputLaws,
    OrderLaws,
    RunMemoryLaws,
    FailureLaws,
    DurableLaws,
    ReconcilerLaws,
    AsyncLaws,
    RecoveryLaws,
    ConsumerLaws,
    WrongClockLaws,
):
    """What every runner promises.

    A test class inherits from it and says how a memory is opened, how a runner of an agent is
    made, and how one is killed::

        class TestMine(RunnerContract):
            def open(self, path):
                return Memory.open(path, clock=self.clock)

            def runner(self, agent, memory, **options):
                return MyRunner(agent, memory, **options)

            def crash(self, runner, memory, path):
                runner.kill()
                return self.open(path)
    """

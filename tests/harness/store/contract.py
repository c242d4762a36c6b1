"""The whole contract of a store: the laws in the package, and the laws in this folder."""

from __future__ import annotations

from alveus.testing import PersistentStoreContract, StoreContract
from harness.store.clock_laws import ClockStepLaws
from harness.store.effects_laws import EffectsLaws
from harness.store.erasing_laws import ErasingLaws, ErasingRunLaws
from harness.store.group_laws import GroupLaws
from harness.store.lineage_laws import LineageLaws, RetentionLaws
from harness.store.staging_laws import ScreenLaws, StagingLaws
from harness.store.store_laws import HandleLaws, OutputLaws, ThreadLaws


class WholeContract(
    StoreContract,
    EffectsLaws,
    LineageLaws,
    RetentionLaws,
    ClockStepLaws,
    ScreenLaws,
    StagingLaws,
    OutputLaws,
    GroupLaws,
    HandleLaws,
    ThreadLaws,
    ErasingLaws,
    ErasingRunLaws,
):
    """Every law of an alveus store. Stores are opened and ended as in `StoreContract`."""


class WholePersistentContract(WholeContract, PersistentStoreContract):
    """The same for a store that keeps its data after a close."""

"""The promise of a runner, sentence by sentence, as a class to inherit from."""

from __future__ import annotations

from fornix.testing.runner_async import AsyncLaws
from fornix.testing.runner_durable import DurableLaws
from fornix.testing.runner_failures import FailureLaws
from fornix.testing.runner_inputs import InputLaws
from fornix.testing.runner_memory import RunMemoryLaws
from fornix.testing.runner_order import OrderLaws
from fornix.testing.runner_outputs import ConsumerLaws
from fornix.testing.runner_reconcilers import ReconcilerLaws
from fornix.testing.runner_recovery import RecoveryLaws


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

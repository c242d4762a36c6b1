"""The promise of a runner, sentence by sentence, as a class to inherit from."""

from __future__ import annotations

from fornix.testing.runner.asynchronous import AsyncLaws
from fornix.testing.runner.clocks import WrongClockLaws
from fornix.testing.runner.durable import DurableLaws
from fornix.testing.runner.failures import FailureLaws
from fornix.testing.runner.inputs import InputLaws
from fornix.testing.runner.memory import RunMemoryLaws
from fornix.testing.runner.order import OrderLaws
from fornix.testing.runner.outputs import ConsumerLaws
from fornix.testing.runner.reconcilers import ReconcilerLaws
from fornix.testing.runner.recovery import RecoveryLaws


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

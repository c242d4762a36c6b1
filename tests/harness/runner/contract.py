"""The laws of a runner, as a class to inherit from."""

from __future__ import annotations

from harness.runner.durable import AsyncLaws, DurableLaws, ReconcilerLaws
from harness.runner.failures import FailureLaws, RecoveryLaws
from harness.runner.inputs import InputLaws, OrderLaws
from harness.runner.memory import ConsumerLaws, RunMemoryLaws, WrongClockLaws


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
    """The promises of every runner.

    A test class inherits from it, and defines how to open a memory, and how to make and kill a
    runner
    of an agent::

        class TestMine(RunnerContract):
            def open(self, path):
                return Memory.open(path, clock=self.clock)

            def runner(self, agent, memory, **options):
                return MyRunner(agent, memory, **options)

            def crash(self, runner, memory, path):
                runner.kill()
                return self.open(path)
    """

"""`LocalRunner` keeps the promise of a runner, in RAM and on SQLite; and what is its own."""

from __future__ import annotations

from doors import Letters
from fornix import LocalRunner, Memory
from fornix.stores.ram import RamStore
from fornix.stores.sqlite import SqliteStore
from fornix.testing import Clock, RunnerContract


class Local:
    """A `LocalRunner`, and how it is killed without a process."""

    clock: Clock

    def runner(self, agent, memory, **options):
        return LocalRunner(agent, memory, **options)

    def still(self, runner):
        """Have what was killed do nothing more than what it is at."""
        runner._work.floor.stop()
        runner._watch.stop()


class InRam(Local):
    def open(self, path):
        memory = Memory.open(space="app", embedder=Letters(), clock=self.clock)
        self.dead = set()
        assert isinstance(memory.store, RamStore)
        memory.store._alive = lambda owner: owner not in self.dead
        return memory

    def crash(self, runner, memory, path):
        self.still(runner)
        self.dead.add(runner.owner)
        return memory


class OnDisk(Local):
    def open(self, path):
        return Memory.open(
            path, space="app", embedder=Letters(), clock=self.clock, durability="normal"
        )

    def crash(self, runner, memory, path):
        self.still(runner)
        assert isinstance(memory.store, SqliteStore)
        assert memory.store._owners is not None
        memory.store._owners.dismiss(runner.owner)
        return self.open(path)


class TestRam(InRam, RunnerContract):
    pass


class TestSqlite(OnDisk, RunnerContract):
    pass

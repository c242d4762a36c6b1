"""Windows: the laws of every memory of an agent's window, and what those of fornix promise."""

from __future__ import annotations

import pytest

from fornix import Memory
from fornix.budget import Budget
from fornix.context import Importance, Priority, Stream, Void
from fornix.testing import ContextContract
from scale import COUNTS

SHARED_S = COUNTS.contention_s * 20 / 15
"""20 s where tests are run in full."""


class TestVoid(ContextContract):
    shows, budget, seconds = 0, Budget(400), 0.1

    def make(self):
        return Void("Be kind.", budget_tokens=self.budget)


class TestStream(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S

    def make(self):
        return Stream(20, "Be kind.", budget_tokens=self.budget)


class TestPriority(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Priority(20, budget_tokens=self.budget)


class TestImportance(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Importance(20, "Be kind.", budget_tokens=self.budget)


class TestLeastRecentlyUsed(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Stream(20, budget_tokens=self.budget, evict="least recently used")


class TestDurableStream(ContextContract):
    """On a file, which the next process reads."""

    shows, budget, seconds = 20, Budget(400), SHARED_S

    @pytest.fixture(autouse=True)
    def opened(self, tmp_path):
        with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
            self.key = memory.key("ada")
            yield

    def make(self):
        return Stream(20, memory=self.key, budget_tokens=self.budget)

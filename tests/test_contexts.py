"""Windows: the laws of every memory of an agent's window, and what those of fornix promise."""

from __future__ import annotations

import pytest

from fornix import Memory
from fornix.budget import Budget
from fornix.context import (
    Hierarchical,
    Hybrid,
    Importance,
    Layer,
    Linked,
    Priority,
    Reflection,
    Semantic,
    Stream,
    Void,
)
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


class TestHybrid(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        return Hybrid(20, 0.5, "Be kind.", budget_tokens=self.budget)


class TestSemantic(ContextContract):
    shows, budget, seconds = 21, Budget(400), SHARED_S / 4

    def make(self):
        return Semantic(20, cap=21, embedder="static", budget_tokens=self.budget)


class TestDurableSemantic(TestDurableStream):
    """By the search of its set, which knows words alone here."""

    shows, seconds = 21, SHARED_S / 4

    def make(self):
        return Semantic(20, cap=21, memory=self.key, budget_tokens=self.budget)


class TestHierarchical(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S / 4

    def make(self):
        layers = (Layer(5, 100), Layer(5, evict="least important"), 10)
        return Hierarchical(*layers, stratum="Be kind.", budget_tokens=self.budget)


class TestLinked(ContextContract):
    shows, budget, seconds = 21, Budget(400), SHARED_S / 4

    def make(self):
        return Linked(20, cap=21, embedder="static", budget_tokens=self.budget)


class TestReflectingStream(TestDurableStream):
    """One that adds up what matters, which is nothing here."""

    seconds = SHARED_S / 4

    def make(self):
        reflection = Reflection(1.0)
        return Stream(20, memory=self.key, budget_tokens=self.budget, reflection=reflection)

"""Hybrid, Semantic, Hierarchical and Linked keep what every memory of a window promises."""

from __future__ import annotations

import pytest

from alveus import Memory
from alveus.agents.windows import Hierarchical, Hybrid, Layer, Linked, Reflection, Semantic, Stream
from alveus.testing import ContextContract
from alveus.text.budget import Budget
from scale import COUNTS

SHARED_S = COUNTS.contention_s / 4
"""How long threads are in each other's way."""


class Durable(ContextContract):
    """On a file."""

    budget, seconds = Budget(400), SHARED_S

    @pytest.fixture(autouse=True)
    def opened(self, tmp_path):
        with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
            self.key = memory.key("ada")
            yield


class TestHybrid(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S

    def make(self):
        return Hybrid(70, "Be kind.", budget_tokens=self.budget)


class TestSemantic(ContextContract):
    shows, budget, seconds = 21, Budget(400), SHARED_S

    def make(self):
        return Semantic(top_k=20, cap=21, embedder="static", budget_tokens=self.budget)


class TestDurableSemantic(Durable):
    """By the search of its set, which knows words alone here."""

    shows = 21

    def make(self):
        return Semantic(top_k=20, cap=21, memory=self.key, budget_tokens=self.budget)


class TestHierarchical(ContextContract):
    shows, budget, seconds = 20, Budget(400), SHARED_S

    def make(self):
        layers = (Layer(5, 100), Layer(5, evict="least important"), 10)
        return Hierarchical(*layers, stratum="Be kind.", budget_tokens=self.budget)


class TestLinked(ContextContract):
    shows, budget, seconds = 21, Budget(400), SHARED_S

    def make(self):
        return Linked(top_k=20, cap=21, embedder="static", budget_tokens=self.budget)


class TestReflectingStream(Durable):
    """One that adds up what matters, which is nothing here."""

    def make(self):
        reflection = Reflection(1.0)
        return Stream(20, memory=self.key, budget_tokens=self.budget, reflection=reflection)

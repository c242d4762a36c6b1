"""Items are added, summed up, undone and forgotten at random: stores agree, and nothing is left."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from alveus.errors import AlveusError
from alveus.store import (
    Add,
    Compact,
    Compaction,
    Erased,
    Erasure,
    ItemChange,
    Link,
    Replace,
    Retire,
    Revive,
    SetRef,
    Store,
    Undo,
)
from alveus.store.ram import RamStore
from alveus.store.sqlite import SqliteStore
from alveus.testing import ADA, HANDBOOK, NOTES, NOW, batch, differences, reads, record
from scale import COUNTS

BOOK = SetRef(HANDBOOK, "book")
IDS = "abcdef"
STEPS = 60
"""Changes of one story."""


class Story:
    """The same changes, made on two stores; the numbers of one stand for those of the other."""

    def __init__(self, path: Path, seed: int) -> None:
        self.store = SqliteStore.open(path)
        self.model = RamStore(salt=self.store.salt())
        self.rng = random.Random(seed)
        self.receipts = itertools.count()

    def play(self) -> None:
        """Make one change."""
        moves: list[tuple[int, Callable[[], None]]] = [
            (6, self.add), (2, self.edit), (2, self.retire), (4, self.compact), (2, self.undo),
            (1, self.revive), (2, self.forget), (1, self.forget_all),
        ]  # fmt: skip
        weights = [weight for weight, _ in moves]
        self.rng.choices([move for _, move in moves], weights)[0]()

    def commit(self, *changes: ItemChange) -> None:
        """Commit on both; the numbers of rows and commits are the same in both."""
        scope = HANDBOOK if all(c.set == BOOK for c in changes) else ADA
        asked = batch(*changes, scope=scope)
        found = [self._answer(store, lambda s: s.commit(asked)) for store in self.stores]
        assert found[0] == found[1], (changes, found)

    @property
    def stores(self) -> tuple[Store, Store]:
        """Both."""
        return self.store, self.model

    def _answer(self, store: Store, work: Callable[[Store], object]) -> object:
        try:
            return work(store)
        except AlveusError as error:
            return type(error)

    def _ref(self) -> SetRef:
        return self.rng.choice((NOTES, NOTES, BOOK))

    def add(self) -> None:
        ref, item_id = self._ref(), self.rng.choice(IDS)
        links = [Link(NOTES, self.rng.choice(IDS)) for _ in range(self.rng.choice((0, 0, 1, 2)))]
        self.commit(Add(ref, record(item_id, f"text {self.rng.random()}"), links=links))

    def edit(self) -> None:
        ref, item_id = self._ref(), self.rng.choice(IDS)
        live = self.model.get(ref, [item_id])[0]
        self.commit(Replace(ref, live.version if live else 1, record(item_id, "edited")))

    def retire(self) -> None:
        ref, item_id = self._ref(), self.rng.choice(IDS)
        live = self.model.get(ref, [item_id])[0]
        self.commit(Retire(ref, item_id, live.version if live else 1))

    def compact(self) -> None:
        ref = self._ref()
        live = [(item.record.id, item.version) for item in self.model.page(ref)]
        retired = self.rng.sample(live, min(len(live), self.rng.choice((2, 3, 4))))
        if not retired:
            return
        half = self.rng.randrange(len(retired) + 1)
        added = [
            Add(ref, record(f"sum {self.rng.randrange(9)}"), links=[Link(ref, i) for i, _ in some])
            for some in (retired[:half], retired[half:])
            if some
        ]
        self.commit(Compact(ref, retired, added, '{"how":"random"}'))

    def undo(self) -> None:
        ref = self._ref()
        done = self.model.compactions(ref)
        if done:
            self.commit(Undo(ref, self.rng.choice(done).id))

    def revive(self) -> None:
        ref = self._ref()
        versions = self.model.versions(ref, self.rng.choice(IDS))
        if versions:
            self.commit(Revive(ref, self.rng.choice(versions).row))

    def forget(self) -> None:
        ref = self._ref()
        there = sorted({item.record.id for item in self.model.all_versions(ref, limit=1_000)})
        ids = self.rng.sample(there, min(len(there), self.rng.choice((1, 1, 2))))
        self._erase(Erasure(ref.scope, NOW, f"{next(self.receipts)}", items=[(ref, ids)]))
        assert all(not store.versions(ref, i) for store in self.stores for i in ids)

    def forget_all(self) -> None:
        if self.rng.random() < 0.3:
            self._erase(Erasure(ADA, NOW, f"{next(self.receipts)}", whole_key=True))
            assert all(not store.all_sets(ADA) for store in self.stores)

    def _erase(self, erasure: Erasure) -> None:
        before = {row for row, _ in self._derived_of(erasure)}
        found, expected = (store.erase(erasure) for store in self.stores)
        assert len(found.sets) == len(expected.sets)
        assert replace(found, sets=()) == replace(expected, sets=()), erasure
        assert isinstance(found, Erased)
        assert not self.model.items_by_row(sorted(before)), "something derived is there still"

    def _derived_of(self, erasure: Erasure) -> set[tuple[int, int]]:
        """Return what was derived, to any depth, of what is to go."""
        rows = [
            v.row for ref, ids in erasure.items for i in ids for v in self.model.versions(ref, i)
        ]
        found: set[tuple[int, int]] = set()
        while rows:
            new = set(self.model.derived_links(rows)) - found
            found |= new
            rows = [row for row, _ in new]
        return found

    def check(self) -> None:
        """Assert that both tell the same."""
        ours, theirs = (reads(store, now=NOW, at=(), scopes=(ADA,)) for store in self.stores)
        assert not differences(ours, theirs)
        for ref in (NOTES, BOOK):
            ours, theirs = (self._lineage(store, ref) for store in self.stores)
            assert ours == theirs, ref
        assert self.store.problems() == []

    def _lineage(self, store: Store, ref: SetRef) -> tuple[list[Compaction], object, object]:
        rows = [item.row for item in store.all_versions(ref, limit=10_000)]
        return store.compactions(ref), store.source_links(rows), store.derived_links(rows)


@pytest.mark.parametrize("seed", range(max(2, COUNTS.walks // 2)))
def test_stores_agree_on_what_is_forgotten(tmp_path: Path, seed: int) -> None:
    """Whatever was derived of what, and undone, before."""
    story = Story(tmp_path / "app.db", seed)
    for step in range(STEPS):
        story.play()
        if step % 6 == 5:
            story.check()
    story.check()
    story.store.close()

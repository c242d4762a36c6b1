"""Whatever happens, what is told of a moment of the past is what was told then, or an error."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from alveus import KeyMemory, Memory
from alveus.errors import AlveusError, HistoryPruned
from alveus.store import Compact, Define, Definition, SetRef, Undo
from alveus.store.sqlite import SqliteStore
from alveus.testing import batch
from doors import Clock, Letters
from scale import COUNTS

IDS = ("i", "j", "k", "l")
TEXTS = ("green tea", "black tea", "a window seat", "coffee in the morning")
PARTS = ("tree", "sets")
DAY = 86_400_000_000


@dataclass
class Play:
    """A key that much happens to, and what was told of it at each moment."""

    memory: Memory
    clock: Clock
    rng: Random
    told: dict[tuple[str, int | datetime], object] = field(
        default_factory=dict[tuple[str, int | datetime], object]
    )

    @property
    def ada(self) -> KeyMemory:
        return self.memory.key("ada")

    @property
    def ref(self) -> SetRef:
        return SetRef(self.ada._scope, "default")

    def commit(self, change: Compact | Undo | Define) -> None:
        made = batch(change, scope=self.ref.scope, time=self.memory.engine.clock())
        self.memory.store.commit(made)

    def step(self) -> None:
        """Do something that may or may not work."""
        rng, ada = self.rng, self.ada
        self.clock.elapse(hours=rng.choice((1, 1, 7, 40)))
        later = rng.choice((None, self.clock.now + timedelta(hours=rng.randrange(-1, 60))))
        item_id, text = rng.choice(IDS), rng.choice(TEXTS)
        live = self.memory.store.page(self.ref, limit=2)
        done = self.memory.store.compactions(self.ref, limit=1)
        moves = (
            lambda: ada.add(text, id=item_id, expire_at=later),
            lambda: ada.add(text, id=item_id, valid_from=later, on_existing="update"),
            lambda: ada.update(item_id, text, valid_to=later),
            lambda: ada.update(item_id, expire_at=later),
            lambda: ada.supersede(item_id, text),
            lambda: ada.delete(item_id),
            lambda: ada.short_term.set(f"{item_id}.x", text, ttl=rng.choice((None, DAY_AND_MORE))),
            lambda: ada.short_term.delete(item_id),
            lambda: self.commit(
                Compact(self.ref, [(s.record.id, s.version) for s in live], [], "{}")
            ),
            lambda: self.commit(Undo(self.ref, done[0].id if done else 0)),
            lambda: self.memory.sweep() if rng.random() < 0.3 else 0,
            lambda: (
                self.memory.prune_history(before=self.clock.now - timedelta(days=4))
                if rng.random() < 0.2
                else 0
            ),
        )
        try:
            rng.choice(moves)()
        except AlveusError:
            return

    def look(self) -> None:
        """Keep what the key says now: at this time, and after a commit that was made now."""
        number = self.memory.store.commit_at(1 << 60)
        moments: list[int | datetime] = [self.clock.now]
        if self.memory.store.time_of_commit(number) == self.memory.engine.clock():
            moments.append(number)
        for part in PARTS:
            said = self.said(part, None)
            self.told.update(((part, moment), said) for moment in moments)

    def said(self, part: str, moment: int | datetime | None) -> object:
        """Return what a part of the key says, or said at a moment."""
        ada = self.ada
        if part == "tree":
            return (ada.short_term if moment is None else ada.short_term.at(moment)).to_dict()
        listed = [replace(item, accessed=None) for item in ada.list(as_of=moment)]
        return (
            listed,
            [item.id for item in ada.recent(3, as_of=moment)],
            [(h.item.id, h.score) for h in ada.search("tea in the morning", as_of=moment)],
            [item and item.version for item in ada.get(list(IDS), as_of=moment)],
        )


DAY_AND_MORE = timedelta(hours=30)


@pytest.mark.parametrize("retention", ["keep", 3 * DAY, "purge"])
@pytest.mark.parametrize("place", ["ram", "file"])
def test_the_past_is_what_it_was(tmp_path: Path, retention: str | int, place: str) -> None:
    """By commit and by time; where it is no longer kept it is HistoryPruned, and nothing else."""
    right, pruned = Counter[str](), Counter[str]()
    for seed in range(max(3, COUNTS.random_ops // 1_000)):
        clock = Clock(step=timedelta(0))
        url = ":memory:" if place == "ram" else tmp_path / f"{seed}.db"
        with Memory.open(url, embedder=Letters(), clock=clock) as memory:
            play = Play(memory, clock, Random(seed))
            play.commit(Define(play.ref, Definition(retention=retention)))
            for _ in range(40):
                play.step()
                play.look()
            for (part, moment), told in play.told.items():
                try:
                    found = play.said(part, moment)
                except HistoryPruned:
                    pruned[part] += 1
                else:
                    right[part] += 1
                    assert found == told, (seed, part, moment)
            assert not isinstance(memory.store, SqliteStore) or not memory.store.problems()
    assert all(right[part] for part in PARTS)
    assert pruned["tree"]
    assert bool(pruned["sets"]) == (retention != "keep")

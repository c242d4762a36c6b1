"""Enhanced short-term memory: similar fragments are merged and move to long-term memory.

The rule is DB-GPT's, which credits it to RecAgent (YuLan-Rec).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import ClassVar, TypeAlias, Unpack, cast

import numpy as np

from alveus.agents.layers.fragments import Failure, MemoryFragment, T, WriteOperation, finite
from alveus.agents.layers.layer import LayerOptions, ShortTermMemory
from alveus.agents.layers.moves import FragmentEntry, LayerItems, Move
from alveus.agents.layers.scoring import unit
from alveus.errors import EmbedderFailed, InvalidInput
from alveus.search.similarity import Nearness
from alveus.values.storable import counted

ENHANCED = "enhanced"
"""The field of the layer's note that holds the `Strengthening` by added fragments."""

RECALLED = "recalled"
"""The field that holds the `Strengthening` by recalled fragments. They are not in the layer."""

Strengthening: TypeAlias = dict[str, list[str]]
"""Maps the id of a fragment to the ids of the fragments that strengthened it."""


def sigmoid(number: float) -> float:
    """Return 1 / (1 + e^-number)."""
    return 1 / (1 + math.exp(-number))


MOST = sigmoid(1.0)
"""The greatest probability of a strengthening, reached with the cosine 1."""


class EnhancedShortTermMemory(ShortTermMemory[T]):
    """Short-term memory in which similar fragments strengthen each other.

    A fragment strengthens another with the probability sigmoid(cosine), if this probability is at
    least `enhance_similarity_threshold`: 0.7 is a cosine of 0.847. A fragment that was strengthened
    `enhance_threshold` times leaves, merged with the fragments that strengthened it. When the
    layer overflows, its least important fragment leaves, but never the newest.

    Args:
        embeddings: Makes vectors of texts. None means the embedder of the memory.
        executor: Accepted as in DB-GPT, and not used.
        random: A function that returns a number in 0..1. None means a number derived from the ids
            of the two fragments, so that the same writes have the same effect.

    Raises:
        InvalidInput: No cosine can reach the threshold, or another argument cannot be used.
    """

    reads_meaning: ClassVar[bool] = True

    def __init__(
        self,
        embeddings: object = None,
        executor: object = None,
        buffer_size: int = 10,
        enhance_similarity_threshold: float = 0.7,
        enhance_threshold: int = 3,
        *,
        random: Callable[[], float] | None = None,
        **settings: Unpack[LayerOptions],
    ) -> None:
        del executor
        super().__init__(buffer_size, **settings)
        least = finite(enhance_similarity_threshold, "enhance_similarity_threshold")
        if not 0 <= least <= MOST:
            raise InvalidInput(
                "enhance_similarity_threshold must be from 0 to 0.731, not "
                f"{enhance_similarity_threshold!r}; no similarity is greater than 0.731"
            )
        self.enhance_similarity_threshold = least
        self.enhance_threshold = counted(enhance_threshold, "enhance_threshold", least=1)
        self._random = random
        self._near = None if embeddings is None else Nearness(embeddings)

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Add an entry. Return the entries that leave: merged entries, and the overflow."""
        near, items = self._near or self.storage.nearness, move.items(self)
        self.take_again(move, entry)
        counts = _Counts(move, items, keeps_members=self.profile.raw)
        earlier = items.entries
        for other, cosine in zip(earlier, _cosines(near, move, entry, earlier), strict=True):
            chance = sigmoid(cosine)
            if chance >= self.enhance_similarity_threshold and self._draw(other, entry) < chance:
                counts.add(other, entry, recalled=op is WriteOperation.RETRIEVAL)
        leaving: list[FragmentEntry] = []
        for other in earlier:
            if counts.is_removed(other) or counts.of(other) < self.enhance_threshold:
                continue
            members = counts.removed(other, entry, op)
            leaving.append(other.leaving() if len(members) == 1 else move.merged(members))
        if op is WriteOperation.ADD and not counts.is_removed(entry):
            items.add(entry)
            leaving += self._overflow(counts)
        counts.save()
        return leaving

    def _draw(self, earlier: FragmentEntry, new: FragmentEntry) -> float:
        if self._random is not None:
            return self._random()
        digest = blake2b(f"{earlier.id}\0{new.id}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64

    def _overflow(self, counts: _Counts) -> list[FragmentEntry]:
        items, gone = counts.items, list[FragmentEntry]()
        while len(entries := items.entries) > self.buffer_size:
            victim = min(
                entries[:-1] or entries,
                key=lambda earlier: (_weight(earlier.fragment), counts.of(earlier), earlier.number),
            )
            counts.forget([victim])
            items.remove([victim])
            gone.append(victim.leaving())
        return gone


def _cosines(
    near: Nearness, move: Move, entry: FragmentEntry, earlier: Sequence[FragmentEntry]
) -> list[float]:
    """Return the cosine of *entry* with each *earlier* entry.

    If the embedder fails, record the failure, and return -1 for each.
    """
    if not earlier:
        return []
    fragments = [entry.fragment, *(other.fragment for other in earlier)]
    try:
        first, *rows = near.vectors([f.raw_observation for f in fragments])
    except EmbedderFailed as error:
        move.discarded.failures.append(Failure(entry.fragment, f"nothing is like it: {error}"))
        return [-1.0] * len(earlier)
    return [float(np.clip(np.dot(first, row), -1.0, 1.0)) for row in rows]


def _weight(fragment: MemoryFragment) -> float:
    return unit(None) if fragment.importance is None else fragment.importance


class _Counts:
    """Counts how often each fragment of the layer was strengthened, and by which fragments."""

    def __init__(self, move: Move, items: LayerItems, *, keeps_members: bool) -> None:
        self.items, self._move, self._keeps_members = items, move, keeps_members
        self._by: dict[str, Strengthening] = {}
        for kind in (ENHANCED, RECALLED):
            kept = cast("Strengthening", items.note.value.get(kind, {}))
            self._by[kind] = {entry.id: list(kept.get(entry.id, ())) for entry in items.entries}
        self._removed: set[str] = set()

    def of(self, earlier: FragmentEntry) -> int:
        """Return how often a fragment was strengthened."""
        return sum(len(by.get(earlier.id, ())) for by in self._by.values())

    def add(self, earlier: FragmentEntry, by: FragmentEntry, *, recalled: bool) -> None:
        """Count that *by* strengthened *earlier* once more."""
        self._by[RECALLED if recalled else ENHANCED].setdefault(earlier.id, []).append(by.id)
        self._move.write(self.items.note)

    def is_removed(self, entry: FragmentEntry) -> bool:
        """Return whether an entry left as part of a merged entry."""
        return entry.id in self._removed

    def removed(
        self, earlier: FragmentEntry, new: FragmentEntry, op: WriteOperation
    ) -> list[FragmentEntry]:
        """Remove *earlier* and the fragments that strengthened it. Return all of them.

        *earlier* is first in the list. With `keeps_members`, only *earlier* is removed.
        """
        by_id = {entry.id: entry for entry in self.items.entries} | {new.id: new}
        names = [name for name in self._by[ENHANCED].get(earlier.id, ()) if name in by_id]
        if op is WriteOperation.RETRIEVAL and self._keeps_members:
            names.append(new.id)
        found = [by_id[name] for name in dict.fromkeys(names)]
        keeps = self._keeps_members
        members = [earlier, *(e for e in found if keeps or e.id not in self._removed)]
        gone = [earlier] if keeps else members
        self._removed |= {entry.id for entry in gone}
        self.items.remove(gone)
        if not keeps:
            self.forget(gone)
        for by in self._by.values():
            by.pop(earlier.id, None)
        return members

    def forget(self, removed: Sequence[FragmentEntry]) -> None:
        """Remove the counts of removed entries, and the counts that they added."""
        ids = {entry.id for entry in removed}
        for kind, by in self._by.items():
            self._by[kind] = {name: names for name, names in by.items() if name not in ids}
        for names in self._by[ENHANCED].values():
            names[:] = [name for name in names if name not in ids]

    def save(self) -> None:
        """Write the counts into the note of the layer."""
        here = {entry.id for entry in self.items.entries}
        for kind, by in self._by.items():
            kept = {name: names for name, names in by.items() if names and name in here}
            self.items.note.value[kind] = kept

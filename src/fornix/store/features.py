"""What search reads of items, and what changed in them: values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

ChangeKind: TypeAlias = Literal["added", "ended", "embedded", "removed"]


class Feature(NamedTuple):
    """What search reads of one version of an item; see `Record` and `StoredItem`.

    A tuple, because a large set has a million of them to be made when it is read.
    """

    row: int
    first: int
    id: str
    begun: int
    ended: int | None
    time: int
    importance: float
    speaker: str | None
    role: str | None
    session: str | None
    metadata: str
    terms: bytes
    tokens: int
    temporal: int
    vectors: bytes | None


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A line of the change log: what happened to a feature."""

    seq: int
    set_number: int
    row: int
    kind: ChangeKind


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """A version that waits for its vectors; *metadata* in wire form, for its captions."""

    set_number: int
    row: int
    text: str
    metadata: str = "{}"

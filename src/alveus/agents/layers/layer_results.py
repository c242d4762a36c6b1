"""What layers hand on: insights, and what left a layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from alveus.agents.layers.fragments import MemoryFragment
from alveus.errors import InvalidInput
from alveus.values.lazy_dataclass import dataclass

F = TypeVar("F", bound=MemoryFragment)


class InsightMemoryFragment(Generic[F]):
    """What was inferred from a fragment, or from several together.

    Args:
        original_memory_fragment: What it was inferred from.
        insights: Fragments, or texts, which become fragments of the original's class.

    Attributes:
        original_memory_fragment: What it was inferred from.
        insights: What was inferred, each a fragment with `is_insight`.
    """

    def __init__(
        self, original_memory_fragment: F | Sequence[F], insights: Sequence[F | str]
    ) -> None:
        self.original_memory_fragment = original_memory_fragment
        origin = self.originals
        if not origin:
            raise InvalidInput("an insight is inferred from at least one fragment")
        self.insights = [_insight(insight, origin) for insight in insights]

    @property
    def originals(self) -> list[F]:
        """What it was inferred from, as a list."""
        original = self.original_memory_fragment
        return [cast("F", original)] if isinstance(original, MemoryFragment) else list(original)


def _insight(insight: F | str, originals: Sequence[F]) -> F:
    """Return an insight as a fragment: it says so, and is none of what it was inferred from."""
    known, ids = dict[str, Any](), [f.id for f in originals]
    text: object = insight
    if isinstance(insight, MemoryFragment):
        if insight.is_insight and insight.id not in ids:
            return insight
        text, known["metadata"] = insight.raw_observation, insight.metadata
        if insight.id not in ids:
            known["memory_id"], known["importance"] = insight.id, insight.importance
    made = originals[0].current_class.build_from(text, is_insight=True, source_ids=ids, **known)
    return cast("F", made)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A fragment that a layer let go of for good, and why.

    What was stored before stays in the history of its set, as everything that is retired.
    """

    fragment: MemoryFragment
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A model that could not be asked about a fragment; what was done instead is in *reason*."""

    fragment: MemoryFragment
    reason: str


class DiscardedMemoryFragments(Generic[F]):
    """What left a layer, oldest first.

    Attributes:
        discarded_memory_fragments: Fragments that left, for the next layer to take.
        discarded_insights: What was inferred from them.
        dropped: What was let go of for good, each with the reason.
        failures: What a scorer or an extractor could not do; nothing was lost by it.
    """

    def __init__(
        self,
        discarded_memory_fragments: Sequence[F],
        discarded_insights: Sequence[InsightMemoryFragment[F]] | None = None,
        *,
        dropped: Sequence[Dropped] = (),
        failures: Sequence[Failure] = (),
    ) -> None:
        self.discarded_memory_fragments = list(discarded_memory_fragments)
        self.discarded_insights = list(discarded_insights or ())
        self.dropped, self.failures = list(dropped), list(failures)

    def __repr__(self) -> str:
        return (
            f"<discarded: {len(self.discarded_memory_fragments)} fragments, "
            f"{len(self.discarded_insights)} insights, {len(self.dropped)} dropped>"
        )

    def __bool__(self) -> bool:
        left = self.discarded_memory_fragments or self.discarded_insights
        return bool(left or self.dropped or self.failures)


class Insights(list[InsightMemoryFragment[F]]):
    """What an extractor inferred, and what it could not do.

    Attributes:
        failures: Fragments that it could not be asked about.
    """

    def __init__(
        self,
        insights: Iterable[InsightMemoryFragment[F]] = (),
        failures: Sequence[Failure] = (),
    ) -> None:
        super().__init__(insights)
        self.failures = list(failures)

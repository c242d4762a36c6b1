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
    """

    def __init__(
        self, original_memory_fragment: F | Sequence[F], insights: Sequence[F | str]
    ) -> None:
        self._original = original_memory_fragment
        origin = self.originals
        if not origin:
            raise InvalidInput("an insight is inferred from at least one fragment")
        self._insights = [_insight(insight, origin) for insight in insights]

    @property
    def original_memory_fragment(self) -> F | Sequence[F]:
        """What it was inferred from."""
        return self._original

    @property
    def originals(self) -> list[F]:
        """What it was inferred from, as a list."""
        if isinstance(self._original, MemoryFragment):
            return [cast("F", self._original)]
        return list(self._original)

    @property
    def insights(self) -> list[F]:
        """What was inferred, each a fragment with `is_insight`."""
        return self._insights


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
        self._fragments = list(discarded_memory_fragments)
        self._insights = list(discarded_insights or ())
        self.dropped, self.failures = list(dropped), list(failures)

    def __repr__(self) -> str:
        return (
            f"<discarded: {len(self._fragments)} fragments, {len(self._insights)} insights, "
            f"{len(self.dropped)} dropped>"
        )

    def __bool__(self) -> bool:
        return bool(self._fragments or self._insights or self.dropped or self.failures)

    @property
    def discarded_memory_fragments(self) -> list[F]:
        """Fragments that left, for the next layer to take."""
        return self._fragments

    @property
    def discarded_insights(self) -> list[InsightMemoryFragment[F]]:
        """What was inferred from them."""
        return self._insights


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

"""Fragments, their ids, and the results of layers, as in DB-GPT."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from numbers import Real
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,
    SupportsFloat,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
)

from alveus.errors import InvalidInput
from alveus.values.forks import FreshLock
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_kind, checked_name, counted

R = TypeVar("R")

FragmentId: TypeAlias = int | str
"""The id of a fragment. Ids that alveus makes are numbers that rise with time."""

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
"""A function that returns a vector for each text."""

LONGEST_ID = 4096
"""The most bits of a numeric id."""

INSTANCES, SEQUENCE = 1 << 10, 1 << 12
"""How many processes can make Snowflakes, and how many ids each can make in a millisecond."""

TIMED_BITS = 22
"""Bits below the milliseconds of a Snowflake."""

LARGEST = 1 << 64
"""A number above all Snowflakes and below all ids of alveus."""

OWN_TIMED_BITS = 80
"""Bits below the milliseconds of a version 7 UUID, the form of alveus's ids."""


class WriteOperation(StrEnum):
    """The reason for a write.

    ADD: the fragment is new. RETRIEVAL: the fragment was recalled, and strengthens similar ones.
    """

    ADD = "add"
    RETRIEVAL = "retrieval"


class MemoryFragment(ABC):
    """The abstract base of fragments, each a piece of experience.

    Layers make instances of `AgentMemoryFragment`.
    """

    @classmethod
    @abstractmethod
    def build_from(
        cls,
        observation: Any,  # noqa: ANN401 - DB-GPT's signature: a text, or a structure
        embeddings: Sequence[float] | None = None,
        memory_id: FragmentId | None = None,
        importance: float | None = None,
        is_insight: bool = False,  # noqa: FBT001, FBT002 - DB-GPT's signature
        last_accessed_time: datetime | None = None,
        **kwargs: Any,  # noqa: ANN401 - DB-GPT's signature
    ) -> MemoryFragment:
        """Return a fragment of this class."""

    @property
    @abstractmethod
    def id(self) -> FragmentId:
        """The fragment's id. Two fragments with the same id count as one fragment."""

    @property
    @abstractmethod
    def raw_observation(self) -> str:
        """The observation as text, which search reads."""

    @abstractmethod
    def copy(self) -> Self:
        """Return an equal fragment with the same id."""

    _metadata: dict[str, Any] | None = None
    _importance: float | None = None
    _embeddings: list[float] | None = None
    _is_insight: bool = False
    _accessed: datetime | None = None
    _source_ids: Sequence[FragmentId] = ()

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts to filter by. `speaker`, `role` and `session` become fields of the stored item."""
        return {} if self._metadata is None else self._metadata

    @property
    def importance(self) -> float | None:
        """The importance, 0..1, or None if it is unknown."""
        return self._importance

    @property
    def embeddings(self) -> list[float] | None:
        """The vector, or None if no vector was set."""
        return self._embeddings

    @property
    def is_insight(self) -> bool:
        """True if the fragment was inferred from other fragments."""
        return self._is_insight

    @property
    def last_accessed_time(self) -> datetime | None:
        """The time of the last recall, or None if it is unknown."""
        return self._accessed

    @property
    def source_ids(self) -> list[FragmentId]:
        """The ids of the fragments that this fragment was made from."""
        return list(self._source_ids)

    @property
    def current_class(self) -> type[Self]:
        """The class of the fragment."""
        return self.__class__

    def update_importance(self, importance: float) -> float | None:
        """Set the importance. Return the previous importance."""
        before, self._importance = self._importance, finite(importance)
        return before

    def update_embeddings(self, embeddings: Sequence[float]) -> None:
        """Set the vector."""
        self._embeddings = _vector(embeddings)

    def update_accessed_time(self, now: datetime) -> datetime | None:
        """Set the time of the last recall. Return the previous time."""
        before, self._accessed = self._accessed, _time(now)
        return before

    def calculate_current_embeddings(self, embed: Embed) -> list[float]:
        """Return the vector of the fragment's text. The fragment does not keep the vector."""
        return list(embed([self.raw_observation])[0])

    @classmethod
    def reduce(cls, fragments: Sequence[MemoryFragment], **kwargs: Any) -> MemoryFragment:  # noqa: ANN401 - DB-GPT's
        """Return a fragment of this class with the texts and, as `source_ids`, the ids of all."""
        text = ";".join(f.raw_observation for f in fragments)
        return cls.build_from(text, source_ids=[f.id for f in fragments], **kwargs)


class AgentMemoryFragment(MemoryFragment):
    """A fragment of text. Its fields can be assigned. A layer keeps a copy.

    Args:
        observation: The text.
        embeddings: The vector of the text, if known.
        memory_id: The id of the fragment. None means a new id. 0 is a valid id.
        importance: The importance, 0..1. None means that it is unknown.
        snapshot_path: The path of a file with the whole operation.
        metadata: Facts to filter by.
        source_ids: The ids of the fragments that this fragment was made from.

    Raises:
        InvalidInput: An argument cannot be stored.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - DB-GPT's signature
        self,
        observation: str,
        embeddings: Sequence[float] | None = None,
        memory_id: FragmentId | None = None,
        importance: float | None = None,
        last_accessed_time: datetime | None = None,
        is_insight: bool = False,  # noqa: FBT001, FBT002 - DB-GPT's signature
        snapshot_path: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        source_ids: Sequence[FragmentId] = (),
    ) -> None:
        self.observation = self._checked(observation)
        self.memory_id: FragmentId = new_fragment_id() if memory_id is None else _name(memory_id)
        what = "snapshot_path must be a str or None"
        self.snapshot_path = checked_kind(snapshot_path, str | None, what)
        self._embeddings = None if embeddings is None else _vector(embeddings)
        self._importance = None if importance is None else finite(importance)
        self._accessed = _time(last_accessed_time)
        self._is_insight = bool(is_insight)
        self._metadata = dict(
            checked_kind(metadata, Mapping | None, "metadata must be a dict") or {}
        )
        self._source_ids = _names(source_ids)

    @classmethod
    def _checked(cls, observation: Any) -> Any:  # noqa: ANN401 - subclasses take structures
        if not isinstance(observation, str):
            raise InvalidInput(
                f"an observation must be a str, not {type(observation).__name__}; for a dict, "
                "use StructuredAgentMemoryFragment"
            )
        return observation

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw_observation!r}, memory_id={self.memory_id!r})"

    @classmethod
    def build_from(
        cls,
        observation: Any,  # noqa: ANN401 - DB-GPT's signature
        embeddings: Sequence[float] | None = None,
        memory_id: FragmentId | None = None,
        importance: float | None = None,
        is_insight: bool = False,  # noqa: FBT001, FBT002 - DB-GPT's signature
        last_accessed_time: datetime | None = None,
        **kwargs: Any,  # noqa: ANN401 - DB-GPT's signature
    ) -> AgentMemoryFragment:
        """Return a fragment of this class."""
        return cls(
            observation,
            embeddings=embeddings,
            memory_id=memory_id,
            importance=importance,
            last_accessed_time=last_accessed_time,
            is_insight=is_insight,
            **kwargs,
        )

    @property
    def id(self) -> FragmentId:
        """The fragment's id."""
        return self.memory_id

    @property
    def raw_observation(self) -> str:
        """The text."""
        return self.observation

    def copy(self) -> Self:
        """Return an equal fragment of the same class, with the same id."""
        return type(self)(
            self.observation,
            embeddings=self._embeddings,
            memory_id=self.memory_id,
            importance=self._importance,
            last_accessed_time=self._accessed,
            is_insight=self._is_insight,
            snapshot_path=self.snapshot_path,
            metadata=self._metadata,
            source_ids=self._source_ids,
        )


def finite(number: object, what: str = "an importance") -> float:
    """Return a number as a float.

    Raises:
        InvalidInput: The value is no number, or is not finite.
    """
    if isinstance(number, bool) or not isinstance(number, Real):
        raise InvalidInput(f"{what} must be a number, not {number!r}")
    try:
        value = float(cast("SupportsFloat", number))
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise InvalidInput(f"{what} must be finite, not {number!r:.50}")
    return value


def _name(memory_id: object) -> FragmentId:
    if isinstance(memory_id, int) and not isinstance(memory_id, bool):
        if memory_id.bit_length() > LONGEST_ID:
            raise InvalidInput(f"a memory_id may have at most {LONGEST_ID} bits")
        return int(memory_id)
    return checked_name(memory_id, "a memory_id")


def _names(source_ids: Sequence[FragmentId]) -> list[FragmentId]:
    if isinstance(source_ids, str) or not isinstance(source_ids, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"source_ids must be a list of ids, not {source_ids!r}")
    return [_name(source) for source in source_ids]


def _vector(embeddings: Sequence[float]) -> list[float]:
    try:
        return [float(number) for number in embeddings]
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"embeddings must be a list of numbers ({error})") from error


def _time(accessed: datetime | None) -> datetime | None:
    return checked_kind(accessed, datetime | None, "last_accessed_time must be a datetime or None")


# --- fragments of structure -----------------------------------------------------------------------


class StructuredObservation(TypedDict, total=False):
    """One step of an agent. Fields may be missing, and further fields may be added."""

    question: str
    thought: str
    phase: str
    action_intention: str
    action_reason: str
    action: str
    action_input: Any
    observation: Any


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # type checkers know it by heart

    T = TypeVarWithDefault("T", bound=MemoryFragment, default=Any)
else:
    T = TypeVar("T", bound=MemoryFragment)


Structure: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class StructuredAgentMemoryFragment(AgentMemoryFragment):
    """A fragment of one step (a dict), or of several steps in order (a list of dicts)."""

    def __init__(
        self,
        observation: Structure,
        *args: Any,  # noqa: ANN401 - the arguments of AgentMemoryFragment
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> None:
        super().__init__(cast("str", observation), *args, **kwargs)

    @classmethod
    def _checked(cls, observation: Any) -> Any:  # noqa: ANN401 - any value is checked
        found = _steps(observation)
        if found is None:
            raise InvalidInput(
                "a structured observation must be a dict or a list of dicts, not "
                f"{type(observation).__name__}; for a text, use AgentMemoryFragment"
            )
        try:
            json.dumps(found)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"a structured observation must be JSON ({error})") from error
        return found if isinstance(observation, (list, tuple)) else found[0]

    @property
    def raw_observation(self) -> str:
        """The structure, as JSON."""
        return json.dumps(self.observation, ensure_ascii=False)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of the fragment, in order."""
        return _steps(self.observation) or []

    @classmethod
    def build_from(
        cls,
        observation: Any,  # noqa: ANN401 - DB-GPT's signature
        *args: Any,  # noqa: ANN401 - the arguments of AgentMemoryFragment.build_from
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> AgentMemoryFragment:
        """Return a fragment of a structure, or of a text that is the JSON of a structure.

        Any other text gives an `AgentMemoryFragment`.
        """
        if isinstance(observation, str):
            parsed = _parsed(observation)
            if parsed is None:
                return AgentMemoryFragment.build_from(observation, *args, **kwargs)
            observation = parsed
        return super().build_from(observation, *args, **kwargs)

    @classmethod
    def reduce(cls, fragments: Sequence[MemoryFragment], **kwargs: Any) -> MemoryFragment:  # noqa: ANN401 - DB-GPT's
        """Return one fragment with the steps of all *fragments*, in order, as a flat list.

        A single fragment is returned unchanged.

        A fragment of text becomes a step with only an `observation`.
        """
        if not fragments:
            raise InvalidInput("Memory fragments is empty.")
        if len(fragments) == 1:
            return fragments[0]
        every = [step for fragment in fragments for step in steps_of(fragment)]
        return cls.build_from(every, source_ids=[f.id for f in fragments], **kwargs)


def steps_of(fragment: MemoryFragment) -> list[dict[str, Any]]:
    """Return the steps of a fragment.

    A text that is not the JSON of steps counts as one step with only an `observation`.
    """
    if isinstance(fragment, StructuredAgentMemoryFragment):
        return fragment.steps
    text = fragment.raw_observation
    return _parsed(text) or [{"observation": text}]


def _parsed(text: str) -> list[dict[str, Any]] | None:
    try:
        return _steps(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _steps(observation: object) -> list[dict[str, Any]] | None:
    """Return the steps in a dict or in nested lists of dicts, or None for any other value."""
    if isinstance(observation, Mapping):
        return [dict(cast("Mapping[str, Any]", observation))]
    if not isinstance(observation, (list, tuple)) or not observation:
        return None
    found: list[dict[str, Any]] = []
    for part in cast("Sequence[object]", observation):
        steps = _steps(part)
        if steps is None:
            return None
        found += steps
    return found


# --- ids ------------------------------------------------------------------------------------------


class Snowflakes:
    """A generator of rising numbers of 64 bits: milliseconds, process, count.

    Args:
        instance: The number of this process, 0..1023, unique among writers.
        seq: The count of the first id, 0..4095.
        epoch: The start of the milliseconds, itself in milliseconds since 1970.
        timestamp: The least time of the first id, in milliseconds since 1970.
    """

    def __init__(
        self, instance: int, seq: int = 0, epoch: int = 0, timestamp: int | None = None
    ) -> None:
        self._instance = counted(instance, "instance", least=0, most=INSTANCES - 1)
        self._seq = counted(seq, "seq", least=0, most=SEQUENCE - 1) - 1
        self.epoch = counted(epoch, "epoch", least=0, most=_milliseconds() - 1)
        first = self.epoch if timestamp is None else timestamp
        self._last = max(_milliseconds(), counted(first, "timestamp", least=self.epoch))
        self._mutex = FreshLock()

    def __call__(self) -> int:
        """Return the next number.

        If all numbers of a millisecond are used, the time in the number is ahead of the clock.
        """
        with self._mutex:
            now = max(_milliseconds(), self._last)
            self._seq = self._seq + 1 if now == self._last else 0
            if self._seq == SEQUENCE:
                now, self._seq = now + 1, 0
            self._last = now
            return (now - self.epoch << TIMED_BITS) | self._instance << 12 | self._seq


class _Ids:
    """The generator of ids in this process."""

    snowflakes: Snowflakes | None = None


_IDS = _Ids()


def initialize_id_generator(
    instance: int | None = None, seq: int = 0, epoch: int = 0, timestamp: int | None = None
) -> None:
    """Make the ids of new fragments in this process Snowflakes, as in DB-GPT.

    Call this function before the first fragment is made. The ids of alveus, which are the default,
    need no number of the process.

    Args:
        instance: The number of this process, 0..1023, unique among writers. None restores
            alveus's ids.
        seq: The count of the first id, 0..4095.
        epoch: The start of the milliseconds, itself in milliseconds since 1970.
        timestamp: The least time of the first id, in milliseconds since 1970.

    Raises:
        InvalidInput: A number is out of its range.
    """
    _IDS.snowflakes = None if instance is None else Snowflakes(instance, seq, epoch, timestamp)


def new_fragment_id() -> int:
    """Return a number that is unique across processes, and rises with time."""
    if _IDS.snowflakes is not None:
        return _IDS.snowflakes()
    return int(new_id().replace("-", ""), 16)


def time_of_id(fragment_id: int) -> datetime:
    """Return the time at which alveus made an id. For any other id, the result has no meaning.

    A Snowflake is read with the current epoch.
    """
    if fragment_id < LARGEST:
        epoch = 0 if _IDS.snowflakes is None else _IDS.snowflakes.epoch
        milliseconds = epoch + (fragment_id >> TIMED_BITS)
    else:
        milliseconds = fragment_id >> OWN_TIMED_BITS
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000


# --- prompts, as the default templates of DB-GPT have them ----------------------------------------


def memory_text(
    *,
    question: str | None = None,
    thought: str | None = None,
    action: str | None = None,
    observation: str | None = None,
) -> str:
    """Return the text of a step, with a line for each part that is not empty."""
    named = {"Question": question, "Thought": thought, "Action": action, "Observation": observation}
    return "\n".join(f"{name}: {text} " for name, text in named.items() if text)


def memories_text(fragments: Sequence[MemoryFragment]) -> str:
    """Return the texts of fragments for a prompt, each on a line."""
    return "\n".join(fragment.raw_observation for fragment in fragments)


def user_prompt(question: str, most_recent_memories: str = "") -> str:
    """Return a question, with memories before it if there are any."""
    before = f"Most recent message:\n{most_recent_memories}\n\n" if most_recent_memories else ""
    return f"{before}User input: {question}\n"


def kept_rounds(rounds: Sequence[R], *, start: int = 0, end: int = 0) -> list[R]:
    """Return the first *start* and the last *end* rounds of a conversation.

    Return all rounds if there are at most *start* + *end*, and no rounds if both are 0.
    """
    if min(start, end) < 0:
        raise InvalidInput("start and end must be 0 or more, not {start} and {end}")
    if start + end >= len(rounds):
        return list(rounds) if start + end else []
    return [*rounds[:start], *rounds[len(rounds) - end :]]


F = TypeVar("F", bound=MemoryFragment)


class InsightMemoryFragment(Generic[F]):
    """Insights that were inferred from one fragment, or from several fragments together.

    Args:
        original_memory_fragment: The fragment or fragments that the insights were inferred from.
        insights: Fragments, or texts, which become fragments of the original's class.

    Attributes:
        original_memory_fragment: The fragment or fragments that the insights were inferred from.
        insights: Fragments with `is_insight`.
    """

    def __init__(
        self, original_memory_fragment: F | Sequence[F], insights: Sequence[F | str]
    ) -> None:
        self.original_memory_fragment = original_memory_fragment
        origin = self.originals
        if not origin:
            raise InvalidInput(
                "an insight needs at least one original fragment; pass original_memory_fragment"
            )
        self.insights = [_insight(insight, origin) for insight in insights]

    @property
    def originals(self) -> list[F]:
        """The original fragments as a list."""
        original = self.original_memory_fragment
        return [cast("F", original)] if isinstance(original, MemoryFragment) else list(original)


def _insight(insight: F | str, originals: Sequence[F]) -> F:
    """Return an insight as a fragment with `is_insight`.

    A fragment that has `is_insight` already is returned, unless it is one of *originals*.
    """
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
    """A dropped fragment, and the reason.

    If the fragment was stored before, the history of its set keeps it.
    """

    fragment: MemoryFragment
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A fragment whose question to a model failed, and the reason."""

    fragment: MemoryFragment
    reason: str


class DiscardedMemoryFragments(Generic[F]):
    """The fragments that left a layer, oldest first.

    Attributes:
        discarded_memory_fragments: Fragments for the next layer.
        discarded_insights: Insights that were inferred from these fragments.
        dropped: Fragments that were dropped, each with the reason.
        failures: Failed calls of a scorer or an extractor. No fragment is lost by a failed call.
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
    """The insights of an extractor.

    Attributes:
        failures: Fragments whose question to the extractor failed.
    """

    def __init__(
        self, insights: Iterable[InsightMemoryFragment[F]] = (), failures: Sequence[Failure] = ()
    ) -> None:
        super().__init__(insights)
        self.failures = list(failures)

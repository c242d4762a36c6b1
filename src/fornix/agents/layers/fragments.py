"""Fragments: the unit that layers keep, as DB-GPT's agents make them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from numbers import Real
from typing import Any, Self, SupportsFloat, TypeAlias, cast

from fornix.agents.layers.fragment_ids import new_fragment_id
from fornix.errors import InvalidInput
from fornix.values.storable import checked_name

FragmentId: TypeAlias = int | str
"""What names a fragment: a number that rises with time if fornix made it, or an id from outside."""

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
"""Turns texts into vectors."""

LONGEST_ID = 4096
"""Bits of an id that is a number."""


class WriteOperation(StrEnum):
    """Why a fragment is written: it is new, or was recalled and strengthens what is like it."""

    ADD = "add"
    RETRIEVAL = "retrieval"


class MemoryFragment(ABC):
    """A piece of experience. Abstract: `AgentMemoryFragment` is the one that layers make."""

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
        """Its name: two fragments with one id are one."""

    @property
    @abstractmethod
    def raw_observation(self) -> str:
        """What was observed, as text: what search reads."""

    @abstractmethod
    def copy(self) -> Self:
        """Return an equal fragment with the same id."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts to filter by; `speaker`, `role` and `session` in it are the item's own."""
        return {}

    @property
    def importance(self) -> float | None:
        """How much it matters by itself, 0..1; None: unknown."""
        return None

    @property
    def embeddings(self) -> list[float] | None:
        """Its vector, if somebody gave it one."""
        return None

    @property
    def is_insight(self) -> bool:
        """Whether it was inferred from others."""
        return False

    @property
    def last_accessed_time(self) -> datetime | None:
        """When it was last recalled."""
        return None

    @property
    def source_ids(self) -> list[FragmentId]:
        """Ids of the fragments that it was made from."""
        return []

    @property
    def current_class(self) -> type[Self]:
        """Its class."""
        return self.__class__

    @abstractmethod
    def update_importance(self, importance: float) -> float | None:
        """Set the importance; return what it was."""

    @abstractmethod
    def update_embeddings(self, embeddings: Sequence[float]) -> None:
        """Set the vector."""

    @abstractmethod
    def update_accessed_time(self, now: datetime) -> datetime | None:
        """Set when it was last recalled; return what it was."""

    def calculate_current_embeddings(self, embed: Embed) -> list[float]:
        """Return the vector of its text; keeps nothing."""
        return list(embed([self.raw_observation])[0])

    @classmethod
    def reduce(cls, fragments: Sequence[MemoryFragment], **kwargs: Any) -> MemoryFragment:  # noqa: ANN401 - DB-GPT's
        """Return one fragment of this class that says what *fragments* say, and names them."""
        text = ";".join(f.raw_observation for f in fragments)
        return cls.build_from(text, source_ids=[f.id for f in fragments], **kwargs)


class AgentMemoryFragment(MemoryFragment):
    """A fragment of text. Its fields can be assigned; a layer keeps a copy.

    Args:
        observation: What was observed.
        embeddings: Its vector, if known.
        memory_id: Its name; None: a new one. 0 is a name like others.
        importance: 0..1, or None where nobody knows.
        snapshot_path: File with the whole operation.
        metadata: Facts to filter by.
        source_ids: Ids of the fragments that it was made from.

    Raises:
        InvalidInput: An argument cannot be kept.
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
        if not (snapshot_path is None or isinstance(snapshot_path, str)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"snapshot_path must be a str or None, not {snapshot_path!r}")
        self.snapshot_path = snapshot_path
        self._embeddings = None if embeddings is None else _vector(embeddings)
        self._importance = None if importance is None else finite(importance)
        self._accessed = _time(last_accessed_time)
        self._is_insight = bool(is_insight)
        self._metadata = _facts(metadata)
        self._source_ids = _names(source_ids)

    @classmethod
    def _checked(cls, observation: Any) -> Any:  # noqa: ANN401 - subclasses take structures
        if not isinstance(observation, str):
            raise InvalidInput(
                f"an observation must be a str, not {type(observation).__name__}; a dict is for "
                "StructuredAgentMemoryFragment"
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
        """Its name."""
        return self.memory_id

    @property
    def raw_observation(self) -> str:
        """The text."""
        return self.observation

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts to filter by."""
        return self._metadata

    @property
    def importance(self) -> float | None:
        """How much it matters by itself; None: unknown."""
        return self._importance

    @property
    def embeddings(self) -> list[float] | None:
        """Its vector, if somebody gave it one."""
        return self._embeddings

    @property
    def is_insight(self) -> bool:
        """Whether it was inferred from others."""
        return self._is_insight

    @property
    def last_accessed_time(self) -> datetime | None:
        """When it was last recalled."""
        return self._accessed

    @property
    def source_ids(self) -> list[FragmentId]:
        """Ids of the fragments that it was made from."""
        return list(self._source_ids)

    def update_importance(self, importance: float) -> float | None:
        """Set the importance; return what it was."""
        before, self._importance = self._importance, finite(importance)
        return before

    def update_embeddings(self, embeddings: Sequence[float]) -> None:
        """Set the vector."""
        self._embeddings = _vector(embeddings)

    def update_accessed_time(self, now: datetime) -> datetime | None:
        """Set when it was last recalled; return what it was."""
        before, self._accessed = self._accessed, _time(now)
        return before

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
    """Return a number as a float, checked."""
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
            raise InvalidInput(f"a memory_id has {LONGEST_ID} bits at most")
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
        raise InvalidInput(f"embeddings must be a list of numbers: {error}") from error


def _time(accessed: datetime | None) -> datetime | None:
    if accessed is not None and not isinstance(accessed, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"last_accessed_time must be a datetime or None, not {accessed!r}")
    return accessed


def _facts(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is not None and not isinstance(metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"metadata must be a dict, not {metadata!r}")
    return dict(metadata or {})

"""Fragments of structure: what an agent thought, did and saw, as data instead of text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypedDict, cast

from fornix.agents.layers.fragments import AgentMemoryFragment, FragmentId, MemoryFragment
from fornix.errors import InvalidInput


class StructuredObservation(TypedDict, total=False):
    """One step of an agent; every field may be missing, and others may be there."""

    question: str
    thought: str
    phase: str
    action_intention: str
    action_reason: str
    action: str
    action_input: Any
    observation: Any


Structure: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class StructuredAgentMemoryFragment(AgentMemoryFragment):
    """A fragment of one step, or of several in order: a list of dicts, never a list of lists."""

    def __init__(
        self,
        observation: Structure,
        *args: Any,  # noqa: ANN401 - the arguments of AgentMemoryFragment
        **kwargs: Any,  # noqa: ANN401 - the same
    ) -> None:
        super().__init__(cast("str", observation), *args, **kwargs)

    @classmethod
    def _checked(cls, observation: Any) -> Any:  # noqa: ANN401 - it is what is checked
        found = _steps(observation)
        if found is None:
            raise InvalidInput(
                "a structured observation must be a dict, or a list of dicts, not "
                f"{type(observation).__name__}; text is for AgentMemoryFragment"
            )
        try:
            json.dumps(found)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"a structured observation must be JSON: {error}") from error
        return found if isinstance(observation, (list, tuple)) else found[0]

    @property
    def raw_observation(self) -> str:
        """The structure, as JSON."""
        return json.dumps(self.observation, ensure_ascii=False)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps it holds, in order."""
        return _steps(self.observation) or []

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
        """Return a fragment of a structure, or of its JSON; of other text a plain fragment."""
        made: Any = cls
        if isinstance(observation, str):
            parsed = _parsed(observation)
            if parsed is None:
                made = AgentMemoryFragment
            else:
                observation = parsed
        return made(
            observation,
            embeddings=embeddings,
            memory_id=memory_id,
            importance=importance,
            last_accessed_time=last_accessed_time,
            is_insight=is_insight,
            **kwargs,
        )

    @classmethod
    def reduce(cls, fragments: Sequence[MemoryFragment], **kwargs: Any) -> MemoryFragment:  # noqa: ANN401 - DB-GPT's
        """Return a fragment of all their steps, in order and flat; of one fragment: itself.

        Text among them becomes a step that has only an `observation`.
        """
        if not fragments:
            raise InvalidInput("Memory fragments is empty.")
        if len(fragments) == 1:
            return fragments[0]
        every = [step for fragment in fragments for step in steps_of(fragment)]
        return cls.build_from(every, source_ids=[f.id for f in fragments], **kwargs)


def steps_of(fragment: MemoryFragment) -> list[dict[str, Any]]:
    """Return the steps of a fragment; text is one step with only an `observation`."""
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
    """Return the steps that *observation* is, however deep in lists; None: it is no structure."""
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

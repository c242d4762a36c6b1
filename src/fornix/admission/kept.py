"""What every rule of the write barrier can do, and how it is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Protocol, cast

from fornix.admission.verdicts import Candidate, Outcome, Verdict
from fornix.definition import Plan
from fornix.errors import InvalidInput
from fornix.values import Value


class Rule(Protocol):
    """What every rule can do."""

    @property
    def level(self) -> float | None:
        """How alike other items are that it looks at, from 0 to 1; None: at none."""
        ...

    def judge(self, candidate: Candidate) -> Verdict:
        """Return what it says of a candidate."""
        ...

    def to_json(self) -> Plan:
        """Return it as it is kept."""
        ...


class Kept(ABC):
    """A rule that fornix brings along: its name and its fields are its JSON."""

    name: ClassVar[str]

    @property
    def level(self) -> float | None:
        """See `Rule.level`."""
        return None

    @abstractmethod
    def judge(self, candidate: Candidate) -> Verdict:
        """See `Rule.judge`."""

    def to_json(self) -> Plan:
        """Return it as it is kept."""
        kept: dict[str, Value] = {"rule": self.name}
        for field in fields(cast("Any", self)):
            value = getattr(self, field.name)
            kept[field.name] = [*value] if isinstance(value, tuple) else value
        return kept


def checked_verdict(verdict: object, *allowed: Outcome) -> None:
    """Refuse a verdict that a rule does not give."""
    if verdict not in allowed:
        raise InvalidInput(f"verdict must be one of {', '.join(allowed)}, not {verdict!r}")

"""What agents say to each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fornix.agents.chat.actions import ActionOutput


@dataclass(frozen=True, slots=True)
class Review:
    """What a reviewer said of an answer.

    Attributes:
        approve: Whether it may go out.
        comments: Why, or why not.
    """

    approve: bool
    comments: str | None = None

    def __str__(self) -> str:
        return f"{'Pass' if self.approve else 'Reject'}({self.comments})"


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A message of an agent: what `initiate_chat` returns.

    Attributes:
        content: What it says.
        name, role: Of the agent that says it.
        rounds: Which exchange between these two it belongs to, from 0.
        model_name: Which model answered; None: a human speaks.
        success: Whether its answer was approved and its action succeeded.
        reason: Why not.
        current_goal: What was asked.
        review_info: What the reviewer said.
        action_report: What came of the action.
    """

    content: str
    name: str
    role: str
    rounds: int = 0
    model_name: str | None = None
    success: bool = True
    reason: str | None = None
    current_goal: str | None = None
    review_info: Review | None = None
    action_report: ActionOutput | None = None

    def __str__(self) -> str:
        return self.content

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as plain dicts."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> AgentMessage:
        """Return what `to_dict` was called on."""
        review, report = d.get("review_info"), d.get("action_report")
        found: dict[str, Any] = {
            **d,
            "review_info": None if review is None else Review(**review),
            "action_report": None if report is None else ActionOutput.from_dict(report),
        }
        return cls(**found)

"""What an agent does with the answer of its model, and the messages that agents exchange."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from alveus.agents.layers.gpts_memory import FieldsAsDict
from alveus.errors import InvalidInput
from alveus.values.lazy_dataclass import dataclass


@dataclass(slots=True)
class ActionOutput(FieldsAsDict):
    """What came of an action; its fields can be assigned.

    Attributes:
        content: What is replied.
        is_exe_success: Whether the action succeeded; where not, the model is asked again.
        thoughts: What is remembered as the agent's thought; None: the model's answer.
        observations: What the action saw of the world.
        action: What it was called.
        action_input: What it was given.
        phase: Where in a longer task it belongs.
        view: What is shown instead of the content.
    """

    content: str
    is_exe_success: bool = True
    thoughts: str | None = None
    observations: str | None = None
    action: str | None = None
    action_input: str | None = None
    phase: str | None = None
    view: str | None = None


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


def checked_output(output: object, method: str) -> ActionOutput:
    """Return what a user's method made of an answer, if it is an output."""
    if not isinstance(output, ActionOutput):
        raise InvalidInput(f"{method} must return an ActionOutput, not {output!r}")
    for field in fields(output):
        value: object = getattr(output, field.name)
        if field.name == "is_exe_success":
            fits, kind = isinstance(value, bool), "True or False"
        else:
            needed = field.name == "content"
            fits = isinstance(value, str) or (value is None and not needed)
            kind = "a str" if needed else "a str or None"
        if not fits:
            raise InvalidInput(
                f"the {field.name} of the ActionOutput that {method} returned must be {kind}, not "
                f"{value!r}"
            )
    return output


class Action(ABC):
    """Something an agent does with an answer. Derive from it, and bind the class or an instance.

    `run` is called inside the run that the exchange is: layers and sets that it writes to belong
    to the exchange's commit. An exchange that was cut off starts over, and what an action does
    to the world is done again then, unless it is done by a durable call: a `run` that has a
    parameter ``ctx`` is passed the `RunnerContext` of the exchange, and
    ``await ctx.durable(send, mail)`` sends once.
    """

    @abstractmethod
    async def run(
        self,
        ai_message: str,
        resource: object = None,
        rely_action_out: ActionOutput | None = None,
        need_vis_render: bool = True,  # noqa: FBT001, FBT002 - DB-GPT's signature
        **kwargs: Any,  # noqa: ANN401 - DB-GPT's signature
    ) -> ActionOutput:
        """Return what came of an answer.

        Args:
            ai_message: The model's answer.
            resource: None; DB-GPT's own actions take one.
            rely_action_out: What the agent's action before this one made of the same answer.
            need_vis_render: Whether a view is wanted.
            kwargs: Left for what later versions pass.
        """


class BlankAction(Action):
    """Does nothing: the answer of the model is the reply."""

    async def run(self, ai_message: str, *_args: object, **_kwargs: object) -> ActionOutput:
        """Return the answer as it is."""
        return ActionOutput(ai_message)


async def awaited(result: object, method: str) -> Any:  # noqa: ANN401 - what a user's method returns
    """Return what a user's method says."""
    if not inspect.isawaitable(result):
        raise InvalidInput(f"{method} must be async: async def {method.rpartition('.')[2]}(…)")
    return await result


def accepted_options(method: Callable[..., object], **optional: object) -> dict[str, Any]:
    """Return those of *optional* that a user's method names: an older one knows less."""
    names = inspect.signature(method).parameters
    return {name: value for name, value in optional.items() if name in names}

"""What an agent is made of: profile, conversation, model, actions; and messages between agents."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from alveus.agents.layers.gpts_memory import FieldsAsDict
from alveus.errors import InvalidInput
from alveus.llm import ChatModel, ModelMessage
from alveus.llm.chat import MOST_TEMPERATURE
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, checked_number, counted


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
            resource: None; the actions of DB-GPT take one.
            rely_action_out: What the agent's action before this one made of the same answer.
            need_vis_render: Whether a view is wanted.
            kwargs: Left for what later versions pass.
        """


class BlankAction(Action):
    """Does nothing: the answer of the model is the reply."""

    async def run(self, ai_message: str, *_args: object, **_kwargs: object) -> ActionOutput:
        """Return the answer as it is."""
        return ActionOutput(ai_message)


async def called(
    owner: object,
    method: str,
    *args: object,
    optional: Mapping[str, object] | None = None,
    **named: object,
) -> Any:  # noqa: ANN401 - what a user's method returns
    """Return the result of an async method that users override.

    Args:
        optional: Arguments that are passed only if the method names them: an override that was
            written for an earlier version need not take them.

    Raises:
        InvalidInput: The method is not async.
    """
    function = getattr(owner, method)
    known = inspect.signature(function).parameters
    named |= {name: value for name, value in (optional or {}).items() if name in known}
    result = function(*args, **named)
    if not inspect.isawaitable(result):
        name = f"{type(owner).__name__}.{method}"
        raise InvalidInput(f"{name} must be async: async def {method}(…)")
    return await result


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The conversation that an agent is in, and how it speaks there.

    Attributes:
        conv_id: Names the conversation; it is the key of all that its agents remember.
        language: What answers are asked for in: a code such as "en", or a name; None: not said.
        max_new_tokens: The most tokens of an answer.
        temperature: 0..2.
        verbose: Print the conversation.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    conv_id: str
    language: str | None = None
    max_new_tokens: int = 4096
    temperature: float = 0.5
    verbose: bool = False

    def __post_init__(self) -> None:
        """Refuse what no conversation can be held with."""
        checked_name(self.conv_id, "a conv_id")
        _check_text(self.language, "the language")
        counted(self.max_new_tokens, "max_new_tokens")
        checked_number(self.temperature, "temperature", least=0, most=MOST_TEMPERATURE)


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """Who an agent is, and the templates of its prompts, which are rendered as jinja2 does.

    Attributes:
        name: What it is called; with the role it names its memory.
        role: What it is.
        goal: What it is to reach.
        constraints: What it has to keep to: a text, or several.
        desc: What else is to be known of it.
        system_prompt_template: Of the system message.
        user_prompt_template: Of what it is asked, with `most_recent_memories` and `question`.
        write_memory_template: Of what is remembered, with `question`, `thought`, `action` and
            `observation`.
        resources: What it can use: a text, or several.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    name: str
    role: str
    goal: str | None = None
    constraints: str | list[str] | tuple[str, ...] | None = None
    desc: str | None = None
    system_prompt_template: str | None = None
    user_prompt_template: str | None = None
    write_memory_template: str | None = None
    resources: str | list[str] | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what no agent can be."""
        checked_name(self.name, "the name of an agent")
        checked_name(self.role, "the role of an agent")
        templates = ("system_prompt_template", "user_prompt_template", "write_memory_template")
        for field in ("goal", "desc", *templates):
            _check_text(getattr(self, field), f"the {field} of agent {self.name!r}")
        for field in ("constraints", "resources"):
            what = f"the {field} of agent {self.name!r}"
            for text in listed(getattr(self, field), what):
                _check_text(text, f"each of {what}")


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """The model that answers for an agent.

    Attributes:
        llm_client: Any `ChatModel`; None: none is asked, and the agent answers from memory by
            retrieval alone, and says so.

    Raises:
        InvalidInput: The client is no `ChatModel`.
    """

    llm_client: ChatModel | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        client = self.llm_client
        if client is not None and not isinstance(client, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"llm_client must be a ChatModel, such as OpenAILLMClient(…), not {client!r}"
            )


def listed(texts: str | list[str] | tuple[str, ...] | None, what: str) -> list[str]:
    """Return a text, several or none as a list.

    Args:
        what: What they are called in an error.

    Raises:
        InvalidInput: It is something else.
    """
    if texts is None:
        return []
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"{what} must be a text or a list of texts, not {texts!r}")
    return list(texts)


def _check_text(text: object, what: str) -> None:
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"{what} must be a str or None, not {text!r}")


RULE = "-" * 80

SPEAKERS = {"system": "system", "user": "human", "assistant": "ai"}


def print_message(message: AgentMessage, to: str) -> None:
    """Print what one agent says to another, with what was made of it."""
    said = json.dumps(message.content, ensure_ascii=False)
    lines = [RULE, f"{message.name} (to {to})-[{message.model_name or ''}]:", "", said]
    if message.review_info is not None:
        lines += [f">>>>>>>>{message.name} Review info:", str(message.review_info)]
    if (report := message.action_report) is not None:
        outcome = "execution succeeded," if report.is_exe_success else "execution failed,"
        lines += [f">>>>>>>>{message.name} Action report:", outcome, report.content]
    _show([*lines, RULE])


def print_answer(prompt: Sequence[ModelMessage], answer: str) -> None:
    """Print what a model was asked, and what it answered."""
    lines = [f"un_stream ai response: {answer}", RULE, "String Prompt[verbose]:"]
    lines += [f"{SPEAKERS.get(each['role'], each['role'])}: {each['content']}" for each in prompt]
    _show([*lines, "LLM Output[verbose]:", answer, RULE])


def _show(lines: list[str]) -> None:
    print("\n".join(lines), flush=True)

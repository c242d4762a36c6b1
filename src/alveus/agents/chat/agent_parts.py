"""Parts of an agent: profile, conversation, model, actions; and messages between agents."""

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
from alveus.values.storable import checked_kind, checked_name, checked_number, counted


@dataclass(slots=True)
class ActionOutput(FieldsAsDict):
    """The output of an action. Its fields can be assigned.

    Attributes:
        content: The reply.
        is_exe_success: True if the action succeeded. If it failed, the model is asked again.
        thoughts: The thought to remember. None means that the model's answer is remembered.
        observations: The observations of the action.
        action: The name of the action.
        action_input: The input of the action.
        phase: The phase of a longer task.
        view: The text to show instead of the content.
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
    """The verdict of a reviewer on an answer.

    Attributes:
        approve: True to send the answer.
        comments: The reason for the verdict.
    """

    approve: bool
    comments: str | None = None

    def __str__(self) -> str:
        return f"{'Pass' if self.approve else 'Reject'}({self.comments})"


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A message of an agent, as `initiate_chat` returns it.

    Attributes:
        content: The text.
        name, role: The name and the role of the author.
        rounds: The number of the exchange between the two agents, from 0.
        model_name: The model that answered. None means a human author.
        success: True if the answer was approved and the action succeeded.
        reason: Why `success` is false.
        current_goal: The question.
        review_info: The verdict of the reviewer.
        action_report: The output of the action.
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
        """Return the message from the result of `to_dict`."""
        review, report = d.get("review_info"), d.get("action_report")
        found: dict[str, Any] = {
            **d,
            "review_info": None if review is None else Review(**review),
            "action_report": None if report is None else ActionOutput.from_dict(report),
        }
        return cls(**found)


def checked_output(output: object, method: str) -> ActionOutput:
    """Return the output of a user's method. Raise if it is not an `ActionOutput`."""
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
    """An agent's reaction to an answer. Derive a class, and bind the class or an instance.

    `run` is called inside the run of the exchange, so what `run` writes to layers and sets belongs
    to the exchange's commit. An interrupted exchange starts over, and calls `run` again. Only
    durable calls are not repeated: a `run` with a parameter ``ctx`` gets the `RunnerContext` of the
    exchange, and ``await ctx.durable(send, mail)`` sends once.
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
        """Return the output of the action for an answer.

        Args:
            ai_message: The model's answer.
            resource: Always None. The actions of DB-GPT take a resource.
            rely_action_out: The output of the agent's previous action for the same answer.
            need_vis_render: True if a view is wanted.
            kwargs: Arguments of later versions.
        """


class BlankAction(Action):
    """An action that does nothing: the answer of the model is the reply."""

    async def run(self, ai_message: str, *_args: object, **_kwargs: object) -> ActionOutput:
        """Return the answer as it is."""
        return ActionOutput(ai_message)


async def called(
    owner: object,
    method: str,
    *args: object,
    optional: Mapping[str, object] | None = None,
    **named: object,
) -> Any:  # noqa: ANN401 - the result of a user's method
    """Return the result of an async method that users override.

    Args:
        optional: Arguments that are passed only if the method names them, so that overrides of an
            earlier version still work.

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
    """The conversation of an agent, and the settings of its answers.

    Attributes:
        conv_id: The name of the conversation, which is the key of its agents' memory.
        language: The language of answers: a code such as "en", or a name. None means any.
        max_new_tokens: The most tokens of an answer.
        temperature: The temperature of the model, 0..2.
        verbose: True to print the conversation.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    conv_id: str
    language: str | None = None
    max_new_tokens: int = 4096
    temperature: float = 0.5
    verbose: bool = False

    def __post_init__(self) -> None:
        """Check the arguments."""
        checked_name(self.conv_id, "a conv_id")
        _check_text(self.language, "the language")
        counted(self.max_new_tokens, "max_new_tokens")
        checked_number(self.temperature, "temperature", least=0, most=MOST_TEMPERATURE)


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """The profile of an agent, and the templates of its prompts, which jinja2 renders.

    Attributes:
        name: The name of the agent. Name and role together name the agent's memory.
        role: The role of the agent.
        goal: The goal of the agent.
        constraints: The rules for the agent: a text, or several texts.
        desc: A further description.
        system_prompt_template: The template of the system message.
        user_prompt_template: The template of the question, with `most_recent_memories` and
            `question`.
        write_memory_template: The template of a fragment, with `question`, `thought`, `action` and
            `observation`.
        resources: The resources that the agent can use: a text, or several texts.

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
        """Check the arguments."""
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
        llm_client: Any `ChatModel`. None means that the agent answers from a search of its memory,
            and says so.

    Raises:
        InvalidInput: The client is not a `ChatModel`.
    """

    llm_client: ChatModel | None = None

    def __post_init__(self) -> None:
        """Check the argument."""
        what = "llm_client must be a ChatModel, such as OpenAILLMClient(…)"
        checked_kind(self.llm_client, ChatModel | None, what)


def listed(texts: str | list[str] | tuple[str, ...] | None, what: str) -> list[str]:
    """Return a text, several texts or None as a list.

    Args:
        what: The name of *texts* in the message of an error.

    Raises:
        InvalidInput: *texts* has another type.
    """
    if texts is None:
        return []
    if isinstance(texts, str):
        return [texts]
    return list(checked_kind(texts, list | tuple, f"{what} must be a text or a list of texts"))


def _check_text(text: object, what: str) -> None:
    checked_kind(text, str | None, f"{what} must be a str or None")


RULE = "-" * 80

SPEAKERS = {"system": "system", "user": "human", "assistant": "ai"}


def print_message(message: AgentMessage, to: str) -> None:
    """Print a message between agents, with its review and action report."""
    said = json.dumps(message.content, ensure_ascii=False)
    lines = [RULE, f"{message.name} (to {to})-[{message.model_name or ''}]:", "", said]
    if message.review_info is not None:
        lines += [f">>>>>>>>{message.name} Review info:", str(message.review_info)]
    if (report := message.action_report) is not None:
        outcome = "execution succeeded," if report.is_exe_success else "execution failed,"
        lines += [f">>>>>>>>{message.name} Action report:", outcome, report.content]
    _show([*lines, RULE])


def print_answer(prompt: Sequence[ModelMessage], answer: str) -> None:
    """Print a prompt and the answer of the model."""
    lines = [f"un_stream ai response: {answer}", RULE, "String Prompt[verbose]:"]
    lines += [f"{SPEAKERS.get(each['role'], each['role'])}: {each['content']}" for each in prompt]
    _show([*lines, "LLM Output[verbose]:", answer, RULE])


def _show(lines: list[str]) -> None:
    print("\n".join(lines), flush=True)

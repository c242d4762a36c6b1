"""What an agent is bound to: who it is, in which conversation, and which model answers for it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from alveus.agents.chat.actions import AgentMessage
from alveus.errors import InvalidInput
from alveus.llm import ChatModel, ModelMessage
from alveus.llm.chat import MOST_TEMPERATURE
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, checked_number, counted


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
        system_prompt_template: Of what the model is told first.
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
        told = "execution succeeded," if report.is_exe_success else "execution failed,"
        lines += [f">>>>>>>>{message.name} Action report:", told, report.content]
    _show([*lines, RULE])


def print_answer(prompt: Sequence[ModelMessage], answer: str) -> None:
    """Print what a model was asked, and what it answered."""
    lines = [f"un_stream ai response: {answer}", RULE, "String Prompt[verbose]:"]
    lines += [f"{SPEAKERS.get(each['role'], each['role'])}: {each['content']}" for each in prompt]
    _show([*lines, "LLM Output[verbose]:", answer, RULE])


def _show(lines: list[str]) -> None:
    print("\n".join(lines), flush=True)

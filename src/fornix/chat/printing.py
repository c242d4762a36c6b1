"""How a conversation is printed, where its context is verbose: as DB-GPT's agents print it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fornix.chat.messages import AgentMessage
from fornix.llm import Message

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


def print_answer(asked: Sequence[Message], answer: str) -> None:
    """Print what a model was asked, and what it answered."""
    lines = [f"un_stream ai response: {answer}", RULE, "String Prompt[verbose]:"]
    lines += [f"{SPEAKERS.get(each['role'], each['role'])}: {each['content']}" for each in asked]
    _show([*lines, "LLM Output[verbose]:", answer, RULE])


def _show(lines: list[str]) -> None:
    print("\n".join(lines), flush=True)

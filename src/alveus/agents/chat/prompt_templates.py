"""Prompts from templates, rendered by jinja2 in its sandbox; `alveus[chat]` installs it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from alveus.agents.layers import MemoryFragment
from alveus.errors import InvalidInput, TemplatesMissing
from alveus.memory.keys import KeyMemory

SYSTEM = """\
{{ [
    'Your name is ' ~ name ~ ', and your role is ' ~ role ~ '.',
    'Your goal: ' ~ goal if goal,
    'Of you: ' ~ desc if desc,
    'What you can use:\\n- ' ~ resources | join('\\n- ') if resources,
    'What you have to keep to:\\n- ' ~ constraints | join('\\n- ') if constraints,
    'Please answer in ' ~ language ~ '.' if language,
] | select | join('\\n') }}"""
"""The default template of the system message, with a line for each field that has a value."""

USER = """\
{% if most_recent_memories %}\
Most recent message:
{{ most_recent_memories }}

{% endif %}\
User input: {{ question }}

"""
"""The default template of the question, like `alveus.agents.layers.user_prompt`."""

WRITE = """\
{{ [
    'Question: ' ~ question ~ ' ' if question,
    'Thought: ' ~ thought ~ ' ' if thought,
    'Action: ' ~ action ~ ' ' if action,
    'Observation: ' ~ observation ~ ' ' if observation,
] | select | join('\\n') }}"""
"""The default template of a fragment, like `alveus.agents.layers.memory_text`."""

LANGUAGES = {
    "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fr": "French",
    "hi": "Hindi", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ru": "Russian", "tr": "Turkish", "uk": "Ukrainian",
    "zh": "Chinese",
}  # fmt: skip
"""Names of languages by code. Other languages are used in a prompt unchanged."""


def check_installed() -> None:
    """Raise `TemplatesMissing` unless jinja2 is installed."""
    if find_spec("jinja2") is None:
        raise TemplatesMissing(
            "the prompts of agents need the package jinja2, which is not installed; run: "
            "pip install 'alveus[chat]'"
        )


def rendered(template: str, values: dict[str, Any]) -> str:
    """Return a template with values filled in, as jinja2 does by default, in its sandbox.

    Raises:
        TemplatesMissing: jinja2 is not installed.
        InvalidInput: The template has an error, or the sandbox refuses it.
    """
    check_installed()
    errors, sandbox = import_module("jinja2.exceptions"), import_module("jinja2.sandbox")
    try:
        return sandbox.SandboxedEnvironment().from_string(template).render(**values)
    except (
        errors.TemplateError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError,
    ) as error:  # fmt: skip
        start = template[:40]
        raise InvalidInput(
            f"the template that begins {start!r} cannot be rendered: {error}"
        ) from error


def language_name(language: str | None) -> str | None:
    """Return the name of a language for a prompt. Return None for None."""
    if language is None:
        return None
    code = language.lower().replace("_", "-").split("-", 1)[0]
    return LANGUAGES.get(code, language)


NAME = "memory alone"
"""The `model_name` of an answer without a model."""

MOST = 3
"""The most texts in an answer without a model."""

_NO_MODEL = "No model is bound"
FOUND = f"{_NO_MODEL}; this is what memory holds on it:"
NOTHING = f"{_NO_MODEL}, and memory holds nothing on it."


def answer_from_memory(
    question: str, fragments: Sequence[MemoryFragment], key: KeyMemory, sets: Sequence[str]
) -> str:
    """Return the answer to a question without a model.

    The answer contains the hits of a search in *sets* of the conversation, then the agent's
    fragments, newest first. Earlier answers without a model are left out.
    """
    found = [hit.item.text or "" for hit in key.search(question, sets=list(sets), limit=4 * MOST)]
    found += [fragment.raw_observation for fragment in reversed(fragments)]
    texts = dict.fromkeys(text.strip() for text in found)
    shown = [text for text in texts if text and text != question.strip() and _NO_MODEL not in text]
    return "\n".join([FOUND, *(f"- {text}" for text in shown[:MOST])]) if shown else NOTHING

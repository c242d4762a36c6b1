"""MCP prompts for users: answer from memory, and keep a conversation."""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as types

from alveus.errors import InvalidInput, NotFound
from alveus.memory.keys import KeyMemory
from alveus.memory.memory_tools import CONTEXT_TOKENS, MOST_CHARACTERS
from alveus.memory.prompt import ALL

ANSWER, KEEP = "answer_from_memory", "keep_this_conversation"

KEEPING = """\
Go through our conversation so far. For each fact, preference or decision that will matter in a \
later conversation:
1. call recall to see whether it is known;
2. if it is not, call remember with one sentence that is understood on its own, with names and \
dates in full;
3. if something known has changed, call correct with its id;
4. if something known no longer holds, and nothing took its place, call forget with its id.
Keep no passwords, keys or card numbers. At the end list in one line each what you changed."""

PROMPTS = (
    types.Prompt(
        name=ANSWER,
        title="Answer from memory",
        description="Ask something, with what the memory holds about it.",
        arguments=[
            types.PromptArgument(
                name="question", title="Question", description="What you ask.", required=True
            )
        ],
    ),
    types.Prompt(
        name=KEEP,
        title="Keep this conversation",
        description="Have the model remember what will matter later.",
        arguments=[],
    ),
)


def get(key: KeyMemory, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt, ready for a model.

    Raises:
        NotFound: The prompt does not exist.
        InvalidInput: The prompt needs other arguments.
    """
    prompt = next((prompt for prompt in PROMPTS if prompt.name == name), None)
    if prompt is None:
        names = ", ".join(prompt.name for prompt in PROMPTS)
        raise NotFound(f"there is no prompt {name[:200]!r}; there are {names}")
    expected = {argument.name for argument in prompt.arguments or ()}
    if {*arguments} != expected:
        takes = ", ".join(expected) or "no arguments"
        raise InvalidInput(f"prompt {name} takes {takes}, not {', '.join(arguments) or 'none'}")
    text = KEEPING if name == KEEP else _with_memory(key, arguments["question"])
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])


def _with_memory(key: KeyMemory, question: str) -> str:
    if not 1 <= len(question.strip()) <= MOST_CHARACTERS:
        raise InvalidInput(
            f"prompt {ANSWER}: question must have 1 to {MOST_CHARACTERS:,} characters"
        )
    return key.context(question, budget_tokens=CONTEXT_TOKENS, blocks=ALL).text

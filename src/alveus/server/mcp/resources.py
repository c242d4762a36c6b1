"""Resources and prompts, which MCP clients offer to users. A resource is attached by its URI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types

from alveus.errors import InvalidInput, NotFound
from alveus.memory.keys import KeyMemory
from alveus.memory.memory_tools import CONTEXT_TOKENS, MOST_CHARACTERS
from alveus.memory.prompt import ALL
from alveus.server.json_forms import fields_of

SETS = "alveus://sets"
BLOCKS = "alveus://blocks/"
MEMORIES = "alveus://memories/"

TEXT, JSON = "text/plain", "application/json"

TEMPLATES = (
    types.ResourceTemplate(
        name="memory",
        title="One memory",
        uri_template=f"{MEMORIES}{{set}}/{{id}}",
        description="All that is known of one memory, by its set and id.",
        mime_type=JSON,
    ),
    types.ResourceTemplate(
        name="block",
        title="A block",
        uri_template=f"{BLOCKS}{{name}}",
        description="A short text that is kept for every conversation.",
        mime_type=TEXT,
    ),
)


def listed(key: KeyMemory) -> list[types.Resource]:
    """Return the resources of a key that clients list: its sets and each block."""
    sets = types.Resource(
        name="sets",
        title="Sets",
        uri=SETS,
        description="The sets of this memory, and how many memories each holds.",
        mime_type=JSON,
    )
    blocks = [
        types.Resource(
            name=f"block {name}",
            title=f"Block {name}",
            uri=f"{BLOCKS}{quote(name, safe='')}",
            description="A short text that is kept for every conversation.",
            mime_type=TEXT,
            size=len(text.encode("utf-8", "surrogatepass")),
        )
        for name, text in key.blocks.to_dict().items()
    ]
    return [sets, *blocks]


def read(key: KeyMemory, uri: str) -> types.TextResourceContents:
    """Return the content of a resource.

    Raises:
        NotFound: The resource does not exist.
    """
    found = _read(key, uri)
    if found is None:
        raise NotFound(
            f"there is no resource {uri[:200]!r}; resources/list and resources/templates/list "
            "show the resources, and the tool list shows ids"
        )
    mime_type, text = found
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)


def _read(key: KeyMemory, uri: str) -> tuple[str, str] | None:
    kind, names = _parts(uri)
    if kind == "sets" and not names:
        return JSON, json.dumps(key.sets(counts=True), ensure_ascii=False)
    if kind == "blocks" and len(names) == 1:
        text = key.blocks.to_dict().get(names[0])
        return None if text is None else (TEXT, text)
    if kind == "memories" and len(names) == 2 and all(names) and names[0] in key.sets():  # noqa: PLR2004 - set and id
        item = key.set(names[0]).get(names[1])
        return None if item is None else (JSON, json.dumps(fields_of(item), ensure_ascii=False))
    return None


def _parts(uri: str) -> tuple[str, list[str]]:
    """Return the kind of a resource and the names in its path: "" and [] for an invalid URI."""
    try:
        split = urlsplit(uri)
        names = [unquote(name, errors="strict") for name in split.path.split("/")[1:]]
    except ValueError:
        return "", []
    if split.scheme != "alveus" or split.query or split.fragment:
        return "", []
    return split.netloc, names


# --- prompts --------------------------------------------------------------------------------------

ANSWER, KEEP = "answer_from_memory", "keep_this_conversation"

KEEPING = """\
Go through our conversation so far. For each fact, preference or decision that will matter in a \
later conversation:
1. call recall to see whether it is known;
2. if it is not, call remember with one sentence that is understood alone, with names and \
dates in full;
3. if something known has changed, call correct with its id;
4. if something known no longer holds, and nothing has replaced it, call forget with its id.
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


def prompt(key: KeyMemory, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt, ready for a model.

    Raises:
        NotFound: The prompt does not exist.
        InvalidInput: The prompt needs other arguments.
    """
    chosen = next((each for each in PROMPTS if each.name == name), None)
    if chosen is None:
        names = ", ".join(each.name for each in PROMPTS)
        raise NotFound(f"there is no prompt {name[:200]!r}; the prompts are {names}")
    expected = {argument.name for argument in chosen.arguments or ()}
    if {*arguments} != expected:
        takes = ", ".join(expected) or "no arguments"
        raise InvalidInput(f"prompt {name} takes {takes}, not {', '.join(arguments) or 'none'}")
    text = KEEPING if name == KEEP else _with_memory(key, arguments["question"])
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=chosen.description, messages=[message])


def _with_memory(key: KeyMemory, question: str) -> str:
    if not 1 <= len(question.strip()) <= MOST_CHARACTERS:
        raise InvalidInput(
            f"prompt {ANSWER}: question must have 1 to {MOST_CHARACTERS:,} characters"
        )
    return key.context(question, budget_tokens=CONTEXT_TOKENS, blocks=ALL).text

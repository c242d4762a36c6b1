"""MCP resources that a client may attach: sets, blocks and single memories, by URI."""

from __future__ import annotations

import json
from urllib.parse import quote, unquote, urlsplit

import mcp_types as types

from alveus.errors import NotFound
from alveus.memory.keys import KeyMemory
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
            f"there is no resource {uri[:200]!r}; resources/list and resources/templates/list name "
            "those there are, and the tool list shows ids"
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
    """Return the kind of a resource and the names in its path."""
    try:
        split = urlsplit(uri)
        names = [unquote(name, errors="strict") for name in split.path.split("/")[1:]]
    except ValueError:
        return "", []
    if split.scheme != "alveus" or split.query or split.fragment:
        return "", []
    return split.netloc, names

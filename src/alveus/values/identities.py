"""Identities of other systems as keys: a thread, a session and a user of one name are three keys.

A key that a program names itself is never made here. So nothing that is typed as the id of one
kind reads or deletes the memory of another kind.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "agentscope.agent",
    "agentscope.run",
    "agentscope.user",
    "google_adk.user",
    "langgraph.store",
    "langgraph.thread",
    "memory_store",
    "openai_agents.session",
    "pydantic_ai.store",
]
"""The kinds of identities, each of one integration or protocol. No kind contains a colon."""

KINDS: tuple[Kind, ...] = get_args(Kind)


def identity_key(kind: Kind, identity: str) -> str:
    """Return the key of an identity: its kind, a colon, and the identity as it is.

    Different identities have different keys, because the first colon ends the kind. The key of an
    empty identity is the prefix of all keys of the kind.
    """
    return f"{kind}:{identity}"

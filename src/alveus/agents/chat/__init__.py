"""Agents that talk to each other and remember, under the names that DB-GPT's users know.

One exchange is one run of the key that the conversation is; see docs/chat.md. Prompts are templates
of jinja2: ``pip install 'alveus[chat]'``. `DialogAgent`, of AgentScope, needs neither.
"""

from alveus.agents.chat.agent_parts import (
    Action,
    ActionOutput,
    AgentContext,
    AgentMessage,
    BlankAction,
    LLMConfig,
    ProfileConfig,
    Review,
)
from alveus.agents.chat.conversable_agent import ConversableAgent, UserProxyAgent
from alveus.agents.chat.dialog_agent import AgentBase, DialogAgent

__all__ = [
    "Action",
    "ActionOutput",
    "AgentBase",
    "AgentContext",
    "AgentMessage",
    "BlankAction",
    "ConversableAgent",
    "DialogAgent",
    "LLMConfig",
    "ProfileConfig",
    "Review",
    "UserProxyAgent",
]

"""Agents that talk to each other and remember, under the names of DB-GPT.

One exchange is one run. The conversation is the key of the run; see docs/chat.md. Prompts are
jinja2 templates: ``pip install 'alveus[chat]'``. AgentScope's `DialogAgent` needs no templates.
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

"""Agents that talk to each other and remember, under the names that DB-GPT's users know.

One exchange is one run of the key that the conversation is; see docs/chat.md. Prompts are templates
of jinja2: ``pip install 'fornix[chat]'``. `DialogAgent`, of AgentScope, needs neither.
"""

from fornix.chat.actions import Action, ActionOutput, BlankAction
from fornix.chat.agents import ConversableAgent, UserProxyAgent
from fornix.chat.dialog import AgentBase, DialogAgent
from fornix.chat.messages import AgentMessage, Review
from fornix.chat.profile import AgentContext, LLMConfig, ProfileConfig

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

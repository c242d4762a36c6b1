"""Language models: their promise, one client for all servers of the OpenAI protocol, a script.

Nothing in fornix needs one. `ScriptedChat` stands in for a model in tests.
"""

from fornix.llm.answers import Asking, Unfit, ask_json, read_json
from fornix.llm.chat import (
    ChatModel,
    ChatRequest,
    Messages,
    ModelMessage,
    Usage,
    checked_messages,
    checked_request,
)
from fornix.llm.openai_chat import Dialect, OpenAIChat
from fornix.llm.scripted import ScriptedChat

__all__ = [
    "Asking",
    "ChatModel",
    "ChatRequest",
    "Dialect",
    "Messages",
    "ModelMessage",
    "OpenAIChat",
    "ScriptedChat",
    "Unfit",
    "Usage",
    "ask_json",
    "checked_messages",
    "checked_request",
    "read_json",
]

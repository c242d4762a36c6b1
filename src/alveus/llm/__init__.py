"""Language models: the interface, a client for servers of the OpenAI protocol, and a script.

Nothing in alveus needs one. `ScriptedChat` stands in for a model in tests.
"""

from typing import TYPE_CHECKING

from alveus.llm.chat import (
    MEMORY_DEFAULT,
    ChatModel,
    ChatRequest,
    Messages,
    ModelMessage,
    Reranker,
    RerankerChoice,
    Usage,
    candidates_of,
    checked_messages,
    checked_request,
    checked_reranker,
)
from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.llm.answer_reader import (
        AnswerReader,
        Unfit,
        answer_text,
        read_json,
        read_json_alone,
        text_said,
    )
    from alveus.llm.asking import Asking, ask_json, ask_text, said_by, stream_text
    from alveus.llm.openai_chat import Dialect, OpenAIChat
    from alveus.llm.reranking import ChatReranker, HttpReranker
    from alveus.llm.scripted import ScriptedChat

__all__ = [
    "MEMORY_DEFAULT",
    "AnswerReader",
    "Asking",
    "ChatModel",
    "ChatRequest",
    "ChatReranker",
    "Dialect",
    "HttpReranker",
    "Messages",
    "ModelMessage",
    "OpenAIChat",
    "Reranker",
    "RerankerChoice",
    "ScriptedChat",
    "Unfit",
    "Usage",
    "answer_text",
    "ask_json",
    "ask_text",
    "candidates_of",
    "checked_messages",
    "checked_request",
    "checked_reranker",
    "read_json",
    "read_json_alone",
    "said_by",
    "stream_text",
    "text_said",
]

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__)

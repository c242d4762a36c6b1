"""A conversation becomes facts. One fact changes, and the process that learns this is killed.

    python -m alveus.cli.demo.learning FILE EMBEDDER

runs this process. It adds later messages, learns one message at a time, and kills itself between
two messages. ``$ALVEUS_DEMO_MODEL`` names the model that finds the facts: ``gpt-4o-mini``, or
``NAME@http://localhost:11434/v1`` for a server of the OpenAI protocol. Without the variable, rules
find the facts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from alveus.facts import LearnOptions
from alveus.llm import ChatModel, OpenAIChat
from alveus.memory.memory import Memory

KEY, TALK = "ada", "chat"

MODEL = "ALVEUS_DEMO_MODEL"
"""The environment variable that names a model."""

SAID = (
    "Hi! I live in Lisbon, and I work as a nurse.",
    "Which tea do you like?",
    "I love green tea, and I'm allergic to peanuts.",
    "My sister Grace visits me next Friday.",
)

SAID_LATER = ("I live in Porto now.", "I no longer work as a nurse.")

ONE_BY_ONE = LearnOptions(batch_messages=1)


def add(memory: Memory, texts: tuple[str, ...]) -> list[str]:
    """Add messages of Ada to her conversation, and return their ids."""
    said = [{"role": "user", "name": "Ada", "content": text} for text in texts]
    return memory.key(KEY).conversation(TALK).add(said)


def model() -> AbstractContextManager[ChatModel | None]:
    """Return a context manager with the model that finds facts, or with None if rules find them."""
    name, _, url = os.environ.get(MODEL, "").partition("@")
    if not name:
        return nullcontext()
    key = None if "OPENAI_API_KEY" in os.environ or not url else "none"
    return OpenAIChat(name, base_url=url or None, api_key=key)


def learn_and_die(path: str, embedder: str) -> None:
    """Add the later messages, learn the first of them, and kill this process before the second."""
    with Memory.open(path, embedder=embedder) as memory, model() as asked:
        add(memory, SAID_LATER)
        key = memory.key(KEY)

        def die(_messages: int) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        key.learn(key.conversation(TALK), model=asked, options=ONE_BY_ONE, progress=die)


def run_to_death(path: Path, embedder: str) -> int:
    """Run the learning process. Return the number of the signal that ended it, or 0."""
    command = [sys.executable, "-m", "alveus.cli.demo.learning", str(path), embedder]
    ended = subprocess.run(command, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - ours
    return max(0, -ended.returncode)


if __name__ == "__main__":
    learn_and_die(sys.argv[1], sys.argv[2])

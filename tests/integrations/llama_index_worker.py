"""A chat of LlamaIndex that goes on until its process is killed; says what was put."""

from __future__ import annotations

import sys

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from alveus import Memory as AlveusMemory
from alveus.integrations.llama_index import AlveusChatStore


def main() -> None:
    with AlveusMemory.open(sys.argv[1], embedder="words") as memory:
        chat = Memory.from_defaults(
            session_id="trip",
            token_limit=20,
            token_flush_size=4,
            chat_store=AlveusChatStore(memory, key="ada"),
            tokenizer_fn=str.split,
        )
        for number in range(len(chat.get_all()), 1_000_000):
            chat.put(ChatMessage(f"message {number}", role="user"))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

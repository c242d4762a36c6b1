"""Agents with memory: Joy knows in her second answer what she was told in the first.

`program.py` is the program of the document in which DB-GPT's authors show how an agent remembers.
Nothing in it was changed but the line that says where the names come from.

Its two exchanges are held twice here: as the program has them, in RAM, and in a file, where
`.bind(memory)` is the only change. Joy's prompt of the second exchange shows what she remembers.

With OPENAI_API_KEY set (and OPENAI_API_BASE, for another server) that model answers; without, a
scripted one, so that nothing is needed but ``pip install 'alveus[chat]'``.

    python main.py             # the file is a temporary one
    python main.py memory.db   # run it twice: Joy remembers
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import program
from alveus import Memory, ScriptedChat
from alveus.compat.dbgpt import AgentMemory, LLMConfig, ShortTermMemory, UserProxyAgent


def answer(messages):
    """Say what a model might say that reads its prompt."""
    prompt = messages[-1]["content"]
    if "What's my name?" not in prompt:
        return "Sure thing, Bob! Why do bees hum? They have forgotten the words."
    return "Your name is Bob!" if "My name is bob" in prompt else "You have not told me."


async def in_a_file(path: Path | str, message: str) -> str:
    """Say something to a Joy who keeps her memory in a file; return what she answers."""
    with Memory.open(path) as memory:
        agent_memory = AgentMemory(memory=ShortTermMemory(buffer_size=2))
        joy = (
            await program.JoyAgent()
            .bind(memory)
            .bind(program.context)
            .bind(LLMConfig(llm_client=program.llm_client))
            .bind(agent_memory)
            .build()
        )
        user = await UserProxyAgent().bind(memory).bind(agent_memory).bind(program.context).build()
        reply = await user.initiate_chat(recipient=joy, reviewer=user, message=message)
    return reply.content


def main(path: Path | str) -> list[str]:
    """Hold both conversations; return Joy's answers in the file."""
    if not os.environ.get("OPENAI_API_KEY"):
        program.llm_client = ScriptedChat(answer, name="scripted")
    asyncio.run(program.main())
    told = "My name is bob, please tell me a joke"
    return [asyncio.run(in_a_file(path, message)) for message in (told, "What's my name?")]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "memory.db"
        for said in main(place):
            print(f"Joy, from the file: {said}")

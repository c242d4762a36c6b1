"""A process that holds a conversation and is going to be killed.

``python chat_worker.py DATABASE FIRST COUNT [named] [mailed]`` says the messages FIRST …
FIRST+COUNT-1, with an event id each if they are ``named``, and prints what the model is asked and
what is replied, as JSON, a line each. ``ALVEUS_CRASH=STEP:COUNT`` ends it at a step of a commit
(see layers_worker); ``ALVEUS_CRASH=model:COUNT`` while the model is asked for the COUNT-th time,
``mail:COUNT`` once the COUNT-th message has its mail, which an action sends if they are ``mailed``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from alveus import Memory, ScriptedChat
from alveus.agents.chat import (
    Action,
    ActionOutput,
    AgentContext,
    BlankAction,
    ConversableAgent,
    LLMConfig,
    ProfileConfig,
    UserProxyAgent,
)
from alveus.agents.layers import AgentMemory, ShortTermMemory
from layers_worker import crash
from waiting import LIMIT_S

MESSAGES = ["My name is bob, please tell me a joke", "What's my name?", "And mine?"]
ANSWER = "Sure thing, Bob!"
KEY = "test123"

USER = """\
{% if most_recent_memories %}\
Most recent observations:
{{ most_recent_memories }}
{% endif %}\

{% if question %}\
Question: {{ question }}
{% endif %}
"""
WRITE = """\
{% if question %}user: {{ question }} {% endif %}
{% if thought %}assistant: {{ thought }} {% endif %}\
"""
"""The templates of DB-GPT's program of a chat with two roles."""


async def table(llm, *, memory=None, joy=None, shared=None, **context):
    """Return Joy and the user of that program, built, in RAM or in a memory."""
    settings = AgentContext(KEY, "en", **context)
    shared = shared or AgentMemory(memory=ShortTermMemory(buffer_size=2))
    profile = ProfileConfig(
        "Joy", "Comedians", user_prompt_template=USER, write_memory_template=WRITE
    )
    joy = (joy or ConversableAgent(profile=profile)).bind(settings).bind(LLMConfig(llm))
    user = UserProxyAgent().bind(settings)
    for agent in (joy, user):
        agent.bind(shared)
        if memory is not None:
            agent.bind(memory)
    await joy.bind(BlankAction).build()
    await user.build()
    return joy, user


def tell(**told):
    """Print something as JSON."""
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()


def killed_at(step: str) -> None:
    """End this process if this is the step."""
    if os.environ.get("ALVEUS_CRASH") == step:
        os.kill(os.getpid(), signal.SIGKILL)


class Mailing(Action):
    """Tells the world, by a durable call."""

    sent = 0

    async def run(
        self,
        ai_message,
        resource=None,
        rely_action_out=None,
        need_vis_render=True,
        ctx=None,
        **kwargs,
    ):
        assert ctx is not None
        number = await ctx.durable(self.send, ai_message)
        killed_at(f"mail:{self.sent}")
        return ActionOutput(ai_message, observations=f"mail {number}")

    def send(self, text):
        """Send a mail; return its number in this process."""
        self.sent += 1
        tell(mail=text)
        return self.sent


async def main(path: str, first: int, count: int, *named: str) -> None:
    asked = 0

    def answer(messages):
        nonlocal asked
        asked += 1
        tell(prompt=messages[-1]["content"])
        killed_at(f"model:{asked}")
        return ANSWER

    with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
        joy, user = await table(ScriptedChat(answer), memory=memory)
        if "mailed" in named:
            await joy.bind(Mailing).build()
        for n in range(first, first + count):
            event_id = f"turn {n}" if "named" in named else None
            reply = await user.initiate_chat(joy, user, MESSAGES[n], event_id=event_id)
            tell(reply=reply.content)


if __name__ == "__main__":
    if not os.environ.get("ALVEUS_CRASH", "model:").startswith(("model:", "mail:")):
        crash(os.environ["ALVEUS_CRASH"])
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))

"""An agent of AgentScope that is asked until its process is killed; says what was answered."""

from __future__ import annotations

import asyncio
import sys

from agentscope.agent import Agent
from agentscope.credential import CredentialBase
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import TextBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse

from alveus import Memory
from alveus.integrations.agentscope_middleware import AlveusMiddleware


class Counting(ChatModelBase):
    """Answers the question of a number with that number."""

    def __init__(self) -> None:
        super().__init__(CredentialBase(), "counting", self.Parameters(), stream=False)
        self.formatter = OpenAIChatFormatter()
        self.number = 0

    async def _call_api(self, model_name, messages, tools=None, tool_choice=None, **_):
        return ChatResponse(content=[TextBlock(text=f"answer {self.number}")], is_last=True)


async def main() -> None:
    with Memory.open(sys.argv[1], embedder="words") as memory:
        model = Counting()
        for number in range(int(sys.argv[2]), 1_000_000):
            model.number = number
            middleware = AlveusMiddleware(memory, user_id="ada", mode="static_control")
            agent = Agent("guide", "You help.", model, middlewares=[middleware])
            await agent.reply(UserMsg(name="ada", content=f"question {number}", id=f"m{number}"))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())

import asyncio, os
from typing import Optional
from alveus.compat.dbgpt import (
    ActionOutput, AgentContext, AgentMemory, AgentMemoryFragment, BlankAction, ConversableAgent, GptsMemory,
    LLMConfig, OpenAILLMClient, ProfileConfig, ShortTermMemory, UserProxyAgent)

memory = ShortTermMemory(buffer_size=5)             # E4a
agent_memory = AgentMemory(memory=memory)
agent_memory = AgentMemory(memory=memory, gpts_memory=GptsMemory())

llm_client = OpenAILLMClient(                       # E4b; building it needs no network and no key
    model_alias="gpt-4o", api_base=os.getenv("OPENAI_API_BASE"), api_key=os.getenv("OPENAI_API_KEY"))
context: AgentContext = AgentContext(
    conv_id="test123", language="en", temperature=0.9, max_new_tokens=2048, verbose=True)
memory = ShortTermMemory(buffer_size=2)
agent_memory: AgentMemory = AgentMemory(memory=memory)

user_prompt_template = """\
{% if most_recent_memories %}\
Most recent observations:
{{ most_recent_memories }}
{% endif %}\

{% if question %}\
Question: {{ question }}
{% endif %}
"""
write_memory_template = """\
{% if question %}user: {{ question }} {% endif %}
{% if thought %}assistant: {{ thought }} {% endif %}\
"""

async def main():
    joy_profile = ProfileConfig(
        name="Joy", role="Comedians",
        user_prompt_template=user_prompt_template, write_memory_template=write_memory_template)
    joy = (
        await ConversableAgent(profile=joy_profile)
        .bind(context)
        .bind(LLMConfig(llm_client=llm_client))
        .bind(agent_memory)
        .bind(BlankAction)
        .build()
    )
    user_proxy = await UserProxyAgent().bind(agent_memory).bind(context).build()
    await user_proxy.initiate_chat(recipient=joy, reviewer=user_proxy, message="My name is bob, please tell me a joke")
    await user_proxy.initiate_chat(recipient=joy, reviewer=user_proxy, message="What's my name?")

class JoyAgent(ConversableAgent):                   # E4c
    profile: ProfileConfig = ProfileConfig(name="Joy", role="Comedians", write_memory_template=write_memory_template)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._init_actions([BlankAction])

    async def read_memories(self, question: str) -> str:
        memories = await self.memory.read(observation=question)
        recent_messages = [m.raw_observation for m in memories]
        return "".join(recent_messages)

    async def write_memories(
        self,
        question: str,
        ai_message: str,
        action_output: Optional[ActionOutput] = None,
        check_pass: bool = True,
        check_fail_reason: Optional[str] = None,
    ) -> None:
        if not action_output:
            raise ValueError("Action output is required to save to memory.")
        mem_thoughts = action_output.thoughts or ai_message
        memory_map = {"question": question, "thought": mem_thoughts}
        write_memory_template = self.write_memory_template
        memory_content: str = self._render_template(write_memory_template, **memory_map)
        fragment = AgentMemoryFragment(memory_content)
        await self.memory.write(fragment)

if __name__ == "__main__":
    asyncio.run(main())

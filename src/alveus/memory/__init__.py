"""The door: a memory, its keys and knowledge, the same for asyncio, prompts."""

"""The memory API: open a memory, its keys and knowledge, the asyncio form, prompts."""

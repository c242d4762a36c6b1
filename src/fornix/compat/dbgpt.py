"""The language model of DB-GPT's programs, under its name there."""

from __future__ import annotations

import os

from fornix.llm import OpenAIChat

__all__ = ["OpenAILLMClient"]


class OpenAILLMClient(OpenAIChat):
    """`fornix.llm.OpenAIChat`, as DB-GPT's programs make one; it connects at the first call.

    Args:
        model_alias: What the server calls the model.
        api_base: Where the server is, up to and with ``/v1``; None: as ``OPENAI_API_BASE`` says
            now, or as `OpenAIChat` has it.
        api_key: None: as ``OPENAI_API_KEY`` says at the first call.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    def __init__(
        self, model_alias: str, api_base: str | None = None, api_key: str | None = None
    ) -> None:
        base_url = api_base or os.environ.get("OPENAI_API_BASE") or None
        super().__init__(model_alias, base_url=base_url, api_key=api_key)

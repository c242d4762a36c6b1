"""The generated part of the page on layers: a picture of the flow."""

from __future__ import annotations

import asyncio

from alveus.agents.layers import (
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    HybridMemory,
    LongTermMemory,
    SensoryMemory,
)
from alveus.agents.layers.layer import LayerMemory

BEGIN, END = "<!-- flow: written by tools/make_layers.py -->", "<!-- end of the flow -->"


def layers_page(there: str) -> str:
    """Return docs/layers.md with the picture that the layers draw now."""
    before, _, rest = there.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```text\n{flow()}\n```\n{END}{after}"


def flow() -> str:
    """Return a picture: fragments on their way through layers, after each write."""
    return asyncio.run(_flow())


async def _flow() -> str:
    layers = HybridMemory(
        sensory_memory=SensoryMemory(1),
        short_term_memory=EnhancedShortTermMemory(
            _vectors, buffer_size=3, enhance_threshold=1, random=lambda: 0.0
        ),
        long_term_memory=LongTermMemory(k=100),
    )
    names = ("sensory", "short-term", "long-term")
    lines = [_line("write", names)]
    for text in ("tea", "cake", "more tea", "rain", "bus", "sun", "snow"):
        dropped = await layers.write(AgentMemoryFragment(text))
        assert dropped is None
        held = [[f.raw_observation for f in await _held(part)] for part in layers.parts()]  # pyright: ignore[reportArgumentType] - the test fails where it is another type
        lines.append(
            _line(text, [", ".join(sorted(one) if n == 2 else one) for n, one in enumerate(held)])
        )
    await layers.clear()
    layers.close()
    return "\n".join(lines)


async def _held(part: LayerMemory[AgentMemoryFragment]) -> list[AgentMemoryFragment]:
    return await part.read("")


def _line(text: str, held: list[str] | tuple[str, ...]) -> str:
    sensory, short, long = held
    return f"{text:<9}→  {sensory:<10}→  {short:<22}→  {long}".rstrip()


def _vectors(texts: list[str]) -> list[list[float]]:
    words = ("tea", "cake", "rain", "bus", "sun", "snow")
    return [[float(word in text) for word in words] for text in texts]

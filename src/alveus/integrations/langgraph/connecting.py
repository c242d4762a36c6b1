"""How LangGraph's users open what they compile a graph with."""

from __future__ import annotations

from typing import Any, Self

from alveus.integrations.opened import OpenedMemory
from alveus.memory.memory import Memory


class Connected(OpenedMemory):
    """Opened at a path or a URL."""

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:  # noqa: ANN401 - of Memory.open, and of the class
        """Open a memory at a path or a URL; use it as ``with`` or ``async with``, or `close` it.

        Args:
            options: ``space`` and ``embedder`` of `Memory.open`; the rest is of the class itself.
        """
        of_memory = {name: options.pop(name) for name in ("space", "embedder") if name in options}
        memory = Memory.open(conn_string, **of_memory)
        try:
            made = cls(memory, **options)
        except BaseException:
            memory.close()
            raise
        made._is_own = True
        return made

    def setup(self) -> None:
        """Do nothing: a memory makes its tables when it is opened."""

    async def asetup(self) -> None:
        """Do nothing, see `setup`."""

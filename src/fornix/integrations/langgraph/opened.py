"""What the checkpointer and the store have in common: a memory, and who closes it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from fornix.memory.memory import Memory


class OpenedMemory:
    """A memory that was given, or opened by this object; closed for good by `close`."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._is_own = False

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

    def close(self) -> None:
        """Close the memory, if this object opened it. Later calls raise `StoreClosed`."""
        if self._is_own:
            self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

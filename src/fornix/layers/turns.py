"""One after the other, in the order of arrival, whatever tasks, loops and threads they are in."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from types import TracebackType


class Turns:
    """A lock to be awaited that is fair, and is of no event loop.

    `asyncio.Lock` serves one loop; layers are written to from several, and from threads.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._waiting: deque[Future[None]] = deque()

    async def __aenter__(self) -> None:
        with self._mutex:
            if not self._held:
                self._held = True
                return
            mine: Future[None] = Future()
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancelled() and not mine.cancel():
                self._next()  # it was this one's turn already
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._next()

    def _next(self) -> None:
        with self._mutex:
            while self._waiting:
                if (first := self._waiting.popleft()).set_running_or_notify_cancel():
                    first.set_result(None)
                    return
            self._held = False

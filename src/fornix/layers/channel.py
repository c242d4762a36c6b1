"""Where views of a conversation wait for whoever watches it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any

DONE = "[DONE]"
"""What ends a channel."""

VIEWS = 64
"""Views that wait in a channel at most. Each shows the whole conversation, so the oldest may go."""


class Channel:
    """Views, oldest first; has the calls of `asyncio.Queue`, and is of no event loop.

    Any thread may put and any loop may get. After `DONE` nothing is taken, and everybody who gets
    is told of it.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._views: deque[Any] = deque(maxlen=VIEWS)
        self._waiting: deque[Future[None]] = deque()
        self._done = False

    def put_nowait(self, view: object) -> None:
        """Have a view wait; more than `VIEWS` do not."""
        with self._mutex:
            if self._done:
                return
            if view == DONE:
                self._done = True
            else:
                self._views.append(view)
            self._wake()

    async def put(self, view: object) -> None:
        """See `put_nowait`."""
        self.put_nowait(view)

    async def get(self) -> Any:  # noqa: ANN401 - whatever was put
        """Return the oldest view, or `DONE`, when there is one."""
        while True:
            try:
                return self.get_nowait()
            except asyncio.QueueEmpty:
                await self._put_or_done()

    def get_nowait(self) -> Any:  # noqa: ANN401 - whatever was put
        """Return the oldest view, or `DONE`.

        Raises:
            asyncio.QueueEmpty: There is none.
        """
        with self._mutex:
            if self._views:
                return self._views.popleft()
            if self._done:
                return DONE
            raise asyncio.QueueEmpty

    def qsize(self) -> int:
        """Return how many views wait."""
        return len(self._views)

    def empty(self) -> bool:
        """Return whether none waits."""
        return not self._views

    async def _put_or_done(self) -> None:
        mine: Future[None] = Future()
        with self._mutex:
            if self._views or self._done:
                return
            self._waiting.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            if not mine.cancel():  # a view came for this one, which does not take it
                with self._mutex:
                    self._wake()
            raise

    def _wake(self) -> None:
        """Have one who waits look again, or, when it is done, all."""
        while self._waiting:
            first = self._waiting.popleft()
            if first.set_running_or_notify_cancel():
                first.set_result(None)
                if not self._done:
                    return

"""An event loop in a thread of its own, where the async actions of a runner are at work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine


class Loop:
    """Starts with the first coroutine. Every method may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[object, object, None]) -> None:
        """Have a coroutine run; it tells by itself what became of it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = self._loop.run_forever
                threading.Thread(target=run, name=self._name, daemon=True).start()
            asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """Cancel what is at work, and end."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(_cancel_all, self._loop)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon(loop.stop)

"""An event loop in a thread of its own, where the async actions of a runner are at work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from fornix.values.forks import HandleLock

P = ParamSpec("P")
R = TypeVar("R")

CLEAN_UP_S = 1.0
"""How long actions that are cancelled may take to end."""


class ActionThreads(ThreadPoolExecutor):
    """Threads in which the code of an action knows that it is the action's.

    `asyncio.to_thread` sees to that by itself, ``loop.run_in_executor(None, …)`` does not.
    """

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `ThreadPoolExecutor.submit`."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


class EventLoopThread:
    """Starts with the first coroutine. Every method may be called from any thread.

    Args:
        threads: Threads for what coroutines do in one, at most.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        self._name, self._threads = name, threads
        self._lock = HandleLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    def run(self, coroutine: Coroutine[object, object, None]) -> None:
        """Have a coroutine run; it tells by itself what became of it. Stopped: it is dropped."""
        with self._lock:
            if self._stopped:
                coroutine.close()
                return
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(
                    ActionThreads(self._threads, thread_name_prefix=self._name)
                )
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """Cancel what is at work, and end."""
        with self._lock:
            loop, thread, stopped = self._loop, self._thread, self._stopped
            self._stopped = True
        if loop is None or thread is None or stopped:
            return
        asyncio.run_coroutine_threadsafe(_end(loop), loop)
        if thread is not threading.current_thread():
            thread.join(2 * CLEAN_UP_S)  # an action that keeps the loop to itself is left behind


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLEAN_UP_S)
    loop.stop()

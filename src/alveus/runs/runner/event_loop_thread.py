"""The event loop of async actions, and the threads for their blocking calls."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from alveus.errors import Unavailable
from alveus.values.forks import NO_THREAD, Flag, HandleLock, began

P = ParamSpec("P")
R = TypeVar("R")

CLEAN_UP_S = 1.0
"""Seconds that cancelled actions have to end."""


class ActionThreads(ThreadPoolExecutor):
    """A pool of daemon threads that run calls in the context of the calling action.

    `asyncio.to_thread` passes the context on, ``loop.run_in_executor(None, …)`` does not. Python
    waits for the threads of other pools as it ends; calls in these threads are abandoned.

    Args:
        most: The largest number of threads.
        name: The name of each thread, before its number.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._most, self._name = most, name
        self._calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]()
        self._lock = threading.Lock()
        self._begun: list[threading.Thread] = []
        self._free, self._ended = 0, False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `ThreadPoolExecutor.submit`."""
        future, work = Future[R](), partial(copy_context().run, fn, *args, **kwargs)
        with self._lock:
            if self._ended:
                raise RuntimeError("the runner was closed")
            if self._free:
                self._free -= 1
            elif len(self._begun) < self._most:
                name = f"{self._name}_{len(self._begun)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                thread.start()
                self._begun.append(thread)
            self._calls.put((future, work))
        return future

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            _do(*asked)
            del asked  # and what it refers to
            with self._lock:
                self._free += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as it is called
        """See `ThreadPoolExecutor.shutdown`."""
        with self._lock:
            self._ended = True
            with suppress(Empty):
                while cancel_futures:
                    waiting = self._calls.get_nowait()
                    if waiting is not None:
                        waiting[0].cancel()
            for _ in self._begun:
                self._calls.put(None)
        for thread in self._begun if wait else ():
            thread.join()


def _do(future: Future[R], work: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        future.set_exception(error)
        del future, work  # a cycle with its traceback


class EventLoopThread:
    """An event loop in a separate thread, for async actions.

    Any thread may call any method.

    Args:
        threads: The largest number of threads for blocking calls of coroutines.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        self._name, self._threads = name, threads
        self._lock = HandleLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._ending: asyncio.Task[None] | None = None
        self._calls = deque[tuple[Callable[[], Coroutine[object, object, None] | None], Context]]()
        self._running: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Start the thread, unless it runs or was stopped; before the first coroutine.

        Raises:
            Unavailable: No thread or no loop can be started.
        """
        with self._lock:
            if self._stopped or self._loop is not None:
                return
        is_known, problems = Flag(), list[OSError]()
        target = partial(self._run, is_known, problems)
        if not began(threading.Thread(target=target, name=self._name, daemon=True)):
            raise Unavailable(f"no async action can run: {NO_THREAD}")
        is_known.wait()
        if problems:
            raise Unavailable(f"no async action can run: {problems[0]}") from problems[0]

    def _run(self, is_known: Flag, problems: list[OSError]) -> None:
        """Make and run the loop until it is stopped; interrupts do not come in this thread."""
        try:
            loop = asyncio.new_event_loop()
        except OSError as error:  # too many files are open
            problems.append(error)
            is_known.set()
            return
        loop.set_default_executor(ActionThreads(self._threads, self._name))
        with self._lock:
            is_wanted = self._loop is None and not self._stopped
            if is_wanted:
                self._loop, self._thread = loop, threading.current_thread()
        is_known.set()
        try:
            while is_wanted and not self._has_ended():
                # `SystemExit` of a task that an action awaits also comes out here.
                with suppress(KeyboardInterrupt, SystemExit):
                    loop.run_forever()
                    return
        finally:
            loop.close()

    def _has_ended(self) -> bool:
        return self._ending is not None and self._ending.done()

    def call(self, make: Callable[[], Coroutine[object, object, None] | None]) -> None:
        """Call *make* on the loop, and run the coroutine that it returns, if any.

        After an interrupt it may be called or not; after `stop` it is not called.
        """
        with self._lock:
            loop = self._loop
            if self._stopped or loop is None:
                return
            try:
                self._calls.append((make, copy_context()))
                loop.call_soon_threadsafe(self._begin_calls, loop)
            except BaseException:
                loop.call_soon_threadsafe(self._begin_calls, loop)  # it may still sleep
                raise

    def _begin_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the queued calls, on the loop.

        The tasks are kept until they end: the loop has no strong references to them, and the
        garbage collector could drop one.
        """
        while self._calls:
            make, context = self._calls.popleft()
            coroutine = context.run(make)
            if coroutine is not None:
                task = loop.create_task(coroutine, context=context)
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel the running coroutines, and end the thread; may be called twice."""
        with self._lock:
            loop, thread, self._stopped = self._loop, self._thread, True
        if loop is None or thread is None:
            return
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(self._end, loop)
        if thread is not threading.current_thread():
            thread.join(2 * CLEAN_UP_S)  # an action that blocks the loop is abandoned

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._ending is None:
            self._ending = loop.create_task(_end_loop(loop))


async def _end_loop(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLEAN_UP_S)
    loop.stop()

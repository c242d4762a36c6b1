"""The event loop on which async actions run, and the threads that they call."""

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
"""How long actions that are cancelled may take to end."""


class ActionThreads(ThreadPoolExecutor):
    """Threads in which the code of an action knows that it is the action's.

    `asyncio.to_thread` sees to that by itself, ``loop.run_in_executor(None, …)`` does not.
    As Python ends, it waits for the threads of other pools, however long their calls take; a call
    that outlasts its runner is left behind here, as the actions of other threads are.

    Args:
        most: Threads at once.
        name: Of each, before its number.
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
            del asked  # with what it holds, while there is no other
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
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        future.set_exception(error)
        del future, work  # else its traceback holds them, and they it


class EventLoopThread:
    """An event loop in a thread of its own, on which async actions run.

    Every method may be called from any thread.

    Args:
        threads: Threads for what coroutines do in one, at most.
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
            Unavailable: None can be started, or it can have no loop.
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
        """Be the loop until it is stopped; made here, as an interrupt would leave half of it."""
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
                # `SystemExit` of a task that an action waits for comes out here, though it is told.
                with suppress(KeyboardInterrupt, SystemExit):
                    loop.run_forever()
                    return
        finally:
            loop.close()

    def _has_ended(self) -> bool:
        return self._ending is not None and self._ending.done()

    def call(self, make: Callable[[], Coroutine[object, object, None] | None]) -> None:
        """Have *make* called on the loop, and run what it returns, which tells what became of it.

        An interrupt leaves it called, or not. Stopped: it is not.
        """
        with self._lock:
            loop = self._loop
            if self._stopped or loop is None:
                return
            try:
                self._calls.append((make, copy_context()))
                loop.call_soon_threadsafe(self._begin_calls, loop)
            except BaseException:
                loop.call_soon_threadsafe(self._begin_calls, loop)  # it may not have been woken
                raise

    def _begin_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin what is to be called, on the loop.

        Tasks are held here until they end: their loop does not hold them, and the garbage collector
        would throw one away that waits for something only it knows.
        """
        while self._calls:
            make, context = self._calls.popleft()
            coroutine = context.run(make)
            if coroutine is not None:
                task = loop.create_task(coroutine, context=context)
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel what is at work, and end; twice is fine."""
        with self._lock:
            loop, thread, self._stopped = self._loop, self._thread, True
        if loop is None or thread is None:
            return
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(self._end, loop)
        if thread is not threading.current_thread():
            thread.join(2 * CLEAN_UP_S)  # an action that keeps the loop to itself is left behind

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

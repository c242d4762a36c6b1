"""Locks, threads and signals that stay right when a process forks or ends.

A forked child has the memory of its parent, but only one of its threads and none of its file
locks. A mutex that another thread held stays locked, and SQLite believes that it holds locks which
it lost. So before a fork the gate lets no thread into SQLite and waits until all have left. In the
child every registered object releases what it inherited, before anything new is opened.

When Python ends, it stops daemon threads at any point. If a thread is stopped inside a matrix
product, the process waits forever for OpenBLAS, which waits for that thread. So every
`BackgroundThread` ends before Python ends.
"""

from __future__ import annotations

import atexit
import logging
import mmap
import os
import signal
import sys
import threading
import time
import weakref
from _thread import start_new_thread
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import _GeneratorContextManager as GeneratorContextManager  # pyright: ignore[reportPrivateUsage] - what `contextmanager` makes
from operator import attrgetter
from types import FrameType, TracebackType
from typing import Generic, NoReturn, Protocol, TypeAlias, TypeVar

from alveus.errors import ForkedStore, NotPicklable, Unsupported

FORK_WAIT_S = 30.0
"""Longest wait of a fork for threads inside SQLite.

If a thread is still inside after it, the child cannot open a store.
"""

POLL_S = 0.0005
"""Pause between two checks for threads inside, or for the end of a fork."""


_WIPE_ON_FORK = 18
"""``MADV_WIPEONFORK`` of Linux 4.14."""


_LOCK = threading.Lock
"""`threading.Lock` at the import of this module. If it is another one later, threads were patched,
as by gevent."""

R = TypeVar("R")
T = TypeVar("T")

_Exit: TypeAlias = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], None
]
"""A function that ends a ``with`` block."""


class Inherited(Protocol):
    """An object that a forked child inherits and must release."""

    def forked(self, *, quiet: bool) -> None:
        """Release the object in the child.

        Args:
            quiet: Whether no thread was inside SQLite. Only then may the object call SQLite.
        """
        ...


class ForkGate:
    """The gate that every use of SQLite passes. Each fork closes it for a moment.

    A pass takes well under a microsecond. A thread that is inside may enter again while a fork
    waits for it. A fork by a thread that is inside does not wait for that thread; its child cannot
    open a store.
    """

    def __init__(self) -> None:
        self.generation = 0
        """Number of forks between the process that imported this module and the current one."""
        self.process_page = _new_process_page()
        self._inside: dict[object, int] = {}
        self._forking: set[int] = set()
        self._registered: weakref.WeakSet[Inherited] = weakref.WeakSet()
        self._unsafe = False

    def register(self, inherited: Inherited) -> None:
        """Call `forked` of *inherited* in every forked child, as long as the object lives."""
        self._registered.add(inherited)

    def inside(self) -> _Region:
        """Count the thread as inside SQLite for a ``with`` block."""
        return _Region(self)

    def enter(self, region: object) -> None:
        """Count *region*, one use of SQLite by this thread, as inside SQLite until `leave`.

        If another thread is forking, wait for its fork first.
        """
        if not self.process_page[0]:
            self.reset_in_child()
        if threading.Lock is not _LOCK:
            refuse_other_threads()
        thread = threading.get_ident()
        self._inside[region] = thread
        if self._forking:
            self._wait_for_fork(region, thread)

    def leave(self, region: object) -> None:
        """Stop counting *region* as inside. May be called twice."""
        self._inside.pop(region, None)

    def check_process(self) -> None:
        """Release inherited objects if this process was forked without Python's hooks."""
        if not self.process_page[0]:
            self.reset_in_child()

    def is_inherited(self, generation: int) -> bool:
        """Return whether a handle made in *generation* belongs to a parent process."""
        self.check_process()
        return generation != self.generation

    def check_handle(self, generation: int) -> None:
        """Refuse a handle made in *generation* if it belongs to a parent process.

        Raises:
            ForkedStore: The handle belongs to a parent process.
        """
        if self.is_inherited(generation):
            raise ForkedStore("this was opened before a fork; open it again in the child")

    def check_sound(self, location: object) -> None:
        """Refuse to open *location* in a child that cannot call SQLite safely.

        Raises:
            ForkedStore: This process was forked while a thread was inside SQLite.
        """
        self.check_process()
        if self._unsafe:
            raise ForkedStore(
                f"{location} cannot be opened in process {os.getpid()}, which was forked during "
                "a call of a memory; fork at another time, or start the process with 'spawn'"
            )

    def harm(self) -> None:
        """Stop this process from opening stores: an inherited object could not be released."""
        self._unsafe = True

    # --- the moments of a fork ----------------------------------------------------------------

    def before(self) -> None:
        """Close the gate; wait until all other threads are out, for at most `FORK_WAIT_S`."""
        self._forking.add(threading.get_ident())
        deadline = time.monotonic() + FORK_WAIT_S
        while not self._forking.issuperset(self._inside.copy().values()):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)

    def after_in_parent(self) -> None:
        """Open the gate again."""
        self._forking.discard(threading.get_ident())

    def after_in_child(self) -> None:
        """Release inherited objects, unless an earlier call released them."""
        self.check_process()

    def reset_in_child(self) -> None:
        """Make this the gate of a child process, and release inherited objects."""
        if self._inside:
            self._unsafe = True
        self._inside.clear()
        self._forking.clear()
        self.process_page = _new_process_page()
        self.generation += 1
        for inherited in list(self._registered):
            inherited.forked(quiet=not self._unsafe)

    def _wait_for_fork(self, region: object, thread: int) -> None:
        while self._forking:
            inside = self._inside.copy()
            if thread in self._forking or any(
                t == thread and r is not region for r, t in inside.items()
            ):
                return  # this thread forks, or the fork waits for it: it must not be blocked here
            self._inside.pop(region, None)
            time.sleep(POLL_S)
            self._inside[region] = thread


def refuse_other_threads() -> NoReturn:
    """Raise an error: threads and locks were replaced after alveus was imported.

    The locks belong to real threads: two greenlets of one thread would both hold a lock.

    Raises:
        Unsupported: Always.
    """
    raise Unsupported(
        "threads were replaced after alveus was imported, as gevent.monkey.patch_all() does, "
        "which breaks its locks; replace them before any other import"
    )


class _ProcessIdPage:
    """A page for `_new_process_page` that compares process ids, if memory cannot be wiped."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __getitem__(self, _index: int) -> int:
        return os.getpid() == self._pid


def _new_process_page() -> mmap.mmap | _ProcessIdPage:
    """Return a page whose first byte is 0 in every process forked from this one.

    The kernel wipes the page at any kind of fork. A read of it is quicker than a system call.
    """
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(_WIPE_ON_FORK)
    except OSError:
        return _ProcessIdPage()
    page[0] = 1
    return page


class _Region:
    """A ``with`` block that counts as inside SQLite."""

    __slots__ = ("_gate",)

    def __init__(self, gate: ForkGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        try:
            self._gate.enter(self)
        except BaseException:
            self._gate.leave(self)
            raise

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self)


class FreshLock:
    """A thread lock that is free in a forked child, even if the parent held it.

    As with `HandleLock`, no interrupt comes between taking the lock and the block, or between the
    block and the release.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run in the thread that holds it
        FORKS.register(self)

    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> _Exit:  # noqa: PLE0302, PYI036 - the property returns the function
        return self._lock.__exit__

    def forked(self, *, quiet: bool) -> None:
        """See `Inherited`. The thread that forks never holds this lock."""
        del quiet
        self._lock = threading.RLock()


class HandleLock:
    """A thread lock of an open handle. A forked child, which lacks the holder, never waits for it.

    An interrupt (Ctrl-C, a signal whose handler raises) leaves no thread waiting. Python handles
    signals between two of its steps, and ``with`` calls C code here: `__enter__` is a property, and
    `__exit__` a slot, which return the methods of the lock below. A caller of `acquire` releases a
    reentrant lock by `let_go`, and does so again if that was interrupted.

    Args:
        reentrant: Whether the thread that holds the lock may take it again.
    """

    __slots__ = ("__exit__", "__weakref__", "_enter", "_generation", "_lock", "_process_page")

    __exit__: _Exit
    """Releases the lock. A slot, so that a block ends without a step of Python."""

    def __init__(self, *, reentrant: bool = False) -> None:
        if threading.Lock is not _LOCK:
            refuse_other_threads()
        self._lock = lock = threading.RLock() if reentrant else threading.Lock()
        self._enter, self.__exit__ = lock.__enter__, lock.__exit__
        self._generation, self._process_page = FORKS.generation, FORKS.process_page

    @property
    def __enter__(self) -> Callable[[], bool]:
        """The function that takes the lock.

        Raises:
            ForkedStore: The lock is held, and was made before this process was forked.
            Unsupported: See `refuse_other_threads`.
        """
        if threading.Lock is not _LOCK:
            refuse_other_threads()
        if not self._process_page[0] and self.locked():
            FORKS.check_handle(self._generation)
        return self._enter

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as a lock of Python
        """Take the lock. Return False if it could not be taken in time.

        Raises:
            ForkedStore: The lock is held, and was made before this process was forked.
        """
        if self._lock.acquire(blocking=False):
            return True
        FORKS.check_handle(self._generation)
        return blocking and self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def locked(self) -> bool:
        """Return whether another thread holds the lock, for Python 3.14's `threading.Condition`."""
        if not self._lock.acquire(blocking=False):
            return True
        self._lock.release()
        return False

    def is_mine(self) -> bool:
        """Return whether this thread holds the lock; only for a reentrant lock."""
        return is_owned(self._lock)

    def let_go(self) -> None:
        """Release a reentrant lock fully, without allocating memory."""
        lock = self._lock
        while is_owned(lock):
            lock.release()


class ProcessBound:
    """A base of objects that refuse to be pickled or copied deeply."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied deeply.

        Raises:
            NotPicklable: Always.
        """
        raise NotPicklable(
            "an open memory and its objects cannot be pickled or copied deeply; pass its path "
            "or URL, and open it in the other process"
        )


def variant_of(thing: T, **changes: object) -> T:
    """Return a new object that shares the attributes of the open *thing*, except *changes*."""
    other = object.__new__(type(thing))
    vars(other).update(vars(thing), **changes)
    return other


def call_within(block: GeneratorContextManager[T], work: Callable[[T], R]) -> R:
    """Return the result of *work*, called in the block of a `contextmanager` function.

    An interrupt leaves no block open, even if it comes as the block begins or ends.
    """
    return call_between(block.gen, work)


def call_between(steps: Generator[T], work: Callable[[T], R]) -> R:
    """Return the result of *work*, as `call_within` does, given the generator of the block.

    It is faster than a ``with`` block, which takes as long as the rest of a short write.
    """
    try:
        answer = work(next(steps))
    except BaseException as error:
        try:
            steps.throw(error)
        finally:
            steps.close()
        raise  # as if the block had raised the error again
    try:
        next(steps, None)
    except BaseException:
        steps.close()
        raise
    return answer


def let_go(locks: Iterable[HandleLock]) -> None:
    """Release the reentrant *locks* that this thread holds. May be called twice."""
    for lock in locks:
        if lock.is_mine():
            lock.release()


is_owned: Callable[[object], bool] = attrgetter("_is_owned")(type(threading.RLock()))
"""Returns whether this thread holds an `RLock`, by the method that `threading.Condition` uses. The
method is written in C and allocates no memory, which may be exhausted."""

FORKS = ForkGate()
"""The gate of this process."""

os.register_at_fork(
    before=FORKS.before, after_in_parent=FORKS.after_in_parent, after_in_child=FORKS.after_in_child
)


_LOG = logging.getLogger(__name__)

AT_EXIT_S = 5.0
"""Longest wait at the end of a process for all background threads together."""

NO_THREAD = "no thread could be started: a limit of the system is reached, or Python is ending"


def began(thread: threading.Thread) -> bool:
    """Start *thread*. Return whether that was possible.

    It is not possible at a limit of the system, or while Python ends: the thread would wait for
    that end, and its callers for the thread. Committed changes are safe then. The caller continues
    and tries again later.

    Python waits with a Python lock until a thread has begun. An interrupt of this wait could leave
    the lock held, and *thread* would wait forever. Interrupts come in the main thread; there,
    another thread starts *thread*.
    """
    problems: list[RuntimeError] = []
    if sys.is_finalizing():
        return False
    is_known = threading.Lock()

    def begin() -> None:
        try:
            thread.start()
        except RuntimeError as error:
            problems.append(error)
        finally:
            is_known.release()

    is_known.acquire()
    if threading.current_thread() is threading.main_thread():
        try:
            start_new_thread(begin, ())
        except RuntimeError as error:
            problems.append(error)
        else:
            is_known.acquire()
    else:
        begin()
    for problem in problems:
        _LOG.warning("thread %s was not started: %s", thread.name, problem)
    return not problems


class Stop(Protocol):
    """A flag that asks work to stop, such as a `threading.Event` or a `Flag`."""

    def is_set(self) -> bool:
        """Return whether the flag was set."""
        ...


class Flag:
    """An event that signal handlers may set, and that survives their exceptions.

    A `threading.Event` takes its lock in Python code. A handler that sets the event for which its
    thread waits may wait for that lock forever. A handler that raises, as for Ctrl-C, may leave the
    lock held. A flag has a C lock instead, which is free while the flag is set: a waiting thread
    takes the lock, and releases it for the others.
    """

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Set the flag, and wake all waiting threads."""
        self._is_set = True
        try:  # noqa: SIM105 - Python handles no signal between the two
            self._lock.release()
        except RuntimeError:
            pass  # the lock is free already

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def clear(self) -> None:
        """Clear the flag. Only the waiting thread may do so."""
        self._is_set = False
        self._lock.acquire(blocking=False)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the flag is set, for at most *timeout_s*. Return whether the flag is set."""
        if not self._is_set:
            try:
                self._lock.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s))
            finally:
                if self._is_set:
                    self.set()
        return self._is_set


class BackgroundThread(threading.Thread):
    """Runs *work* in a thread. After a call of *stop*, *work* must return soon.

    Attributes:
        stop: Asks *work* to return, without waiting. It is called as Python ends, at the latest.
    """

    def __init__(self, work: Callable[[], None], name: str, stop: Callable[[], None]) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self.stop = stop


def _end_all() -> None:
    running = [  # a thread that is only being started cannot be joined
        thread
        for thread in threading.enumerate()
        if isinstance(thread, BackgroundThread) and thread.is_alive()
    ]
    for thread in running:
        thread.stop()
    deadline = time.monotonic() + AT_EXIT_S
    for thread in running:
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)


K = TypeVar("K", bound=Hashable)


class KeyLocks(Generic[K]):
    """One lock for each key; an unused lock takes no memory."""

    def __init__(self) -> None:
        self._mutex = HandleLock()
        self._locks: weakref.WeakValueDictionary[K, HandleLock] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, key: K) -> HandleLock:
        """Return the lock of *key*. The lock is reentrant."""
        with self._mutex:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = HandleLock(reentrant=True)
            return lock


def handle_ends(handler: Callable[[int, FrameType | None], object]) -> Callable[[], None]:
    """Call *handler* on SIGTERM, Ctrl-C and SIGHUP.

    Return a function that restores the old handlers. SIGHUP, the signal of a closed terminal, stays
    ignored if it is ignored already, as under `nohup`.
    """
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    before = [(number, signal.signal(number, handler)) for number in signals]

    def take_back() -> None:
        for number, handled in before:
            signal.signal(number, handled)

    return take_back

"""Processes that start warm: real ones, forked off one that has imported what they need.

A test that kills hundreds of processes would spend most of its time on their imports. `Popen` and
`run` are those of `subprocess`, for commands that begin with `sys.executable` and a script, `-m`
or `-c`. For each of these there is one *source*, a process of one thread, which imports what the
script does and opens nothing. What starts is a fork of it, with standard streams, environment and
arguments of its own; a *guard* of each waits for its end, and tells how it was.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, cast

NUMBER_BYTES = 8
"""Of a process id, or of how one ended, in what a guard says."""

LONGEST_ORDER = 1 << 20
"""In bytes."""

USED = ("alveus.memory", "alveus.store.sqlite", "alveus.store.ram", "alveus.embed.static")
"""What nearly all of them import when they open a memory."""

USED_BY = {
    "serve": (
        *("alveus.cli.serve", "alveus.server.app", "alveus.server.inspector"),
        "alveus.server.listening",
    ),
    "mcp": (
        "alveus.cli.serve",
        "alveus.server.mcp.server",
        "alveus.server.mcp.http",
        "alveus.server.mcp.stdio",
    ),
}
"""What commands of `alveus` import when they are called."""

STREAMS = (("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1))

_sources: dict[tuple[str, ...], tuple[socket.socket, subprocess.Popen[bytes]]] = {}
_starting = threading.Lock()


# --- where the tests are --------------------------------------------------------------------------


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, but for how a process comes to be, and whom to ask how it ended."""

    def _execute_child(self, *given: Any) -> None:
        command, _, prepare, _, passed, folder, environment, _, _, shell, *pipes = given[:16]
        assert command[0] == sys.executable, f"another program: {command}"
        assert not any((prepare, passed, shell)), "a process cannot start warm like that"
        words = [os.fspath(word) for word in command[1:]]
        order = {
            "words": words,
            "folder": os.fspath(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
        }
        ends = (pipes[0], pipes[3], pipes[5])
        streams = [end if end >= 0 else number for number, end in enumerate(ends)]
        self._guard, told = os.pipe()
        _send(_source(words), order, [*streams, told])
        os.close(told)
        self.pid = _number(self._guard)
        own = cast("Any", self)
        own._child_created = True
        own._close_pipe_fds(*pipes)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._guard], [], [], 0)[0]:
            return 0, 0
        status = _number(self._guard)
        os.close(self._guard)
        return self.pid, status

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        own = cast("Any", self)
        if self.returncode is None and own._waitpid_lock.acquire(False):
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid:
                    own._handle_exitstatus(status)
            finally:
                own._waitpid_lock.release()
        return self.returncode


def run(
    command: list[str],
    *,
    check: bool,
    capture_output: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """See `subprocess.run`."""
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(command, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def _source(words: list[str]) -> socket.socket:
    """Return how to reach the source of a program, which is started if there is none."""
    name = tuple(words[: {"-m": 3, "-c": 2}.get(words[0], 1)])
    with _starting:
        if name not in _sources:
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with there:
                source = subprocess.Popen(
                    [sys.executable, __file__, str(there.fileno()), *name],
                    pass_fds=[there.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            _sources[name] = here, source
        return _sources[name][0]


@atexit.register
def _end_sources() -> None:
    for tests, source in _sources.values():
        tests.close()
        source.wait()


def _send(source: socket.socket, order: dict[str, Any], streams: list[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))
    source.sendmsg([json.dumps(order).encode()], [rights])


def _number(guard: int) -> int:
    found = os.read(guard, NUMBER_BYTES)
    assert found, "a source or a guard has ended"
    return int.from_bytes(found, "little", signed=True)


# --- a source -------------------------------------------------------------------------------------


def _serve(tests: socket.socket) -> list[str]:
    """Fork for each order; return in each fork, with the words of its command."""
    while True:
        message, rights, *_ = tests.recvmsg(LONGEST_ORDER, socket.CMSG_SPACE(64))
        if not message:
            os._exit(0)
        streams = array.array("i")
        for _, _, data in rights:
            streams.frombytes(data[: len(data) - len(data) % streams.itemsize])
        if _fork() == 0:
            tests.close()
            return _guarded(json.loads(message), list(streams))
        for each in streams:
            os.close(each)
        _reap()


def _guarded(order: dict[str, Any], streams: list[int]) -> list[str]:
    """Return in a fork of this fork, which goes on as its guard."""
    *standard, told = streams
    pid = _fork()
    if pid:
        for each in standard:
            os.close(each)
        os.write(told, pid.to_bytes(NUMBER_BYTES, "little", signed=True))
        status = os.waitpid(pid, 0)[1]
        os.write(told, status.to_bytes(NUMBER_BYTES, "little", signed=True))
        os._exit(0)
    os.close(told)
    for number, each in enumerate(standard):
        os.dup2(each, number)
    for each in set(standard):
        os.close(each)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, (name, mode, lines) in enumerate(STREAMS):  # others now: opened as Python does
        errors = getattr(sys, name).errors
        setattr(sys, name, os.fdopen(number, mode, lines, errors=errors, closefd=False))
    random.seed()
    return order["words"]


def _fork() -> int:
    with warnings.catch_warnings():  # of threads of NumPy, which it looks after
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _reap() -> None:
    """Forget guards that have ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _main() -> None:
    tests, name = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    sys.path[0] = "" if name[0] in {"-m", "-c"} else str(Path(name[0]).parent)
    for module in USED:
        importlib.import_module(module)
    if name[0] == "-m":
        importlib.import_module("alveus.cli.app")
        for module in USED_BY.get(name[2], ()):
            importlib.import_module(module)
    elif name[0] != "-c":
        importlib.import_module(Path(name[0]).stem)
    assert threading.active_count() == 1, "a source has one thread"
    gc.freeze()
    words = _serve(tests)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as `-c` does
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _main()

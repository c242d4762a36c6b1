"""Jobs for pools of processes; as a program: a process with a memory and threads that uses one."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor

from alveus import Memory


@functools.cache
def memory(path: str) -> Memory:
    """Return the memory of this process."""
    return Memory.open(path, embedder="words", durability="normal")


os.register_at_fork(after_in_child=memory.cache_clear)


def remember(path: str, number: int) -> str:
    """Add an item, and return its id; every tenth time the process begins anew."""
    if number % 10 == 9:
        memory(path).close()
        memory.cache_clear()
    return memory(path).key("jobs").add(f"job {number}", id=f"job-{number}")


def main(path: str, method: str, jobs: int) -> None:
    """Have *jobs* done by a pool, beside a thread that writes; tell what was acknowledged."""
    own, stop = memory(path), threading.Event()
    done: list[str] = []

    def write_on() -> None:
        while not stop.is_set():
            done.append(own.key("own").add("mine"))

    thread = threading.Thread(target=write_on)
    thread.start()
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        done += pool.map(functools.partial(remember, path), range(jobs))
        stop.set()
        thread.join()
        own.close()  # before the processes of the pool end
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

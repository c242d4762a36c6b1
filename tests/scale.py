"""How much the random, kill and contention tests do: the one place that says so.

`ALVEUS_TEST_SCALE=quick` (the default, `make check`) keeps the everyday run short;
`full` (`make test`, CI) repeats the same laws many more times, with every kill that was promised;
`soak` (`make soak`) takes its time for what is random.
A test asks for the count it needs and never looks at the environment itself::

    from scale import COUNTS

    for seed in range(COUNTS.kills):
        ...
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """What one test may do at most.

    Attributes:
        identity_steps: Steps of the machine that looks for crossings of identities.
        kills: Processes that are killed and started again.
        random_ops: Steps of a random walk over a store, a tree or a set.
        walks: Walks of a hypothesis machine whose steps are slow (a file, a process).
        store_walks: Walks of the machine that compares a store with `RamStore`.
        fuzz_examples: Inputs that hypothesis makes up for one property (set as its default).
        canaries: Texts that are forgotten, and looked for in every file.
        damages: Files that are damaged, each in one way.
        contention_s: Seconds for which processes or threads get in each other's way.
        power_states: States of a disk after a loss of power that are opened, of one scenario.
        power_steps: Steps that such a scenario goes through while it is recorded.
        forks: Trials in which processes fork, close and die at random.
        fork_jobs: Jobs of one pool or server of processes.
        fork_kinds: Kinds of pools, and of servers, that are tried.
        interrupts: Points of one call at which it is interrupted, about.
        hostile_chars: Characters of a text that is made to keep patterns busy.
        embedded: Texts that a model embeds, to be compared with its reference.
        flink_kills: Times that a Flink, or a part of its cluster, is killed in one scenario.
        flink_worker_kills: Python workers of a cluster that are killed in one.
        server_tries: Calls with tokens of other scopes.
        server_writes: Requests of clients whose server is killed.
    """

    identity_steps: int
    kills: int
    random_ops: int
    walks: int
    store_walks: int
    fuzz_examples: int
    canaries: int
    damages: int
    contention_s: float
    power_states: int
    power_steps: int
    forks: int
    fork_jobs: int
    fork_kinds: int
    interrupts: int
    hostile_chars: int
    embedded: int
    flink_kills: int
    flink_worker_kills: int
    server_tries: int
    server_writes: int


SCALES = {
    "quick": Counts(
        identity_steps=192,
        kills=5,
        random_ops=1_000,
        walks=6,
        store_walks=20,
        fuzz_examples=40,
        canaries=300,
        damages=21,
        contention_s=0.7,
        power_states=12,
        power_steps=5,
        forks=5,
        fork_jobs=6,
        fork_kinds=1,
        interrupts=40,
        hostile_chars=3_000,
        embedded=100,
        flink_kills=2,
        flink_worker_kills=4,
        server_tries=500,
        server_writes=800,
    ),
    "full": Counts(
        identity_steps=4_000,
        kills=240,
        random_ops=8_000,
        walks=20,
        store_walks=60,
        fuzz_examples=100,
        canaries=1_000,
        damages=420,
        contention_s=5.0,
        power_states=240,
        power_steps=20,
        forks=80,
        fork_jobs=24,
        fork_kinds=3,
        interrupts=400,
        hostile_chars=50_000,
        embedded=400,
        flink_kills=10,
        flink_worker_kills=44,
        server_tries=5_000,
        server_writes=10_000,
    ),
    "soak": Counts(
        identity_steps=24_000,
        kills=400,
        random_ops=25_000,
        walks=60,
        store_walks=200,
        fuzz_examples=200,
        canaries=1_000,
        damages=1_400,
        contention_s=20.0,
        power_states=800,
        power_steps=30,
        forks=300,
        fork_jobs=40,
        fork_kinds=3,
        interrupts=4_000,
        hostile_chars=100_000,
        embedded=1_000,
        flink_kills=10,
        flink_worker_kills=44,
        server_tries=5_000,
        server_writes=10_000,
    ),
}

SCALE = os.environ.get("ALVEUS_TEST_SCALE", "quick")
if SCALE not in SCALES:
    message = f"ALVEUS_TEST_SCALE is {SCALE!r}; it can be one of {', '.join(SCALES)}"
    raise ValueError(message)

COUNTS = SCALES[SCALE]

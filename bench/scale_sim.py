"""How many machines a load of runs needs: lanes, groups of commits and shards, simulated.

    python bench/scale_sim.py
    python bench/scale_sim.py --runs 1000000 --keys 10000000 --model-s 2

Inputs of keys come at random, a few keys have most of them (Zipf). A key runs one run at a time; a
run is one commit for its input and one for each action, and waits for the model in between. Each
shard of the store has a processor budget: a commit costs --commit-us of it, and commits that come
within --window-ms share a transaction, which costs --group-us once. One shard is simulated, event
by event, at rising rates, until its runs wait: the rest is multiplication. The defaults are from
bench/LOG.md, on two shared cores; give what you measured.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """What is simulated; times in seconds."""

    commit_s: float
    group_s: float
    window_s: float
    cores: int
    actions: int
    model_s: float
    keys: int
    skew: float


@dataclass(frozen=True)
class Outcome:
    """What came of one rate: delays in seconds, and how busy the processors were."""

    rate: float
    p50: float
    p99: float
    busy: float
    group: float

    @property
    def keeps_up(self) -> bool:
        """Whether runs hardly wait for the store."""
        return self.busy < 0.8


class Shard:
    """A store, event by event: its processors serve groups of commits, keys wait for their turn."""

    def __init__(self, load: Load, rate: float, seconds: float) -> None:
        self._load, self._rate, self._seconds = load, rate, seconds
        self._dice = random.Random(1)
        weights = [1 / (rank + 1) ** load.skew for rank in range(min(load.keys, 100_000))]
        self._keys = self._dice.choices(range(len(weights)), weights, k=round(rate * seconds))
        self._events: list[tuple[float, int, int]] = []  # time, key, commits still to do
        self._queues: dict[int, deque[float]] = defaultdict(deque)
        self._delays: list[float] = []
        self._free = [0.0] * load.cores
        self._worked = 0.0
        self._groups = self._commits = 0

    def run(self) -> Outcome:
        """Simulate; see `Outcome`."""
        time = 0.0
        for key in self._keys:
            time += self._dice.expovariate(self._rate)
            queue = self._queues[key]
            queue.append(time)
            if len(queue) == 1:
                heapq.heappush(self._events, (time, key, 1 + self._load.actions))
            self._serve(until=time)
        self._serve(until=math.inf)
        self._delays.sort()
        at = len(self._delays)
        return Outcome(
            self._rate,
            self._delays[at // 2],
            self._delays[min(at - 1, at * 99 // 100)],
            self._worked / (self._load.cores * max(self._seconds, time)),
            self._commits / max(1, self._groups),
        )

    def _serve(self, *, until: float) -> None:
        """Serve what is due: commits that come within the window are one group."""
        while self._events and self._events[0][0] + self._load.window_s <= until:
            first = self._events[0][0]
            group: list[tuple[float, int, int]] = []
            while self._events and self._events[0][0] <= first + self._load.window_s:
                group.append(heapq.heappop(self._events))
            cost = self._load.group_s + len(group) * self._load.commit_s
            begin = max(first + self._load.window_s, heapq.heappop(self._free))
            heapq.heappush(self._free, begin + cost)
            self._worked += cost
            self._groups += 1
            self._commits += len(group)
            for _, key, left in group:
                self._committed(begin + cost, key, left - 1)

    def _committed(self, time: float, key: int, left: int) -> None:
        if left:
            wait = self._dice.expovariate(1 / self._load.model_s) if self._load.model_s else 0.0
            heapq.heappush(self._events, (time + wait, key, left))
            return
        queue = self._queues[key]
        self._delays.append(time - queue.popleft())
        if queue:
            heapq.heappush(self._events, (max(time, queue[0]), key, 1 + self._load.actions))


def capacity(load: Load, *, seconds: float) -> Outcome:
    """Return the highest rate that one shard keeps up with, to within a tenth."""
    low = Shard(load, 10.0, seconds).run()
    rate = 20.0
    while (found := Shard(load, rate, seconds).run()).keeps_up and rate < 1e6:
        low, rate = found, rate * 1.3
    return low


def main(arguments: Sequence[str]) -> int:
    """Simulate; print what a load needs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=float, default=1e6, help="runs/s in all")
    parser.add_argument("--keys", type=int, default=10_000_000, help="keys in use")
    parser.add_argument("--actions", type=int, default=2, help="of a run")
    parser.add_argument("--model-s", type=float, default=0.0, help="an action waits for a model")
    parser.add_argument("--commit-us", type=float, default=650.0, help="of the server's processor")
    parser.add_argument("--group-us", type=float, default=350.0, help="per transaction")
    parser.add_argument("--window-ms", type=float, default=2.0, help="commits that share one")
    parser.add_argument("--cores", type=int, default=8, help="of one server of PostgreSQL")
    parser.add_argument("--state-kb", type=float, default=2.0, help="exact memory of a key")
    parser.add_argument("--run-kb", type=float, default=5.0, help="rows that a run leaves")
    parser.add_argument("--retain-h", type=float, default=6.0, help="how long runs are kept")
    parser.add_argument("--skew", type=float, default=0.8, help="of keys: 0: all alike")
    parser.add_argument("--seconds", type=float, default=5.0, help="that are simulated")
    given = parser.parse_args(arguments)
    load = Load(
        given.commit_us / 1e6, given.group_us / 1e6, given.window_ms / 1e3, given.cores,
        given.actions, given.model_s, given.keys, given.skew,
    )  # fmt: skip
    one = capacity(load, seconds=given.seconds)
    shards = math.ceil(given.runs / one.rate)
    commits = 1 + given.actions
    cores = f"of {given.cores} cores: {shards * given.cores:,} cores"
    run_s = commits * (load.window_s + load.group_s + load.commit_s) + given.actions * given.model_s
    rows = [
        ("one shard keeps up with", f"{one.rate:,.0f} runs/s, {one.rate * commits:,.0f} commits/s"),
        ("a run takes there", f"{one.p50 * 1000:,.1f} ms p50, {one.p99 * 1000:,.1f} ms p99"),
        ("commits in a transaction", f"{one.group:,.1f}"),
        ("shards for all runs", f"{shards:,}, {cores}"),
        ("state of hot keys", f"{given.keys * given.state_kb / 1e6:,.1f} GB"),
        ("rows of kept runs", f"{given.runs * given.retain_h * 3600 * given.run_kb / 1e9:,.1f} TB"),
        ("rows on each shard", f"{one.rate * given.retain_h * 3600 * given.run_kb / 1e6:,.1f} GB"),
        ("one key alone", f"{1 / run_s:,.0f} runs/s"),
    ]  # fmt: skip
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

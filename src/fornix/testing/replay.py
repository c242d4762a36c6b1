"""Batches that threads committed at the same time, replayed one by one on `RamStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random

from fornix.errors import FornixError
from fornix.store import Accepted, Batch, Begin, Commit, Put, QueuedInput, Step, Store
from fornix.store.ram import RamStore
from fornix.testing.batches import NOW
from fornix.testing.batches import again as told_again
from fornix.testing.random_batches import SCOPES, Player, embed_some, vectors_of
from fornix.testing.reads import Follower, differences, reads
from fornix.testing.run_machine import AGENTS, LaneGame, answer, said
from fornix.values import wire


@dataclass
class Played:
    """What threads did to a store.

    Attributes:
        answered: Batches and the commits they got, adopted ones too, in no order.
        accepted: Inputs and what was answered, with the agent they were for, in no order.
        refused: How many batches each kind of error refused.
        latest: The latest time any of them used.
    """

    answered: list[tuple[Batch, Commit]] = field(default_factory=list[tuple[Batch, Commit]])
    accepted: list[tuple[str, QueuedInput, Accepted]] = field(
        default_factory=list[tuple[str, QueuedInput, Accepted]]
    )
    refused: dict[str, int] = field(default_factory=dict[str, int])
    latest: int = NOW

    def note(self, batch: Batch, found: Commit | FornixError) -> None:
        """Keep what was answered to a batch."""
        if isinstance(found, Commit):
            self.answered.append((batch, found))
        else:
            kind = type(found).__name__
            self.refused[kind] = self.refused.get(kind, 0) + 1


PLAYED = 0.3
"""How much of what is played is about runs."""


def play_beside(store: Store, *, batches: int, seed: int) -> None:
    """Commit random batches to *store* and to a new `RamStore`, side by side.

    Fails at the first batch that they answer differently, and if they read differently at the end.
    Says less than `store_machine` tries, but says it at once.
    """
    model = RamStore()
    rng = Random(seed)
    player = Player(rng, NOW)
    pairs: list[tuple[int, int]] = [(0, 0)]
    game = LaneGame(store, model, pairs, [])
    latest = NOW
    for _ in range(batches):
        if rng.random() < PLAYED:
            game.play(rng, clock=player.clock, owner="one")
            continue
        batch = player.batch(model)
        latest = max(latest, player.clock)
        if rng.random() < 0.8:  # whoever runs a key keeps others out of its tree
            game.release(batch.scope)
        same = told_again(batch, of=model, on=store)
        theirs = answer(lambda batch=batch: model.commit(batch))
        base = batch.base and next(mine for mine, yours in reversed(pairs) if yours == batch.base)
        ours = answer(lambda batch=same, base=base: store.commit(replace(batch, base=base)))
        assert said(ours) == said(theirs), (batch, ours, theirs)
        new = isinstance(theirs, Commit) and not theirs.adopted
        if isinstance(ours, Commit) and isinstance(theirs, Commit) and new:
            pairs.append((ours.number, theirs.number))
    for each in (store, model):  # a store may sweep by itself, and the journal shows it
        each.sweep(now=latest)
    _compare(store, model, _some(len(pairs) - 1), now=latest)


def play_threads(store: Store, *, batches: int, threads: int, seed: int) -> Played:
    """Let *threads* commit *batches* random batches in all, each thread with its own clock.

    They also embed, touch, read and sweep what had expired by a commit that is already there.
    """
    share = [batches // threads + (i < batches % threads) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(_play, store, n, f"{seed}.{i}") for i, n in enumerate(share)]
        parts = [each.result() for each in work]
    whole = Played()
    for part in parts:
        whole.answered += part.answered
        whole.accepted += part.accepted
        whole.latest = max(whole.latest, part.latest)
        for kind, count in part.refused.items():
            whole.refused[kind] = whole.refused.get(kind, 0) + count
    return whole


def _play(store: Store, batches: int, name: str) -> Played:
    played, rng = Played(), Random(name)
    player = Player(rng, NOW)
    for _ in range(batches):
        if rng.random() < PLAYED:
            _run_one(store, rng, player.clock, name, played)
            continue
        batch = player.batch(store)
        played.latest = max(played.latest, player.clock)
        commit = answer(lambda batch=batch: store.commit(batch))
        played.note(batch, commit)
        if isinstance(commit, Commit) and rng.random() < 0.1:
            embed_some(store, limit=3)
            store.sweep(now=commit.time)
    return played


def _run_one(store: Store, rng: Random, clock: int, owner: str, played: Played) -> None:
    """Accept an input; if its key is free, do the next tasks of its lane and give it back."""
    scope, agent = rng.choice(SCOPES[:3]), rng.choice(AGENTS)
    given = QueuedInput(scope, f'"{owner}"', clock)
    if rng.random() < 0.5:
        given = replace(given, event_id=b"event %d" % rng.randrange(200), request=b"asked")
    accepted = store.accept(agent, [given], owner=owner)[0]
    played.accepted.append((agent, given, accepted))
    if accepted.lease is None:
        return
    lease = accepted.lease
    for run in store.queue(agent, lease.scope, limit=2):
        ordinal = len(store.steps(run.id))
        step = Step(run.id, ordinal, "greet", outputs=["1"], begin=Begin(clock, ()))
        base = store.head(lease.scope)
        state = [Put(("leaf",), rng.randrange(9))]
        # fmt: off
        first = Batch(
            scope=lease.scope, time=clock, run=step, epoch=lease.epoch, base=base, state=state,
        )
        # fmt: on
        last = replace(step, ordinal=ordinal + 1, outputs=["2"], sensory="1", done=True)
        second = replace(first, run=last, base=None, state=())
        for batch, commit in zip((first, second), store.commit_many([first, second]), strict=True):
            played.note(batch, commit)
    store.release(lease)


def replay(store: Store, played: Played) -> None:
    """Commit what was played again, in the order of its numbers, to a new `RamStore`; compare.

    Every batch must get the answer it got from *store*, and in the end both must answer every
    question alike, also about moments of the past.
    """
    model = RamStore()
    numbers, runs = {0: 0}, _accept_again(model, played.accepted)
    for batch, commit in _in_order(played.answered):
        base = None if batch.base is None else numbers[batch.base]
        same = told_again(replace(batch, base=base), of=store, on=model)
        again = _commit_again(model, same, runs)
        assert not again.adopted, batch
        assert again.time == commit.time, (batch, commit, again)
        assert wire.encode(again.result) == wire.encode(commit.result), (batch, commit, again)
        numbers[commit.number] = again.number
    _embed_as(store, model)
    for each in (store, model):
        each.sweep(now=played.latest)
    _compare(store, model, _some(len(numbers) - 1), now=played.latest)


def _accept_again(
    model: Store, accepted: Sequence[tuple[str, QueuedInput, Accepted]]
) -> dict[int, int]:
    """Accept inputs in the order of their runs; return the run that each became."""
    made = [each for each in accepted if not each[2].repeated]
    runs: dict[int, int] = {}
    for agent, given, was in sorted(made, key=lambda each: each[2].run or 0):
        again = model.accept(agent, [given])[0]
        assert again.number == was.number, (agent, given, was, again)
        assert was.run is not None
        assert again.run is not None
        runs[was.run] = again.run
    for agent, given, was in accepted:
        again = model.accept(agent, [given])[0] if given.event_id is not None else None
        assert again is None or again.run == runs[was.run or 0], (agent, given, was, again)
    return runs


def _commit_again(model: Store, batch: Batch, runs: Mapping[int, int]) -> Commit:
    """Commit a batch, under a lease if it was made under one."""
    if batch.run is None or batch.epoch is None:
        return model.commit(batch)
    lease = model.lease(batch.scope, "one")
    assert lease is not None
    told = replace(batch.run, run=runs[batch.run.run])
    try:
        return model.commit(replace(batch, run=told, epoch=lease.epoch))
    finally:
        model.release(lease)


def _compare(store: Store, model: Store, at: set[int], *, now: int) -> None:
    """Check that both answer every question alike, and that the change log leads there too."""
    found = differences(*(reads(each, now=now, at=at, scopes=SCOPES) for each in (store, model)))
    assert not found, "the store and RamStore differ:\n" + "\n".join(f[:2000] for f in found)
    follower = Follower()
    follower.catch_up(store)
    assert follower.agrees_with(store), "the change log leads elsewhere"


def _in_order(answered: Sequence[tuple[Batch, Commit]]) -> list[tuple[Batch, Commit]]:
    """Return what really was committed, by number; check that each number was given once."""
    made = sorted((pair for pair in answered if not pair[1].adopted), key=lambda p: p[1].number)
    numbers = [commit.number for _, commit in made]
    assert len(set(numbers)) == len(numbers), "two batches got one number"
    winners = {commit.number: batch for batch, commit in made}
    for batch, commit in answered:
        assert winners[commit.number].op == batch.op, "adopted from a batch of another name"
    return made


def _some(count: int) -> set[int]:
    """Return some moments of the past, as positions in commit order: reading takes time."""
    return {max(1, count * i // 10) for i in range(1, 11)} if count else set()


def _embed_as(store: Store, model: Store) -> None:
    """Embed in both what still waits: what was embedded meanwhile got the same vectors."""
    for each in (store, model):
        while waiting := each.pending(limit=1_000):
            each.embed([(p.set_number, p.row, vectors_of(p.text)) for p in waiting])

"""Batches that threads committed at the same time, replayed one by one on `RamStore`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random

from fornix import wire
from fornix.errors import FornixError
from fornix.store import Batch, Commit, Store
from fornix.stores.ram import RamStore
from fornix.testing.batches import NOW
from fornix.testing.play import SCOPES, Player, embed_some, vectors_of
from fornix.testing.reads import Follower, differences, reads


@dataclass
class Played:
    """What threads did to a store.

    Attributes:
        answered: Batches and the commits they got, adopted ones too, in no order.
        refused: How many batches each kind of error refused.
        latest: The latest time any of them used.
    """

    answered: list[tuple[Batch, Commit]] = field(default_factory=list[tuple[Batch, Commit]])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    latest: int = NOW


def play_beside(store: Store, *, batches: int, seed: int) -> None:
    """Commit random batches to *store* and to a new `RamStore`, side by side.

    Fails at the first batch that they answer differently, and if they read differently at the end.
    Says less than `store_machine` tries, but says it at once.
    """
    model = RamStore()
    player = Player(Random(seed), NOW)
    numbers: dict[int | None, int | None] = {None: None, 0: 0}
    latest = NOW
    for _ in range(batches):
        batch = player.batch(model)
        latest = max(latest, player.clock)
        theirs = _answer(model, batch)
        ours = _answer(store, replace(batch, base=numbers[batch.base]))
        assert _told(ours) == _told(theirs), (batch, ours, theirs)
        if isinstance(ours, Commit) and isinstance(theirs, Commit):
            numbers[theirs.number] = ours.number
    for each in (store, model):  # a store may sweep by itself, and the journal shows it
        each.sweep(now=latest)
    _compare(store, model, _some(len(numbers) - 2), now=latest)


def _answer(store: Store, batch: Batch) -> Commit | FornixError:
    try:
        return store.commit(batch)
    except FornixError as error:
        return error


def _told(answer: Commit | FornixError) -> tuple[object, ...]:
    if isinstance(answer, Commit):
        return answer.time, answer.adopted, wire.encode(answer.result)
    return (type(answer),)


def play_threads(store: Store, *, batches: int, threads: int, seed: int) -> Played:
    """Let *threads* commit *batches* random batches in all, each thread with its own clock.

    They also embed, touch, read and sweep what had expired by a commit that is already there.
    """
    share = [batches // threads + (i < batches % threads) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        runs = [pool.submit(_play, store, n, Random(f"{seed}.{i}")) for i, n in enumerate(share)]
        parts = [run.result() for run in runs]
    whole = Played()
    for part in parts:
        whole.answered += part.answered
        whole.latest = max(whole.latest, part.latest)
        for kind, count in part.refused.items():
            whole.refused[kind] = whole.refused.get(kind, 0) + count
    return whole


def _play(store: Store, batches: int, rng: Random) -> Played:
    played = Played()
    player = Player(rng, NOW)
    for _ in range(batches):
        batch = player.batch(store)
        played.latest = max(played.latest, player.clock)
        try:
            commit = store.commit(batch)
        except FornixError as error:
            kind = type(error).__name__
            played.refused[kind] = played.refused.get(kind, 0) + 1
            continue
        played.answered.append((batch, commit))
        if rng.random() < 0.1:
            embed_some(store, limit=3)
            store.sweep(now=commit.time)
    return played


def replay(store: Store, played: Played) -> None:
    """Commit what was played again, in the order of its numbers, to a new `RamStore`; compare.

    Every batch must get the answer it got from *store*, and in the end both must answer every
    question alike, also about moments of the past.
    """
    model = RamStore()
    numbers = {0: 0}
    for batch, commit in _in_order(played.answered):
        base = None if batch.base is None else numbers[batch.base]
        again = model.commit(replace(batch, base=base))
        assert not again.adopted, batch
        assert again.time == commit.time, (batch, commit, again)
        assert wire.encode(again.result) == wire.encode(commit.result), (batch, commit, again)
        numbers[commit.number] = again.number
    _embed_as(store, model)
    for each in (store, model):
        each.sweep(now=played.latest)
    _compare(store, model, _some(len(numbers) - 1), now=played.latest)


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

"""Forgetting at random, on a store and on `RamStore`, with the answers compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from random import Random
from typing import Any

from fornix.errors import FornixError
from fornix.store import Erased, Erasure, SetRef, Store
from fornix.testing.play import IDS, SCOPES


def forget_some(
    store: Store, model: Store, rng: Random, *, clock: int, runs: Mapping[int, int]
) -> tuple[int, int] | None:
    """Forget something on both; return the numbers of the commits, if there were any.

    Args:
        runs: The store's id of each run of the model.
    """
    erasure = _erasure(rng, clock)
    found, expected = _erased(store, erasure), _erased(model, erasure)
    if isinstance(found, FornixError) or isinstance(expected, FornixError):
        assert type(found) is type(expected), (erasure, found, expected)
        return None
    assert _told(found, {}) == _told(expected, runs), (erasure, found, expected)
    again = _erased(store, erasure)
    if not erasure.rehearse:
        assert isinstance(again, Erased)
        assert replace(again, marks=found.marks) == found or found.commit is None, "it was done"
    if found.commit is None or expected.commit is None:
        assert found.commit is expected.commit
        return None
    return found.commit, expected.commit


def _erasure(rng: Random, clock: int) -> Erasure:
    scope = rng.choice(SCOPES)
    receipt = f"{rng.getrandbits(64):016x}"
    rehearse = rng.random() < 0.2
    if scope.key is not None and rng.random() < 0.5:
        return Erasure(scope, clock, receipt, whole=True, rehearse=rehearse)
    names = ["notes", "no\0tes"]
    items = [(SetRef(scope, name), rng.sample(IDS, rng.choice((1, 2)))) for name in names]
    return Erasure(scope, clock, receipt, items=items[: rng.choice((1, 2))], rehearse=rehearse)


def _erased(store: Store, erasure: Erasure) -> Erased | FornixError:
    try:
        return store.erase(erasure)
    except FornixError as error:
        return error


def _told(erased: Erased, runs: Mapping[int, int]) -> dict[str, Any]:
    """Return what is the same in every store."""
    told = asdict(erased)
    told["open"] = sorted(runs.get(run, run) for run in erased.open)
    for name in ("commit", "sets", "puts"):
        told[name] = len(told[name]) if isinstance(told[name], (list, tuple)) else None
    told["counts"] = {kind: n for kind, n in erased.counts.items() if kind != "nodes"}
    return told

"""A store whose exact memory is read through the records that Flink's keyed state holds of it.

The records are evicted, and put back to what they were before, as a job does that is restored from
an old checkpoint: whatever they are, a read gives what the store has.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from typing import Any

from alveus.runs.runner.flink.hot_tree import HotRecords, HotTree
from alveus.store.sqlite import SqliteStore


class Cold:
    """The store itself, as a hot tree asks it."""

    def __init__(self, store: TieredStore) -> None:
        self._store = store

    def __getattr__(self, name):
        return getattr(super(TieredStore, self._store), name)


def cold(store: TieredStore) -> Any:  # it has what it is asked for
    return Cold(store)


class KeyedState:
    """The keyed state of a scope: what a checkpoint would hold, and the records made of it."""

    def __init__(self):
        self.texts = {}
        self.records = HotRecords()
        self.checkpoint = {}

    def flush(self):
        for name, text in self.records.drain().items():
            if text is None:
                self.texts.pop(name, None)
            else:
                self.texts[name] = text

    def disturb(self, dice):
        """Evict it, take a checkpoint, or go back to one."""
        match dice.randrange(12):
            case 0:
                self.texts, self.records = {}, HotRecords()
            case 1:
                self.checkpoint = dict(self.texts)
            case 2:
                self.texts = dict(self.checkpoint)
                self.records = HotRecords(self.texts.items())
            case 3:  # the worker was restarted where it was
                self.records = HotRecords(self.texts.items())


class TieredStore(SqliteStore):
    """All keys in SQLite, those that are read in records, too."""

    def _tiers(self):
        if "tiers" not in vars(self):
            vars(self)["tiers"] = (threading.RLock(), random.Random(1), defaultdict(KeyedState))
        return vars(self)["tiers"]

    def _read(self, name, scope, path, *, at, now):
        lock, dice, states = self._tiers()
        if at is not None:
            return getattr(super(), name)(scope, path, at=at, now=now)
        with lock:
            state = states[scope]
            state.disturb(dice)
            found = getattr(HotTree(cold(self), scope, 0, state.records), name)(path, now)
            state.flush()
            return found

    def node(self, scope, path, *, at, now):
        return self._read("node", scope, path, at=at, now=now)

    def children(self, scope, path, *, at, now):
        return self._read("children", scope, path, at=at, now=now)

    def few_fields(self, scope, path, *, at, most):
        found = dict(self.children(scope, path, at=at, now=0))
        return None if len(found) > most else found

    def field_names(self, scope, path, *, at, now):
        return self._read("field_names", scope, path, at=at, now=now)

    def names_in_range(self, scope, path, chosen, *, at, now):
        if at is not None:
            return super().names_in_range(scope, path, chosen, at=at, now=now)
        lock, dice, states = self._tiers()
        with lock:
            state = states[scope]
            state.disturb(dice)
            tree = HotTree(cold(self), scope, 0, state.records)
            found = tree.names_in_range(path, chosen, now)
            state.flush()
            return found

    def commit(self, batch):
        if not batch.state:
            return super().commit(batch)
        lock, dice, states = self._tiers()
        with lock:
            state = states[batch.scope]
            tree = HotTree(cold(self), batch.scope, 0, state.records)
            before = tree.head()
            tree.node((), batch.time)
            commit = super().commit(batch)
            if not commit.adopted and batch.base == before and dice.randrange(4):
                tree.apply(batch.state, commit.number)
            state.flush()
            return commit

    def sweep(self, **settings):
        """Sweep, and evict all: until then keyed state has what expired, in no read of it."""
        lock, _, states = self._tiers()
        with lock:
            states.clear()
            return super().sweep(**settings)

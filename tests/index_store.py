"""A made-up store for tests of the index, and everything that an index can be asked."""

from __future__ import annotations

import random
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from alveus.errors import Unavailable
from alveus.search.index import (
    Index,
    SetIndex,
    catalog,
    column_filters,
    segment,
    set_index,
    set_loader,
    vectors,
)
from alveus.store import Feature, FeatureChange, SearchView
from alveus.store.filters import Filter
from alveus.values import wire

DIMENSIONS = 24
TERMS = range(1, 12)
FILTERS = [
    {"topic": "travel"},
    {"topic": {"ne": "travel"}, "n": {"gte": 3}},
    {"n": {"in": [1, 2, "x", None]}},
    {"n": {"nin": [1, 2]}},
    {"n": {"gt": 2**53}},
    {"topic": {"gt": "f"}},
    {"topic": {"lte": "food"}},
    {"tags": {"contains": "x"}},
    {"deep.er": True},
    {"topic": {"exists": False}},
    {"any": [{"$speaker": "Ada"}, {"not": {"$time": {"gt": "1970-01-01T00:00:00.000005+00:00"}}}]},
    {"$time": {"nin": ["1970-01-01T00:00:00.000002+00:00"]}},
    {"$session": {"contains": "1"}},
    {"$role": {"exists": False}, "$importance": {"lt": 0.7}},
    {"$importance": {"ne": 10**400}, "$id": {"gt": "i5"}},
    {"$speaker": {"in": ["Ada", "Eve"]}, "n": {"ne": 1.5}},
    {"$importance": {"contains": 1}},
    {"$id": {"in": ["i3", "i7", "i30", "nobody's"]}},
    {"$id": {"in": [f"i{number}" for number in range(30)]}},
    {"all": []},
    {"any": []},
    {"tags": {"in": [["y"], ["z"]]}, "deep": {"eq": {"er": 1}}},
    {"n": {"nin": [[1]]}},
    {"$value": {"contains": "2"}},
    {"$value.n": {"gte": 1}, "$id": {"ne": "i4"}},
    {"any": [{"$value.own": {"eq": [1]}}, {"$value.n": {"exists": False}}]},
    {"not": {"$value.n": 0}},
]


def value_of_row(row):
    """What the item of a row holds; none of it is among its features."""
    return f"text {row}" if row % 7 == 0 else {"n": row % 3, "own": [row % 2]}


def read_values(rows):
    return {row: value_of_row(row) for row in rows}


class Store:
    """A Finder over a dict, whose log may be cut short; makes up the changes as well."""

    def __init__(self, seed=0, dimensions=DIMENSIONS):
        self.dimensions = dimensions
        self.random = random.Random(seed)
        self.sets = {}
        self.log = []
        self.last_row = 0
        self.log_floor = 0
        self.broken = False
        self.swaps = True

    def seq(self):
        return len(self.log)

    def search_view(self, sets, cached):
        return SearchView(self.seq(), [])

    def sync(self):
        pass

    def changes(self, since, *, limit=10_000):
        return None if since < self.log_floor else self.log[since : since + limit]

    def features(self, set_number, *, after=0, at=None):
        rows = self.sets.get(set_number, {})
        return iter([f for row, f in sorted(rows.items()) if row > after and f.end_commit is None])

    def features_of(self, set_number, rows):
        if self.broken:
            raise Unavailable
        known = self.sets.get(set_number, {})
        return [known[row] for row in rows if row in known]

    def live(self, number=1):
        return list(self.features(number))

    def _note(self, number, row, kind):
        self.log.append(FeatureChange(len(self.log) + 1, number, row, kind))

    def _put(self, feature, number):
        self.sets.setdefault(number, {})[feature.row] = feature
        self._note(number, feature.row, "added")

    def vectors(self):
        windows = self.random.choice([0, 1, 1, 1, 2, 3])
        values = [self.random.randint(-127, 127) for _ in range(windows * self.dimensions)]
        return np.array(values, np.int8).tobytes()

    def feature(self, first=None, item_id=None):
        r = self.random
        self.last_row += r.choice([1, 1, 2])
        found = sorted(r.sample(TERMS, r.randint(0, 5)))
        metadata = {
            name: value
            for name, value in {
                "topic": r.choice(["travel", "food", "work", "élan", 7]),
                "n": r.choice([0, 1, 1.0, 2, 3.5, True, None, "x", 2**53 + 1, 10**30, [1]]),
                "tags": r.choice([["x", 1], ["y"], "xyz", {"x": 1}, b"x"]),
                "deep": r.choice([{"er": True}, {"er": 1}, 3]),
            }.items()
            if r.random() < 0.7
        }
        return Feature(
            row=self.last_row,
            first=first or self.last_row,
            id=item_id or f"i{self.last_row}",
            begin_commit=1,
            end_commit=None,
            time=r.randint(0, 9),
            importance=r.choice([0.0, 0.1, 0.7, 1.0]),
            speaker=r.choice(["Ada", "Bob", None]),
            role=r.choice(["user", None]),
            session=r.choice(["s1", "s2", "s3", None]),
            metadata=wire.encode(metadata),
            terms=np.array(found, "<u4").tobytes() + bytes(r.randint(1, 255) for _ in found),
            tokens=len(found),
            temporal=r.randint(0, 3),
            vectors=self.vectors() if r.random() < 0.8 else None,
        )

    def change(self, number=1):
        """Make one random change."""
        kinds = ["add"] * 4 + ["end", "replace", "embed", "forget", "swap"]
        kind = self.random.choice(kinds if self.live(number) else ["add"])
        getattr(self, f"_{kind}")(number)

    def _one(self, number):
        return self.random.choice(self.live(number))

    def _add(self, number):
        self._put(self.feature(), number)

    def _end(self, number, feature=None):
        feature = feature or self._one(number)
        self.sets[number][feature.row] = feature._replace(end_commit=9)
        self._note(number, feature.row, "ended")

    def _forget(self, number):
        feature = self._one(number)
        del self.sets[number][feature.row]
        self._note(number, feature.row, "removed")

    def _replace(self, number):
        old = self._one(number)
        self._end(number, old)
        new = self.feature(first=old.first, item_id=old.id)
        if self.random.random() < 0.7:
            new = new._replace(time=old.time, session=old.session)
        self._put(new, number)

    def _embed(self, number):
        feature = self._one(number)
        if feature.vectors is None:
            self.embed_anew(feature, self.vectors(), number)

    def _swap(self, number):
        """All vectors make place for those of another embedder, or for none yet."""
        if self.swaps and self.random.random() < 0.2:
            for feature in self.live(number):
                vectors = self.random.choice([None, feature.vectors, self.vectors()])
                self.embed_anew(feature, vectors, number)

    def embed_anew(self, feature, vectors, number=1):
        self.sets[number][feature.row] = feature._replace(vectors=vectors)
        self._note(number, feature.row, "embedded")


def own_of(feature):
    return {
        "$id": feature.id,
        "$importance": feature.importance,
        "$role": feature.role,
        "$session": feature.session,
        "$speaker": feature.speaker,
        "$time": feature.time,
        "$value": value_of_row(feature.row),
    }


QUERIES = np.random.default_rng(5).standard_normal((3, DIMENSIONS)).astype(np.float32)


def answers(index):
    """Everything an index says, in terms of ids."""
    live = np.flatnonzero(index.alive).astype(np.int32)
    ids = {int(doc): index.id(int(doc)) for doc in live}

    def named(docs):
        return sorted(ids[int(doc)] for doc in docs)

    def neighbours(links):
        return {ids[int(doc)]: ids.get(int(links[doc])) for doc in live}

    def postings(term):
        docs, counts = index.postings(term)
        assert (np.diff(docs) > 0).all()
        return dict(zip([ids[int(doc)] for doc in docs], counts.tolist(), strict=True))

    names = [index.speakers, index.roles]
    return {
        "figures": (index.live, index.tokens, index.pending, index.exact, index.dimensions),
        "names": [{name for name in some if name} for some in names],
        "docs": {
            ids[int(doc)]: (
                int(index.row[doc]),
                int(index.first[doc]),
                int(index.time[doc]),
                float(index.importance[doc]),
                int(index.length[doc]),
                int(index.temporal[doc]),
                index.speakers[index.speaker[doc]] if index.speaker[doc] >= 0 else None,
                index.roles[index.role[doc]] if index.role[doc] >= 0 else None,
                bool(index.session[doc] >= 0),
            )
            for doc in live
        },
        "postings": {term: postings(term) for term in TERMS},
        "frequencies": [index.frequency(term) for term in TERMS],
        "cosines": [
            dict(zip(ids.values(), index.cosines(q)[live].tolist(), strict=True)) for q in QUERIES
        ],
        "some": [
            dict(zip(ids.values(), index.cosines(q, live).tolist(), strict=True)) for q in QUERIES
        ],
        "nearest": [named(index.nearest(q, 4)) for q in QUERIES],
        "allowed": [named(index.nearest(q, 3, allowed=index.length > 2)) for q in QUERIES],
        "previous": neighbours(index.previous),
        "next": neighbours(index.next),
        "masks": [
            named(np.flatnonzero(index.mask(Filter.parse(where), read_values))) for where in FILTERS
        ],
    }


def fresh(store, number=1):
    return SetIndex.build(store.live(number), dimensions=store.dimensions)


TINY = [
    (set_index, "EXACT", 20),
    (set_index, "CHUNK", 16),
    (set_index, "FLAT", 24),
    (set_index, "SCANS", 3),
    (vectors, "WIDE", 24),
    (vectors, "STEP", 8),
    (vectors, "BLOCK", 16),
    (vectors, "RARE", 3),
    (vectors, "SAMPLE", 8),
    (column_filters, "FEW", 2),
    (column_filters, "MANY", 3),
    (column_filters, "DECODED", 4),
    (column_filters, "VALUES", 4),
    (column_filters, "REMEMBERED", 2),
    (set_loader, "LARGE", 25),
    (set_loader, "BLOCK", 16),
    (set_loader, "CHUNK", 7),
    (set_loader, "REMEMBERED", 3),
    (segment, "BLOCK_BYTES", 64),
    (set_loader, "BLOCK_BYTES", 64),
    (catalog, "OFTEN_MEASURED", 3),
    (catalog, "HOLES", 5),
    (catalog, "WAITING", 12),
]
"""Every size past which something else happens, so small that a test gets there."""


@contextmanager
def sizes(kind):
    with pytest.MonkeyPatch.context() as patch:
        for module, name, size in TINY if kind == "tiny" else []:
            patch.setattr(module, name, size)
        yield


BURSTS = st.lists(st.sampled_from([1, 1, 1, 2, 5, 30]), max_size=12)

each_size = pytest.mark.parametrize("kind", ["usual", "tiny"])


def viewed(index, store, number=1):
    return index.read([number], dimensions=store.dimensions, work=lambda sets: answers(sets[0]))


def catalog_of(store, folder, **options):
    return Index(store, folder=folder and Path(folder), salt=b"one", **options)

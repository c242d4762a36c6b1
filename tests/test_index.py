"""The index: every answer is the same, whether it grew change by change or was built at once."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fornix import wire
from fornix.filters import Filter
from fornix.index import (
    Index,
    SetIndex,
    bits,
    catalog,
    fields,
    sealer,
    sealing,
    segment,
    setindex,
    terms,
    vectors,
)
from fornix.index.upkeep import apply
from fornix.store import Change, Feature

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
]


class Store:
    """A Finder over a dict, whose log may be cut short; makes up the changes as well."""

    def __init__(self, seed=0, dimensions=DIMENSIONS):
        self.dimensions = dimensions
        self.random = random.Random(seed)
        self.sets = {}
        self.log = []
        self.last_row = 0
        self.log_floor = 0

    def seq(self):
        return len(self.log)

    def changes(self, since, *, limit=10_000):
        return None if since < self.log_floor else self.log[since : since + limit]

    def features(self, set_number, *, after=0, at=None):
        rows = self.sets.get(set_number, {})
        return iter([f for row, f in sorted(rows.items()) if row > after and f.ended is None])

    def features_of(self, set_number, rows):
        known = self.sets.get(set_number, {})
        return [known[row] for row in rows if row in known]

    def live(self, number=1):
        return list(self.features(number))

    def _note(self, number, row, kind):
        self.log.append(Change(len(self.log) + 1, number, row, kind))

    def _put(self, feature, number):
        self.sets.setdefault(number, {})[feature.row] = feature
        self._note(number, feature.row, "added")

    def _end(self, feature, number):
        self.sets[number][feature.row] = replace(feature, ended=9)
        self._note(number, feature.row, "ended")

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
            begun=1,
            ended=None,
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
        live = self.live(number)
        kind = self.random.choice(["add"] * 4 + ["end", "replace", "embed", "forget"])
        if kind == "add" or not live:
            self._put(self.feature(), number)
            return
        feature = self.random.choice(live)
        if kind == "end":
            self._end(feature, number)
        elif kind == "forget":
            del self.sets[number][feature.row]
            self._note(number, feature.row, "removed")
        elif kind == "replace":
            self._end(feature, number)
            new = self.feature(first=feature.first, item_id=feature.id)
            if self.random.random() < 0.7:
                new = replace(new, time=feature.time, session=feature.session)
            self._put(new, number)
        elif feature.vectors is None:
            self.sets[number][feature.row] = replace(feature, vectors=self.vectors())
            self._note(number, feature.row, "embedded")


def own_of(feature):
    return {
        "$id": feature.id,
        "$importance": feature.importance,
        "$role": feature.role,
        "$session": feature.session,
        "$speaker": feature.speaker,
        "$time": feature.time,
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
        "masks": [named(np.flatnonzero(index.mask(Filter.parse(w)))) for w in FILTERS],
    }


def fresh(store, number=1):
    return SetIndex.build(store.live(number), dimensions=store.dimensions)


TINY = [
    (setindex, "EXACT", 20),
    (setindex, "CHUNK", 16),
    (terms, "FLAT", 24),
    (terms, "PATIENCE", 3),
    (vectors, "WIDE", 24),
    (vectors, "STEP", 8),
    (vectors, "BLOCK", 16),
    (bits, "BLOCK", 16),
    (bits, "RARE", 3),
    (bits, "SAMPLE", 8),
    (fields, "FEW", 2),
    (fields, "MANY", 3),
    (fields, "DECODED", 4),
    (fields, "REMEMBERED", 2),
    (sealing, "LARGE", 25),
    (sealing, "BLOCK", 16),
    (sealer, "BLOCK", 16),
    (sealer, "CHUNK", 7),
    (sealer, "REMEMBERED", 3),
    (segment, "BLOCK_BYTES", 64),
    (sealer, "BLOCK_BYTES", 64),
    (catalog, "OFTEN_MEASURED", 3),
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


@each_size
@given(seed=st.integers(0, 10**6), bursts=BURSTS)
def test_grown_and_built_at_once_say_the_same(kind, seed, bursts):
    """Adding, ending, replacing, embedding, forgetting, in any order and in bursts of any size."""
    with sizes(kind):
        store = Store(seed)
        grown = fresh(store)
        seen = 0
        for burst in bursts:
            for _ in range(burst):
                store.change()
            apply(store.log[seen:], grown, store, 1)
            seen = len(store.log)
            assert answers(grown) == answers(fresh(store))


@each_size
@given(seed=st.integers(0, 10**6))
def test_answers_are_those_of_plain_python(kind, seed):
    """Masks are `Filter.matches`, neighbours are sorted, cosines are divided dot products."""
    with sizes(kind):
        store = Store(seed)
        for _ in range(60):
            store.change()
        index = fresh(store)
        live = store.live()
        found = answers(index)
        for where, ids in zip(FILTERS, found["masks"], strict=True):
            asked = Filter.parse(where)
            assert ids == sorted(
                f.id for f in live if asked.matches(wire.decode(f.metadata), own_of(f))
            )
        for session in {f.session for f in live} - {None}:
            said = sorted((f.time, f.first, f.id) for f in live if f.session == session)
            order = [item_id for _, _, item_id in said]
            before = [None, *order[:-1]]
            assert [found["previous"][item_id] for item_id in order] == before
            assert [found["next"][item_id] for item_id in before[1:]] == order[1:]
        for term in TERMS:
            assert found["postings"][term] == {f.id: n for f in live if (n := count(f, term))}
        for number, query in enumerate(QUERIES):
            for feature in live:
                assert abs(found["cosines"][number][feature.id] - cosine(feature, query)) < 2e-3
            assert found["some"][number] == found["cosines"][number]
            assert found["nearest"][number] == nearest(live, query, 4)
            long = [f for f in live if f.tokens > 2]
            assert found["allowed"][number] == nearest(long, query, 3)


def count(feature, term):
    number = len(feature.terms) // 5
    hashes = np.frombuffer(feature.terms[: 4 * number], "<u4").tolist()
    return feature.terms[4 * number + hashes.index(term)] if term in hashes else 0


def rows(feature):
    return np.frombuffer(feature.vectors or b"", np.int8).reshape(-1, DIMENSIONS).astype(float)


def cosine(feature, query):
    lengths = [np.linalg.norm(row) * np.linalg.norm(query) for row in rows(feature)]
    products = rows(feature) @ query.astype(float)
    return max((p / n if n else 0.0 for p, n in zip(products, lengths, strict=True)), default=0.0)


def nearest(features, query, limit):
    far = [
        (min(((row > 0) != (query > 0)).sum() for row in rows(f)), f.row, f.id)
        for f in features
        if f.vectors
    ]
    return sorted(item_id for _, _, item_id in sorted(far)[:limit])


# --- the catalog ------------------------------------------------------------------------------


def viewed(index, store, number=1):
    return index.read([number], dimensions=store.dimensions, work=lambda sets: answers(sets[0]))


@each_size
@given(seed=st.integers(0, 10**6), bursts=BURSTS, keep=st.booleans(), data=st.data())
def test_the_catalog_says_what_the_store_holds(kind, seed, bursts, keep, data):
    """In RAM, from a sealed file, after a restart, a lost change log, a drop, or a tidying."""
    with sizes(kind), TemporaryDirectory() as folder:
        store = Store(seed)
        index = catalog_of(store, folder if keep else None)
        for burst in bursts:
            number = data.draw(st.sampled_from([1, 1, 1, 2]))
            for _ in range(burst):
                store.change(number)
            assert viewed(index, store, number) == answers(fresh(store, number))
            match data.draw(st.sampled_from(["", "", "restart", "cut", "drop", "tidy", "clear"])):
                case "restart":
                    index = catalog_of(store, folder if keep else None)
                case "cut":
                    store.log_floor = len(store.log)
                case "drop":
                    index.drop(number)
                case "tidy":
                    index.tidy(dimensions=store.dimensions)
                case "clear":
                    index.clear()
                case _:
                    pass
        for number in (2, 1):
            assert viewed(index, store, number) == answers(fresh(store, number))


def catalog_of(store, folder, **options):
    return Index(store, folder=folder and Path(folder), salt=b"one", **options)

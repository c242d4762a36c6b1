"""The index: every answer is the same, whether it grew change by change or was built at once."""

from __future__ import annotations

import math
import random
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus.errors import Unavailable
from alveus.search.index import catalog, set_index, vectors
from alveus.search.index.set_loader import Outdated, apply
from alveus.store import Finder
from alveus.store.filters import Filter
from alveus.values import wire
from alveus.values.storable import Value
from index_store import (
    BURSTS,
    DIMENSIONS,
    FILTERS,
    QUERIES,
    TERMS,
    Store,
    answers,
    catalog_of,
    each_size,
    fresh,
    own_of,
    sizes,
    viewed,
)
from scale import COUNTS
from waiting import rounds


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
            try:
                apply(store.log[seen:], grown, cast("Finder", store), 1)
            except Outdated:  # vectors took the place of others
                grown = fresh(store)
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
            assert asked is not None
            assert ids == sorted(
                f.id
                for f in live
                if asked.matches(cast("dict[str, Value]", wire.decode(f.metadata)), own_of(f))
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


@each_size
@given(
    seed=st.integers(0, 10**6),
    bursts=BURSTS,
    keep=st.booleans(),
    budget=st.sampled_from([1 << 28, 9_000, 1]),
    data=st.data(),
)
def test_the_catalog_says_what_the_store_holds(kind, seed, bursts, keep, budget, data):
    """In RAM, from a sealed file, after a restart, a lost change log, a drop, or a tidying.

    Beyond the budget from files without a name.
    """
    with sizes(kind), TemporaryDirectory() as folder:
        store = Store(seed)
        options = {"budget_bytes": budget}
        index = catalog_of(store, folder if keep else None, **options)
        happenings = {
            "nothing": lambda: index,
            "restart": lambda: catalog_of(store, folder if keep else None, **options),
            "cut": lambda: setattr(store, "log_floor", len(store.log)) or index,
            "drop": lambda: index.drop(number) or index,
            "tidy": lambda: index.tidy(dimensions=store.dimensions) * 0 or index,
            "clear": lambda: index.clear() or index,
        }
        for burst in bursts:
            number = data.draw(st.sampled_from([1, 1, 1, 2]))
            for _ in range(burst):
                store.change(number)
            assert viewed(index, store, number) == answers(fresh(store, number))
            index = happenings[data.draw(st.sampled_from(sorted(happenings)))]()
        for number in (2, 1):
            assert viewed(index, store, number) == answers(fresh(store, number))


def test_sets_beyond_the_budget_are_let_go():
    """The least recently used first; those in use never, even if one alone exceeds the budget."""
    store = Store(7)
    for number in range(1, 9):
        for _ in range(30):
            store.change(number)
    one_set = catalog_of(store, None)
    viewed(one_set, store)
    budget = one_set.stats().bytes * 3
    index = catalog_of(store, None, budget_bytes=budget)
    for number in [*range(1, 9), 1, 2, 8, 1]:
        assert viewed(index, store, number) == answers(fresh(store, number))
        assert index.stats().bytes <= budget
        assert number in index._entries
    tight = catalog_of(store, None, budget_bytes=1)
    with tight.view([3, 1, 2], dimensions=DIMENSIONS) as three:
        with tight.view([4], dimensions=DIMENSIONS):
            pass
        assert [one.id(0)[0] for one in three] == ["i", "i", "i"]
        assert set(tight._entries) == {1, 2, 3}
    assert tight.stats().bytes == 0


class LookedAt(OrderedDict):
    """Counts how often one of its values is looked at."""

    count = 0

    def values(self):
        for value in super().values():
            self.count += 1
            yield value

    def items(self):
        for item in super().items():
            self.count += 1
            yield item


def test_a_search_looks_at_no_sets_but_its_own_and_those_that_have_to_go():
    """However many are loaded, changed, and beyond the budget."""
    store = Store(7)
    for number in range(1, 41):
        for _ in range(5):
            store._put(store.feature(), number)
    whole = catalog_of(store, None)
    tight = catalog_of(store, None)
    for number in range(1, 41):
        for index in (whole, tight):
            assert viewed(index, store, number) == answers(fresh(store, number))
    tight._budget_bytes = tight.stats().bytes - 1
    looked_at = [LookedAt(index._entries) for index in (whole, tight)]
    whole._entries, tight._entries = looked_at
    for number in range(30, 41):
        store._put(store.feature(), number)
        for index in (whole, tight):
            assert viewed(index, store, number) == answers(fresh(store, number))
    assert looked_at[0].count == 0
    assert looked_at[1].count <= 11 * 3
    for index in (whole, tight):
        assert index._bytes == sum(entry.nbytes for entry in dict(index._entries).values())
    assert tight.stats().bytes <= tight._budget_bytes


def test_what_a_set_keeps_from_its_use_counts():
    store = Store(7)
    for _ in range(300):
        store.change()
    index = catalog_of(store, None)
    with index.view([1], dimensions=DIMENSIONS):
        pass
    small = index.stats().bytes
    for _ in range(catalog.SELDOM):
        viewed(index, store)
    assert index.stats().bytes > small + 1_000


def test_a_log_that_went_back_is_not_believed():
    """As after a restore: all is read anew."""
    store = Store(1)
    for _ in range(50):
        store.change()
    index = catalog_of(store, None)
    viewed(index, store)
    other = Store(2)
    for _ in range(20):
        other.change()
    store.sets, store.log = other.sets, other.log[:10]
    assert viewed(index, store) == answers(fresh(store))


def test_rows_that_come_late_are_taken_in_their_place():
    """A commit that became visible after one with higher rows."""
    store = Store(1)
    for _ in range(20):
        store.change()
    late = store.feature()
    index = catalog_of(store, None)
    store.change()
    while store.last_row == late.row or store.live()[-1].row < late.row:
        store.change()
    viewed(index, store)
    store._put(late, 1)
    assert viewed(index, store) == answers(fresh(store))
    with index.view([1], dimensions=DIMENSIONS) as (one,):
        assert one.row.tolist() == sorted(one.row.tolist())


def searching(store, index, seed):
    """Search random sets; return what a view held and should not have, or should have held."""
    choice = random.Random(seed)
    for _ in rounds(COUNTS.contention_s):
        numbers = choice.sample([1, 2, 3], choice.randint(1, 3))
        least = [store.added[number] for number in numbers]
        with index.view(numbers, dimensions=DIMENSIONS) as sets:
            found = [one.live for one in sets]
            held = [len(answers(one)["docs"]) for one in sets]
        most = [store.added[number] for number in numbers]
        bounds = zip(least, found, most, strict=True)
        if held != found or not all(low <= live <= high for low, live, high in bounds):
            return numbers, least, found, held, most
    return None


def committing(store, index, seed):
    choice = random.Random(seed)
    for _ in rounds(COUNTS.contention_s):
        store.add(choice.choice([1, 2, 3]))
        if choice.random() < 0.02:
            index.drop(choice.choice([1, 2, 3]))
            index.tidy(dimensions=DIMENSIONS)


@each_size
def test_threads_search_while_others_commit(kind, tmp_path):
    """Each view holds at least what was committed before it, and no more than after."""
    with sizes(kind), ThreadPoolExecutor(6) as pool:
        store = Locked(1)
        index = catalog_of(store, tmp_path / "index", budget_bytes=10_000)
        searches = [pool.submit(searching, store, index, seed) for seed in range(4)]
        pool.submit(committing, store, index, 9).result()
        assert [one.result() for one in searches] == [None] * 4
        for number in (1, 2, 3):
            assert viewed(index, store, number) == answers(fresh(store, number))


class Locked(Store):
    """A store that threads share, and that only grows. *added* never says more than is there."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lock = threading.Lock()
        self.added = {1: 0, 2: 0, 3: 0}

    def add(self, number):
        with self.lock:
            self._put(self.feature(), number)
            self.added[number] += 1

    def changes(self, since, *, limit=10_000):
        with self.lock:
            return super().changes(since, limit=limit)

    def features(self, set_number, *, after=0, at=None):
        with self.lock:
            return super().features(set_number, after=after, at=at)


def test_a_store_that_fails_midway_leaves_nothing_half_done():
    """Changes that could not be read are not taken for done."""
    store = Store(1)
    for _ in range(20):
        store.change()
    index = catalog_of(store, None)
    viewed(index, store)
    for _ in range(10):
        store.change()
    store.broken = True
    with pytest.raises(Unavailable):
        viewed(index, store)
    store.broken = False
    assert viewed(index, store) == answers(fresh(store))


# --- figures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 24, 384, 1024, 1536, 4096])
def test_cosines_do_not_depend_on_how_they_are_summed(dimensions):
    """Bit for bit: of one doc, of all, of some, and computed in whole numbers."""
    generator = np.random.default_rng(dimensions)
    store = Store(1, dimensions)
    kinds = [np.full(dimensions, -128), np.full(dimensions, 127), np.zeros(dimensions)]
    kinds += [generator.integers(-127, 128, dimensions) for _ in range(40)]
    for kind in kinds:
        row = kind.astype(np.int8).tobytes()
        store._put(store.feature()._replace(vectors=row), 1)
    index = fresh(store)
    query = generator.standard_normal(dimensions).astype(np.float32)
    whole, norm = vectors.quantised(query)
    assert np.abs(whole.astype(np.int64)).sum() * 128 < vectors.EXACT_F32
    every = index.cosines(query)
    shuffled = generator.permutation(index.size).astype(np.int32)
    assert index.cosines(query, shuffled).tolist() == every[shuffled].tolist()
    for doc, kind in enumerate(kinds):
        ints = kind.astype(np.int8).astype(int).tolist()
        product = sum(a * int(b) for a, b in zip(ints, whole, strict=True))
        length = math.sqrt(sum(a * a for a in ints))
        assert every[doc] == (product / (length * norm) if length else 0.0)
        assert index.cosines(query, np.array([doc], np.int32))[0] == every[doc]


@pytest.mark.parametrize("query", [np.zeros(DIMENSIONS), np.full(DIMENSIONS, np.nan)])
def test_a_query_without_direction_is_near_to_nothing(query):
    store = Store(1)
    for _ in range(30):
        store.change()
    index = fresh(store)
    assert not index.cosines(query.astype(np.float32)).any()
    assert not index.cosines(query.astype(np.float32), np.arange(5, dtype=np.int32)).any()


def test_vectors_of_another_width_wait_to_be_made_anew():
    """Those of another embedder are as good as none."""
    store = Store(1)
    for vectors_of in (bytes(DIMENSIONS + 1), bytes([1]) * DIMENSIONS, None, b""):
        store._put(store.feature()._replace(vectors=vectors_of), 1)
    index = fresh(store)
    assert index.pending == 2
    feature = store.live()[0]
    index.embedded(feature)
    assert index.pending == 2
    index.embedded(feature._replace(vectors=bytes([1]) * DIMENSIONS))
    assert index.pending == 1


def test_the_nearest_are_found_however_distances_lie():
    """Also where those that the first guess looks at are all far, or all the same."""
    far = np.full(vectors.SAMPLE * 4, 300, np.uint16)
    owner = np.arange(len(far), dtype=np.int32)
    near = far.copy()
    near[::4] = 10
    assert vectors.nearest(near, owner, 5).tolist() == [0, 4, 8, 12, 16]
    near[::4] = 5
    near[1::4] = 200
    near[1::4][:50] = 100
    many = vectors.SAMPLE + 50
    assert vectors.nearest(near, owner, many).tolist() == sorted(
        [*range(0, len(far), 4), *range(1, 200, 4)]
    )
    assert vectors.nearest(far, owner, 3).tolist() == [0, 1, 2]
    assert vectors.nearest(far[:5], owner[:5], 9).tolist() == [0, 1, 2, 3, 4]
    pairs = np.arange(len(far), dtype=np.int32) // 2
    halves = [*range(0, len(far) // 2, 2), *range(1, 100, 2)]
    assert vectors.nearest(near, pairs, many).tolist() == sorted(halves)


def test_one_view_holds_several_sets_in_the_order_asked():
    store = Store(5)
    for number in (1, 2, 3):
        for _ in range(number * 10):
            store.change(number)
    index = catalog_of(store, None)
    with index.view([3, 1, 2, 3, 99], dimensions=DIMENSIONS) as sets:
        assert [one.live for one in sets] == [len(store.live(n)) for n in (3, 1, 2, 3, 99)]
        assert sets[0] is sets[3]


def test_postings_whose_grouping_fails_are_as_they_were(monkeypatch) -> None:
    """As where an interrupt comes: an entry that counted twice would rank its document too high."""
    made = set_index.SetPostings()
    hashes = np.arange(40_000, dtype=np.uint32) % 7
    docs, counts = np.arange(40_000, dtype=np.int32), np.ones(40_000, np.uint8)
    made.extend(hashes, docs, counts)

    def fails() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(set_index, "_no_entries", fails)
        with pytest.raises(KeyboardInterrupt):
            made._merge()
    made._merge()
    assert made._grouped is not None
    assert len(made._grouped.docs) == 40_000

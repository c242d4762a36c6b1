"""The index: every answer is the same, whether it grew change by change or was built at once."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fornix import wire
from fornix.errors import Unavailable
from fornix.filters import Filter
from fornix.index import (
    Damaged,
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
from scale import COUNTS

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
        self.broken = False

    def seq(self):
        return len(self.log)

    def changes(self, since, *, limit=10_000):
        return None if since < self.log_floor else self.log[since : since + limit]

    def features(self, set_number, *, after=0, at=None):
        rows = self.sets.get(set_number, {})
        return iter([f for row, f in sorted(rows.items()) if row > after and f.ended is None])

    def features_of(self, set_number, rows):
        if self.broken:
            raise Unavailable
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


def catalog_of(store, folder, **options):
    return Index(store, folder=folder and Path(folder), salt=b"one", **options)


@each_size
@given(seed=st.integers(0, 10**6), bursts=BURSTS, keep=st.booleans(), data=st.data())
def test_the_catalog_says_what_the_store_holds(kind, seed, bursts, keep, data):
    """In RAM, from a sealed file, after a restart, a lost change log, a drop, or a tidying."""
    with sizes(kind), TemporaryDirectory() as folder:
        store = Store(seed)
        index = catalog_of(store, folder if keep else None)
        happenings = {
            "nothing": lambda: index,
            "restart": lambda: catalog_of(store, folder if keep else None),
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


@pytest.fixture
def sealed(monkeypatch, tmp_path):
    """A store whose one set is large, and the folder its sealed file is in."""
    for module, name, size in TINY:
        monkeypatch.setattr(module, name, size)
    store = Store(3)
    for _ in range(200):
        store.change()
    folder = tmp_path / "index"
    assert viewed(catalog_of(store, folder), store) == answers(fresh(store))
    assert [path.name for path in folder.iterdir()] == ["1.seg"]
    return store, folder


def opened(store, folder):
    """Whether the sealed file was taken as it was."""
    with catalog_of(store, folder).view([1], dimensions=store.dimensions) as (one,):
        return bool(one.sealed) and one.size > one.sealed - 1


def test_a_sealed_set_and_its_tail_answer_as_one(sealed, monkeypatch):
    """Nearest, cosines, postings, masks over both, change by change and after a restart."""
    store, folder = sealed
    monkeypatch.setattr(catalog, "OVERGROWN", 9.0)
    before = (folder / "1.seg").stat()
    index = catalog_of(store, folder)
    for _ in range(60):
        store.change()
        if store.random.random() < 0.4:
            assert viewed(index, store) == answers(fresh(store))
    assert viewed(catalog_of(store, folder), store) == answers(fresh(store))
    assert (folder / "1.seg").stat().st_ino == before.st_ino
    index.tidy(dimensions=store.dimensions)
    assert viewed(index, store) == answers(fresh(store))
    with index.view([1], dimensions=store.dimensions) as (one,):
        assert one.sealed == one.size
    assert (folder / "1.seg").stat().st_ino != before.st_ino
    assert index.tidy(dimensions=store.dimensions) == 0


def test_a_tail_past_its_share_is_sealed_at_once(sealed):
    store, folder = sealed
    index = catalog_of(store, folder)
    for _ in range(90):
        store.change()
        with index.view([1], dimensions=store.dimensions) as (one,):
            changed = one.size - one.sealed + one.size - one.live
            assert changed <= catalog.OVERGROWN * one.sealed


def test_sealed_files_are_for_their_owner_alone(sealed):
    _, folder = sealed
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "1.seg").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("when", ["before it is opened", "after it was opened"])
def test_garbage_anywhere_in_a_sealed_file_changes_no_answer(sealed, when):
    """One byte, a piece, a missing end: it is noticed, and made anew from the store."""
    store, folder = sealed
    path = folder / "1.seg"
    whole = path.read_bytes()
    wanted = answers(fresh(store))
    noise = random.Random(1)
    for number in range(COUNTS.fuzz_examples):
        path.unlink(missing_ok=True)
        path.write_bytes(whole)
        index = catalog_of(store, folder)
        if when == "after it was opened":
            with index.view([1], dimensions=store.dimensions) as (one,):
                assert one.sealed
        start = noise.randrange(len(whole))
        with path.open("r+b") as file:
            file.seek(start)
            if number % 3 == 0 and when == "before it is opened":
                file.truncate()
            else:
                size = noise.choice([1, 1, 60, 5000])
                old = whole[start : start + size]
                file.write(bytes(byte ^ noise.randint(1, 255) for byte in old))
        assert viewed(index, store) == wanted
        assert viewed(catalog_of(store, folder), store) == wanted


def test_damage_shows_while_it_is_read(sealed):
    """A bare view raises it, once; what is damaged is gone after that."""
    store, folder = sealed
    index = catalog_of(store, folder)
    with index.view([1], dimensions=store.dimensions) as (one,):
        assert one.sealed
    path = folder / "1.seg"
    path.write_bytes(path.read_bytes()[:4096].ljust(path.stat().st_size, b"x"))
    with (
        pytest.raises(Damaged, match=r"1\.seg: block \d+ of .* is damaged"),
        index.view([1], dimensions=store.dimensions) as (one,),
    ):
        answers(one)
    assert viewed(index, store) == answers(fresh(store))


@pytest.mark.parametrize("figure", ["store", "set_number", "dimensions", "seq", "version"])
def test_a_file_of_something_else_is_not_taken(sealed, figure, monkeypatch):
    """Of another store, set, embedder, of a later change log, or written by another fornix."""
    store, folder = sealed
    path = folder / "1.seg"
    if figure == "version":
        monkeypatch.setattr(segment, "FORMAT", 2)
    else:
        other = {"store": bytes(16), "set_number": 2, "dimensions": 8, "seq": 10**9}[figure]
        header = path.read_bytes()[: segment.HEADER.size]
        at, length, _ = segment.HEADER.unpack(header)[-3:]
        directory = path.read_bytes()[at : at + length]
        identity = replace(segment.Segment(path).identity, **{figure: other})
        with path.open("r+b") as file:
            file.write(segment._header(identity, at, directory))
    before = path.read_bytes()
    assert viewed(catalog_of(store, folder), store) == answers(fresh(store))
    assert path.read_bytes() != before


def test_a_store_put_back_to_an_earlier_state_takes_no_later_file(sealed):
    """Its log has the length of the file's again, and other contents."""
    store, folder = sealed
    other = Store(4)
    while other.seq() < store.seq() or len(other.live()) < sealing.LARGE:
        other.change()
    assert viewed(catalog_of(other, folder), other) == answers(fresh(other))
    renamed = {
        row: replace(f, id=f"{f.id}x") for row, f in other.sets[1].items()
    }  # the same rows and log, other items
    other.sets[1] = renamed
    assert viewed(catalog_of(other, folder), other) == answers(fresh(other))


def test_a_process_killed_before_the_rename_leaves_nothing_that_counts(sealed):
    store, folder = sealed
    (folder / "1.seg").rename(folder / "1.new")  # as far as the killed process came
    with (folder / "1.new").open("r+b") as file:
        file.truncate(5000)
    assert viewed(catalog_of(store, folder), store) == answers(fresh(store))
    assert [path.name for path in folder.iterdir()] == ["1.seg"]
    assert opened(store, folder)


DIES_AT_THE_RENAME = """
import os, sys
from pathlib import Path
import numpy as np
from fornix.index.segment import Identity, SegmentWriter
Path.rename = lambda *_: os._exit(9)
with SegmentWriter(Path(sys.argv[1])) as writer:
    writer.add("x", np.arange(9))
    writer.finish(Identity(bytes(16), 1, 2, 3), {})
"""


def test_a_process_that_dies_while_it_seals(sealed):
    """Killed at the rename: its lock goes with it, and the next one seals."""
    store, folder = sealed
    (folder / "1.seg").unlink()
    code = subprocess.run(
        [sys.executable, "-c", DIES_AT_THE_RENAME, str(folder / "1.seg")], check=False
    ).returncode
    assert code == 9
    assert [path.name for path in folder.iterdir()] == ["1.new"]
    assert viewed(catalog_of(store, folder), store) == answers(fresh(store))
    assert [path.name for path in folder.iterdir()] == ["1.seg"]


def test_while_another_process_seals_a_set_stays_in_ram(sealed, caplog):
    store, folder = sealed
    (folder / "1.seg").unlink()
    with segment.SegmentWriter(folder / "1.seg"):
        index = catalog_of(store, folder)
        assert viewed(index, store) == answers(fresh(store))
        assert "stays in RAM" in caplog.text
        store.change()
        assert viewed(index, store) == answers(fresh(store))
    assert not list(folder.iterdir())
    assert index.tidy(dimensions=store.dimensions) == 1
    assert opened(store, folder)


def test_a_lock_that_was_waited_for_is_not_taken_for_the_file(tmp_path):
    """A file that was renamed between opening and locking is a live one: another is made."""
    path = tmp_path / "1.seg"
    with segment.SegmentWriter(path) as first:
        first.add("x", np.arange(5))
        first.finish(segment.Identity(bytes(16), 1, 2, 3), {})
        with segment.SegmentWriter(path) as second:
            second.add("x", np.arange(3))
        assert segment.Segment(path).copy("x").tolist() == [0, 1, 2, 3, 4]


def test_a_folder_that_cannot_be_written_is_done_without(sealed, caplog):
    store, folder = sealed
    (folder / "1.seg").unlink()
    folder.rmdir()
    folder.write_text("in the way")
    index = catalog_of(store, folder / "below")
    assert viewed(index, store) == answers(fresh(store))
    assert "stays in RAM" in caplog.text


def test_a_file_that_can_be_neither_read_nor_removed_is_done_without(sealed, caplog):
    store, folder = sealed
    (folder / "1.seg").unlink()
    (folder / "1.seg").mkdir()
    index = catalog_of(store, folder)
    assert viewed(index, store) == answers(fresh(store))
    assert "cannot be removed" in caplog.text
    index.clear()
    assert viewed(index, store) == answers(fresh(store))


def test_drop_leaves_no_file_and_clear_leaves_it(sealed):
    store, folder = sealed
    index = catalog_of(store, folder)
    viewed(index, store)
    assert index.stats().segments == 1
    assert index.stats().segment_bytes == (folder / "1.seg").stat().st_size
    index.clear()
    assert index.stats().sets == 0
    assert (folder / "1.seg").exists()
    viewed(index, store)
    index.drop(1)
    assert not (folder / "1.seg").exists()
    viewed(index, store)
    catalog_of(store, folder).drop_all()
    assert not list(folder.iterdir())


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


def test_what_a_set_keeps_from_its_use_counts():
    store = Store(7)
    for _ in range(300):
        store.change()
    index = catalog_of(store, None)
    with index.view([1], dimensions=DIMENSIONS):
        pass
    small = index.stats().bytes
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


def search_until(stop, store, index, seed):
    """Search random sets; return what a view held and should not have, or should have held."""
    choice = random.Random(seed)
    while time.monotonic() < stop:
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


def commit_until(stop, store, index, seed):
    choice = random.Random(seed)
    while time.monotonic() < stop:
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
        stop = time.monotonic() + COUNTS.contention_s
        searches = [pool.submit(search_until, stop, store, index, seed) for seed in range(4)]
        pool.submit(commit_until, stop, store, index, 9).result()
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


def test_damage_found_while_changes_are_taken_in(sealed, monkeypatch):
    store, folder = sealed
    monkeypatch.setattr(catalog, "OVERGROWN", 9.0)
    index = catalog_of(store, folder)
    with index.view([1], dimensions=store.dimensions):
        pass
    path = folder / "1.seg"
    path.write_bytes(path.read_bytes()[:4096].ljust(path.stat().st_size, b"x"))
    while store.log[-1].kind != "ended":
        store.change()
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
        store._put(replace(store.feature(), vectors=row), 1)
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
        store._put(replace(store.feature(), vectors=vectors_of), 1)
    index = fresh(store)
    assert index.pending == 2
    feature = store.live()[0]
    index.embedded(feature)
    assert index.pending == 2
    index.embedded(replace(feature, vectors=bytes([1]) * DIMENSIONS))
    assert index.pending == 1


def test_without_an_embedder_there_are_words_only(sealed):
    store, folder = sealed
    store.dimensions = 0
    found = viewed(catalog_of(store, folder), store)
    assert found == answers(fresh(store))
    assert not any(found["nearest"])
    assert not any(any(values.values()) for values in found["cosines"])


def test_the_nearest_are_found_however_distances_lie():
    """Also where those that the first guess looks at are all far, or all the same."""
    far = np.full(bits.SAMPLE * 4, 300, np.uint16)
    owner = np.arange(len(far), dtype=np.int32)
    near = far.copy()
    near[::4] = 10
    assert bits.nearest(near, owner, 5).tolist() == [0, 4, 8, 12, 16]
    near[::4] = 5
    near[1::4] = 200
    near[1::4][:50] = 100
    many = bits.SAMPLE + 50
    assert bits.nearest(near, owner, many).tolist() == sorted(
        [*range(0, len(far), 4), *range(1, 200, 4)]
    )
    assert bits.nearest(far, owner, 3).tolist() == [0, 1, 2]
    assert bits.nearest(far[:5], owner[:5], 9).tolist() == [0, 1, 2, 3, 4]
    pairs = np.arange(len(far), dtype=np.int32) // 2
    halves = [*range(0, len(far) // 2, 2), *range(1, 100, 2)]
    assert bits.nearest(near, pairs, many).tolist() == sorted(halves)


def test_one_view_holds_several_sets_in_the_order_asked():
    store = Store(5)
    for number in (1, 2, 3):
        for _ in range(number * 10):
            store.change(number)
    index = catalog_of(store, None)
    with index.view([3, 1, 2, 3, 99], dimensions=DIMENSIONS) as sets:
        assert [one.live for one in sets] == [len(store.live(n)) for n in (3, 1, 2, 3, 99)]
        assert sets[0] is sets[3]

"""Sealed files: whatever happens to them, every answer is that of the store."""

from __future__ import annotations

import errno
import fcntl
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from alveus import Memory
from alveus.memory.opening import index_for
from alveus.search.index import Damaged, catalog, segment, set_loader
from alveus.search.index.arrays import SpillFolder
from index_store import TINY, Store, answers, catalog_of, fresh, viewed
from scale import COUNTS


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
    store.swaps = False
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
    store.swaps = False
    index = catalog_of(store, folder)
    for _ in range(90):
        store.change()
        with index.view([1], dimensions=store.dimensions) as (one,):
            changed = one.size - one.sealed + one.size - one.live
            assert changed <= catalog.OVERGROWN * one.sealed


@pytest.mark.parametrize("new", ["others", "none yet"])
def test_vectors_that_take_the_place_of_others(sealed, new):
    """As after a change of embedder: none of the old ones is left in any answer."""
    store, folder = sealed
    index = catalog_of(store, folder)
    before = viewed(index, store)
    for feature in store.live():
        vectors_now = store.vectors() if new == "others" else None
        store.embed_anew(feature, vectors_now)
    assert viewed(index, store) == answers(fresh(store))
    assert viewed(catalog_of(store, folder), store)["cosines"] != before["cosines"]
    assert viewed(catalog_of(store, folder), store) == answers(fresh(store))


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
    """Of another store, set, embedder, of a later change log, or written by another alveus."""
    store, folder = sealed
    path = folder / "1.seg"
    if figure == "version":
        monkeypatch.setattr(segment, "FORMAT", segment.FORMAT + 1)
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
    while other.seq() < store.seq() or len(other.live()) < set_loader.LARGE:
        other.change()
    assert viewed(catalog_of(other, folder), other) == answers(fresh(other))
    renamed = {
        row: f._replace(id=f"{f.id}x") for row, f in other.sets[1].items()
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
from alveus.search.index.segment import Identity, SegmentWriter
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


def test_a_file_that_was_put_in_its_place_meanwhile_is_not_written_to(tmp_path, monkeypatch):
    """Another process may rename what this one has just opened, before it has the lock."""
    path = tmp_path / "1.seg"
    lock = fcntl.flock

    def finished_by_another(number, how):
        lock(number, how)
        if not path.exists():
            (tmp_path / "1.new").write_text("what the other one wrote")
            (tmp_path / "1.new").rename(path)

    monkeypatch.setattr(fcntl, "flock", finished_by_another)
    with segment.SegmentWriter(path):
        assert path.read_text() == "what the other one wrote"
    assert path.read_text() == "what the other one wrote"


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


def test_what_is_forgotten_is_so_though_the_file_cannot_be_removed(sealed, caplog):
    """The file is not used again; removing it is left to a scrub, which says who hinders it."""
    store, folder = sealed
    index = catalog_of(store, folder)
    viewed(index, store)
    (folder / "1.seg").unlink()
    (folder / "1.seg").mkdir()
    index.drop(1)
    assert "cannot be removed" in caplog.text
    assert viewed(index, store) == answers(fresh(store))


def test_a_reader_uses_the_file_and_leaves_it_alone(sealed):
    """What may not write has a sealed file's answers, and neither renews it nor removes it."""
    store, folder = sealed
    (path,) = folder.iterdir()
    before = path.read_bytes()
    reader = catalog_of(store, folder, writable=False)
    with reader.view([1], dimensions=store.dimensions) as (one,):
        assert one.sealed
    for _ in range(200):
        store.change()
    assert viewed(reader, store) == answers(fresh(store))
    reader.tidy(dimensions=store.dimensions)
    assert path.read_bytes() == before
    path.write_bytes(before[:-1])
    assert viewed(catalog_of(store, folder, writable=False), store) == answers(fresh(store))
    assert path.read_bytes() == before[:-1]
    path.unlink()
    assert viewed(catalog_of(store, folder, writable=False), store) == answers(fresh(store))
    assert not list(folder.iterdir())


# --- sets that take more RAM than all may -----------------------------------------------------


def test_columns_beyond_the_budget_are_read_once(sealed, monkeypatch):
    """They stay in files without a name, and grow there, until the set is no longer in use."""
    store, folder = sealed
    store.swaps = False
    reads = counted(monkeypatch, segment.Segment, "copy")
    index = catalog_of(store, folder, budget_bytes=between(store, folder))
    monkeypatch.setattr(catalog, "OVERGROWN", 9.0)
    names = sorted(path.name for path in folder.iterdir())
    del reads[:]
    for _ in range(6):
        assert viewed(index, store) == answers(fresh(store))
        store.change()
    names_read = [name for _, name in reads]
    assert len(names_read) > 10
    assert len(set(names_read)) == len(names_read)
    assert index.stats().sets == 1
    assert sorted(path.name for path in folder.iterdir()) == names


def between(store, folder):
    """A budget that the set, which is made larger, exceeds with its columns in RAM, and only so."""
    for _ in range(400):
        store._add(1)
    index = catalog_of(store, folder)
    viewed(index, store)
    index.tidy(dimensions=store.dimensions)
    with catalog_of(store, folder).view([1], dimensions=store.dimensions) as (one,):
        answers(one)
        in_ram = one.nbytes
        one.spill(SpillFolder())
        one.cache.clear()
        assert answers(one) == answers(fresh(store))
        assert one.nbytes < in_ram - 15_000
        return in_ram - 7_000


def counted(monkeypatch, owner, name):
    """Note each call of a method, with its arguments."""
    calls, method = [], getattr(owner, name)

    def noted(*arguments, **named):
        calls.append(arguments)
        return method(*arguments, **named)

    monkeypatch.setattr(owner, name, noted)
    return calls


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_large_set_without_a_file_is_made_once(sealed, monkeypatch, has_folder):
    """A process that may write no file, or has no place for one, has it without a name."""
    store, folder = sealed
    store.swaps = False
    seals = counted(monkeypatch, set_loader, "seal")
    below = folder / "below" if has_folder else None
    index = catalog_of(store, below, writable=not has_folder, budget_bytes=1)
    for _ in range(5):
        assert viewed(index, store) == answers(fresh(store))
        assert index.stats().sets == 0, "all of it is beyond the budget"
        store.change()
    assert len(seals) == 1
    with index.view([1], dimensions=store.dimensions) as (one,):
        assert one.sealed
    assert not folder.joinpath("below").exists()
    index.drop(1)
    viewed(index, store)
    assert len(seals) == 2
    index.join(store)
    index.leave(store)
    viewed(index, store)
    assert len(seals) == 3


def test_a_large_set_without_a_named_file_counts_as_unsealed(sealed):
    """Others would have to make it anew."""
    store, folder = sealed
    index = catalog_of(store, folder / "below", writable=False, budget_bytes=600 * 26)
    viewed(index, store)
    with index.view([1], dimensions=store.dimensions) as (one,):
        assert one.sealed
    assert index.stats().unsealed == 1


def test_a_set_that_fits_needs_no_file(sealed):
    """What the budget has room for is in RAM, where nothing may be written."""
    store, folder = sealed
    index = catalog_of(store, folder / "below", writable=False)
    with index.view([1], dimensions=store.dimensions) as (one,):
        assert not one.sealed


def test_a_full_disk_leaves_columns_in_ram(sealed, monkeypatch, caplog):
    """Answers are those of the store, whether it is full at once or when a column grows."""
    store, folder = sealed
    store.swaps = False
    budget = between(store, folder)
    monkeypatch.setattr(catalog, "OVERGROWN", 9.0)
    index, other = (catalog_of(store, folder, budget_bytes=budget) for _ in range(2))
    assert viewed(other, store) == answers(fresh(store))
    monkeypatch.setattr(SpillFolder, "array", no_space)
    assert viewed(index, store) == answers(fresh(store))
    assert "read again at each search" in caplog.text
    for _ in range(40):  # nothing is forgotten: that would give the columns up
        store._add(1)
    assert viewed(other, store) == answers(fresh(store))
    assert "goes back to RAM" in caplog.text


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_damaged_file_without_a_name_is_made_anew(sealed):
    """It may turn out to be damaged as any file may."""
    store, _ = sealed
    index = catalog_of(store, None, budget_bytes=1)
    viewed(index, store)
    made = index._sealed._nameless[1]
    made._checks = made._checks + 1
    assert viewed(index, store) == answers(fresh(store))
    assert index._sealed._nameless[1] is not made


def test_a_damaged_file_of_others_is_given_up_for_good(sealed):
    """Only others may remove it: a file without a name takes its place."""
    store, folder = sealed
    index = catalog_of(store, folder, writable=False, budget_bytes=1)
    path = folder / "1.seg"
    with index.view([1], dimensions=store.dimensions) as (one,):
        assert one.sealed
    path.write_bytes(path.read_bytes()[:4096].ljust(path.stat().st_size, b"x"))
    for _ in range(4):
        assert viewed(index, store) == answers(fresh(store))
    assert 1 in index._sealed._unusable
    assert index._sealed._nameless


def test_what_others_forgot_stays_in_no_file_without_a_name(sealed, monkeypatch):
    store, folder = sealed
    index = catalog_of(store, folder / "below", writable=False, budget_bytes=1)
    viewed(index, store)
    made = index._sealed._nameless[1]
    for _ in range(2):
        store._forget(1)
        assert viewed(index, store) == answers(fresh(store))
        assert index._sealed._nameless[1] is not made
        made = index._sealed._nameless[1]
    monkeypatch.setattr(catalog, "OVERGROWN", 9.0)
    kept = catalog_of(store, folder, budget_bytes=between(store, folder))
    with kept.view([1], dimensions=store.dimensions) as (one,):
        first = one
    while not first.spilled:
        store.swaps = False
        store.change()
        with kept.view([1], dimensions=store.dimensions) as (one,):
            first = one
    store._forget(1)
    with kept.view([1], dimensions=store.dimensions) as (one,):
        assert one is not first
    assert viewed(kept, store) == answers(fresh(store))


def test_what_is_for_ram_alone_is_in_no_file(sealed, monkeypatch):
    store, _ = sealed
    monkeypatch.setattr(SpillFolder, "array", lambda *_: pytest.fail("a column is in a file"))
    monkeypatch.setattr(set_loader, "seal", lambda *_, **__: pytest.fail("a set is in a file"))
    index = catalog_of(store, None, budget_bytes=1, in_files=False)
    for _ in range(3):
        assert viewed(index, store) == answers(fresh(store))
        store.change()


@pytest.mark.parametrize("in_ram", [True, False])
def test_an_index_is_in_files_where_its_store_is(tmp_path, in_ram):
    place = ":memory:" if in_ram else tmp_path / "memory.db"
    with Memory.open(place, embedder="words", cache_bytes=0) as memory:
        index = index_for(memory.store, dimensions=0, budget_bytes=0)
        assert index._in_files is not in_ram


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
    catalog_of(store, folder).drop(1)
    assert not list(folder.iterdir())


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


def test_without_an_embedder_there_are_words_only(sealed):
    store, folder = sealed
    store.dimensions = 0
    found = viewed(catalog_of(store, folder), store)
    assert found == answers(fresh(store))
    assert not any(found["nearest"])
    assert not any(any(values.values()) for values in found["cosines"])

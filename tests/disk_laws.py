"""What must hold of a store whatever a loss of power left of its files."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import apsw

from alveus.errors import AlveusError
from alveus.search.index.segment import Damaged, Segment
from alveus.store.sqlite import SqliteStore
from disk_log import Note, Op, Write
from disk_scenarios import Work
from disk_states import kept_all, states

FRAME_HEADER = 24

EACH = 4
"""States that are made of one cut."""


class Laws:
    """Opens states of one recorded work, and compares them with what had been acknowledged.

    Args:
        folder: Where states are written; best in RAM.
    """

    def __init__(self, work: Work, folder: Path) -> None:
        self._work, self._ops = work, work.log.ops
        self._folder = folder
        self._notes = [n for n, op in enumerate(self._ops) if isinstance(op, Note)]
        self._known: dict[int, bytes] = {}

    def try_states(self, count: int, *, seed: str) -> int:
        """Try that many distinct states, or as many as there are; return how many.

        Raises:
            AssertionError: A law is broken; says how to make the state again, and where it is.
        """
        tried: set[bytes] = set()
        for cut, files, told in islice(self._states(count, seed), 8 * count):
            digest = _digest_of(files, self._floor(cut))
            if digest in tried:
                continue
            tried.add(digest)
            try:
                self._try(cut, files)
            except (AssertionError, AlveusError, Damaged, apsw.Error) as error:
                self.write(files)
                raise AssertionError(self._describe(seed, cut, told, error)) from error
            if len(tried) == count:
                break
        return len(tried)

    def _states(self, count: int, seed: str) -> Iterator[tuple[int, dict[str, bytes], list[str]]]:
        chance = random.Random(seed)
        ends = [n + 1 for n in self._notes]  # the moments right after something was acknowledged
        for turn in range(8):
            some = chance.choices(range(1, len(self._ops) + 1), k=count // EACH + 1)
            cuts = sorted(chance.choice([cut, chance.choice(ends)]) for cut in some)
            for cut, files, loss in states(
                self._work.log, seed=f"{seed} {turn}", cuts=cuts, each=EACH
            ):
                yield cut, files, [loss.seed, *loss.told]

    def _describe(self, seed: str, cut: int, told: list[str], error: Exception) -> str:
        floor = self._floor(cut)
        op = self._ops[floor - 1] if floor else None
        lines = [
            f"seed {seed!r}: power was lost before op {cut} of {len(self._ops)}",
            f"{cut - floor} after {op.text if isinstance(op, Note) else 'the beginning'!r}",
            f"{type(error).__name__}: {error}",
            f"the files are in {self._folder}; of what was not synced they hold",
            *told,
        ]
        return "\n  ".join(lines)

    # --- one state ------------------------------------------------------------------------------

    def write(self, files: dict[str, bytes]) -> Path:
        """Write a state; return where the store is in it."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        for path, data in files.items():
            place = self._folder / path
            if path.endswith("/"):
                place.mkdir(exist_ok=True)
            else:
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(data)
        return self._folder / self._work.path.name

    def _try(self, cut: int, files: dict[str, bytes]) -> None:
        self._check_copies(cut, files)
        self._check_gone(cut, files)
        path = self.write(files)
        known = [sealed_at(place) for place in path.parent.glob("*/index/*.seg")]
        if path.name not in files:
            assert not self._floor(cut), "the store itself is missing"
            return
        with closing(SqliteStore.open(path)) as store:
            assert store.problems() == []
            assert max(known, default=0) <= store.seq(), "a side file is ahead of the store"
            self._check_receipts(store, files)
            found = self._dump(path)
            assert store.put_note("after", "the loss", expected=None)
        assert self._is_allowed(found, cut), "it is as the store was at no moment that it may be of"

    def _check_copies(self, cut: int, files: dict[str, bytes]) -> None:
        for name, (since, data) in self._work.copies.items():
            if cut >= since:
                assert files.get(name) == data, f"{name} is lost"
            else:
                assert files.get(name) in (None, data), f"{name} is there in part"

    def _check_gone(self, cut: int, files: dict[str, bytes]) -> None:
        for canaries, since in self._work.forgotten.values():
            if since is not None and cut >= since:
                _refuse(canaries, files)

    def _check_receipts(self, store: SqliteStore, files: dict[str, bytes]) -> None:
        for receipt, (canaries, _) in self._work.forgotten.items():
            kept = store.receipt(receipt)
            if kept is not None and kept.state == "scrubbed":
                _refuse(canaries, files)

    # --- what it may be -------------------------------------------------------------------------

    def _floor(self, cut: int) -> int:
        """Return behind which op all is acknowledged at a cut."""
        return max((n + 1 for n in self._notes if n < cut), default=0)

    def _is_allowed(self, found: bytes, cut: int) -> bool:
        """Return whether that is the store as it was at a moment after the last acknowledged one.

        With durability="normal": at any moment.
        """
        last = next((n + 1 for n in self._notes if n >= cut), len(self._ops))
        first = self._floor(cut) if self._work.durability == "full" else 0
        if not self._floor(cut):
            return True  # whatever can be opened
        likely = [self._floor(cut), last, *(n + 1 for n in self._notes if first <= n < last)]
        likely += [n + 2 for n in range(first, last - 1) if _commits(self._ops[n])]
        return any(self._at(n) == found for n in [*likely, *range(last, first - 1, -1)])

    def _at(self, cut: int) -> bytes:
        """Return what the store holds if at this moment only its process had died."""
        if cut not in self._known:
            path = self.write(kept_all(self._work.log, cut))
            with closing(SqliteStore.open(path)):
                self._known[cut] = self._dump(path)
        return self._known[cut]

    def _dump(self, path: Path) -> bytes:
        """Return a digest of all rows; a normal store may lose even its salt, if it is new."""
        return dump(path, without="salt" if self._work.durability == "normal" else "")


def _commits(op: Op) -> bool:
    """Return whether it is what comes before the last page of a commit in a write-ahead log.

    It says where to look first; what is missed here is found later.
    """
    return isinstance(op, Write) and len(op.data) == FRAME_HEADER and op.data[4:8] != bytes(4)


def _refuse(canaries: list[bytes], files: dict[str, bytes]) -> None:
    for path, data in files.items():
        for canary in canaries:
            assert canary not in data, f"{canary!r} was forgotten and is in {path}"


def dump(path: Path, *, without: str) -> bytes:
    """Return a digest of all rows of all tables, but for one note."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        tables = [name for (name,) in db.execute(names)]
        rows = {name: db.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}  # noqa: S608 - ours
    rows["note"] = [row for row in rows["note"] if row[0] != without]
    return _digest(rows)


def _digest(value: object) -> bytes:
    return blake2b(repr(value).encode(), digest_size=16).digest()


def _digest_of(files: dict[str, bytes], floor: int) -> bytes:
    digest = blake2b(b"%d" % floor, digest_size=16)
    for path, data in files.items():
        digest.update(b"%s %d " % (path.encode(), len(data)) + data)
    return digest.digest()


def sealed_at(path: Path) -> int:
    """Return which line of the change log a file of the index is of; assert that it is whole."""
    segment = Segment(path)
    for section in segment._sections.values():
        segment.check_bytes(section.name, 0, section.nbytes)
    return segment.identity.seq

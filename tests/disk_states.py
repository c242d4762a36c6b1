"""What a disk may hold after a loss of power: states made of a log of what it was told.

Assumed of the disk, as SQLite assumes it (https://sqlite.org/atomiccommit.html, section 2, and
SQLITE_IOCAP_POWERSAFE_OVERWRITE, which SQLite's VFS for Unix reports):

- What was synced stays: a sync of a file keeps its contents and its size, a sync of a folder the
  names in it. A sync of a file says nothing of its name.
- A sector of 512 bytes is written whole or not at all, and no byte outside of a write changes.
- A rename happens or does not.

Nothing else: of what was not synced, any part may be there, of all files and folders together.
Writes may be torn, a later one may be there without an earlier one, a file may have grown without
the bytes that were written there (then it has zeros or garbage), a truncation may be missing, a new
file may have no name, a removed one may be back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from disk_log import (
    DiskLog,
    Note,
    Op,
    Rename,
    Sync,
    SyncFolder,
    Tree,
    Truncate,
    Write,
    rename,
    truncate,
    write,
)

SECTOR = 512


@dataclass
class Disk:
    """What a disk surely holds, and what it was told since without having been made to keep it."""

    durable: Tree
    unsynced: dict[int, list[Op]] = field(default_factory=dict[int, list[Op]])

    @classmethod
    def before(cls, log: DiskLog) -> Disk:
        """Return the disk as it was when the log began."""
        folders = {node: dict(log.before.folders.get(node, {})) for node in log.now.folders}
        return cls(Tree(folders, {n: bytearray(data) for n, data in log.before.files.items()}))

    def take(self, op: Op) -> None:
        """Have the disk told the next thing."""
        match op:
            case Write() | Truncate():
                self.unsynced.setdefault(op.file, []).append(op)
            case Rename():
                self.unsynced.setdefault(op.folder, []).append(op)
            case Sync():
                data = self.durable.files.setdefault(op.file, bytearray())
                for change in self.unsynced.pop(op.file, ()):
                    _apply(data, change)
            case SyncFolder():
                for change in self.unsynced.pop(op.folder, ()):
                    assert isinstance(change, Rename)
                    rename(self.durable, change)
            case Note():
                pass

    def state(self, choose: Choose) -> dict[str, bytes]:
        """Return files by path, with what *choose* keeps of unsynced changes; folders end in /."""
        tree = Tree({node: dict(names) for node, names in self.durable.folders.items()})
        for folder in sorted(tree.folders):
            for op in choose.names(folder, self.unsynced.get(folder, ())):
                rename(tree, op)
        found: dict[str, bytes] = {}
        for path, node in tree.paths():
            if node in tree.folders:
                found[f"{path}/"] = b""
                continue
            data = bytearray(self.durable.files.get(node, b""))
            choose.contents(path, data, self.unsynced.get(node, ()))
            found[path] = bytes(data)
        return found


def _apply(data: bytearray, op: Op) -> None:
    match op:
        case Write():
            write(data, op.offset, op.data)
        case Truncate():
            truncate(data, op.size)
        case _:
            raise AssertionError(op)


# --- what is kept -------------------------------------------------------------------------------


class Choose:
    """Keeps everything: what is there after the death of a process."""

    def names(self, folder: int, ops: Sequence[Op]) -> list[Rename]:
        """Return what is kept of the changes to a folder."""
        return [op for op in ops if isinstance(op, Rename)]

    def contents(self, path: str, data: bytearray, ops: Sequence[Op]) -> None:
        """Apply what is kept of the changes to a file."""
        for op in ops:
            _apply(data, op)


class Loss(Choose):
    """Loses at random, the same for the same seed; says what it kept.

    Attributes:
        seed: Makes the same again.
        told: What was kept of each file and folder of which something could be lost.
    """

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._chance = random.Random(seed)
        self._whole = self._chance.choices(["", "none", "all"], [8, 1, 1])[0]
        self._garbage = self._chance.random() < 0.5
        self.told: list[str] = []

    def _way(self, ways: str) -> str:
        return self._whole or self._chance.choice(ways.split())

    def names(self, folder: int, ops: Sequence[Op]) -> list[Rename]:
        """See `Choose`."""
        if not ops:
            return []
        some = [op for op in ops if isinstance(op, Rename)]
        match self._way("none all first some"):
            case "none":
                kept = []
            case "all":
                kept = some
            case "first":
                kept = some[: self._chance.randrange(len(some) + 1)]
            case _:
                kept = [op for op in some if self._chance.random() < 0.5]
        said = [f"{op.old or ''}>{op.new or ''}" for op in kept]
        self.told.append(f"folder {folder}: {len(kept)} of {len(some)} names: {' '.join(said)}")
        return kept

    def contents(self, path: str, data: bytearray, ops: Sequence[Op]) -> None:
        """See `Choose`."""
        if not ops:
            return
        way = self._way("none all first but_one last some some torn grown")
        kept = _WAYS[way](ops, self._chance)
        for number in sorted(kept):
            self._part(data, ops[number], kept[number])
        if way == "grown":
            whole = bytearray(data)
            for op in ops:
                _apply(whole, op)
            self._fill(data, len(whole))
        said = " ".join(f"{n}" if share == 1 else f"{n}:{share:.1f}" for n, share in kept.items())
        self.told.append(f"{path}: {way}, {len(kept)} of {len(ops)} changes: {said}")

    def _part(self, data: bytearray, op: Op, share: float) -> None:
        """Apply a change; of a write only some sectors, if it is torn."""
        if not isinstance(op, Write):
            _apply(data, op)
            return
        self._fill(data, op.offset)
        if share == 1:
            _apply(data, op)
            return
        for start, piece in _sectors(op):
            if self._chance.random() < share:
                self._fill(data, start)
                write(data, start, piece)

    def _fill(self, data: bytearray, size: int) -> None:
        """Extend a file to a size without what was to be written there."""
        missing = size - len(data)
        if missing > 0:
            data.extend(self._chance.randbytes(missing) if self._garbage else bytes(missing))


Kept = dict[int, float]
"""Numbers of changes that are kept, and the share of their sectors."""


def _some(ops: Sequence[Op], chance: random.Random) -> Kept:
    share = chance.choice([0.2, 0.5, 0.9])
    return {n: 1.0 for n in range(len(ops)) if chance.random() < share}


def _torn(ops: Sequence[Op], chance: random.Random) -> Kept:
    return {n: chance.choice([0.2, 0.5, 0.9, 1.0]) for n in range(len(ops))}


def _first(ops: Sequence[Op], chance: random.Random) -> Kept:
    """Keep the first ones, and tear the next."""
    end = chance.randrange(len(ops))
    return {**dict.fromkeys(range(end), 1.0), end: 0.5}


def _last(ops: Sequence[Op], chance: random.Random) -> Kept:
    return dict.fromkeys(range(chance.randrange(len(ops)), len(ops)), 1.0)


def _but_one(ops: Sequence[Op], chance: random.Random) -> Kept:
    missing = chance.randrange(len(ops))
    return {n: 1.0 for n in range(len(ops)) if n != missing}


_WAYS: dict[str, Callable[[Sequence[Op], random.Random], Kept]] = {
    "none": lambda ops, chance: {},
    "grown": lambda ops, chance: {},
    "all": lambda ops, chance: dict.fromkeys(range(len(ops)), 1.0),
    "first": _first,
    "last": _last,
    "but_one": _but_one,
    "some": _some,
    "torn": _torn,
}


def _sectors(op: Write) -> Iterator[tuple[int, bytes]]:
    start, end = op.offset, op.offset + len(op.data)
    while start < end:
        stop = min(end, start // SECTOR * SECTOR + SECTOR)
        yield start, op.data[start - op.offset : stop - op.offset]
        start = stop


def states(
    log: DiskLog, *, seed: str, cuts: Sequence[int], each: int
) -> Iterator[tuple[int, dict[str, bytes], Loss]]:
    """Yield states after a cut before the op of each number in *cuts*, which ascend."""
    disk, done = Disk.before(log), 0
    for cut in cuts:
        for op in log.ops[done:cut]:
            disk.take(op)
        done = cut
        for number in range(each):
            loss = Loss(f"{seed} {cut} {number}")
            yield cut, disk.state(loss), loss


def kept_all(log: DiskLog, cut: int) -> dict[str, bytes]:
    """Return what is there if the process dies before the op of this number, and the disk not."""
    disk = Disk.before(log)
    for op in log.ops[:cut]:
        disk.take(op)
    return disk.state(Choose())

"""A store that holds something of every kind, what it answers, and ways to damage its file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from alveus import Memory
from alveus.errors import AlveusError, NotAStore, StoreDamaged
from alveus.store import SetRef, StoredItem
from alveus.store.scope import Scope
from alveus.store.sqlite import SqliteStore
from planting import AGENT, Planter

PAGE = 4096
SECTOR = 512
MAGIC = 16
FAR = 1 << 60

Question = Callable[[Memory], object]


def plant(path: Path) -> None:
    """Make a store: items, vectors, trees, runs, outputs, knowledge, compactions, receipts."""
    with Memory.open(path, embedder="static", durability="normal") as memory:
        planter = Planter(memory)
        gone, kept = planter.plant(), planter.plant()
        mine = memory.key(kept)
        mine.add("Ein Fenster, 窓, نافذة, 🪟. " * 300, id="long")
        mine.add({"text": "window " * 500, "n": list(range(2_000)), "b": b"\0" * 99}, id="value")
        mine.short_term.set("long", {"pages": ["window " * 40 for _ in range(60)]})
        mine.short_term.set("numbers", [1, 2.5, float("inf"), 1 << 2000, None, True])
        memory.forget(gone)
        memory.settle(60)


def questions(memory: Memory) -> dict[str, Question]:
    """Return all that is asked of a copy of this memory, by name."""
    store, found = memory.store, dict[str, Question]()
    last = store.commit_at(FAR)
    for key in sorted(memory.keys()):
        scope = Scope(memory.space, key)
        found[f"search {key}"] = lambda m, k=key: _hits(m, k)
        found[f"tree {key}"] = lambda m, k=key: m.key(k).short_term.to_dict()
        found[f"past of tree {key}"] = lambda m, s=scope: m.store.children(s, (), at=last, now=0)
        found[f"head of {key}"] = lambda m, s=scope: (m.store.head(s), m.store.history_start(s))
        found[f"quarantine {key}"] = lambda m, k=key: list(m.key(k).quarantine.list())
        found |= _of_sets(memory, scope)
    found |= _of_sets(memory, Scope(memory.knowledge.name, None))
    found |= {f"commit {n}": lambda m, n=n: _effects(m, n) for n in range(1, last + 1)}
    found |= {
        "spaces": lambda m: m.store.spaces(),
        "keys": lambda m: list(m.keys()),
        "times": lambda m: [m.store.time_of_commit(n) for n in range(last + 1)],
        "receipts": lambda m: list(m.receipts()),
        "notes": lambda m: (m.store.salt(), m.store.note("embedder default")),
        "runs": lambda m: m.store.runs(m.space, limit=99),
        "outputs": lambda m: m.store.outputs(AGENT, m.space),
        "lanes": lambda m: m.store.waiting_lanes(AGENT, m.space, past_parked=True),
        "figures": lambda m: replace(m.store.stats(), file_bytes=0, wal_bytes=0),
    }
    for run in store.runs(memory.space, limit=99):
        found[f"run {run.id}"] = lambda m, r=run.id: (
            m.store.run(r),
            m.store.steps(r),
            [m.store.durable_calls(r, n) for n in range(2)],
            m.store.run_outputs(r),
        )
    return found


def _hits(memory: Memory, key: str) -> list[object]:
    hits = memory.key(key).search("window", limit=50)
    return [(hit.item.id, hit.item.text, round(hit.score, 6)) for hit in hits]


def _effects(memory: Memory, number: int) -> object:
    effects = memory.store.effects(number)
    if effects is None:
        return None
    untouched = [
        replace(item, accessed=None) for item in (*effects.begun_items, *effects.ended_items)
    ]
    return effects.scope, effects.commit, effects.put_nodes, effects.removed_paths, untouched


def _of_sets(memory: Memory, scope: Scope) -> dict[str, Question]:
    found = dict[str, Question]()
    for info in memory.store.set_infos(scope):
        ref = info.ref
        found[f"set {ref}"] = lambda m, r=ref: (m.store.set_info(r), m.store.compactions(r))
        found[f"page {ref}"] = lambda m, r=ref: _untouched(m.store.page(r, limit=99))
        found[f"features {ref}"] = lambda m, n=info.number: list(m.store.features(n))
        for item in memory.store.page(ref, limit=99):
            name = item.record.id
            found[f"get {ref} {name}"] = lambda m, r=ref, n=name: _versions(m, r, n)
            found[f"links of {item.row}"] = lambda m, row=item.row: (
                m.store.source_links([row]),
                m.store.derived_links([row]),
            )
    return found


def _versions(memory: Memory, ref: SetRef, name: str) -> object:
    found = memory.store.get(ref, [name])
    return _untouched(found), _untouched(memory.store.versions(ref, name))


def _untouched(items: Iterable[StoredItem | None]) -> list[StoredItem | None]:
    return [item and replace(item, accessed=None) for item in items]


@dataclass
class Verdict:
    """What a damaged copy of a store said.

    Attributes:
        told: Questions that ended in StoreDamaged.
        wrong: Questions that were answered otherwise than before.
        foreign: Questions, and checks, that ended in another error.
        sound: Whether a deep examination found nothing.
        opened: What opening it ended in; None: it opened.
    """

    told: list[str]
    wrong: list[str]
    foreign: list[str]
    sound: bool
    opened: AlveusError | None = None


def examine(path: Path, asked: dict[str, Question], expected: dict[str, object]) -> Verdict:
    """Ask a copy of a store everything; only what is neither damage nor an answer is an error."""
    verdict = Verdict([], [], [], sound=False)
    try:
        memory = Memory.open(path, embedder="static", mode="ro")
    except (StoreDamaged, NotAStore) as error:
        verdict.opened = error
        return verdict
    with memory:
        for name, question in asked.items():
            _ask(verdict, memory, name, question, expected[name])
        assert isinstance(memory.store, SqliteStore)
        verdict.sound = not memory.store.problems(deep=True)
    return verdict


def _ask(verdict: Verdict, memory: Memory, name: str, question: Question, expected: object) -> None:
    try:
        answer = question(memory)
    except StoreDamaged:
        verdict.told.append(name)
    except AlveusError:
        verdict.wrong.append(name)
    except Exception as error:  # noqa: BLE001 - any is a finding
        verdict.foreign.append(f"{name}: {error!r}")
    else:
        if answer != expected:
            verdict.wrong.append(name)


# --- ways to damage a file ----------------------------------------------------------------------


def flip(content: bytearray, rng: Random) -> str:
    """Flip one bit."""
    at = rng.randrange(len(content))
    content[at] ^= 1 << rng.randrange(8)
    return f"bit of byte {at}"


def flip_in_head(content: bytearray, rng: Random) -> str:
    """Flip one bit of the file's head, past the magic words."""
    at = rng.randrange(MAGIC, 100)
    content[at] ^= 1 << rng.randrange(8)
    return f"bit of byte {at} of the head"


def flip_many(content: bytearray, rng: Random) -> str:
    """Flip 2 to 64 bits, near each other."""
    start = rng.randrange(len(content) - 64)
    for _ in range(rng.randrange(2, 65)):
        content[start + rng.randrange(64)] ^= 1 << rng.randrange(8)
    return f"bits near byte {start}"


def lose_sector(content: bytearray, rng: Random) -> str:
    """Fill a sector, which is not empty, with zeros."""
    at = rng.choice([n for n in range(0, len(content), SECTOR) if any(content[n : n + SECTOR])])
    content[at : at + SECTOR] = bytes(SECTOR)
    return f"sector at {at}"


def lose_page(content: bytearray, rng: Random) -> str:
    """Fill a page, which is not the first, with zeros."""
    at = rng.randrange(1, len(content) // PAGE) * PAGE
    content[at : at + PAGE] = bytes(PAGE)
    return f"page at {at}"


def cut(content: bytearray, rng: Random) -> str:
    """Cut the file short."""
    size = rng.randrange(100, len(content))
    del content[size:]
    return f"cut to {size}"


def swap(content: bytearray, rng: Random) -> str:
    """Put two pages into each other's place."""
    pages = len(content) // PAGE
    one, other = (n * PAGE for n in rng.sample(range(1, pages), 2))
    ours, theirs = bytes(content[one : one + PAGE]), bytes(content[other : other + PAGE])
    content[one : one + PAGE], content[other : other + PAGE] = theirs, ours
    return f"pages at {one} and {other}"


WAYS = {
    "bit": flip,
    "head": flip_in_head,
    "bits": flip_many,
    "sector": lose_sector,
    "cut": cut,
    "page": lose_page,
    "swap": swap,
}

MISPLACED = ("page", "swap")
"""What a page's own checksum cannot tell: all of it is there, but in the wrong place, or none."""


def damaged_copy(content: bytes, place: Path, how: str, rng: Random) -> str:
    """Write a damaged copy of a file to *place*, without side files; tell what was done."""
    changed = bytearray(content)
    what = WAYS[how](changed, rng)
    shutil.rmtree(f"{place}.alveus", ignore_errors=True)
    for suffix in ("-wal", "-shm"):
        Path(f"{place}{suffix}").unlink(missing_ok=True)
    place.write_bytes(changed)
    return what

"""A random machine over many doors of one memory: each identity reads its own model, and no more.

A door writes, reads, finds and deletes what identities of one kind keep. A walk has two doors and
few names, so that names which can be confused meet soon; the set of walks has every pair of doors.
The names differ in letters that look alike, are empty or long, or are the keys and sets that the
doors of the walk made for other names: no id may become one of those because it is typed so. After
each step all identities are read. Each word that is written is new, so what an answer holds is read
off its words, whatever its form.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from alveus import KeyMemory, Memory
from alveus.integrations.openai_agents import AlveusSession
from alveus.values.ids import KINDS, identity_key

R = TypeVar("R")

Identity = tuple[str, Hashable]
Model = dict[Identity, list[str]]
Way = Callable[[Any, Model], None]

WRITE, FIND = "write", "find"
"""What can be done through any door."""

LENGTH = 24
"""The most steps of one walk; the next one has other doors and other names."""

MADE_NAMES = 2
"""How many of the keys and sets that doors have made become names at once, at most."""

LEARNS = (2, 5)
"""Before which steps they do."""

WORD = re.compile(r"word\d{7}")

NAMES = [
    "", " ", "a", "a.b", "a/b", "a:b", "a:", ":a", ":", "/", "%", "%2E", "a%2Eb", "a%3Ab", "..",
    "*", "ada", "Ada", "ada ", "ad", "\u00e9", "e\u0301", "\u2126", "\u03a9", "\U0001f4be",
    "a\nb", "a\x00b", "a\\b", "a?b", "a#b", "a&b", "a+b", "\u202ea",
    "default", "facts", "shared", "session", "session.a", "session.default", "memories", "versions",
    "langgraph", "langgraph.a", "langgraph.store", "langgraph.thread", "agentscope", "crewai",
    "agent_session", "agent_session.a", "llama_index", "llama_index.a", "llama_index_archive.a",
    "pydantic_ai", "pydantic-ai", "google_adk", "google_adk.a", "memory_store", "memstore_a",
    "layers", "user:user:a", "agent:agent:a", "user:agent:a", '{"user_id":"a"}', "a" * 3_000,
    "a" * 3_000 + "b", "a" * 4_000,
]  # fmt: skip

BEFORE = [
    "user:", "agent:", "app:", "run:", "user:agent:", "session.", "agent_session.", "langgraph.",
    "agentscope.", "google_adk.", "llama_index.", "llama_index_archive.", "memstore_", "/", "\n",
    *(identity_key(kind, "") for kind in KINDS),
]  # fmt: skip
"""What other doors put, or might put, before a name."""

GIVEN = "a program's "
"""The beginning of the keys that integrations are given, and that nobody else types."""

SHARED = f"{GIVEN}shared key"
"""A key that several integrations are given."""

AFTER = [":", "/", ".", " ", "\n", "\u0301", "%", "/../a", ".default", ":default"]

ANOTHER = re.compile(rf"(?:user:)*(?:agent|app|run|{'|'.join(map(re.escape, KINDS))}):", re.DOTALL)
"""The beginning of a key that the pages list as the one of an identity of another system."""


def words_in(found: object) -> list[str]:
    """Return the words of an answer, each as often as it is there."""
    return WORD.findall(str(found))


class World:
    """What the doors of one walk have in common: a memory, an event loop, and what is drawn."""

    def __init__(self, memory: Memory, rng: random.Random) -> None:
        self.memory, self.rng, self._loop = memory, rng, asyncio.new_event_loop()
        self._closing: list[Callable[[], object]] = [self._loop.close]

    def run(self, made: Coroutine[Any, Any, R]) -> R:
        """Return what a coroutine returns."""
        return self._loop.run_until_complete(made)

    def closing(self, opened: R) -> R:
        """Have *opened* closed when the walk ends."""
        self._closing.append(opened.close)  # pyright: ignore[reportAttributeAccessIssue] - each door that is opened has one
        return opened

    def close(self) -> None:
        """Close what was opened, the last first."""
        while self._closing:
            self._closing.pop()()


class Door:
    """How one kind of identities is asked.

    Attributes:
        kind: Which kind.
        ways: Ways to delete or to copy: each is done, and done to the model.
    """

    kind: str

    def __init__(self, world: World) -> None:
        self.world = world
        self.ways: dict[str, Way] = {}

    def names(self, drawn: list[str]) -> list[Any]:
        """Return the names that can be typed here."""
        return [*drawn]

    def identity(self, name: Any) -> Identity:
        """Return the identity that a name means."""
        return self.kind, name

    def write(self, name: Any, word: str) -> None:
        """Keep a word."""
        raise NotImplementedError

    def read(self, name: Any) -> list[str]:
        """Return the words that are kept."""
        raise NotImplementedError

    def find(self, name: Any, word: str) -> list[str]:
        """Return what a search for a word finds."""
        return [each for each in self.read(name) if each == word]

    def listed(self) -> set[Hashable] | None:
        """Return the names that hold something, as the door lists them; None: it does not."""
        return None

    def empties(self, call: Callable[[Any], object]) -> Way:
        """Return a way that leaves nothing."""

        def way(name: Any, model: Model) -> None:
            call(name)
            model[self.identity(name)] = []

        return way

    def takes_one(self, call: Callable[[Any, str], object]) -> Way:
        """Return a way that takes away the first word, if there is one."""

        def way(name: Any, model: Model) -> None:
            kept = model[self.identity(name)]
            if kept:
                call(name, kept.pop(0))

        return way


class KeyDoor(Door):
    """Keys that a program names: none that the pages list as keys of other identities."""

    kind = "key"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ways = {
            "forget the key": self.empties(lambda name: self._key(name).forget(scrub="later")),
            "clear": self.empties(lambda name: self._key(name).set("default").clear()),
            "forget all": self.empties(
                lambda name: self._key(name).set("default").forget(where={}, scrub="later")
            ),
            "delete one": self.takes_one(
                lambda name, word: self._key(name).delete(self.id_of(name, word))
            ),
            "forget one": self.takes_one(
                lambda name, word: (
                    self._key(name).set("default").forget(self.id_of(name, word), scrub="later")
                )
            ),
        }

    def _key(self, name: str) -> KeyMemory:
        return self.world.memory.key(name)

    def id_of(self, name: str, word: str) -> str:
        """Return the id of a word, which another door of the key may have written."""
        (found,) = (item.id for item in self._key(name).list() if item.value == word)
        assert found is not None
        return found

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if name and not ANOTHER.match(name)]

    def write(self, name: Any, word: str) -> None:
        self._key(name).add(word, id=word)

    def read(self, name: Any) -> list[str]:
        return words_in([item.value for item in self._key(name).list()])

    def find(self, name: Any, word: str) -> list[str]:
        return words_in([hit.item.text for hit in self._key(name).search(word, limit=100)])


class SessionDoor(Door):
    """Sessions of the OpenAI Agents SDK."""

    kind = "session"
    key: str | None = None

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sessions: dict[tuple[str, str], AlveusSession] = {}
        self.ways = {
            "clear": self.empties(lambda name: self._do(name, "retire", "clear_session")),
            "forget": self.empties(lambda name: self._do(name, "forget", "clear_session")),
            "pop": self._pop,
        }

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if name]

    def _do(self, name: str, clearing: Any, call: str, *given: Any) -> Any:
        if (name, clearing) not in self._sessions:
            made = AlveusSession(name, self.world.memory, key=self.key, clearing=clearing)
            self._sessions[name, clearing] = self.world.closing(made)
        return self.world.run(getattr(self._sessions[name, clearing], call)(*given))

    def write(self, name: Any, word: str) -> None:
        self._do(name, "retire", "add_items", [{"role": "user", "content": word}])

    def read(self, name: Any) -> list[str]:
        return [one["content"] for one in self._do(name, "retire", "get_items")]

    def _pop(self, name: Any, model: Model) -> None:
        popped = self._do(name, "retire", "pop_item")
        assert popped["content"] == model[self.identity(name)].pop()


class SharedSessionDoor(SessionDoor):
    """Sessions whose key other integrations are given too."""

    kind, key = "shared session", SHARED


class Crossing(AssertionError):
    """An identity reads, lists or finds other things than were kept for it."""


def drawn(rng: random.Random) -> list[str]:
    """Return names that are likely to be confused, each once."""
    name = rng.choice(NAMES)
    near = rng.choice([
        rng.choice(BEFORE) + name,
        name + rng.choice(AFTER),
        identity_key(rng.choice(KINDS), name),
        rng.choice(NAMES),
    ])  # fmt: skip
    return [*dict.fromkeys([name, near])]


class Walk:
    """A walk: steps through doors, and after each what all identities read."""

    def __init__(
        self, memory: Memory, doors: Iterable[Callable[[World], Door]], rng: random.Random
    ) -> None:
        self.world = World(memory, rng)
        self.doors = [door(self.world) for door in doors]
        self.rng, self.model = rng, Model()
        self.drawn = list[str]()
        while not all(door.names(self.drawn) for door in self.doors):
            self.drawn = drawn(rng)
        self._done = Counter[tuple[Door, Any, str]]()
        self._known: dict[Identity, list[tuple[Door, Any]]] = {}
        self._count, self.log = 0, list[str]()

    def step(self) -> None:
        """Do something through a door, and look what every identity holds now."""
        door, name, how = self._next()
        identity = door.identity(name)
        if identity not in self._known:
            self._known[identity] = [
                (each, name)
                for each in self.doors
                if name in each.names(self.drawn) and each.identity(name) == identity
            ]
            self.model[identity] = []
        if how == WRITE or not self.model[identity]:
            self._write(door, name)
        elif how == FIND:
            self._find(door, name)
        else:
            self.log.append(f"{type(door).__name__}: {how} of {name!r:.60}")
            door.ways[how](name, self.model)
        self.check()

    def _next(self) -> tuple[Door, Any, str]:
        """Return what to do next: one of what was done least often, and can be done."""
        tasks = [
            (door, name, how)
            for door in self.doors
            for name in door.names(self.drawn)
            for how in (
                (WRITE, FIND, *door.ways) if self.model.get(door.identity(name)) else (WRITE,)
            )
        ]
        least = min(self._done[task] for task in tasks)
        chosen = self.rng.choice([task for task in tasks if self._done[task] == least])
        self._done[chosen] += 1
        return chosen

    def learn_names(self) -> None:
        """Have the next steps use keys and sets that are there, as if somebody typed them."""
        memory = self.world.memory
        keys = [*memory.keys()]
        made = dict.fromkeys([*keys, *(each for key in keys for each in memory.key(key).sets())])
        others = [each for each in made if each not in self.drawn and not each.startswith(GIVEN)]
        self.drawn += self.rng.sample(others, min(MADE_NAMES, len(others)))

    def _write(self, door: Door, name: Any) -> None:
        self._count += 1
        word = f"word{self._count:07}"
        self.log.append(f"{type(door).__name__}: {name!r:.60} keeps {word}")
        door.write(name, word)
        self.model[door.identity(name)].append(word)

    def _find(self, door: Door, name: Any) -> None:
        kept = self.model[door.identity(name)]
        word = self.rng.choice(kept)
        found = door.find(name, word)
        if word not in found or not set(found) <= {*kept}:
            raise self._crossing(door, name, f"{found} was found for {word} among {kept}")

    def check(self) -> None:
        """Compare what each identity reads through each door, and what doors list, with the model.

        Raises:
            Crossing: One differs.
        """
        for ways in self._known.values():
            for door, name in ways:
                read, kept = sorted(door.read(name)), sorted(self.model[door.identity(name)])
                if read != kept:
                    raise self._crossing(door, name, f"{read} was read, not {kept}")
        for door in self.doors:
            listed = door.listed()
            kept = {of for (kind, of), words in self.model.items() if kind == door.kind and words}
            if listed is not None and listed != kept:
                raise self._crossing(door, None, f"{listed} are listed, not {kept}")

    def _crossing(self, door: Door, name: object, problem: str) -> Crossing:
        last = "\n  ".join(self.log[-12:])
        return Crossing(f"{type(door).__name__} {name!r:.80}: {problem}\nafter\n  {last}")


def walk(folder: Path, doors: Iterable[Callable[[World], Door]], *, seed: int, steps: int) -> None:
    """Walk so many steps; every fourth walk is over a memory in a file, the others are in RAM."""
    place = ":memory:" if seed % 4 else folder / f"{seed}.db"
    with Memory.open(place, embedder="words", durability="normal") as memory:
        walked = Walk(memory, doors, random.Random(seed))
        try:
            for number in range(steps):
                if number in LEARNS:
                    walked.learn_names()
                walked.step()
        finally:
            walked.world.close()


def walks(
    folder: Path, doors: Iterable[Callable[[World], Door]], *, seeds: Iterable[int], steps: int
) -> int:
    """Walk so many steps in all, at most `LENGTH` of one seed; return the number of walks.

    Each seed is one pair of doors: as many seeds in a row as there are pairs have each.
    """
    pairs = [*combinations(doors, 2)]
    random.Random(0).shuffle(pairs)
    lengths = [min(LENGTH, steps - first) for first in range(0, steps, LENGTH)]
    for seed, length in zip(seeds, lengths, strict=False):
        walk(folder, pairs[seed % len(pairs)], seed=seed, steps=length)
    return len(lengths)

"""A random machine over many doors of one memory: each identity reads its own model, and no more.

A door writes, reads, finds and deletes what identities of one kind keep. Their names are drawn from
what is likely to be confused: names that other doors use, the same names with a kind before them,
empty and long ones, such as differ in letters that look alike. Each word that is written is new, so
what an answer holds is read off its words, whatever its form.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from alveus import KeyMemory, Memory
from alveus.integrations.openai_agents import AlveusSession
from alveus.values.identities import KINDS, identity_key

R = TypeVar("R")

Identity = tuple[str, Hashable]
Model = dict[Identity, list[str]]
Way = Callable[[Any, Model], None]

LENGTH = 100
"""The most steps of one walk; the next one draws other names."""

OFTEN = 8
"""After so many steps, if none deleted anything, all identities are looked at."""

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

SHARED = "shared by a program"
"""A key that several integrations are given."""

AFTER = [":", "/", ".", " ", "\u0301", "%", "/../a", ".default", ":default"]

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
        is_slow: Whether it takes milliseconds to ask.
    """

    kind: str
    is_slow = False

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


def drawn(rng: random.Random) -> list[str]:
    """Return names that are likely to be confused, each once."""
    name, other = rng.sample(NAMES, 2)
    near = [
        rng.choice(BEFORE) + name,
        name + rng.choice(AFTER),
        identity_key(rng.choice(KINDS), name),
    ]
    return [*dict.fromkeys([name, other, *rng.sample(near, 2)])]


class Walk:
    """A walk: steps through doors, and after each what all identities read."""

    def __init__(
        self, memory: Memory, doors: Iterable[Callable[[World], Door]], rng: random.Random
    ) -> None:
        self.world = World(memory, rng)
        self.doors = [door(self.world) for door in doors]
        self.rng, self.model = rng, Model()
        self.drawn = drawn(rng)
        self._known: dict[Identity, list[tuple[Door, Any]]] = {}
        self._count, self._until_all, self.log = 0, 0, list[str]()

    def step(self) -> None:
        """Do something through a door, and look what every identity holds now."""
        door = self.rng.choice([door for door in self.doors if door.names(self.drawn)])
        name = self.rng.choice(door.names(self.drawn))
        identity = door.identity(name)
        if identity not in self._known:
            self._known[identity] = [
                (each, name)
                for each in self.doors
                if name in each.names(self.drawn) and each.identity(name) == identity
            ]
            self.model[identity] = []
        if not self.model[identity] or self.rng.random() < 0.5:
            self._write(door, name)
        elif self.rng.random() < 0.3 or not door.ways:
            self._find(door, name)
        else:
            how = self.rng.choice(sorted(door.ways))
            self.log.append(f"{type(door).__name__}: {how} of {name!r:.60}")
            door.ways[how](name, self.model)
            self._until_all = 0
        self._check_one(*self.rng.choice(self._known[identity]))
        self.check(everything=self._until_all == 0)
        self._until_all = (self._until_all or OFTEN) - 1

    def _write(self, door: Door, name: Any) -> None:
        self._count += 1
        word = f"word{self._count:07}"
        self.log.append(f"{type(door).__name__}: {name!r:.60} keeps {word}")
        door.write(name, word)
        self.model[door.identity(name)].append(word)

    def _find(self, door: Door, name: Any) -> None:
        self._count += 1
        kept = self.model[door.identity(name)]
        word = self.rng.choice(kept)
        found = door.find(name, word)
        assert word in found, self._told(door, name, f"{found} was found for {word}")
        assert set(found) <= {*kept}, self._told(door, name, f"{found} was found among {kept}")

    def check(self, *, everything: bool) -> None:
        """Compare what each identity reads, and what doors list, with the model.

        What was deleted may be missed anywhere; what was written stays until all is looked at, so
        doors that are slow wait for that.
        """
        for ways in self._known.values():
            asked = [way for way in ways if everything or not way[0].is_slow]
            if asked:
                self._check_one(*self.rng.choice(asked))
        for door in self.doors:
            listed = door.listed()
            if listed is not None:
                kept = {
                    of for (kind, of), words in self.model.items() if kind == door.kind and words
                }
                assert listed == kept, self._told(door, None, f"{listed} are listed, not {kept}")

    def _check_one(self, door: Door, name: Any) -> None:
        read, kept = sorted(door.read(name)), sorted(self.model[door.identity(name)])
        assert read == kept, self._told(door, name, f"{read} was read, not {kept}")

    def _told(self, door: Door, name: object, problem: str) -> str:
        last = "\n  ".join(self.log[-12:])
        return f"{type(door).__name__} {name!r:.80}: {problem}\nafter\n  {last}"


def walk(folder: Path, doors: Iterable[Callable[[World], Door]], *, seed: int, steps: int) -> None:
    """Walk so many steps; every fourth walk is over a memory in a file, the others are in RAM."""
    place = ":memory:" if seed % 4 else folder / f"{seed}.db"
    with Memory.open(place, embedder="words", durability="normal") as memory:
        walked = Walk(memory, doors, random.Random(seed))
        try:
            for _ in range(steps):
                walked.step()
            walked.check(everything=True)
        finally:
            walked.world.close()


def walks(
    folder: Path, doors: Iterable[Callable[[World], Door]], *, seeds: Iterator[int], steps: int
) -> None:
    """Walk so many steps in all, at most `LENGTH` of one seed."""
    for first in range(0, steps, LENGTH):
        walk(folder, doors, seed=next(seeds), steps=min(LENGTH, steps - first))

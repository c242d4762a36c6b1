"""Plants canaries, in every place where a memory keeps something of a user."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from alveus import Item, Memory
from alveus.store import (
    Add,
    Batch,
    Begin,
    Compact,
    DurableCall,
    ItemRecord,
    Link,
    Put,
    QueuedInput,
    Scope,
    SetRef,
    StatusChange,
    Step,
)

AGENT = "helper"


@dataclass
class Planter:
    """Plants canaries in the memory of one key after the other.

    Attributes:
        planted: By what they were planted in.
    """

    memory: Memory
    seed: int = 0
    planted: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    keys: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    @property
    def canaries(self) -> list[str]:
        """All of them."""
        return [canary for some in self.planted.values() for canary in some]

    def make(self, kind: str) -> str:
        """Return a new canary."""
        canary = f"canary-{self._chance.getrandbits(96):024x}"
        self.planted.setdefault(kind, []).append(canary)
        return canary

    def plant(self) -> str:
        """Plant one of each kind in a new key; return the key."""
        key = self.make("key")
        self.keys.append(key)
        self._items(key)
        self._tree(key)
        self._compaction(key)
        self._runs(key)
        self.memory.key(key).search(self.make("query, of no run"))
        return key

    def _items(self, key: str) -> None:
        mine, make = self.memory.key(key), self.make
        mine.add(
            Item(
                {make("name in a value"): make("value")},
                id=make("id"),
                text=f"By the window {make('text')}.",
                metadata={make("name of metadata"): [make("metadata"), {"caption": "none"}]},
                speaker=make("speaker"),
                role=make("role"),
                session=make("session"),
            ),
            idempotency_key=make("idempotency key"),
        )
        mine.set(make("set")).add(make("text in a set"), id="i")
        mine.set("notes").add(make("old version"), id="edited")
        mine.set("notes").update("edited", make("new version"))
        mine.set("notes").add(make("deleted item"), id="deleted")
        mine.set("notes").delete("deleted")
        mine.add_many([Item(f"window {i}") for i in range(25)])
        self.memory.store.commit(
            Batch(
                scope=Scope(self.memory.space, key),
                time=self.memory.engine.clock(),
                items=[Add(self._ref(key, "\x1aquarantine/notes"), self._record("quarantine"))],
            )
        )

    def _ref(self, key: str, name: str) -> SetRef:
        return SetRef(Scope(self.memory.space, key), name)

    def _record(self, kind: str, item_id: str = "i") -> ItemRecord:
        return ItemRecord(item_id, None, f"window {self.make(kind)}")

    def _tree(self, key: str) -> None:
        tree, make = self.memory.key(key).short_term, self.make
        tree.set("profile.city", make("value in the tree"))
        tree.set(("profile", make("path in the tree")), {"a": [make("value deep in the tree")]})
        tree.set("deleted", make("deleted value"))
        tree.delete("deleted")
        tree.set("blob", make("bytes").encode())

    def _compaction(self, key: str) -> None:
        store, ref = self.memory.store, self._ref(key, "notes")
        book = SetRef(Scope(self.memory.knowledge.name, None), "book")
        scope, now = ref.scope, self.memory.engine.clock()
        added = [Add(ref, self._record(f"source {i}", f"s{i}")) for i in range(2)]
        store.commit(Batch(scope=scope, time=now, items=added))
        links = [Link(ref, "s0"), Link(ref, "s1")]
        made = Add(ref, self._record("summary", "sum"), links=links)
        how = f'{{"topic":"{self.make("compaction")}"}}'
        compact = Compact(ref, [("s0", 1), ("s1", 1)], [made], how)
        store.commit(Batch(scope=scope, time=now, items=[compact]))
        lesson = Add(book, self._record("knowledge", f"of {key[-6:]}"), links=[Link(ref, "sum")])
        store.commit(Batch(scope=scope, time=now, items=[lesson]))

    def _runs(self, key: str) -> None:
        done, parked, begun = (self._run(key) for _ in range(3))
        self._run(key)
        lease = self.memory.store.acquire_lease(Scope(self.memory.space, key), "worker")
        assert lease is not None
        begin = Begin(self.memory.engine.clock(), ("greet",))
        commits = [
            self._step(done, begin, done=True),
            self._step(parked, begin, done=False),
            StatusChange(
                parked, "waiting", "parked", f'{{"message":"{self.make("error of a run")}"}}'
            ),
            self._step(begun, begin, done=False),
            DurableCall(begun, 1, 0, "ask", "digest", "returned", self._wire("durable result")),
        ]
        for told in commits:
            self.memory.store.commit(
                Batch(
                    scope=lease.scope,
                    time=begin.now,
                    epoch=lease.epoch,
                    run=told,
                    base=self.memory.store.head(lease.scope),
                    state=[Put(("by a run",), self.make("value by a run"))],
                )
            )
        self.memory.store.release_lease(lease)

    def _wire(self, kind: str) -> str:
        return f'"{self.make(kind)}"'

    def _run(self, key: str) -> int:
        event_id = self.make("event id")
        scope, now = Scope(self.memory.space, key), self.memory.engine.clock()
        digest = self.memory.engine.request(event_id)
        given = QueuedInput(scope, self._wire("event"), now, digest, digest, event_id)
        run = self.memory.store.accept(AGENT, [given])[0].run
        assert run is not None
        return run

    def _step(self, run: int, begin: Begin, *, done: bool) -> Step:
        return Step(
            run,
            0,
            "greet",
            sent=f'["{self.make("sent")}"]',
            sensory=None if done else f'["{self.make("sensory")}"]',  # it ends with the run
            read_set=f'{{"items":[],"searches":[[["default"],"{self.make("searched")}",[]]]}}',
            outputs=[self._wire("output")],
            skipped=self._wire("skipped"),
            begin=begin,
            done=done,
        )

"""The random machine of identities, through the frameworks of this environment."""

from __future__ import annotations

from itertools import count
from typing import Any

from agentscope.message import Msg
from crewai.memory.types import MemoryRecord

from alveus.integrations.agentscope_memory import AlveusLongTermMemory
from alveus.integrations.crewai import AlveusStorage
from identity_walk import (
    SHARED,
    Door,
    KeyDoor,
    SessionDoor,
    SharedSessionDoor,
    World,
    walks,
    words_in,
)
from scale import COUNTS


class CrewDoor(Door):
    """Crews of CrewAI, under the keys of a program with a prefix of its own."""

    kind = "crew"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ways = {
            "reset": self.empties(lambda name: self._storage(name, "retire").reset()),
            "forget": self.empties(lambda name: self._storage(name, "forget").reset()),
            "delete one": self.takes_one(
                lambda name, word: self._storage(name, "retire").delete(record_ids=[word])
            ),
        }

    def _storage(self, name: str, deleting: Any) -> AlveusStorage:
        key = SHARED if name == "shared" else f"crew of {name}"
        return AlveusStorage(self.world.memory, key=key, deleting=deleting)

    def write(self, name: Any, word: str) -> None:
        self._storage(name, "retire").save([MemoryRecord(id=word, content=word)])

    def read(self, name: Any) -> list[str]:
        return words_in([one.content for one in self._storage(name, "retire").list_records()])


class ScopeUserDoor(Door):
    """Users of AgentScope 1; AgentScope deletes nothing. All of them hear the same message."""

    kind = "user"
    key: str | None = None

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._made: dict[str, AlveusLongTermMemory] = {}

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if name]

    def _memory(self, name: str) -> AlveusLongTermMemory:
        if name not in self._made:
            names: dict[str, Any] = {f"{self.kind}_name": name}
            made = AlveusLongTermMemory(self.world.memory, key=self.key, **names)
            self._made[name] = self.world.closing(made)
        return self._made[name]

    def write(self, name: Any, word: str) -> None:
        self.world.run(self._memory(name).record([Msg("ada", f"said {word}", "user")]))

    def read(self, name: Any) -> list[str]:
        found = self._memory(name).retrieve(Msg("ada", "said", "user"), limit=1_000)
        return words_in(self.world.run(found))


class ScopeAgentDoor(ScopeUserDoor):
    """Agents of AgentScope 1."""

    kind = "agent"


class ScopeRunDoor(ScopeUserDoor):
    """Runs of AgentScope 1, in a key that others share."""

    kind, key = "run", SHARED


DOORS = [
    KeyDoor, SessionDoor, SharedSessionDoor, CrewDoor, ScopeUserDoor, ScopeAgentDoor, ScopeRunDoor,
]  # fmt: skip


def test_identities_share_nothing(tmp_path):
    """After each step, each identity reads what was kept for it, and no more."""
    walks(tmp_path, DOORS, seeds=count(1), steps=COUNTS.identity_steps)

"""Calls of the facts of a key, as requests carry them."""

from __future__ import annotations

from typing import cast

from alveus.errors import InvalidInput
from alveus.facts import Facts
from alveus.facts.fact import FACTS
from alveus.memory.aio import AsyncFacts
from alveus.memory.keys import KeyMemory
from alveus.server.memory_call import CallTarget, Document, MemoryCall, models_of
from alveus.sets.commits import CommitWriter
from alveus.store import SetRef


class FactCall(MemoryCall):
    """A call of the facts of a key."""

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if not isinstance(to.owner, KeyMemory):
            raise InvalidInput("facts belong to a key, outside of batches; name it with ?key=")
        return super().answer(to)

    def opened(self, to: CallTarget) -> Facts:
        """See `MemoryCall.opened`."""
        _, writer, scope = to.owner.inside
        return Facts(cast("CommitWriter", writer), SetRef(scope, FACTS))  # or that of a commit


FACT_CALLS = models_of(AsyncFacts, FactCall)

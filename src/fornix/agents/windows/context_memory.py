"""What every memory of an agent's window keeps to: purge, commit, context."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fornix.agents.windows.observation import Observation
from fornix.memory.keys import KeySets
from fornix.text.messages import Message


class ContextMemory(ABC):
    """What an agent remembers between its calls of a model, and shows the model of it.

    An agent commits what was asked and answered, and asks for a context before the next call.
    Which observations that holds, and in which order, is the strategy.

    Built in are `Void` (nothing), `Stream` (the last ones), `Priority` and `Importance` (those
    that matter most), `Hybrid` (recent and important), `Semantic` (those of the same meaning),
    `Hierarchical` (layers that hand on what they let go) and `Linked` (those that belong
    together). Write your own for another rule:

    - search by meaning: ``observation.query.relevance`` and ``observation.reply.relevance``;
    - what matters most: ``observation.reply.importance``;
    - layers: a memory of memories, each with a budget of its own;
    - what belongs together: ``observation.links``.

    A memory that keeps the longest answers::

        >>> from fornix.agents.windows import ContextMemory, Observation
        >>> class Longest(ContextMemory):
        ...     def __init__(self, most):
        ...         self.most, self.kept = most, []
        ...     def purge(self):
        ...         self.kept.clear()
        ...     def commit(self, observation):
        ...         reply = observation.reply
        ...         reply.importance = min(1.0, len(str(reply.content)) / 1000)
        ...         self.kept.append(observation)
        ...         self.kept.sort(key=lambda o: o.reply.importance, reverse=True)
        ...         del self.kept[self.most:]
        ...     def context(self, prompt):
        ...         told = sorted(self.kept, key=lambda o: o.created)
        ...         return [m for o in told for m in o.messages] + ([prompt] if prompt else [])
        >>> memory = Longest(1)
        >>> memory.commit(Observation("what is it?", "a vaulted structure"))
        >>> memory.commit(Observation("where?", "here"))
        >>> [str(message) for message in memory.context(None)]
        ['what is it?', 'a vaulted structure']

    Agents share memories, so an implementation must be safe under threads: hold one lock in all
    three methods, `context` included. Those of fornix are, and are safe across processes where
    they are kept in a file. `fornix.testing.ContextContract` tests yours.

    Attributes:
        kept_on: The memory of the key that it is kept on; None: it is in RAM, or does not say.
            The prompts of an agent are runs of that key, and what they commit is theirs.
    """

    kept_on: KeySets | None = None

    @abstractmethod
    def purge(self) -> None:
        """Forget every observation; what was set up stays. `Automata.prompt_once` calls it."""

    @abstractmethod
    def commit(self, observation: Observation) -> object:
        """Take in an observation; the next `context` may show it.

        Here an implementation makes vectors, scores importance, forgets what there is no room
        for, and keeps indexes. Those of fornix return what they forgot.
        """

    @abstractmethod
    def context(self, prompt: Message | None) -> list[Message]:
        """Return what the model is told: instructions, what is remembered, and *prompt* last.

        Here an implementation chooses: the last ones, those that a search finds, those that
        matter, as many as a budget of tokens has room for. None asks for what is remembered.
        """

    def reset(self) -> None:
        """Do what `purge` does; the name that later versions of thinker have for it."""
        self.purge()

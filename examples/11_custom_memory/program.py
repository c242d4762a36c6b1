import math, threading
from datetime import datetime, timezone
from alveus.compat.thinker import Automata, Memory, Message, Observation, Stream  # import

class PriorityMemory(Memory):                       # examples/11_custom_memory/memory.py
    def __init__(self, max_size: int, stratum: str):
        self._lock, self.max_size, self.stratum = threading.Lock(), max_size, stratum
        self.observations: list[Observation] = []

    def purge(self) -> None:
        with self._lock:
            self.observations = []

    def commit(self, obs: Observation) -> None:
        with self._lock:
            obs.reply.importance = self.score_importance(obs)      # must be assignable
            self.observations.append(obs)
            self.observations.sort(key=lambda o: o.reply.importance, reverse=True)
            del self.observations[self.max_size:]

    def context(self, prompt: Message) -> list[Message]:
        with self._lock:
            ctx = [Message.stratum(self.stratum)] if self.stratum else []
            for obs in sorted(self.observations, key=lambda o: o.created):
                ctx += [obs.query.content, obs.reply.content]
            return [*ctx, prompt]

    def score_importance(self, obs: Observation) -> float:
        return min(1.0, len(str(obs.reply.content)) / 1000.0)

class ImportanceMemory(PriorityMemory):             # pattern 1: recency and length
    def score_importance(self, obs: Observation) -> float:
        hours = (datetime.now(timezone.utc) - obs.created.time()).total_seconds() / 3600
        return 1.0 / (1.0 + hours) * math.log(max(1, len(str(obs.reply.content))))

class HybridMemory(Memory):                         # pattern 2: recent + important
    def __init__(self, recent: Stream, threshold: float):
        self.recent, self.threshold, self.important = recent, threshold, []
    def purge(self) -> None:
        self.recent.purge(); self.important.clear()
    def commit(self, obs: Observation) -> None:
        self.recent.commit(obs)
        if obs.reply.importance > self.threshold:   # an unscored observation compares: 0.0, never None
            self.important.append(obs)
    def context(self, prompt: Message) -> list[Message]:
        return [*self.recent.context(prompt), *(m for o in self.important for m in (o.query.content, o.reply.content))]

class SemanticMemory(Memory):                       # pattern 3: embeddings of query and reply
    def __init__(self, embedder, vector_db):
        self.embedder, self.vector_db = embedder, vector_db
    def purge(self) -> None:
        self.vector_db.clear()
    def commit(self, obs: Observation) -> None:
        obs.query.relevance = self.embedder.embed([str(obs.query.content)])[0]
        obs.reply.relevance = self.embedder.embed([str(obs.reply.content)])[0]
        self.vector_db.insert(obs)
    def context(self, prompt: Message) -> list[Message]:
        similar = self.vector_db.search(self.embedder.embed([str(prompt)])[0], top_k=5)
        return [m for o in similar for m in (o.query.content, o.reply.content)] + [prompt]

def main(llm, encoder, decoder, reasoner, question):
    memory = PriorityMemory(20, "You are a helpful assistant")
    agent = Automata(llm, memory, encoder, decoder, reasoner)
    return agent.prompt(question)                   # prompt_once(question) purges first

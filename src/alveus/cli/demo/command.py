"""The demo: alveus in a minute."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from alveus.cli import options, output, tables
from alveus.cli.demo import kill_proof, learning, sample_conversation
from alveus.cli.exact_memory import drawn
from alveus.cli.options import option
from alveus.cli.session import Session
from alveus.errors import InvalidInput
from alveus.facts import Fact
from alveus.memory.keys import KeyMemory
from alveus.memory.memory import Memory
from alveus.transfer import Load, Target, survey
from alveus.values.lazy_dataclass import dataclass

ASKED = (9, 18, 36, 56)
"""Numbers of the questions that the demo asks."""

SHOWN = 3
STEPS, KILL_AFTER = 400, 150
COLUMNS = 40


@options.command("demo")
def demo_command(
    session: Session, *, fast: bool = option("--fast", "Use the static embedder, which is quicker.")
) -> None:
    """Show in a minute what alveus does.

    Shows facts, recall, scores, exact memory, processes that are killed, and figures. Works in a
    temporary folder, which is removed; with --db in that file, which must not exist and is kept.
    Needs no network, unless $ALVEUS_DEMO_MODEL names a model that finds the facts: gpt-4o-mini, or
    NAME@URL of a server of the OpenAI protocol.

    Example: alveus demo --fast
    """
    if session.db is not None and session.file.exists():
        raise InvalidInput(f"{session.file} already exists; pass a new file for the demo")
    embedder = session.embedder or ("static" if fast else "minilm")
    folder = tempfile.TemporaryDirectory() if session.db is None else nullcontext()
    with folder as temporary:
        path = session.file if temporary is None else Path(temporary) / "demo.db"
        Memory.open(embedder=embedder).close()  # a wrong name fails before a file is created
        if temporary is None:
            session.name_file("made")
        is_complete = _Demo(session, tables.console(), path, embedder).run()
    if not is_complete:
        click.get_current_context().exit(1)


@dataclass(frozen=True, slots=True)
class _Demo:
    session: Session
    out: Console
    path: Path
    embedder: str

    def run(self) -> bool:
        """Run all parts. Return whether the proof succeeds."""
        start = time.perf_counter()
        learns = self._learn()
        with Memory.open(self.path, embedder=self.embedder) as memory:
            key = memory.key(sample_conversation.KEY)
            self._remember(memory)
            self._ask(key)
            self._exact(memory, key)
        holds = self._kill()
        with Memory.open(self.path) as memory:
            self._measure(memory.key(sample_conversation.KEY))
        self._next(time.perf_counter() - start)
        return holds and learns

    def _head(self, title: str) -> None:
        self.out.print()
        self.out.print(Rule(Text(title, style="bold"), align="left", style="dim"))

    def _say(self, text: str, style: str = "") -> None:
        self.out.print(Text(text, style=style))

    # --- the parts ----------------------------------------------------------------------------

    def _learn(self) -> bool:
        self._head("1  Learn: a conversation becomes facts, and they change")
        with Memory.open(self.path, embedder=self.embedder) as memory, learning.model() as model:
            added = learning.add(memory, learning.SAID)
            for text in learning.SAID:
                self._say(f"  Ada: {text}", style="dim")
            ada = memory.key(learning.KEY)
            talk = ada.conversation(learning.TALK)
            self._show(ada.learn(talk, model=model).added, "+")
            name = "rules for English" if model is None else model.name
            self._say(f"Found by {name}. Each fact has the words of its message.")
        for text in learning.SAID_LATER:
            self._say(f"  Ada: {text}", style="dim")
        ended = learning.run_to_death(self.path, self.embedder)
        self._say(f"The process that learns this was killed half-way (signal {ended}). Then:")
        return self._learn_on(added) and bool(ended)

    def _learn_on(self, added: Sequence[str]) -> bool:
        with Memory.open(self.path, embedder=self.embedder) as memory, learning.model() as model:
            ada = memory.key(learning.KEY)
            talk = ada.conversation(learning.TALK)
            ada.learn(talk, model=model)
            facts = ada.facts.list()
            self._show([fact for fact in facts if fact.replaces], "+")
            self._show([fact for fact in facts if fact.replaced_by], "-")
            self.session.settle(memory)
            question = "Where does Ada live?"
            self._say(f"\n? {question}", style="bold yellow")
            for hit in ada.set("facts").search(question, where={"state": "current"}, limit=1):
                self._say(f"  {hit.item.text}")
            talk.forget(added)
            left = ada.facts.list()
        resting = [fact for fact in left if set(fact.sources) & set(added)]
        self._say(
            f"\nHer first {len(added)} messages are forgotten: of {len(facts)} facts {len(left)} "
            f"are left, {len(resting)} of those that rest on them."
        )
        holds = len({fact.text for fact in facts}) == len(facts) and not resting
        verdict = "each message learnt once, and nothing left of what was forgotten"
        self._say(f"{'✓' if holds else '✗ NOT:'} {verdict}", "bold green" if holds else "bold red")
        return holds

    def _show(self, facts: Sequence[Fact], sign: str) -> None:
        for fact in facts:
            self._say(f"{sign} {fact.text}", style="green" if sign == "+" else "red")

    def _remember(self, memory: Memory) -> None:
        self._head("2  Remember: a year of chat between two friends")
        target = Target(sample_conversation.KEY)
        start = time.perf_counter()
        with sample_conversation.source() as source:
            total = survey(source, "conversation", target).entries
            with self.session.progress("adding", total=total) as advance:
                Load(memory).run(source, "conversation", target, progress=advance)
        durable = time.perf_counter() - start
        self.session.settle(memory)
        embedded = time.perf_counter() - start
        self._say(
            f"{total} messages of 24 conversations: durable after {durable:.2f} s, "
            f"all found by meaning after {embedded:.1f} s."
        )
        self._say(f"One file, no server, no API key; the embedder {self.embedder!r} came along.")

    def _ask(self, key: KeyMemory) -> None:
        self._head("3  Ask: every hit says what its score is made of")
        asked = sample_conversation.questions()
        for number in ASKED:
            hits = key.search(asked[number].text, limit=SHOWN)
            self._say(f"\n? {asked[number].text}", style="bold yellow")
            table = tables.explained(hits, width=self.out.width, marked=asked[number].gold)
            self.out.print(table)
        self._say(
            "\nwords: BM25. meaning: 2 x cosine. previous, next: its neighbours in the talk. "
            "✓: the answer.",
            style="dim",
        )

    def _exact(self, memory: Memory, key: KeyMemory) -> None:
        self._head("4  Exact memory: a tree of values, changed together with the items")
        with key.batch(idempotency_key="demo: the move") as batch:
            batch.short_term.set("profile.name", "Ines")
            batch.short_term.set("profile.city", "Trieste")
            batch.short_term.set("profile.languages", ["Portuguese", "Italian", "English"])
            batch.short_term.increment("visits")
            batch.short_term.set("now.mood", "hopeful", ttl=timedelta(hours=8))
            batch.set("facts").add("Moved to Trieste for the museum.", id="move")
        self.out.print(drawn(memory, sample_conversation.KEY, ""))
        self._say("Five values and an item, in one commit: all of it, or nothing.")

    def _kill(self) -> bool:
        self._head("5  Kill: a process that writes is killed in the middle (SIGKILL)")
        with self.session.progress("writing until killed", total=STEPS) as advance:
            said = self._write(KILL_AFTER, advance)
        first = kill_proof.examine(self.path, acknowledged=said)
        self._say(f"Killed after it had acknowledged {said} of {STEPS} commits. Opened again:")
        self._proof(first)
        self._say("\nStarted again, it repeats all steps from the first. When it is done:")
        with self.session.progress("writing again", total=STEPS) as advance:
            said = self._write(None, advance)
        second = kill_proof.examine(self.path, acknowledged=said)
        self._proof(second)
        return first.is_complete and second.is_complete and second.items == STEPS

    def _write(self, kill_after: int | None, advance: Callable[[int], None]) -> int:
        return kill_proof.run_writer(
            self.path, steps=STEPS, kill_after=kill_after, progress=advance
        )

    def _proof(self, proof: kill_proof.Proof) -> None:
        unsaid = proof.items - proof.acknowledged
        late = f", {unsaid} of them durable before it could say so" if unsaid > 0 else ""
        self._say(f"  items found        {proof.items}{late}")
        self._say(f"  the counter says   {proof.counter}")
        self._say(f"  acknowledged, lost {proof.missing}")
        self._say(f"  there twice        {proof.twice}")
        self._say(f"  file damaged       {'; '.join(proof.problems) or 'no'}")
        verdict = "nothing lost, nothing twice, nothing in part"
        if proof.is_complete:
            self._say(f"  ✓ {verdict}", style="bold green")
        else:
            self._say(f"  ✗ NOT: {verdict}", style="bold red")

    def _measure(self, key: KeyMemory) -> None:
        asked = sample_conversation.questions()
        self._head(f"6  Measure: {len(asked)} questions, how much of their answers is found")
        everything = sample_conversation.recall(key, asked)
        words = sample_conversation.recall(key, asked, sample_conversation.WORDS_ALONE)
        for name, found in (("alveus", everything), ("words alone", words)):
            style = "green" if found is everything else "dim"
            for depth, share in found.at.items():
                bar = output.bar(share, 1.0, columns=COLUMNS)
                line = Text(f"{name if depth == 1 else '':12}R@{depth:<3}")
                line.append(bar.ljust(COLUMNS), style=style)
                self.out.print(line.append(f" {share:6.1%}"))
        known = sample_conversation.recall(key, asked)
        self._say(
            f"A search takes {known.search_ms:.1f} ms (median); "
            f"{everything.search_ms:.0f} ms where the question is new and has to be embedded."
        )

    def _next(self, took_s: float) -> None:
        self._head("What to type next")
        alveus = program()
        db = "" if self.session.db is None else f" --db {self.path}"
        if db:
            self._say(f'  {alveus} search{db} --key ines "how is the dog?" --explain')
            self._say(f"  {alveus} tree{db} --key ines")
        else:
            self._say(f"  {alveus} demo --db demo.db        keeps the memory, to play with")
        self._say(f'  {alveus} add --key me "Prefers window seats."')
        self._say(f'  {alveus} search --key me "where do I like to sit?"')
        self._say(f"  {alveus} --help")
        self._say(f"\n{took_s:.1f} s in all.", style="dim")


def program() -> str:
    """Return the command `alveus`, with its path if it is not on PATH (as after `make demo`)."""
    beside = Path(sys.executable).with_name("alveus")
    if shutil.which("alveus") is not None or not beside.exists():
        return "alveus"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)

"""alveus and LangGraph, each asked to do the same; the table of docs/coming-from/langgraph.md.

    python bench/langgraph_side_by_side.py          prints the table

An agent of two steps counts in its state, hands its input from the first step to the second, and
stores an item in the second, which once kills its process. LangGraph has its SQLite checkpointer,
a checkpoint per step, its SQLite store, and `UntrackedValue` for what is of one run. Nothing is
measured: the answers are the same on every machine.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, TypedDict

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from langgraph.channels import UntrackedValue
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

from alveus import Agent, Event, InputEvent, LocalRunner, Memory, OutputEvent, Trim, action
from bench.peers import offline

TEXTS = ("Ada prefers a place by the glass.", "The shop opens at nine.", "Rain is expected.")
ASKED = "which seat does Ada like?"
REQUEST = "order-991"

Answers = Mapping[str, object]


def note(folder: str, step: str) -> None:
    """Write down that a step ran."""
    with Path(folder, "steps").open("a") as steps:
        steps.write(f"{step}\n")


def noted(folder: Path) -> str:
    """Return how often each step ran."""
    steps = (folder / "steps").read_text().split()
    return f"first {steps.count('first')}, second {steps.count('second')}"


def note_left(folder: str, draft: str | None) -> None:
    """Write down what a run finds of the one before."""
    Path(folder, "left").write_text(draft or "nothing")


def left(folder: Path) -> str:
    """Return what the last run found of the one before."""
    return (folder / "left").read_text()


def die_once(folder: str) -> None:
    """Kill this process, the first time."""
    if not (mark := Path(folder, "died")).exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def killed(work: Callable[[Path], object], folder: Path) -> None:
    """Do some work in a process of its own, which is killed."""
    worker = get_context("spawn").Process(target=work, args=(folder,))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL, worker.exitcode


# --- LangGraph ------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    folder: str
    seen: int
    draft: Annotated[str, UntrackedValue]
    output: str


THREAD = {"configurable": {"thread_id": "ada"}}


def plan(state: Any) -> dict[str, Any]:
    note(state["folder"], "first")
    note_left(state["folder"], state.get("draft"))
    return {"seen": state.get("seen", 0) + 1, "draft": "a tent"}


def book(state: Any, *, store: BaseStore) -> dict[str, Any]:
    note(state["folder"], "second")
    store.put(("notes", "ada"), f"note-{os.urandom(4).hex()}", {"text": "Wants a tent."})
    die_once(state["folder"])
    return {"output": state.get("draft", "lost")}


@contextmanager
def graph_in(folder: Path) -> Iterator[tuple[Any, SqliteStore]]:
    """Open the graph with its checkpoints and its store."""
    checkpoints = SqliteSaver.from_conn_string(str(folder / "graph.db"))
    with checkpoints as saver, SqliteStore.from_conn_string(str(folder / "store.db")) as store:
        store.setup()
        made = StateGraph(State)
        made.add_node("plan", plan)
        made.add_node("book", book)
        made.add_edge(START, "plan")
        made.add_edge("plan", "book")
        made.add_edge("book", END)
        yield made.compile(checkpointer=saver, store=store), store


def graph_run(folder: Path) -> object:
    with graph_in(folder) as (graph, _):
        return graph.invoke({"folder": str(folder)}, THREAD, durability="sync")


def langgraph(folder: Path) -> Answers:
    """Return what LangGraph answers."""
    killed(graph_run, folder)
    found: dict[str, object] = {}
    with graph_in(folder) as (graph, store):
        found["state"] = graph.get_state(THREAD).values["seen"]
        found["handed on"] = graph.invoke(None, THREAD, durability="sync")["output"]
        found["steps"] = noted(folder)
        found["items"] = len(store.search(("notes", "ada")))
        graph.invoke({"folder": str(folder)}, THREAD, durability="sync")
        found["again"] = graph.get_state(THREAD).values["seen"]
        then = datetime.now(UTC).isoformat()
        graph.invoke({"folder": str(folder)}, THREAD, durability="sync")
        found["left"] = left(folder)
        before = [s for s in graph.get_state_history(THREAD) if s.created_at < then]
        found["past"] = f"{before[0].values['seen']}, {graph.get_state(THREAD).values['seen']}"
        for number, text in enumerate(TEXTS):
            store.put(("handbook",), str(number), {"text": text})
        best = store.search(("handbook",), query=ASKED)
        found["shared"] = len(best)
        found["meaning"] = "no score" if best[0].score is None else best[0].value["text"]
        for number in range(5):
            store.put(("log", "ada"), str(number), {"text": f"line {number}"})
        found["capacity"] = len(store.search(("log", "ada")))
        found["undone"] = "no such call"
    return found


# --- alveus ---------------------------------------------------------------------------------------


class Planned(Event):
    folder: str


class Shop(Agent):
    @action(InputEvent)
    def plan(self, event, ctx):
        note(event.input, "first")
        note_left(event.input, ctx.sensory_memory.get("draft", None))
        ctx.short_term_memory.increment("seen")
        ctx.sensory_memory.set("draft", "a tent")
        ctx.send_event(Planned(event.input))

    @action(Planned)
    def book(self, event, ctx):
        note(event.folder, "second")
        ctx.long_term_memory.set("notes").add("Wants a tent.")
        die_once(event.folder)
        ctx.send_event(OutputEvent(ctx.sensory_memory.get("draft")))


def shop_run(folder: Path) -> object:
    with Memory.open(folder / "alveus.db") as memory, LocalRunner(Shop, memory) as runner:
        return runner.handle("ada", str(folder), event_id=REQUEST)


def alveus(folder: Path) -> Answers:
    """Return what alveus answers."""
    killed(shop_run, folder)
    found: dict[str, object] = {}
    with Memory.open(folder / "alveus.db") as memory:
        ada = memory.key("ada")
        found["state"] = ada.short_term.get("seen")
        with LocalRunner(Shop, memory) as runner:
            found["handed on"] = runner.handle("ada", str(folder), event_id=REQUEST)[0]
            found["steps"] = noted(folder)
            found["items"] = len(ada.set("notes"))
            runner.handle("ada", str(folder), event_id=REQUEST)
            found["again"] = ada.short_term.get("seen")
            then = datetime.now(UTC)
            runner.handle("ada", str(folder), event_id="order-992")
            found["left"] = left(folder)
        found["past"] = f"{ada.short_term.at(then).get('seen')}, {ada.short_term.get('seen')}"
        handbook = memory.knowledge.set("handbook")
        handbook.add_many(TEXTS)
        best = memory.key("bob").knowledge.set("handbook").search(ASKED)
        found["shared"] = len(best)
        found["meaning"] = best[0].item.text
        log = ada.set("log", capacity=3, compaction=Trim(n=1), execution="sync")
        for number in range(5):
            log.add(f"line {number}")
        found["capacity"] = len(log)
        for done in log.compactions():
            log.undo(done.id)
        found["undone"] = len(log)
    return found


# --- side by side ---------------------------------------------------------------------------------

ROWS = {
    "state": "A process is killed in the second step: the count in the state, in another process",
    "steps": "That process resumes the run: how often each step ran in total",
    "items": "A step that stores one item is killed in its first try: how many items the store has",
    "handed on": "A value of this run only, set in the first step: what the second try reads",
    "left": "What the next run finds of that value",
    "again": "The same request arrives again: the count",
    "past": "After one more run: the count before it, and after it",
    "shared": "Three texts stored for all: how many another user's search returns",
    "meaning": f'Best result for "{ASKED}" without any setup',
    "capacity": "Five items are stored with a capacity of three: how many remain",
    "undone": "How many there are after undoing that",
}


def table() -> list[str]:
    """Return the table in Markdown."""
    with tempfile.TemporaryDirectory() as home:
        offline(Path(home))
        answers: list[Answers] = []
        for each in (langgraph, alveus):
            folder = Path(home, each.__name__)
            folder.mkdir()
            answers.append(each(folder))
    theirs, ours = answers
    packages = ("langgraph", "langgraph-checkpoint-sqlite")
    lines = [
        f"| | {', '.join(f'{name} {version(name)}' for name in packages)} | alveus |",
        "|---|---|---|",
    ]
    return lines + [f"| {said} | {theirs[row]} | {ours[row]} |" for row, said in ROWS.items()]


if __name__ == "__main__":
    print("\n".join(table()))

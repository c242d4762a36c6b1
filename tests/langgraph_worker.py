"""A graph of LangGraph whose process is killed in its second step, the first time."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from alveus.integrations.langgraph import AlveusSaver


class State(TypedDict):
    steps: list[str]


def graph(saver: AlveusSaver, mark: Path):
    def first(state: State) -> State:
        with mark.open("a") as log:
            log.write("first\n")
        return {"steps": [*state["steps"], "first"]}

    def second(state: State) -> State:
        with mark.open("a") as log:
            log.write("second\n")
        if mark.read_text().count("second") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"steps": [*state["steps"], "second"]}

    built = StateGraph(State)
    built.add_node("first", first)
    built.add_node("second", second)
    built.add_edge(START, "first")
    built.add_edge("first", "second")
    built.add_edge("second", END)
    return built.compile(checkpointer=saver)


def main() -> None:
    folder, begins = Path(sys.argv[1]), sys.argv[2] == "begin"
    with AlveusSaver.from_conn_string(str(folder / "app.db"), embedder="words") as saver:
        config: RunnableConfig = {"configurable": {"thread_id": "ada"}}
        asked = State(steps=[]) if begins else None
        made = graph(saver, folder / "mark").invoke(asked, config, durability="sync")
        sys.stdout.write(f"{made['steps']}\n")


if __name__ == "__main__":
    main()

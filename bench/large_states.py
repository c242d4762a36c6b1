"""A LangGraph thread of many photos, in LangGraph's SQLite saver and in alveus's.

    python bench/large_states.py [--photos N] [--bytes N] [--forms FORM,...] [--savers NAME,...]

Each photo is a turn: it comes in, and a node answers. Then the thread is opened again, read,
forked from its first checkpoint, listed and deleted, each saver in a process of its own. Disk is
what the folder takes after the turns, once the saver is closed. Memory is how far the resident set
grew within one call of the saver, at most, over the largest value of a channel.

Forms: `messages` (a data URL in a content part of a message; `add_messages`), `bytes` (a list of
bytes that grows), `channels` (a channel for each photo), `delta` (a delta channel of messages).
"""

from __future__ import annotations

import argparse
import base64
import json
import operator
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages

from bench.peers import offline

FORMS = ("messages", "bytes", "channels", "delta")
SAVERS = ("sqlite", "alveus", "postgres")
MEGABYTE = 1 << 20
THREAD: Any = {"configurable": {"thread_id": "ada"}}


def photo(number: int, size: int) -> bytes:
    """Return what compresses as little as a photo does."""
    return random.Random(number).randbytes(size)


def message(raw: bytes) -> HumanMessage:
    """Return a message with a photo, as chat models take it."""
    url = f"data:image/jpeg;base64,{base64.b64encode(raw).decode()}"
    parts: list[Any] = [
        {"type": "text", "text": "Who is this?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    return HumanMessage(parts)


# --- graphs ---------------------------------------------------------------------------------------


REDUCER: Any = _messages_delta_reducer


class Messages(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(REDUCER)]


class Bytes(TypedDict):
    photos: Annotated[list[bytes], operator.add]


def graph_of(form: str, photos: int, saver: Any) -> Any:
    """Return a graph whose state takes photos in this form."""
    made: Any = TypedDict
    channels = made("Channels", {f"photo{number}": bytes for number in range(photos)})
    state: Any = {"messages": Messages, "delta": Delta, "bytes": Bytes, "channels": channels}[form]

    def answer(state: Any) -> dict[str, Any]:
        del state
        return {"messages": [AIMessage("Ada.")]} if form in ("messages", "delta") else {}

    built = StateGraph(state)
    built.add_node("answer", answer)
    built.add_edge(START, "answer")
    built.add_edge("answer", END)
    return built.compile(checkpointer=saver)


def given(form: str, number: int, size: int) -> dict[str, Any]:
    """Return what comes in with a photo."""
    raw = photo(number, size)
    if form == "bytes":
        return {"photos": [raw]}
    return {f"photo{number}": raw} if form == "channels" else {"messages": [message(raw)]}


def held(form: str, values: dict[str, Any]) -> int:
    """Return how many photos a state has."""
    if form == "channels":
        return len(values)
    if form == "bytes":
        return len(values["photos"])
    return sum(isinstance(each, HumanMessage) for each in values["messages"])


# --- savers ---------------------------------------------------------------------------------------


@contextmanager
def saver_in(name: str, folder: Path) -> Iterator[Any]:
    """Open a saver."""
    if name == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
            yield saver
        return
    from alveus import Memory
    from alveus.integrations.langgraph import AlveusSaver

    address = (folder / "address").read_text() if name == "postgres" else str(folder / "app.db")
    with Memory.open(address, embedder="words") as memory:
        yield AlveusSaver(memory)


def size_of(folder: Path) -> int:
    """Return the bytes of a folder on disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


# --- measuring ------------------------------------------------------------------------------------


def status(field: str) -> int:
    """Return a figure of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


class Growth:
    """How far the resident set grew within calls, at most; of each call by its name."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}

    def watch(self, saver: Any) -> None:
        """Note it of a saver's calls."""
        for name in ("put", "put_writes", "get_tuple"):
            setattr(saver, name, self._watched(name, getattr(saver, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = status("VmRSS")
            try:
                return call(*args, **options)
            finally:
                self.most[name] = max(self.most.get(name, 0), status("VmHWM") - before)

        return watched


def measured(name: str, form: str, photos: int, size: int, folder: Path) -> dict[str, Any]:
    """Have a saver keep a thread of photos; return what that took."""
    found: dict[str, Any] = {}
    growth = Growth()

    def timed(what: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        answer = call()
        found[what] = round(time.perf_counter() - start, 2)
        return answer

    def turns(graph: Any) -> None:
        for number in range(photos):
            graph.invoke(given(form, number, size), THREAD, durability="sync")

    with saver_in(name, folder) as saver:
        growth.watch(saver)
        timed("turns", lambda: turns(graph_of(form, photos, saver)))
    found["disk"] = size_of(folder)
    with saver_in(name, folder) as saver:
        growth.watch(saver)
        graph = graph_of(form, photos, saver)
        state = timed("read", lambda: graph.get_state(THREAD))
        assert held(form, state.values) == photos
        timed("resume", lambda: graph.invoke(None, state.config, durability="sync"))
        # Not get_state_history: LangGraph keeps all that it lists until the last one came.
        states = timed("list", lambda: [each.config for each in saver.list(THREAD)])
        found["checkpoints"] = len(states)
        first = states[-2]  # with the first photo
        timed("fork", lambda: graph.update_state(first, given(form, 0, size)))
        timed("delete", lambda: saver.delete_thread("ada"))
        assert graph.get_state(THREAD).values == {}
    found["memory"] = {call: round(most / MEGABYTE) for call, most in growth.most.items()}
    return found


# --- side by side ---------------------------------------------------------------------------------


def in_a_process(name: str, form: str, photos: int, size: int, home: Path) -> dict[str, Any]:
    """Measure in a process of its own; return what it prints."""
    folder = home / f"{name}-{form}"
    folder.mkdir()
    command = [sys.executable, str(Path(__file__)), "--one", name, form, str(folder)]
    sizes = ["--photos", str(photos), "--bytes", str(size)]
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=False)
    shutil.rmtree(folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def row(name: str, form: str, found: dict[str, Any], largest: int) -> str:
    """Return a row of the table."""
    parts = [f"{found[what]:.1f}" for what in ("turns", "read", "list", "fork", "delete")]
    memory = found["memory"]
    grown = max(memory.values())
    parts.append(f"{found['disk'] / MEGABYTE:,.0f}")
    parts.append(f"{grown} ({grown * MEGABYTE / largest:.1f} x)")
    return f"| {form} | {name} | {' | '.join(parts)} |"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--photos", type=int, default=50)
    options.add_argument("--bytes", type=int, default=4_000_000)
    options.add_argument("--forms", default=",".join(FORMS))
    options.add_argument("--savers", default="sqlite,alveus")
    options.add_argument("--work", help="a folder with room; the default is that of tempfile")
    options.add_argument("--one", nargs=3, metavar=("SAVER", "FORM", "FOLDER"))
    asked = options.parse_args()
    if asked.one:
        name, form, folder = asked.one
        offline(Path(folder))
        print(json.dumps(measured(name, form, asked.photos, asked.bytes, Path(folder))))
        return
    print("| form | saver | turns, s | read | list | fork | delete | disk, MB | memory, MB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=asked.work) as home:
        for form in asked.forms.split(","):
            largest = asked.bytes * (1 if form == "channels" else asked.photos)
            largest = largest * 4 // 3 if form in ("messages", "delta") else largest
            for name in asked.savers.split(","):
                found = in_a_process(name, form, asked.photos, asked.bytes, Path(home))
                print(row(name, form, found, largest), flush=True)
                print(f"<!-- {json.dumps(found)} -->", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

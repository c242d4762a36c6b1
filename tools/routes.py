"""Print the ways of the calls that users make: through how many rooms, files and functions.

    python tools/routes.py                          this checkout
    python tools/routes.py --files add              the files of a call
    PYTHONPATH=OTHER/src python tools/routes.py     another one

Each call is made twice on a small memory in a file, and the second time is profiled in all threads,
so that imports and what is made once do not count. A room is a package or a module right below
`alveus`; a file counts if one of its functions ran; a crossing is a call whose function lies in
another room than that of the call before it.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import alveus
from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, RunnerContext, action

PACKAGE = str(Path(alveus.__file__).parent) + "/"


def room_of(code: CodeType) -> str:
    """Return the room of a function of alveus."""
    return code.co_filename.removeprefix(PACKAGE).split("/")[0].removesuffix(".py")


class Route:
    """What ran of alveus while a call was profiled."""

    def __init__(self) -> None:
        self.calls = list[CodeType]()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call of a function of alveus."""
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.calls.append(frame.f_code)

    def files(self) -> list[str]:
        """Return each file with the functions that ran, in the order of their first call."""
        found: dict[str, dict[str, None]] = {}
        for code in self.calls:
            name = code.co_filename.removeprefix(PACKAGE)
            found.setdefault(name, {})[code.co_qualname] = None
        return [f"{name}: {', '.join(functions)}" for name, functions in found.items()]

    def row(self) -> tuple[int, ...]:
        """Return the numbers of `HEADER`."""
        files = {code.co_filename for code in self.calls}
        rooms = {room_of(code) for code in self.calls}
        return len(rooms), len(files), len(set(self.calls)), len(self.calls), self._crossings()

    def _crossings(self) -> int:
        rooms = [room_of(code) for code in self.calls]
        return sum(before != after for before, after in pairwise(rooms))


def look_up(topic: str) -> str:
    """Return what a call to the world does."""
    return topic.upper()


@action(InputEvent)
def plain(event: InputEvent, ctx: RunnerContext) -> None:
    """Change exact and vague memory, and answer."""
    ctx.short_term_memory.set("last", event.input)
    ctx.long_term_memory.add(str(event.input))
    ctx.send_event(OutputEvent(event.input))


@action(InputEvent)
def durable(event: InputEvent, ctx: RunnerContext) -> None:
    """Make one durable call, and answer."""
    ctx.send_event(OutputEvent(ctx.durable(look_up, str(event.input))))


def routes(
    memory: Memory, told: LocalRunner, asked: LocalRunner
) -> dict[str, Callable[[], object]]:
    """Return the calls, by name."""
    ada = memory.key("ada")
    return {
        "add": lambda: ada.add("Prefers window seats.", metadata={"topic": "travel"}),
        "get": lambda: ada.get("a"),
        "search": lambda: ada.search("which seat?", limit=3),
        "set a value": lambda: ada.short_term.set("profile.city", "Lisbon"),
        "context": lambda: memory.context("which seat?", key="ada", budget_tokens=500),
        "submit": lambda: told.handle("bob", "hello"),
        "durable": lambda: asked.handle("eve", "tent"),
        "forget": lambda: ada.forget([str(ada.recent(1)[0].id)], scrub="later"),
    }


def main() -> None:
    """Print a row for each call."""
    rows: dict[str, tuple[int, ...]] = {}
    route = Route()
    threading.setprofile(route.profile)  # for the runners' threads
    with TemporaryDirectory() as folder, Memory.open(f"{folder}/a.db", embedder="static") as memory:
        memory.key("ada").add("Likes the aisle.", id="a")
        told, asked = Agent("plain", actions=[plain]), Agent("durable", actions=[durable])
        with LocalRunner(told, memory) as first, LocalRunner(asked, memory) as second:
            for name, call in routes(memory, first, second).items():
                call()
                route.calls.clear()
                sys.setprofile(route.profile)
                call()
                sys.setprofile(None)
                rows[name] = route.row()
                if sys.argv[1:] == ["--files", name]:
                    print(*route.files(), sep="\n")
    threading.setprofile(None)
    if "--files" in sys.argv[1:]:
        return
    if "--json" in sys.argv[1:]:
        print(json.dumps({name: dict(zip(HEADER, row, strict=True)) for name, row in rows.items()}))
        return
    print(f"{'route':14}" + "".join(f"{name:>11}" for name in HEADER))
    for name, row in rows.items():
        print(f"{name:14}" + "".join(f"{count:11,}" for count in row))


HEADER = ("rooms", "files", "functions", "calls", "crossings")


if __name__ == "__main__":
    main()

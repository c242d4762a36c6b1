"""Anthropic's memory tool: with the SDK's own runner, and beside its tool on a file system."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.tools import BetaLocalFilesystemMemoryTool, ToolError

from alveus import Memory
from alveus.errors import InvalidInput, StoreClosed
from alveus.integrations.anthropic_memory import AlveusAsyncMemoryTool, AlveusMemoryTool
from answering import Answers, listening
from frameworks_tried import counted
from waiting import LIMIT_S

SEAT = {"command": "create", "path": "/memories/seat.md", "file_text": "Sits by the glass.\n"}


@contextmanager
def scripted_model(*uses: Any) -> Iterator[tuple[str, list[Any]]]:
    """A server of the Messages API whose model calls the tool, then ends; what it was asked."""
    asked: list[Any] = []

    class Model(Answers):
        def post(self) -> None:
            asked.append(json.loads(self.body()))
            turn = len(asked) - 1
            part: Any = {"type": "text", "text": "Done."}
            if turn < len(uses):
                use = {"type": "tool_use", "id": f"t{turn}", "name": "memory"}
                part = {**use, "input": uses[turn]}
            self.answer(
                {
                    "id": f"m{turn}",
                    "type": "message",
                    "role": "assistant",
                    "model": "scripted",
                    "content": [part],
                    "stop_reason": "tool_use" if turn < len(uses) else "end_turn",
                    "stop_sequence": None,
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                }
            )

    with listening(Model) as url:
        yield url, asked


def results(asked):
    """Return what the model was told by the tool, and whether it was an error."""
    return [
        (_text(part["content"]), bool(part.get("is_error")))
        for request in asked[1:]
        for part in request["messages"][-1]["content"]
    ]


def _text(content):
    return content if isinstance(content, str) else "".join(one["text"] for one in content)


LOOK = {"command": "view", "path": "/memories"}
REQUEST = {
    "model": "scripted",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Remember that I sit by the glass."}],
}


def test_a_model_keeps_files(tmp_path):
    """The SDK's runner gives the tool what a model asks for; what was kept is searched."""
    uses = (LOOK, SEAT, LOOK, {"command": "view", "path": "/memories/none"})
    with scripted_model(*uses) as (url, asked), Memory.open(tmp_path / "a.db") as memory:
        tool = AlveusMemoryTool(memory, key="ada", cache_control={"type": "ephemeral"})
        with Anthropic(base_url=url, api_key="any") as client:
            last = client.beta.messages.tool_runner(**REQUEST, tools=[tool]).until_done()
        assert last.content[0].text == "Done."
        told = {"type": "memory_20250818", "name": "memory"}
        assert asked[0]["tools"] == [{**told, "cache_control": {"type": "ephemeral"}}]
        empty, made, full, missing = results(asked)
        assert empty[0].splitlines()[1:] == ["0B\t/memories"]
        assert made == ("File created successfully at: /memories/seat.md", False)
        assert full[0].splitlines()[1:] == ["19B\t/memories", "19B\t/memories/seat.md"]
        assert "does not exist" in missing[0]
        assert missing[1]
        (hit,) = memory.key("ada").search("Which seat does she like?")
        assert (hit.item.id, hit.item.text) == ("/memories/seat.md", "Sits by the glass.\n")


def test_an_async_client_has_the_same(tmp_path):
    """And the memory that the tool opened is closed with it, for good."""

    async def use(url):
        tool = AlveusAsyncMemoryTool(tmp_path / "a.db", key="ada", deleting="forget")
        uses = [
            SEAT,
            {
                "command": "str_replace",
                "path": SEAT["path"],
                "old_str": "glass",
                "new_str": "aisle",
            },
            {"command": "insert", "path": SEAT["path"], "insert_line": 1, "insert_text": "Always."},
            {"command": "view", "path": SEAT["path"]},
            {"command": "rename", "old_path": SEAT["path"], "new_path": "/memories/a/seat"},
            {"command": "delete", "path": "/memories/a"},
        ]
        told: list[Any] = [await tool.call(one) for one in uses]
        async with AsyncAnthropic(base_url=url, api_key="any") as client:
            await client.beta.messages.tool_runner(**REQUEST, tools=[tool]).until_done()
        assert await tool.clear_all_memory() == "All memory cleared"
        tool.close()
        with pytest.raises(StoreClosed):
            await tool.call(LOOK)
        return told

    with scripted_model(SEAT) as (url, asked):
        told = asyncio.run(use(url))
    assert results(asked) == [("File created successfully at: /memories/seat.md", False)]
    assert told[3].splitlines()[1:] == ["     1\tSits by the aisle.", "     2\tAlways.", "     3\t"]
    assert told[5] == "Successfully deleted /memories/a"
    with Memory.open(tmp_path / "a.db") as memory:
        assert memory.key("ada").set("memories").history("/memories/a/seat") == []


def outcome(tool: Any, command: Any) -> str:
    """Return what a tool says, or the error that it tells."""
    try:
        return tool.call(command)
    except ToolError as error:
        return f"error: {error}"


WHOLE = [
    {"command": "create", "path": "/memories/b", "file_text": "x"},
    {"command": "view", "path": "/memories/a"},
    {"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "two"},
    {"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"},
    {"command": "delete", "path": "/memories/a"},
    {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
]
"""A command of each kind, with all that it needs."""


@pytest.mark.parametrize("command", WHOLE, ids=lambda command: command["command"])
def test_a_command_that_lacks_something_is_told_what(command):
    """A model leaves something out, or sends a list: it is told so, and nothing changes."""
    with Memory.open(embedder="words") as memory:
        tool = AlveusMemoryTool(memory, key="ada")
        tool.call({"command": "create", "path": "/memories/a", "file_text": "one"})
        for name in command.keys() - {"command"}:
            lacking = {field: value for field, value in command.items() if field != name}
            said = f"error: Invalid `{name}` parameter. It is"
            assert outcome(tool, lacking).startswith(f"{said} missing. It should be a ")
            assert outcome(tool, lacking | {name: ["x"]}).startswith(f"{said} ['x']. It should be")
        assert [item.value for item in memory.key("ada").set("memories").list()] == ["one"]


def random_command(dice):
    """Make up a command on a few files."""
    places = ["/memories/a", "/memories/b.md", "/memories/d/a", "/memories/d/e/f", "/memories/.h"]
    texts = ["one", "two\ntwo\n", "", "a\nb\r\nc", "one two one"]
    path, line = dice.choice(places), dice.randrange(-1, 4)
    return dice.choice(
        [
            {"command": "create", "path": path, "file_text": dice.choice(texts)},
            {"command": "view", "path": path},
            {"command": "view", "path": path, "view_range": [1, dice.choice([-1, 1, 2])]},
            {
                "command": "str_replace",
                "path": path,
                "old_str": dice.choice(["one", "two", "b"]),
                "new_str": dice.choice(["three", "", "x\ny"]),
            },
            {"command": "insert", "path": path, "insert_line": line, "insert_text": "new\n"},
            {"command": "delete", "path": path},
            {"command": "rename", "old_path": path, "new_path": dice.choice(places)},
        ]
    )


def test_it_answers_as_the_tool_on_a_file_system(tmp_path):
    """Random commands have the same answers, word by word, and leave the same files."""
    dice = random.Random(7)
    with Memory.open(tmp_path / "a.db", embedder="words", durability="normal") as memory:
        ours = AlveusMemoryTool(memory, key="ada")
        theirs = BetaLocalFilesystemMemoryTool(str(tmp_path / "files"))
        answers = []
        for _ in range(400):
            command = random_command(dice)
            answers.append((outcome(ours, command), outcome(theirs, command), command))
        differ = [one for one in answers if one[0] != one[1]]
        assert differ == []
        assert sum(not one[0].startswith("error") for one in answers) > 100
        root = tmp_path / "files" / "memories"
        kept = {f"/memories/{p.relative_to(root)}": p.read_bytes().decode() for p in files_in(root)}
        assert {item.id: item.value for item in memory.key("ada").set("memories").list()} == kept
        counted("Anthropic's SDK", commands=len(answers))


def files_in(root):
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "path",
    ["", "memories/a", "/etc/passwd", "/memories/../a", "/memories/a/../../b", "/memoriesx/a", "/"],
)
def test_no_path_leads_out(tmp_path, path):
    """Every command refuses it, and nothing is written."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        tool = AlveusMemoryTool(memory, key="ada")
        tool.call(SEAT)
        for command in (
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": "x"},
            {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": "y"},
            {"command": "delete", "path": path},
            {"command": "rename", "old_path": path, "new_path": "/memories/x"},
            {"command": "rename", "old_path": SEAT["path"], "new_path": path},
        ):
            assert outcome(tool, command).startswith("error: ")
        assert [item.id for item in memory.key("ada").set("memories").list()] == [SEAT["path"]]


def test_what_cannot_be_done_is_told(tmp_path):
    """A folder is no file, a file no folder, and the root stays."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        tool = AlveusMemoryTool(memory, key="ada")
        for path in ("/memories/d/a", "/memories/f"):
            tool.call({"command": "create", "path": path, "file_text": "x"})
        many = {"command": "create", "path": "/memories/many", "file_text": "\n" * 1_000_000}
        tool.call(many)
        memory.key("ada").set("memories").redefine(capacity=3, compaction="reject")
        for command, told in (
            ({"command": "delete", "path": "/memories"}, "Cannot delete"),
            ({"command": "delete", "path": "/memories/none"}, "does not exist"),
            ({"command": "rename", "old_path": "/memories", "new_path": "/memories/x"}, "Cannot"),
            (
                {"command": "rename", "old_path": "/memories/d", "new_path": "/memories/d/e"},
                "into itself",
            ),
            ({"command": "create", "path": "/memories/d", "file_text": ""}, "already exists"),
            ({"command": "create", "path": "/memories/f/x", "file_text": ""}, "not a directory"),
            (
                {"command": "insert", "path": "/memories/d", "insert_line": 0, "insert_text": ""},
                "not",
            ),
            ({"command": "view", "path": "/memories/many"}, "999,999 lines"),
            ({"command": "create", "path": "/memories/x", "file_text": "x"}, "capacity"),
        ):
            answer = outcome(tool, command)
            assert answer.startswith("error: ")
            assert told in answer
        with pytest.raises(InvalidInput):
            AlveusMemoryTool(memory, key="ada", deleting=cast("Any", "hide"))


def test_folders_are_listed_two_levels_deep(tmp_path):
    """With their sizes, without what is hidden; what is deleted stays in the history."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        tool: Any = AlveusMemoryTool(memory, key="ada")
        for path, size in (("a/b/c/d", 2048), ("a/x", 10), (".h/x", 5), ("z", 1536)):
            command = {"command": "create", "path": f"/memories/{path}", "file_text": "x" * size}
            tool.call(command)
        assert tool.call(LOOK).splitlines()[1:] == [
            "3.5K\t/memories",
            "2.0K\t/memories/a/",
            "2K\t/memories/a/b/",
            "10B\t/memories/a/x",
            "1.5K\t/memories/z",
        ]
        assert "/memories/a/b/c/" in tool.call({"command": "view", "path": "/memories/a/"})
        tool.call({"command": "delete", "path": "/memories/a"})
        kept = memory.key("ada").set("memories")
        assert [item.id for item in kept.list()] == ["/memories/.h/x", "/memories/z"]
        assert len(kept.history("/memories/a/x")) == 1
        assert tool.clear_all_memory() == "All memory cleared"
        assert len(kept) == 0


def test_edits_side_by_side_are_all_kept(tmp_path):
    """Threads that edit one file do not undo each other."""
    with Memory.open(tmp_path / "a.db", embedder="words", durability="normal") as memory:
        tool = AlveusMemoryTool(memory, key="ada")
        lines = "".join(f"line {n}.\n" for n in range(40))
        tool.call({"command": "create", "path": "/memories/a", "file_text": lines})

        def edit(first):
            for n in range(first, 40, 4):
                old, new = f"line {n}.", f"edited {n}."
                edit = {"command": "str_replace", "path": "/memories/a"}
                tool.call({**edit, "old_str": old, "new_str": new})

        threads = [threading.Thread(target=edit, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (item,) = memory.key("ada").set("memories").list()
        assert item.value == "".join(f"edited {n}.\n" for n in range(40))


EDITS = """
import sys
from alveus.integrations.anthropic_memory import AlveusMemoryTool
tool = AlveusMemoryTool(sys.argv[1], key="ada")
sys.stdin.readline()
for n in range(int(sys.argv[2]), 20, 2):
    edit = {"command": "str_replace", "path": "/memories/a"}
    tool.call({**edit, "old_str": f"line {n}.", "new_str": f"edited {n}."})
tool.close()
"""


def test_edits_of_two_processes_are_all_kept(tmp_path):
    """Each reads the file again that the other has changed meanwhile."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        tool = AlveusMemoryTool(memory, key="ada")
        lines = "".join(f"line {n}.\n" for n in range(20))
        tool.call({"command": "create", "path": "/memories/a", "file_text": lines})
    editors = [
        subprocess.Popen(
            [sys.executable, "-c", EDITS, str(tmp_path / "a.db"), str(first)],
            stdin=subprocess.PIPE,
            text=True,
        )
        for first in range(2)
    ]
    for editor in editors:
        assert editor.stdin is not None
        editor.stdin.write("go\n")
        editor.stdin.close()
    assert [editor.wait(LIMIT_S) for editor in editors] == [0, 0]
    with Memory.open(tmp_path / "a.db") as memory:
        (item,) = memory.key("ada").set("memories").list()
    assert item.value == "".join(f"edited {n}.\n" for n in range(20))

"""Imports of files in which a record cannot be used: it is left out, counted and named."""

from __future__ import annotations

import io
import json
import sqlite3
from typing import Any

import pytest
from click.testing import CliRunner

from alveus import Memory
from alveus.cli.app import alveus
from alveus.errors import InvalidInput
from alveus.transfer import Load, Source, Target, export_lines, history_lines, import_file, survey

TIMED = {"session_id": "s", "date": "2026-01-01T00:00:00Z"}
TURNS = [{"id": "1", "speaker": "Ada", "text": "Tea."}, {"id": "2", "text": 5}]
TALK = {"id": "c", "sessions": [{**TIMED, "turns": TURNS}, {"session_id": "", "turns": []}]}
NODES = {
    "1": {"message": {"id": "1", "author": {"role": "user"}, "content": {"parts": ["Tea."]}}},
    "2": {"parent": "1", "message": {"id": "2", "author": {"role": 7}, "content": {}}},
}
FILES: dict[str, tuple[Any, list[Any], str]] = {
    "items": ("items", [{"text": "Tea."}, {"text": 5}], "2: an item needs"),
    "items that are no JSON": ("items", [{"text": "Tea."}, "{"], "2: is not JSON"),
    "items that are no objects": ("items", [{"text": "Tea."}, [7]], "2: is JSON, but not an obj"),
    "items of one id": (
        "items",
        [{"id": "a", "text": "Tea."}, {"id": "a", "text": "x"}],
        "2: 'a' is also on",
    ),
    "chat": ("chat", [{"role": "user", "content": "Tea."}, {"role": "user"}], "2: a message needs"),
    "a conversation": (
        "chat",
        [{"id": "c", "messages": [{"role": "user", "content": "Tea."}, 7, {"role": 1}]}],
        "1: message [23]: ",
    ),
    "ChatGPT's": ("chat", [{"id": "c", "mapping": NODES}], '1: message .*: "role" must be'),
    "conversation": ("conversation", [TALK], r"1: (turn 2 of s of 'c'|session 2): "),
    "locomo": (
        "locomo",
        [{"sample_id": "c", "conversation": {
            "session_1_date_time": "7:42 pm on 5 February, 2025",
            "session_1": [{"speaker": "Ada", "dia_id": "1", "text": "Tea."}, 7], "session_2": 7}}],
        "1: (turn 2 of session_1|session_2 )",
    ),
    "mem0": ("mem0", [{"id": "1", "memory": "Tea."}, {"id": "2", "memory": 5}], "2: a memory"),
    "langgraph": (
        "langgraph",
        [{"namespace": ["a"], "key": "k", "value": {"text": "Tea."}}, {"namespace": [], "key": 1}],
        "2: an item's key",
    ),
    "mcp-memory": (
        "mcp-memory",
        [
            {"type": "entity", "name": "Ada", "entityType": "", "observations": ["Tea."]},
            {"type": "entity", "name": "Ada", "entityType": "", "observations": ["Wine."]},
            {"type": "entity", "name": 5, "entityType": "", "observations": []},
        ],
        "(2: 'Ada' is also|3: the name of an entity)",
    ),
    "alveus": (
        "alveus",
        [
            {"type": "alveus", "format": 1},
            {"type": "item", "key": "ada", "set": "default", "id": "a", "value": "Tea."},
            {"type": "item", "key": "ada", "set": "default", "id": "b"},
            {"type": "item", "key": "ada", "set": "default", "id": "a", "value": "Wine."},
            {"type": "value", "key": "ada", "path": []},
            "{",
        ],
        "[3456]: ",
    ),
}  # fmt: skip


def written(records, *, document=False):
    """Return a file: a record per line, or a list."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in records]
    return f"[{','.join(texts)}]" if document else "\n".join(texts)


@pytest.mark.parametrize("name", FILES)
def test_all_is_imported_but_for_records_that_cannot_be(name, tmp_path):
    """They are named by their lines; the same file again adds nothing; strict refuses it whole."""
    layout, records, problem = FILES[name]
    path = tmp_path / "file"
    path.write_text(written(records))
    target = None if layout == "alveus" else Target("ada")
    with Memory.open(embedder="words") as memory:
        with pytest.raises(InvalidInput, match=problem):
            import_file(memory, path, layout=layout, target=target, on_invalid="error")
        assert not list(memory.keys())
        first = import_file(memory, path, layout=layout, target=target)
        (item,) = memory.key("ada").list()
        assert "Tea." in item.text
        assert first.done.added == 1
        assert first.survey.invalid == len(first.survey.problems) >= 1
        for said in first.survey.problems:
            assert said.startswith(f"{path}:")
        again = import_file(memory, path, layout=layout, target=target)
        assert (again.done.added, again.survey) == (0, first.survey)


@pytest.mark.parametrize("name", FILES)
def test_no_record_is_imported_in_part(name, tmp_path):
    """What is there afterwards is what a file without those records would have given."""
    layout, records, _ = FILES[name]
    target = None if layout == "alveus" else Target("ada")
    with Memory.open(embedder="words") as memory:
        source = Source("f", io.BytesIO(written(records).encode()))
        survey(source, layout, target, on_invalid="skip")
        Load(memory, on_invalid="skip", on_existing="update").run(source, layout, target)
        assert len(memory.key("ada").list()) == 1
        assert len(memory.key("ada").list()[0].text) < 12
        assert not memory.key("ada").short_term.get_field_names()


def test_a_list_of_records_is_read_on_behind_one_that_is_none(tmp_path):
    """But a document that breaks off is refused: nobody knows what it would have had."""
    path = tmp_path / "file"
    path.write_text(written([{"text": "Tea."}, 7, {"text": "Wine."}], document=True))
    with Memory.open(embedder="words") as memory:
        done = import_file(memory, path, target=Target("ada"))
        assert (done.done.added, done.survey.invalid) == (2, 1)
        path.write_text('[{"text": "Beer."}, {"text": ')
        with pytest.raises(InvalidInput, match="not JSON"):
            import_file(memory, path, target=Target("ada"))
        assert len(memory.key("ada").list()) == 2


def test_a_file_of_which_nothing_can_be_used_is_refused(tmp_path):
    """As with a wrong option: an import of nothing is no success."""
    path = tmp_path / "file"
    path.write_text(written([{"text": "Tea.", "time": "2026-01-01T10:00"}] * 3))
    with Memory.open(embedder="words") as memory, pytest.raises(InvalidInput, match="no zone"):
        import_file(memory, path, target=Target("ada"))


def test_a_set_and_a_history_are_whole_or_refused(tmp_path):
    """Items would go into a set of another definition; a commit follows the one before it."""
    with Memory.open(embedder="words") as memory:
        memory.key("ada").set("notes", capacity=5).add("Tea.", id="a")
        memory.key("ada").set("notes").add("Wine.", id="b")
        now, history = list(export_lines(memory)), list(history_lines(memory))
    path = tmp_path / "file"
    for lines, of in ((now, '"type":"set"'), (history, '"type":"item"'), (now, '"type":"alveus"')):
        at = next(at for at, line in enumerate(lines) if of in line)
        broken = [*lines[:at], lines[at].replace("{", '{"odd":1,', 1), *lines[at + 1 :]]
        if of == '"type":"alveus"':
            broken[at] = broken[at].replace('"format":', '"format":9')
        path.write_text("\n".join(broken))
        with Memory.open(embedder="words") as memory:
            with pytest.raises(InvalidInput):
                import_file(memory, path)
            assert not list(memory.keys())


def test_a_row_that_cannot_be_read_is_left_out(tmp_path):
    """Of the file of a store of LangGraph."""
    path = tmp_path / "store.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
    for key, value in (("a", '{"text": "Tea."}'), ("b", "{")):
        row = ("notes", key, value, "2026-01-01 10:00:00", "2026-01-01 10:00:00")
        db.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?)", row)
    db.commit()
    db.close()
    with Memory.open(embedder="words") as memory:
        done = import_file(memory, path, target=Target("ada"))
        assert (done.done.added, done.survey.invalid) == (1, 1)
        assert "cannot be read" in done.survey.problems[0]


def test_a_line_that_is_not_utf8_is_left_out(tmp_path):
    """It is named; the others are imported."""
    path = tmp_path / "file"
    path.write_bytes(b'{"text": "Tea."}\n{"text": "caf\xe9"}\n')
    with Memory.open(embedder="words") as memory:
        done = import_file(memory, path, target=Target("ada"))
    assert (done.done.added, done.survey.invalid) == (1, 1)
    assert "not UTF-8" in done.survey.problems[0]


def test_the_command_line_names_what_it_left_out(tmp_path):
    """On stderr, with its line; the exit code is 4. With --strict nothing is imported."""
    path, db = tmp_path / "file", ["--db", str(tmp_path / "memory.db"), "--embedder", "words"]
    path.write_text(written([{"text": "Tea."}, {"text": 5}, {"text": "caf\ud800"}]))
    words = ["import", str(path), "-k", "ada"]

    def run(*more):
        return CliRunner().invoke(alveus, [*db, *words, *more])

    refused = run("--strict")
    assert (refused.exit_code, f"{path}:2: " in refused.stderr) == (1, True)
    dry = run("--dry-run")
    assert (dry.exit_code, f"left out: {path}:2: " in dry.stderr) == (4, True)
    assert "1 record left out that cannot be used" in dry.stdout
    done = run()
    assert (done.exit_code, f"left out: {path}:2: " in done.stderr) == (4, True)
    assert "2 items added" in done.stdout
    assert "1 character was no valid text" in done.stdout
    told = json.loads(run("--json").stdout)
    assert (told["invalid"], told["kept"], told["replaced_characters"]) == (1, 2, 1)
    assert told["problems"][0].startswith(f"{path}:2: ")
    path.write_text(written([{"text": "Tea."}]))
    assert run().exit_code == 0

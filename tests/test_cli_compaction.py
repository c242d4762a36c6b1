"""compact, compactions, undo and lineage on the command line, and what doctor tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from alveus import CompactionPlan, Item, Memory, Summarize, Trim
from test_cli import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "app.db")


def fill(shell: Shell, count: int, compaction: object = Trim(n=10), key: str = "ada") -> None:
    with Memory.open(shell.db, embedder="static") as memory:
        notes = memory.key(key).set(
            "default", capacity=20, compaction=compaction, execution="external"  # pyright: ignore[reportArgumentType]  any strategy
        )  # fmt: skip
        notes.add_many([Item(f"note {n}", id=f"i{n}") for n in range(count)])


def test_what_is_due_is_compacted_and_undone(shell: Shell) -> None:
    """A dry run says what is due; compact does it, compactions lists it, undo takes it back."""
    fill(shell, 25)
    due = shell("compact", "--dry-run").stdout.splitlines()
    assert [line.split() for line in due] == [
        ["key", "set", "items", "capacity"],
        ["ada", "default", "25", "20"],
    ]
    (due,) = shell.json("compact", "--dry-run")
    assert (due["key"], due["items"], due["capacity"]) == ("ada", 25, 20)
    told = shell("compact", "--progress")
    assert "25 items" in told.stderr
    assert "1 compaction done" in told.stdout
    assert shell("compact", "--dry-run", code=3).stdout == ""
    (done,) = shell.json("compactions", "-k", "ada")
    assert (done["by"], done["retired"], done["added"], done["undone"]) == (
        "external",
        10,
        [],
        None,
    )
    header, row = shell("compactions", "-k", "ada").stdout.splitlines()
    assert header.split() == ["id", "time", "strategy", "by", "retired", "added", "undone"]
    assert row.split()[-4:] == ["trim", "external", "10", "0"]
    (undone,) = shell.json("undo", str(done["id"]), "-k", "ada")
    assert undone["restored"] == [f"i{n}" for n in range(10)]
    assert "by commit" in shell("compactions", "-k", "ada").stdout
    assert "was undone" in shell("undo", str(done["id"]), "-k", "ada", code=1).stderr


def test_a_lineage_is_drawn_as_a_tree(shell: Shell) -> None:
    """With --json it is the graph."""
    fill(shell, 25, Summarize(n=10))
    shell("compact")
    (summary,) = [item for item in shell.json("list", "-k", "ada") if item["compacted"]]
    drawn = shell("lineage", summary["id"], "-k", "ada").stdout
    assert "├─ i0  note 0  [retired]" in drawn
    (graph,) = shell.json("lineage", summary["id"], "-k", "ada")
    assert len(graph["nodes"]) == 11
    assert graph["edges"] == [[0, at] for at in range(1, 11)]
    assert "has no item" in shell("lineage", "nobody", "-k", "ada", code=3).stderr


def test_a_lineage_of_knowledge_is_drawn_and_only_a_key_is_compacted(shell: Shell) -> None:
    """Facts of knowledge supersede each other, too; commands of compaction ask for a key."""
    with Memory.open(shell.db, knowledge="world") as memory:
        facts = memory.knowledge.set("facts")
        facts.supersede(facts.add("Bonn is the capital.", id="bonn"), "Berlin is.", new_id="berlin")
    drawn = shell("lineage", "berlin", "--knowledge", "world", "-s", "facts").stdout
    assert "└─ bonn  Bonn is the capital." in drawn
    for words in (["compactions"], ["undo", "1"]):
        assert "--key KEY" in shell(*words, code=2).stderr
    huge = shell("undo", str(10**30), "-k", "ada", code=3).stderr
    assert "has no set" in huge


def test_only_what_was_asked_for_is_compacted(shell: Shell) -> None:
    """--key, --set, --at and --hours narrow it; --all widens it."""
    fill(shell, 15)
    fill(shell, 25, key="bob")
    assert shell.json("compact", "--key", "ada")[-1] == {"compactions": 0}
    assert shell.json("compact", "--set", "other")[-1] == {"compactions": 0}
    assert shell.json("compact", "--hours", "0-24", "--set", "other")[-1]["compactions"] == 0
    assert shell.json("compact", "--dry-run", "--at", "50%")[0]["key"] == "ada"
    with Memory.open(shell.db) as memory:
        memory.key("ada").set("default").redefine(execution="sync")
    assert shell.json("compact", "--at", "50%", "--all")[-1]["compactions"] >= 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--every", "soon"),
        ("--every", "0s"),
        ("--every", "0.0001ms"),
        ("--every", "99999999999999h"),
        ("--at", "80"),
        ("--at", "120%"),
        ("--hours", "1-99"),
        ("--hours", "3-3"),
        ("--hours", "24-0"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(shell: Shell, wrong: tuple[str, str]) -> None:
    """A time, a share and hours are checked."""
    fill(shell, 1)
    shell("compact", *wrong, code=2)


def failing(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    raise ValueError


def test_doctor_tells_of_compactions(shell: Shell) -> None:
    """Of a set that overflows with no compactor in sight, and of one that fails."""
    fill(shell, 35)
    assert "no compactor was seen lately" in shell("doctor").stdout
    shell("compact")
    assert "no set waits for one" in shell("doctor").stdout
    with Memory.open(shell.db) as memory:
        memory.key("ada").set("default").redefine(compaction=failing, capacity=5)
    assert "the set is unchanged" in shell("compact", code=1).stderr
    said = shell("doctor", code=1).stdout
    assert "could not be compacted, 1 times in a row: StrategyFailed" in said
    with Memory.open(shell.db) as memory:
        memory.key("ada").set("default").redefine(compaction=Trim(), capacity=5)
    shell("compact")
    assert "no set waits for one" in shell("doctor").stdout

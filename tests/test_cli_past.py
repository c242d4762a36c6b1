"""The commands about the past: what changed, and what is let go."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from alveus import Agent, InputEvent, LocalRunner, Memory, RunnerContext, action
from alveus.cli.app import alveus
from doors import Clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that was written to on two days."""
    path, clock = tmp_path / "app.db", Clock(datetime(2025, 1, 1, tzinfo=UTC), step=timedelta(0))
    with Memory.open(path, embedder="words", clock=clock) as memory:
        ada = memory.key("ada")
        ada.short_term.set("city", "Lisbon")
        ada.short_term.set(("a.b",), [1])
        ada.add("green tea", id="i")
        clock.elapse(days=9)
        ada.short_term.set("city", "Porto")
        ada.short_term.delete(("a.b",))
        ada.update("i", "black tea")
        ada.set("notes").add("a note", id="n")
    clock.elapse(days=3)
    Memory.open(path, clock=clock).close()
    return path


def run(path: Path, *words: str) -> Result:
    """Run a command on the store."""
    return CliRunner().invoke(alveus, [*words, "--db", str(path)])


def test_diff_shows_what_changed(path: Path) -> None:
    """A line for a value, three for an item; by commit and by time."""
    for since in ("3", "2025-01-02T00:00:00Z"):
        answer = run(path, "diff", since, "-k", "ada")
        assert answer.exit_code == 0
        assert answer.stdout.splitlines() == [
            '- ["a.b"]: [1]',
            '~ city: "Lisbon" → "Porto"',
            "set default",
            "~ i",
            "    - green tea",
            "    + black tea",
            "set notes",
            "+ n",
            "    + a note",
        ]


def test_diff_shows_what_it_is_asked_for(path: Path) -> None:
    """One set, exact memory alone, or a span of commits; nothing changed: exit code 3."""
    assert (
        run(path, "diff", "3", "-k", "ada", "--set", "notes").stdout.splitlines()[0] == "set notes"
    )
    assert "set" not in run(path, "diff", "3", "-k", "ada", "--tree").stdout
    assert run(path, "diff", "1", "2", "-k", "ada").stdout.splitlines() == ['+ ["a.b"]: [1]']
    same = run(path, "diff", "3", "3", "-k", "ada")
    assert same.exit_code == 3
    assert "is the same after commits 3 and 3" in same.stderr


def test_diff_of_a_key_that_is_not_there(path: Path) -> None:
    """A key that was mistyped is not called unchanged."""
    answer = run(path, "diff", "3", "-k", "adda")
    assert answer.exit_code == 3
    assert "nothing is kept under key 'adda'" in answer.output


def test_diff_as_json(path: Path) -> None:
    """One document, with whole items."""
    found = json.loads(run(path, "diff", "3", "-k", "ada", "--json").stdout)
    assert (found["key"], found["since"], found["until"]) == ("ada", 3, 7)
    assert found["tree"] == [
        {"kind": "removed", "path": ["a.b"], "before": [1], "after": None},
        {"kind": "changed", "path": "city", "before": "Lisbon", "after": "Porto"},
    ]
    assert [(c["kind"], c["set"], c["id"]) for c in found["items"]] == [
        ("changed", "default", "i"),
        ("added", "notes", "n"),
    ]
    assert found["items"][0]["before"]["text"] == "green tea"


def test_prune_history_lets_go_of_the_past(path: Path) -> None:
    """It says how much; earlier moments are an error from then on."""
    answer = run(path, "prune-history", "--before", "2025-01-05T00:00:00Z", "--json")
    assert json.loads(answer.stdout) == {"removed": 0}
    with Memory.open(path) as memory:
        memory.key("ada").short_term.set("late", 1)
    answer = run(path, "prune-history", "--before", "2025-02-01T00:00:00Z")
    assert "Set the clock right" in answer.stderr
    answer = run(path, "prune-history", "--before", "2025-01-13T00:00:00Z")
    assert answer.stdout.strip() == "removed 2 versions"
    refused = run(path, "diff", "3", "-k", "ada")
    assert refused.exit_code == 1
    assert "its history begins at commit 5" in refused.stderr


@action(InputEvent)
def note(event: InputEvent, ctx: RunnerContext) -> None:
    """Keep what came in."""
    ctx.long_term_memory.set("notes").add(str(event.input))


def test_an_export_of_history_says_what_is_not_in_it(path: Path) -> None:
    """Runs and receipts, where there are any; not where there are none."""
    said = run(path, "export", "--history").stderr
    assert said == f"alveus: using {path}, space 'default'\n"
    with Memory.open(path) as memory:
        memory.key("ada").set("notes").forget("n")
        with LocalRunner(Agent("clerk", actions=[note]), memory) as runner:
            runner.handle("ada", "a tent")
    told = run(path, "export", "--history")
    assert "not in it: the 1 runs of the store" in told.stderr
    assert "and the receipts of forgetting; alveus backup keeps them" in told.stderr
    assert "not in it" not in told.stdout


def test_an_import_says_what_it_cannot_link(path: Path, tmp_path: Path) -> None:
    """What an item was made of is not in the file, nor in the store."""
    file = tmp_path / "part.jsonl"
    line = {"type": "item", "key": "ada", "set": "s", "id": "x", "value": "A.", "sources": ["gone"]}
    file.write_text(json.dumps(line))
    assert (
        "1 items were made of something that is not there" in run(path, "import", str(file)).stderr
    )


def test_facts_are_searched_by_when_they_hold(path: Path) -> None:
    """Now, at a time, or whenever; what expired is in none of them."""
    for name, option in (("old", "--valid-to"), ("new", "--valid-from")):
        words = ["add", f"lives {name}", "--id", name, "-k", "ada", "--set", "homes"]
        assert run(path, *words, option, "2024-01-01T00:00:00Z").exit_code == 0
    with Memory.open(path) as memory:
        over = datetime(2024, 1, 1, tzinfo=UTC)
        memory.key("ada").set("homes").add("lives nowhere", expire_at=over)

    def found(*words: str) -> list[str]:
        asked = ["search", "lives", "-k", "ada", "--set", "homes", "--json", *words]
        hits = json.loads(run(path, *asked).stdout)["hits"]
        recent = run(path, "recent", "-k", "ada", "--set", "homes", "--json", *words)
        ids = [json.loads(line)["id"] for line in recent.stdout.splitlines()]
        assert sorted(hit["item"]["id"] for hit in hits) == sorted(ids)
        return sorted(ids)

    assert found() == ["new"]
    assert found("--valid-at", "2020-01-01T00:00:00Z") == ["old"]
    assert found("--valid-at", "any") == ["new", "old"]
    wrong = run(path, "search", "lives", "-k", "ada", "--valid-at", "soon")
    assert wrong.exit_code == 2

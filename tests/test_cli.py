"""The command line: what it answers, with which exit code, and what it does with mistakes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import available_timezones

import apsw
import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from alveus import Memory
from alveus.cli import alveus, main, session, tables
from alveus.cli.app import MENDED
from alveus.cli.commands import BY_NAME
from alveus.cli.commands import COMMANDS as LISTED
from alveus.cli.output import bar, plain, sink, size
from alveus.cli.session import default_file
from alveus.search.index import set_loader
from alveus.store.times import TIMELINE
from alveus.transfer import LAYOUTS
from answering import Answers, listening
from hardship import DROP_RIGHTS, closed_folder, shut
from waiting import LIMIT_S, wait_until, written

EMBEDDER = "static"


def leaves(group, so_far=""):
    """All commands by their names, those of groups by two words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{name} ")
        else:
            yield so_far + name, command


COMMANDS = dict(sorted(leaves(alveus)))


class Shell:
    """Runs commands on one memory, in this process."""

    def __init__(self, db: Path) -> None:
        self.db = db

    def __call__(self, *words, code=0, stdin=None, db=None):
        """Run a command; check its exit code and that it shows no traceback."""
        place = ["--db", str(db or self.db)]
        result = CliRunner().invoke(alveus, [*place, *words], input=stdin)
        assert result.exit_code == code, (words, result.stdout, result.stderr, result.exception)
        assert "Traceback" not in result.output
        return result

    def json(self, *words, **options):
        """Run a command with --json; return the lines it prints."""
        found = self(*words, "--json", **options).stdout
        return [json.loads(line) for line in found.splitlines()]


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path / "app.db")


@pytest.fixture
def filled(shell):
    """A memory with two items of Ada, some exact memory, and knowledge."""
    words = ("--embedder", EMBEDDER)
    shell(
        "add", "Prefers window seats.", "-k", "ada", "--id", "a", "--metadata", '{"n": 1}', *words
    )
    shell("add", "Allergic to sesame.", "-k", "ada", "--id", "b", "--speaker", "Ada")
    shell("add", "Returns within 30 days.", "--knowledge", "default", "-s", "handbook")
    shell("set", "profile.city", "Lisbon", "-k", "ada")
    return shell


def process(*words, db=None, env=None):
    """Start the command line as a process of its own."""
    place = [] if db is None else ["--db", str(db)]
    command = [sys.executable, "-m", "alveus.cli", *place, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)


def run(*words, db=None, stdin=b"", env=None):
    """Run the command line as a process of its own; return code, stdout, stderr."""
    child = process(*words, db=db, env=env)
    out, err = child.communicate(stdin, timeout=LIMIT_S)
    assert b"Traceback" not in err, err
    return child.returncode, out, err.decode()


# --- what works --------------------------------------------------------------------------------


def test_a_search_makes_the_index_file_of_a_large_set(tmp_path, monkeypatch):
    """So only the first command reads all of it; where nothing may be written, none is made."""
    monkeypatch.setattr(set_loader, "LARGE", 20)
    path, index = tmp_path / "app.db", tmp_path / "app.db.alveus" / "index"
    with Memory.open(path, embedder="static") as memory:
        memory.key("ada").add_many([f"item {n}" for n in range(30)])
    shell = Shell(path)
    with Memory.open(path, mode="ro") as memory:
        assert memory.stats().unsealed_sets == 0, "nothing was searched yet"
        assert memory.key("ada").search("item 7")
        assert memory.stats().unsealed_sets == 1
    assert not index.exists()
    found = shell("search", "item 7", "-k", "ada", "-n", "1").stdout
    (file,) = index.glob("*.seg")
    made = file.stat()
    assert shell("search", "item 7", "-k", "ada", "-n", "1").stdout == found
    assert file.stat().st_ino == made.st_ino
    with Memory.open(path, mode="ro") as memory:
        assert memory.key("ada").search("item 7")
        assert memory.stats().unsealed_sets == 0


def test_items_are_added_and_found(filled):
    """The first minute of a newcomer."""
    (found,) = filled.json("search", "which seat?", "--key", "ada", "--limit", "1")
    (hit,) = found["hits"]
    assert (hit["item"]["id"], found["partial"]) == ("a", False)
    assert sum(hit["parts"].values()) == pytest.approx(hit["score"], abs=1e-6)
    assert "Prefers window seats." in filled("search", "seats", "-k", "ada").stdout
    assert "words" in filled("search", "seats", "-k", "ada", "--explain").stdout
    assert [i["id"] for i in filled.json("list", "-k", "ada")] == ["a", "b"]
    assert [i["id"] for i in filled.json("list", "-k", "ada", "--newest-first", "-n", "1")] == ["b"]
    assert [i["id"] for i in filled.json("recent", "-k", "ada", "-n", "1")] == ["b"]
    assert "Ada: Allergic" in filled("recent", "-k", "ada").stdout


def test_a_prompt_is_made_and_explained(filled):
    """`context`: the prompt on stdout, why on stderr; as JSON both in one document."""
    words = ("context", "which seat?", "-k", "ada", "--budget", "300", "--system", "Be kind.")
    made = filled("add", "The seat by the glass.", "-k", "eve").stdout.strip()
    said = filled("context", "which seat?", "-k", "eve").stderr
    (source,) = [word.rstrip(":") for word in said.split() if word.endswith(f"{made}:")]
    assert filled.json("show", source, "-k", "eve")[0]["id"] == made
    words += ("--exact", "profile")
    (made,) = filled.json(*words)
    assert [message["role"] for message in made["messages"]] == ["system", "user"]
    assert made["tokens"] <= made["budget_tokens"] == 300
    shown = [piece for piece in made["why"] if piece["shown"]]
    sources = [piece["source"] for piece in shown if piece["part"] != "knowledge"]
    assert sources[:2] == ["", "profile.city"]
    assert set(sources[2:]) == {"default/a", "default/b", ""}
    assert (shown[0]["part"], shown[-1]["text"]) == ("system", "which seat?")
    result = filled(*words)
    assert result.stdout.rstrip("\n") == made["text"]
    assert f"{made['tokens']} of 300 tokens" in result.stderr
    assert filled(*words, "--quiet").stderr == ""
    (alone,) = filled.json(
        "context", "returns?", "-k", "nobody", "--messages", "chat", "--recent", "2"
    )
    assert len(alone["messages"]) == 2, "knowledge is everybody's"
    (some,) = filled.json("context", "seat", "-k", "ada", "-s", "default", "--where", '{"n": 1}')
    assert [piece["ids"] for piece in some["why"] if piece["part"] == "items"] == [["a"]]
    (old,) = filled.json("context", "seat", "-k", "ada", "--as-of", "1", "--valid-at", "any")
    assert [piece["ids"] for piece in old["why"] if piece["part"] == "items"] == [["a"]]


def test_an_item_is_shown_with_all_that_is_known(filled):
    """`get` has every field; `--history` every version."""
    (item,) = filled.json("show", "a", "-k", "ada")
    assert (item["value"], item["metadata"], item["version"]) == (
        "Prefers window seats.",
        {"n": 1},
        1,
    )
    assert "Prefers window seats." in filled("show", "a", "-k", "ada").stdout
    taken = filled("add", "Prefers aisles.", "-k", "ada", "--id", "a", code=1)
    assert "pass --on-existing keep or update, or another id" in taken.stderr
    filled("add", "Prefers aisles.", "-k", "ada", "--id", "a", "--on-existing", "update")
    assert [i["version"] for i in filled.json("show", "a", "-k", "ada", "--history")] == [1, 2]
    assert "aisles" in filled("show", "a", "-k", "ada", "--history").stdout
    (old,) = filled.json("show", "a", "-k", "ada", "--as-of", "1")
    assert old["value"] == "Prefers window seats."


def test_the_past_and_a_filter_can_be_asked(filled):
    """`--as-of` and `--where` reach search and list."""
    (found,) = filled.json("search", "seats, sesame", "-k", "ada", "--as-of", "1")
    assert [hit["item"]["id"] for hit in found["hits"]] == ["a"]
    (found,) = filled.json("search", "seats, sesame", "-k", "ada", "--where", '{"n": 1}')
    assert [hit["item"]["id"] for hit in found["hits"]] == ["a"]
    assert filled.json("list", "-k", "ada", "--where", '{"n": 2}') == []
    assert filled.json("list", "-k", "ada", "--as-of", "2001-01-01T00:00:00Z") == []


def test_knowledge_is_reached_by_its_name(filled):
    """What belongs to no key is worked on with --knowledge."""
    (found,) = filled.json("search", "returns", "--knowledge", "default")
    assert found["hits"][0]["item"]["set"] == "handbook"
    (item,) = filled.json("list", "--knowledge", "default", "-s", "handbook")
    assert filled.json("delete", item["id"], "--knowledge", "default", "-s", "handbook")


def test_exact_memory_is_a_tree(filled):
    """Values are JSON where they are JSON, else text; `tree` shows what `set` set."""
    ada = ("-k", "ada")
    filled("set", "visits", "3", *ada)
    filled("set", "zip", "01", "--text", *ada)
    filled("set", "note", '{"a": [1, null]}', "--ttl", "10m", *ada)
    filled("set", '["with.dot", "x"]', '{"$bytes": "aGk="}', *ada)
    filled("set", "balance", "-3", *ada)
    (found,) = filled.json("tree", *ada)
    assert found == {
        "profile": {"city": "Lisbon"},
        "visits": 3,
        "zip": "01",
        "note": {"a": [1, None]},
        "with.dot": {"x": {"$bytes": "aGk="}},
        "balance": -3,
    }
    shown = filled("tree", *ada).stdout
    assert 'city: "Lisbon"' in shown
    assert "left)" in shown
    for command in ("tree", "get"):
        assert filled(command, "profile.city", *ada).stdout == "Lisbon\n"
        assert filled(command, "visits", *ada).stdout == "3\n"
    assert filled.json("tree", "profile", *ada) == [{"city": "Lisbon"}]
    assert "city" in filled("tree", "profile", *ada).stdout
    assert "is an object" in filled("get", "profile", *ada, code=1).stderr
    filled("set", "profile.city", "Porto", *ada)
    assert filled("get", "profile.city", "--as-of", "4", *ada).stdout == "Lisbon\n"
    assert filled.json("rm", "profile.city", *ada) == [{"removed": 1}]
    for command in ("tree", "get"):
        filled(command, "profile.city", *ada, code=3)


VALUES = [
    *("Lisbon", "", "42", "true", "null", '"quoted"', "{", "-3", "-x", "--text", "a\nb", "end\n"),
    *("\x1b[31m", "\x9b", "[1", "1e999", "[" * 200, "Jürgen 東京", "NaN", " a "),
    *(None, True, False, 0, -3, 2**200, -(2**70), 1.0, -0.5, 1e300, -math.inf, b"", b"\xff" * 99),
    *([], {}, [1, [None, "x"]], {"a": {"b": [b"x", math.inf]}}, {"$bytes": "not", "$x": 1}),
    *({"$bytes": "AA=="}, {"$$int": "0x1"}, {"$ref": "#/a"}, {"$a": 1, "$$a": {"$float": {}}}),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_get_undoes_set(tmp_path, value, options):
    """What get prints, as a shell passes it on, makes set store the same value of the same type."""
    shell = Shell(tmp_path / "app.db")
    with Memory.open(shell.db, embedder="words") as memory:
        memory.key("ada").short_term.set("x", value)
    printed = shell("get", "x", "-k", "ada", *options).stdout.rstrip("\n")
    assert plain(printed) == printed
    shell("set", "x", printed, "-k", "bob")
    with Memory.open(shell.db) as memory:
        found = memory.key("bob").short_term.get("x")
        assert (type(found), repr(found)) == (type(value), repr(value))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "Lisbon", "{", "'a'", "-", ""])
def test_what_is_not_json_is_text(shell, text):
    """A value that only Python's JSON would take is the text it looks like."""
    shell("set", "x", "--", text, "--embedder", "words", "-k", "ada", code=2)
    shell("set", "--embedder", "words", "-k", "ada", "x", "--", text)
    assert shell.json("get", "x", "-k", "ada") == [text]


def test_options_stand_before_or_after_the_command(filled, tmp_path):
    """Nobody has to remember where --json goes."""
    result = CliRunner().invoke(alveus, ["keys", "--db", str(filled.db), "--json"])
    assert json.loads(result.stdout) == {"key": "ada"}
    result = CliRunner().invoke(alveus, ["--json", "keys"], env={"ALVEUS_DB": str(filled.db)})
    assert json.loads(result.stdout) == {"key": "ada"}
    wrong = {"ALVEUS_DB": str(tmp_path / "wrong.db")}
    result = CliRunner().invoke(alveus, ["--db", str(filled.db), "keys"], env=wrong)
    assert result.stdout == "key\nada\n"
    result = CliRunner().invoke(alveus, ["keys", "--db", str(filled.db)], env=wrong)
    assert result.stdout == "key\nada\n"


def test_spaces_are_apart(filled):
    """--space is another application's memory."""
    filled("add", "x", "-k", "bob", "--space", "other")
    assert filled.json("keys", "--space", "other") == [{"key": "bob"}]
    assert filled.json("keys") == [{"key": "ada"}]


def test_lists_of_what_is_there(filled):
    """Keys, sets, stats and version, for people and for programs."""
    assert filled("keys").stdout == "key\nada\n"
    found = filled.json("sets")
    assert [(s["key"], s["set"], s["items"]) for s in found] == [
        ("ada", "default", 2),
        (None, "handbook", 1),
    ]
    assert [s["set"] for s in filled.json("sets", "-k", "ada")] == ["default"]
    assert "handbook" in filled("sets", "--knowledge", "default").stdout
    (stats,) = filled.json("stats")
    assert (stats["items"], stats["keys"], stats["pending"]) == (3, 1, 0)
    assert EMBEDDER in filled("stats").stdout
    (version,) = filled.json("version")
    assert set(version) == {"alveus", "schema", "SQLite", "apsw", "numpy", "Python", "platform"}
    assert "SQLite" in filled("version").stdout
    assert filled("--version").stdout.startswith("alveus 0.")


def test_quiet_and_verbose(filled):
    """--quiet leaves results and errors, --verbose names the file."""
    assert str(filled.db) in filled("keys", "--verbose").stderr
    assert filled("set", "x", "1", "-k", "ada", "--quiet").stdout == ""
    nothing = filled("search", "x", "-k", "nobody", "--quiet", code=3)
    assert nothing.output == ""


def test_quiet_leaves_what_was_asked_for(filled, tmp_path):
    """An id, a secret that is shown once, a page, and what a rehearsal would do."""
    made = filled("add", "I moved.", "-k", "ada", "--quiet").stdout.strip()
    assert filled.json("show", made, "-k", "ada")[0]["id"] == made
    tokens = ("--tokens", str(tmp_path / "tokens.json"), "--quiet")
    first = filled("token", "new", "shop", *tokens).stdout.strip()
    second = filled("token", "rotate", "shop", *tokens).stdout.strip()
    assert first.startswith("alveus_")
    assert second.startswith("alveus_")
    assert second != first
    filled("learn", "I live in Lisbon.", "-k", "eve", "--quiet")
    assert "lives in Lisbon" in filled("about", "the user", "-k", "eve", "--quiet").stdout
    assert "lives in Lisbon" in filled("profile", "-k", "eve", "--quiet").stdout
    assert "would erase" in filled("forget", "-k", "eve", "--dry-run", "--quiet").stdout
    out = str(tmp_path / "out.jsonl")
    filled("export", out, "--quiet")
    assert "nothing is written" in filled("import", out, "--dry-run", "--quiet").stdout


def test_a_key_without_items_is_told_with_those_of_nearly_its_name(filled):
    """Whoever mistypes a key reads which there are; JSON says as ever that nothing was found."""
    for typed, said in {
        "adda": "key 'adda' has no items; did you mean 'ada'?",
        "Ada": "key 'Ada' has no items; did you mean 'ada'?",
        "xda": "key 'xda' has no items; did you mean 'ada'?",
        "bob": "key 'bob' has no items; alveus keys lists the keys",
    }.items():
        found = filled("search", "seat", "-k", typed, code=3)
        assert (found.stdout, said in found.stderr) == ("", True)
    assert "none; did you mean 'ada'?" in filled("list", "-k", "adda", code=3).stderr
    assert "no items" in filled("search", "x", "--knowledge", "other", code=3).stderr
    answer = filled("search", "seat", "-k", "adda", "--json", code=3)
    assert json.loads(answer.stdout)["hits"] == []
    assert json.loads(answer.stderr)["error"]["message"] == "nothing of key 'adda' answers that"
    assert "at 'x'; did you mean 'ada'?" in filled("get", "x", "-k", "adda", code=3).stderr
    assert "makes it; did you mean 'ada'?" in filled("tree", "-k", "adda", code=3).stderr
    assert "holds nothing; did you mean 'ada'?" in filled("context", "x", "-k", "adda").stderr
    assert "holds nothing" not in filled("context", "x", "-k", "ada").stderr
    assert "'x'; alveus tree --key ada shows" in filled("get", "x", "-k", "ada", code=3).stderr
    words = ("search", "x", "-k", "ada", "--where", '{"n": 7}')
    assert "nothing of key 'ada' answers that" in filled(*words, code=3).stderr


def test_a_mistyped_command_is_told_the_nearest(shell):
    """One that is like none is told where they are listed."""
    assert "'serch'; did you mean 'search'?" in shell("serch", "x", code=2).stderr
    error = shell("frobnicate", code=2).stderr
    assert "No such command 'frobnicate'\nTry 'alveus --help'" in error


def test_a_key_is_looked_for_among_a_bounded_number(filled, monkeypatch):
    """However many keys there are: the first ones, and the first of those that begin alike."""
    monkeypatch.setattr(session, "NEAR_KEYS", 2)
    for key in ("b1", "zoe", "zora"):
        filled("add", "x", "-k", key)
    assert "mean 'zoe'?" in filled("search", "x", "-k", "zoee", code=3).stderr
    assert "did you mean" not in filled("search", "x", "-k", "yzoe", code=3).stderr


def test_an_item_that_nobody_would_see_is_refused(filled):
    """A time that is over is named; but what was added under a name is answered when it is over."""
    words = ("add", "The offer is 10 %.", "-k", "ada")
    over = "2001-01-01T00:00:00Z"
    error = filled(*words, "--expire-at", over, code=2).stderr
    assert "--expire-at 2001-01-01T00:00:00Z has passed" in error
    assert len(filled.json("list", "-k", "ada")) == 2
    filled(*words, "--expire-at", "2100-01-01T00:00:00Z", "--valid-to", over)
    assert len(filled.json("list", "-k", "ada")) == 3
    again = (*words, "--idempotency-key", "offer", "--expire-at", over)
    assert filled(*again).stdout == filled(*again).stdout


def test_scores_are_explained_in_a_narrow_terminal(filled):
    """Where no room is left for the texts beside the numbers, each hit has lines of its own."""
    with Memory.open(filled.db) as memory:
        hits = memory.key("ada").search("Is Ada allergic to sesame?")
    shown = {}
    for width in (40, 60, 120):
        screen = io.StringIO()
        table = tables.explained(hits, width=width)
        Console(file=screen, width=width, color_system=None).print(table)
        shown[width] = screen.getvalue()
        assert "…" not in shown[width]
        assert "Ada: Allergic to sesame." in shown[width]
    assert "words " in shown[40].splitlines()[1]
    assert max(map(len, shown[40].splitlines())) <= 40
    assert shown[120].startswith("score ")


def test_text_from_stdin(shell):
    """`-` reads the text of an item from stdin."""
    shell("add", "-", "-k", "ada", "--embedder", "words", stdin="from a pipe\n")
    assert shell.json("list", "-k", "ada")[0]["value"] == "from a pipe\n"


def test_text_from_stdin_that_is_no_text_is_counted(filled):
    """UTF-8 locales raise for it, C keeps it as halves of characters: it becomes U+FFFD."""
    for encoding in ("utf-8:strict", "utf-8:surrogateescape"):
        env = os.environ | {"PYTHONIOENCODING": encoding}
        words = ("add", "-", "-k", "ada", "-s", encoding[-6:])
        code, _, err = run(*words, db=filled.db, stdin=b"caf\xe9", env=env)
        assert (code, err.count("1 character was no valid text"), "iconv" in err) == (0, 1, True)
        assert filled.json("list", "-k", "ada", "-s", encoding[-6:])[0]["text"] == "caf\ufffd"
        words = ("chat", "-k", "ada")
        code, _, err = run(*words, db=filled.db, stdin=b"A tent.\ncaf\xe9\n", env=env)
        assert (code, err.count("1 character was no valid text")) == (0, 1)


class Refusing(Answers):
    """A server of vectors that makes none."""

    def post(self):
        """Refuse."""
        self.body()
        self.send_error(401)


def test_an_item_without_vectors_is_added_and_says_so(shell, monkeypatch):
    """Who repeats what ended with 1 would add it twice; words find it meanwhile."""
    with listening(Refusing) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        added = shell(
            "add", "Green tea.", "-k", "ada", "--embedder", "openai:text-embedding-3-small"
        )
        (item,) = shell.json("list", "-k", "ada")
    assert "stored, and found by their words; vectors cannot be made now: embedder" in added.stderr
    assert (added.stdout.strip(), item["text"]) == (item["id"], "Green tea.")


def test_an_add_with_a_key_happens_once(shell):
    """The same idempotency key again is the same item."""
    words = ("add", "x", "-k", "ada", "--idempotency-key", "order-1", "--embedder", "words")
    assert shell.json(*words) == shell.json(*words)
    shell("add", "y", *words[2:], code=1)


def test_where_the_memory_is(tmp_path, monkeypatch):
    """alveus.db here if it is there, else one per user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_file() == tmp_path / "data" / "alveus" / "alveus.db"
    result = CliRunner().invoke(alveus, ["add", "x", "-k", "ada", "--embedder", "words"])
    assert result.exit_code == 0, result.output
    assert default_file().stat().st_mode & 0o777 == 0o600
    Path("alveus.db").touch()
    assert default_file() == Path("alveus.db")
    monkeypatch.delenv("XDG_DATA_HOME")
    Path("alveus.db").unlink()
    assert default_file().parts[-4:] == (".local", "share", "alveus", "alveus.db")
    for relative in ("", "data"):
        monkeypatch.setenv("XDG_DATA_HOME", relative)
        assert default_file().parts[-4:] == (".local", "share", "alveus", "alveus.db")


# --- in and out --------------------------------------------------------------------------------


def chat_file(folder: Path, count: int) -> Path:
    path = folder / "chat.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for n in range(count):
            out.write(json.dumps({"role": "user", "content": f"message {n}"}) + "\n")
    return path


def test_export_and_import_through_files(filled, tmp_path):
    """A memory goes to a file and comes back the same; a file is not replaced unasked."""
    file = tmp_path / "out.jsonl"
    (answer,) = filled.json("export", str(file))
    assert answer["lines"] == len(file.read_text().splitlines())
    assert file.stat().st_mode & 0o777 == 0o600
    filled("export", str(file), code=1)
    filled("export", str(file), "--force")
    other = Shell(tmp_path / "other.db")
    (counts,) = other.json("import", str(file), "--embedder", EMBEDDER)
    assert (counts["added"], counts["values"]) == (3, 2)
    assert other.json("stats")[0]["pending"] == 0
    assert other("export").stdout_bytes == file.read_bytes()
    assert "nothing" in other("import", str(file), "-k", "x", code=2).stderr or True
    assert "3 were there" in other("import", str(file)).stdout
    part = filled("export", "-k", "ada", "-s", "default").stdout.splitlines()
    assert [json.loads(line)["type"] for line in part] == ["alveus", "set", "item", "item"]


def test_an_export_of_nothing_that_was_named_is_said(filled, tmp_path):
    """A mistyped key or set makes no empty file that looks like a copy of somebody's data."""
    file = tmp_path / "out.jsonl"
    said = filled("export", str(file), "-k", "ada", "-k", "adda", code=3).stderr
    assert "there is no key 'adda'; did you mean 'ada'?" in said
    assert "no set 'nots'" in filled("export", str(file), "-s", "nots", code=3).stderr
    assert not file.exists()
    assert len(filled("export", "-k", "ada", "-s", "nots", "-s", "default").stdout_bytes) > 100


def test_pipes(filled, tmp_path):
    """stdout of one is stdin of the other, in processes of their own."""
    code, out, _ = run("export", db=filled.db)
    assert code == 0
    code, answer, err = run("import", "-", "--json", db=tmp_path / "copy.db", stdin=out)
    assert (code, err) == (0, "")
    assert json.loads(answer)["added"] == 3
    assert run("export", db=tmp_path / "copy.db")[1] == out


def test_a_chat_is_imported(shell, tmp_path):
    """Plain messages need a key; the rest is found out."""
    file = str(chat_file(tmp_path, 3))
    shell("import", file, code=2)
    shell("import", file, "-k", "ada", "-s", "chat", "--embedder", "words", "--no-wait")
    assert [i["value"] for i in shell.json("list", "-k", "ada", "-s", "chat")][-1] == "message 2"
    assert "3 were there" in shell("import", file, "-k", "ada", "-s", "chat").stdout


def test_texts_are_imported(shell):
    """A line with a text is enough, and each may name its key; another file is told what fits."""
    words = ("import", "-", "--embedder", "words")
    shell(*words, "-k", "ada", stdin='{"text": "tea"}\n')
    shell(*words, stdin='{"text": "milk", "key": "ada"}\n{"text": "wine", "key": "bob"}\n')
    assert [i["value"] for i in shell.json("list", "-k", "ada")] == ["tea", "milk"]
    assert [i["value"] for i in shell.json("list", "-k", "bob")] == ["wine"]
    assert (
        "the field 'key' for the key is missing"
        in shell(*words, stdin='{"text": "rum"}\n', code=1).stderr
    )
    shell(*words, "-k", "ada", "--knowledge", "default", stdin='{"text": "rum"}\n', code=2)
    error = shell(*words, "-k", "ada", stdin='{"body": "rum"}\n', code=1).stderr
    assert "alveus import --help shows a record of each" in error
    for text in ("rum\n", '["rum"]'):
        error = shell(*words, "-k", "ada", stdin=text, code=1).stderr
        assert '{"text": "Prefers window seats."}' in error
    told = shell("import", "--help").stdout
    assert all(f"\n    {layout} " in told for layout in LAYOUTS)


def test_a_dry_run_says_what_would_be_imported(shell, tmp_path):
    """Which format, how many of which key, what is left out, a sample; and nothing is made."""
    file = tmp_path / "mem0.json"
    memories = [
        {"id": f"m-{n}", "memory": f"Fact {n}." if n else "", "user_id": f"u-{n % 25}"}
        for n in range(50)
    ]
    file.write_text(json.dumps({"results": memories}))
    words = ("import", str(file), "--key-from", "user_id", "-s", "facts", "--embedder", "words")
    dry = shell(*words, "--dry-run")
    assert f"{file} is read as mem0" in dry.stderr
    for told in (
        "49 items of 25 keys; 1 left out: each has no text",
        "key 'u-1', set 'facts'",
        "and 5 more",
        "id   time  text",
        "m-1        Fact 1.",
        "m-3 ",
    ):
        assert told in dry.stdout  # fmt: skip
    (fields,) = shell.json(*words, "--dry-run", "--format", "mem0")
    assert (fields["format"], fields["items"], fields["keys"]) == ("mem0", 49, 25)
    assert fields["skipped"] == {"has no text": 1}
    assert {"key": "u-0", "set": "facts", "items": 1} in fields["places"]
    assert fields["sample"][0]["value"] == "Fact 1."
    assert not shell.db.exists()
    (counts,) = shell.json(*words)
    assert (counts["added"], counts["keys"], counts["skipped"]) == (49, 25, {"has no text": 1})
    assert "nothing new" not in shell(*words).stdout
    assert "49 were there (in the file: 49 items of 25 keys; 1 left" in shell(*words).stdout


def test_where_imported_items_go_is_told(shell, tmp_path):
    """A key, a field or knowledge: one of them; zones are checked; exports name their own."""
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "content": "x", "at": "2025-02-05T12:00:00"}\n')
    words = ("import", str(file), "--embedder", "words")
    shell(*words, code=2)
    shell(*words, "--knowledge", "k", "--key-from", "role", code=2)
    shell(*words, "-k", "ada", "--time-from", "at", code=1)
    for zone in ("Nowhere/Else", "+25:00", "", "+1"):
        shell(*words, "-k", "ada", "--zone", zone, code=2)
    times, named = [], min(available_timezones() & {"Europe/Lisbon", "UTC"}, default="Z")
    for key, zone in (("a", "UTC"), ("b", "+01:00"), ("c", named), ("d", "-01:30")):
        shell(*words, "-k", key, "--time-from", "at", "--zone", zone)
        times += [datetime.fromisoformat(item["time"]) for item in shell.json("list", "-k", key)]
    assert [f"{time.astimezone(UTC):%H:%M}" for time in times] == [
        "12:00",
        "11:00",
        "12:00",
        "13:30",
    ]
    shell(*words, "--knowledge", "k", "--dry-run")
    assert "knowledge, set 'default'" in shell(*words, "--knowledge", "k", "--dry-run").stdout
    out = str(tmp_path / "out.jsonl")
    shell("export", out)
    assert "already has keys" in shell("import", out, "--key-from", "role", code=2).stderr
    assert "is a memory of alveus" in shell("import", str(shell.db), "-k", "a", code=1).stderr


MESSAGES = 3000


def imported_in_part(tmp_path, words, how):
    """End an import in the middle; return its memory, process, and what it said on stderr.

    One that was ended too early or too late, on a busy machine, is repeated.
    """
    for attempt in range(100):
        db = tmp_path / f"{attempt}.db"
        log = Path(f"{db}-wal")
        with process(*words, db=db) as child:
            wait_until(
                lambda child=child, log=log: child.poll() is not None or written(log) >= 300_000
            )
            child.send_signal(how)
            try:
                _, err = child.communicate(timeout=LIMIT_S)
            finally:
                child.kill()
        with Memory.open(db, mode="ro") as memory:
            if 0 < len(memory.key("ada").set("default")) < MESSAGES:
                return db, child, err
    raise AssertionError


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_is_ended_goes_on(tmp_path, how):
    """Ctrl-C or kill -9 in the middle, then the same command: the memory of one undisturbed run."""
    words = ("import", str(chat_file(tmp_path, MESSAGES)), "-k", "ada", "--embedder", "words")
    db, child, err = imported_in_part(tmp_path, words, how)
    with Memory.open(db, mode="ro") as memory:
        before = len(memory.key("ada").set("default"))
    assert 0 < before < MESSAGES
    assert before % 500 == 0
    if how == signal.SIGINT:
        assert child.returncode == 130
        assert "adds nothing twice" in err.decode()
        assert b"Traceback" not in err
    code, out, _ = run(*words, "--json", db=db)
    assert code == 0
    counts = json.loads(out)
    assert (counts["added"], counts["kept"]) == (MESSAGES - before, before)
    _, exported, _ = run("export", db=db)
    assert run(*words, db=tmp_path / "calm.db")[0] == 0
    calm = run("export", db=tmp_path / "calm.db")[1]
    assert without_time(exported) == without_time(calm)


def without_time(exported: bytes) -> list[dict[str, object]]:
    """The lines of an export; messages without a time have that of their commit."""
    found = [json.loads(line) for line in exported.splitlines()]
    return [{name: v for name, v in line.items() if name != "time"} for line in found]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("tree -k ada >&-", 0),
        ("backup copy.db 2>&-", 0),
        ("chat -k ada <&-", 0),
        ("forget -k ada <&-", 2),
        ("export - <&- >&- 2>&-", 0),
    ],
)
def test_a_command_may_be_started_without_streams(filled, tmp_path, words, code):
    """What is printed where there is no stream is dropped, and who reads finds the end."""
    command = f"{sys.executable} -m alveus.cli --db {filled.db} {words}"
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr


def test_an_argument_that_is_no_text_is_told_as_one(filled):
    """The shell passes bytes; Python keeps those that are not UTF-8 as halves of characters.

    A text has U+FFFD in their place; a name is refused.
    """
    said = "the argument 'caf\\udce9' is not UTF-8"
    assert said in filled("get", "city", "-k", "caf\udce9", code=1).stderr
    assert said in filled("add", "tea", "-k", "ada", "-s", "caf\udce9", code=1).stderr
    for words in (["add", "caf\udce9"], ["set", "x", "caf\udce9"], ["set", "x", '"caf\\ud800"']):
        done = filled(*words, "-k", "ada", "--json")
        assert json.loads(done.stdout)["replaced_characters"] == 1
        assert "1 character was no valid text" in done.stderr
    assert filled.json("get", "x", "-k", "ada") == ["caf\ufffd"]
    assert filled("search", "caf\udce9", "-k", "ada").stdout


class Unable:
    """The bundled embedder, as far as a memory knows, when it fails."""

    name, dimensions, instant = "minilm", 384, False

    def embed(self, texts):
        """Fail."""
        raise OSError


def test_what_cannot_be_written_now_can_be_searched(tmp_path):
    """Where no vectors can be made, as on a full disk, items are found by their words."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder=Unable()) as memory:
        memory.key("ada").add_many([f"Prefers green tea, cup {n}." for n in range(300)])
    for words in ("search --json", "context"):
        command = f"{sys.executable} -m alveus.cli --db {path} {words} 'green tea' -k ada"
        ended = subprocess.run(
            ["sh", "-c", f"ulimit -f 100; {command}"],  # blocks of the log: too few for all vectors
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert "Prefers green tea, cup" in ended.stdout
        assert "cannot be made now: " in ended.stderr or "stored so far: " in ended.stderr


def test_output_that_finds_no_room_is_named(tmp_path):
    """The system does not say which file it was, and it looks like the store's."""
    command = f"ulimit -f 0; {sys.executable} -m alveus.cli --version >> out.txt"
    (tmp_path / "out.txt").write_text("full")
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("alveus: standard output: File too large; the output is not")


@pytest.mark.parametrize("words", [["tree", "-k", "ada"], ["--help"], ["--version"]])
def test_what_nobody_reads_is_no_error(filled, words):
    """`alveus tree | true` ends as other commands do; Rich and click would have it fail."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "alveus.cli", "--db", str(filled.db), *words]
    ended = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False
    )
    os.close(writing)
    assert (ended.returncode, b"Traceback" in ended.stderr) == (141, False)


def test_what_is_no_file_is_not_replaced(filled, tmp_path):
    """`alveus export --force /dev/null` would take the device away."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a file" in filled("export", str(pipe), "--force", code=1).stderr
    assert pipe.is_fifo()


def test_what_a_link_leads_to_is_replaced_and_not_the_link(filled, tmp_path):
    """As `cp` and the shell do, on the file of tokens too: others name the file itself."""
    (tmp_path / "other").mkdir()
    file, link = tmp_path / "other" / "out.jsonl", tmp_path / "link.jsonl"
    file.write_text("old")
    link.symlink_to(file)
    assert "exists" in filled("export", str(link), code=1).stderr
    filled("export", str(link), "--force")
    assert link.is_symlink()
    assert file.read_bytes() == filled("export").stdout_bytes
    tokens, named = tmp_path / "tokens.json", tmp_path / "other" / "tokens.json"
    named.symlink_to(tokens)
    filled("token", "new", "shop", "--tokens", str(tokens))
    filled("token", "revoke", "shop", "--tokens", str(named))
    assert named.is_symlink()
    assert json.loads(tokens.read_text()) == {"tokens": []}


def test_two_exports_to_one_file_are_not_mixed(filled, tmp_path):
    """The second one is refused while the first writes, and what that has written stays."""
    part = tmp_path / "out.jsonl.part"
    with part.open("wb") as first:
        first.write(b"what another export has written")
        first.flush()
        fcntl.flock(first, fcntl.LOCK_EX)
        refused = filled("export", str(tmp_path / "out.jsonl"), code=1)
        assert "another process is writing" in refused.stderr
        assert part.read_bytes() == b"what another export has written"
    filled("export", str(tmp_path / "out.jsonl"))
    assert not part.exists()


def test_a_file_that_cannot_be_written_on_is_named(tmp_path):
    """The system does not say which one the disk had no room for."""
    full = str(tmp_path / "out.jsonl")
    with pytest.raises(OSError, match=r"out\.jsonl"), sink(full, force=False):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert [*tmp_path.iterdir()] == []


def test_a_reader_that_stops_is_no_error(tmp_path):
    """`alveus list | head` is quiet."""
    db = tmp_path / "app.db"
    with Memory.open(db, embedder="words") as memory:
        memory.key("ada").add_many([f"item {n} " + "x" * 200 for n in range(3000)])
    for words in (["list", "-k", "ada"], ["list", "-k", "ada", "--json"], ["export"]):
        with process(*words, "--quiet", db=db) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.readline()
            child.stdout.close()
            assert child.stderr.read() == b""
            assert child.wait(timeout=LIMIT_S) == 141


# --- care --------------------------------------------------------------------------------------


def test_backup_and_restore(filled, tmp_path):
    """What was added after the backup is gone after the restore; the rest is there."""
    copy = tmp_path / "copy.db"
    (answer,) = filled.json("backup", str(copy))
    assert answer["bytes"] == copy.stat().st_size
    filled("add", "later", "-k", "ada")
    filled("backup", str(copy), code=1)
    filled("backup", str(tmp_path / "nowhere" / "copy.db"), code=1)
    (link := tmp_path / "link.db").symlink_to(tmp_path / "nothing.db")
    assert "link.db already exists" in filled("backup", str(link), code=1).stderr
    assert link.is_symlink()
    filled("restore", str(copy), code=2)
    filled("restore", str(tmp_path / "nothing.db"), "--yes", code=1)
    filled("restore", str(filled.db), "--yes", code=1)
    assert filled.json("restore", str(copy), "--yes") == [{"file": str(filled.db), "items": 3}]
    assert [i["id"] for i in filled.json("list", "-k", "ada")] == ["a", "b"]
    assert filled.json("search", "seats", "-k", "ada")[0]["hits"][0]["item"]["id"] == "a"
    filled("add", "after", "-k", "ada")
    fresh = Shell(tmp_path / "fresh.db")
    fresh("restore", str(copy))
    assert fresh.json("keys") == [{"key": "ada"}]


def test_a_memory_in_use_is_not_restored(filled, tmp_path):
    """Whoever has it open would go on with what is no longer there."""
    filled("backup", str(tmp_path / "copy.db"))
    with Memory.open(filled.db):
        words = ("restore", str(tmp_path / "copy.db"), "--yes")
        assert "open elsewhere" in filled(*words, code=1).stderr
    filled(*words)


def test_the_doctor_finds_a_healthy_memory(filled):
    """Exit code 0, a line per thing looked at."""
    shown = filled("doctor").stdout
    assert "integrity" in shown
    (found,) = filled.json("doctor")
    assert found["ok"] is True
    assert {"versions", "platform", "size", "permissions", "cache"} <= {
        finding["name"] for finding in found["findings"]
    }


def test_the_doctor_finds_what_is_wrong(filled, tmp_path):
    """A missing file, a damaged one and open permissions are said; the first two are wrong."""
    filled.db.chmod(0o644)
    assert "chmod 600" in filled("doctor").stdout
    missing = filled("doctor", code=1, db=tmp_path / "none.db").stdout
    assert "✗ file" in missing
    assert "there is no memory" in missing
    content = bytearray(filled.db.read_bytes())
    content[8192:40960] = os.urandom(32768)
    filled.db.write_bytes(content)
    (found,) = filled.json("doctor", code=1)
    assert found["ok"] is False


@pytest.mark.parametrize("kind", ["folder", "text", "device"])
def test_the_doctor_of_what_is_no_memory_gives_no_bad_advice(shell, tmp_path, kind):
    """Nothing is ticked that is not there, nothing is to be changed that is somebody's else."""
    place = Path("/dev/null") if kind == "device" else shell.db
    if kind == "folder":
        place.mkdir()
    elif kind == "text":
        place.write_text("dear diary\n" * 500)
    said = shell("doctor", code=1, db=place).stdout
    (wrong,) = [line for line in said.splitlines() if not line.startswith("✓")]
    assert wrong.startswith("✗")
    assert str(place) in wrong
    assert "--db" in wrong or "pass a file" in wrong
    assert "chmod" not in said
    assert "✓ file" not in said


def test_a_damaged_memory_comes_back_from_a_backup(filled, tmp_path):
    """By the very steps that doctor, and a restore that cannot work, tell."""
    backup = str(tmp_path / "backup.db")
    filled("backup", backup)
    whole = filled.db.read_bytes()
    for left in (b"SQLite format 3\0" + bytes(range(84)), whole[: len(whole) // 2], b"text"):
        filled.db.write_bytes(left)
        for said in (
            filled("doctor", code=1).stdout,
            filled("restore", backup, "--yes", code=1).stderr,
        ):
            assert "move it away together with its -wal and -shm files" in said
    for end in ("", "-wal", "-shm"):
        Path(f"{filled.db}{end}").unlink(missing_ok=True)
    filled("restore", backup, "--yes")
    filled("doctor")
    assert [i["id"] for i in filled.json("list", "-k", "ada")] == ["a", "b"]


def test_the_doctor_tells_of_a_clock_that_ran_ahead(filled):
    """Until the next commit, which has the right time again; and of one that is in doubt."""
    assert "no commit lies in the future" in filled("doctor").stdout
    ahead = datetime.now(UTC) + timedelta(days=5000)
    with Memory.open(filled.db, clock=lambda: ahead) as memory:
        memory.key("ada").add("from afar")
    said = filled("doctor").stdout
    assert f"1 commits lie in the future, the last at {ahead.year}" in said
    assert "Set the clock right" in said
    filled("add", "today", "-k", "ada")
    assert "no commit lies in the future" in filled("doctor").stdout
    assert "corroborated" not in said
    with Memory.open(filled.db) as memory:
        store = memory.store
        line = json.loads(store.note(TIMELINE) or "{}")
        line["line"] -= 10**13
        store.put_note(TIMELINE, json.dumps(line), expected=store.note(TIMELINE))
    assert "the time of this store is corroborated" in " ".join(filled("doctor").stdout.split())


def test_another_embedder(filled):
    """`reindex` moves a space; without a name it says what is missing."""
    filled("search", "x", "-k", "ada", "--embedder", "words", code=1)
    filled("reindex", code=2)
    (answer,) = filled.json("reindex", "--embedder", "words")
    assert answer["embedder"] == "words"
    assert filled.json("stats")[0]["embedder"] == "words"
    filled("reindex", "--embedder", "nonsense", code=1)


def test_another_embedder_shows_how_much_is_left(filled):
    """The bar on a terminal has the number of all texts."""
    ours, terminal = os.openpty()
    words = ["--db", str(filled.db), "reindex", "--embedder", "words"]
    command = subprocess.Popen([sys.executable, "-m", "alveus", *words], stderr=terminal)
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the command has ended
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert command.wait(LIMIT_S) == 0
    assert b"3/3" in shown


# --- lists ------------------------------------------------------------------------------------

HEADERS = {
    "keys": "key",
    "sets": "key          set       items  capacity  size",
    "list -k ada": "id  time              text",
    "recent -k ada": "id  time              text",
    "search seats -k ada": "score  set      id  time              text",
    "runs list": "run  status  agent  key  number  accepted  error",
    "receipts": "id  time  kind  state  erased",
    "facts list -k ada": "id  kind  subject  fact",
    "facts check -k ada": "fact  source  problem",
    "quarantine list -k ada": "id  set  held since  rule  reason",
}


@pytest.mark.parametrize("words", HEADERS)
def test_every_list_has_a_header(filled, words):
    """Also an empty one; --quiet leaves it out, for programs that want the cells."""
    lines = filled(*words.split()).stdout.splitlines()
    assert lines[0] == HEADERS[words]
    assert filled(*words.split(), "--quiet").stdout.splitlines() == lines[1:]


def test_an_id_that_is_shown_is_accepted(filled):
    """Whatever set it is in, and as SET/ID; an id in two sets has to be told apart."""
    filled("add", "Likes window boxes.", "-k", "ada", "-s", "notes", "--id", "n/1")
    shown = filled.json("search", "window", "-k", "ada")[0]["hits"]
    for item in (hit["item"] for hit in shown):
        for item_id in (item["id"], f"{item['set']}/{item['id']}"):
            assert filled.json("show", item_id, "-k", "ada") == [item]
            filled("lineage", item_id, "-k", "ada")
    filled("add", "Another.", "-k", "ada", "-s", "notes", "--id", "a")
    said = filled("show", "a", "-k", "ada", code=1).stderr
    assert "several sets have an item 'a': default, notes; pass one of them with --set" in said
    assert filled.json("show", "a", "-k", "ada", "-s", "notes")[0]["value"] == "Another."
    assert filled.json("delete", "default/a", "b", "n/1", "-k", "ada") == [{"removed": 3}]
    filled("delete", "b", "-k", "ada", code=3)
    assert "was deleted; --history" in filled("show", "b", "-k", "ada", code=3).stderr
    assert filled.json("show", "b", "-k", "ada", "--history")[0]["retired"]
    assert filled.json("show", "b", "-k", "ada", "--as-of", "2")[0]["id"] == "b"


@pytest.mark.parametrize(
    "words",
    [
        "quarantine show x -k ada",
        "quarantine release x -k ada",
        "quarantine discard x -k ada",
        "undo 7 -k ada",
        "receipts x",
    ],
)
def test_what_is_not_there_is_exit_code_3(filled, words):
    """Also where a command would have changed it, and with what to type, not what to call."""
    assert "()" not in filled(*words.split(), code=3).stderr
    filled(*words.split(), "--json", code=3)


def test_an_empty_key_is_not_told_to_be_converted(filled):
    """A variable of the shell that is not set makes one."""
    assert "but is empty" in filled("add", "x", "-k", "", code=1).stderr


# --- mistakes ----------------------------------------------------------------------------------

USES = {
    "add": ["x", "-k", "ada"],
    "search": ["x", "-k", "ada"],
    "show": ["x", "-k", "ada"],
    "delete": ["x", "-k", "ada"],
    "list": ["-k", "ada"],
    "recent": ["-k", "ada"],
    "tree": ["-k", "ada"],
    "get": ["profile.city", "-k", "ada"],
    "set": ["x", "1", "-k", "ada"],
    "rm": ["x", "-k", "ada"],
    "about": ["Ada", "-k", "ada"],
    "profile": ["-k", "ada"],
    "flink explain": [],
    "sets": [],
    "keys": [],
    "export": [],
    "stats": [],
    "doctor": [],
    "diff": ["0", "-k", "ada"],
    "prune-history": ["--before", "2025-01-01T00:00:00Z"],
    "compact": [],
    "compactions": ["-k", "ada"],
    "undo": ["1", "-k", "ada"],
    "lineage": ["x", "-k", "ada"],
    "backup": ["copy.db"],
    "restore": ["backup.db", "--yes"],
    "import": ["in.jsonl"],
    "demo": ["--fast"],
    "version": [],
    "completion": ["bash"],
    "reindex": ["--embedder", "words"],
    "run": ["cli_agent:Counter", "--input", "-"],
    "recover": ["cli_agent:Counter"],
    "runs list": [],
    "runs show": ["1"],
    "runs retry": ["1"],
    "runs discard": ["1"],
    "replay": ["1"],
    "context": ["x", "-k", "ada"],
    "chat": ["-k", "ada"],
    "learn": ["I live in Porto.", "-k", "ada"],
    "facts list": ["-k", "ada"],
    "facts show": ["x", "-k", "ada"],
    "facts why": ["x", "-k", "ada"],
    "facts check": ["-k", "ada"],
    "facts undo": ["x", "-k", "ada"],
    "quarantine list": ["-k", "ada"],
    "quarantine show": ["x", "-k", "ada"],
    "quarantine release": ["x", "-k", "ada"],
    "quarantine discard": ["x", "-k", "ada"],
    "forget": ["-k", "ada", "--yes"],
    "scrub": [],
    "shrink": [],
    "upgrade": [],
    "receipts": [],
    "grant": ["ada"],
    "grants": [],
    "revoke": ["ada"],
    "migrate": ["none.db", "copy.db"],
}
MAKE = {"add", "set", "run", "chat", "learn", "import", "restore", "demo"}
NO_MEMORY = {"version", "completion", "flink explain"}
ELSEWHERE = {"flink run", "flink submit", "mcp", "serve", "ui"}
"""Commands that test_flink_jobs.py, test_mcp.py and test_server.py try: they stay running."""
WITHOUT_MEMORY = {"token list", "token new", "token revoke", "token rotate"}
"""Commands that work on another file; tests/test_server.py tries them."""
ON_SERVER = {"grant", "grants", "revoke"}
"""Commands that refuse a file; tests/test_postgres_roles.py tries them on a server."""
NAMES_BOTH = {"migrate"}
"""Commands that take no --db; tests/test_migrate.py tries them."""
ON_FILE = sorted(set(COMMANDS) - ON_SERVER - NAMES_BOTH - ELSEWHERE - WITHOUT_MEMORY)


@pytest.mark.parametrize("words", ["add Tea. -k ada", "search tea -k ada", "serve", "backup b"])
def test_a_command_opens_no_memory_of_a_server(tmp_path, monkeypatch, words):
    """The error says where to run it; no file, and no folder, is named as the url is."""
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(alveus, ["--db", "http://localhost:8080", *words.split()])
    assert (refused.exit_code, "docs/client.md" in refused.stderr) == (1, True)
    assert [*tmp_path.iterdir()] == []


@pytest.fixture(scope="session")
def given_files(tmp_path_factory):
    """The files that commands are given: made once."""
    folder = tmp_path_factory.mktemp("given")
    with Memory.open(folder / "original.db", embedder="words") as memory:
        memory.key("ada").add("x")
        memory.backup(folder / "backup.db")
    exported = str(folder / "in.jsonl")
    assert run("export", exported, "--quiet", db=folder / "original.db")[0] == 0
    return folder


@pytest.fixture
def beside(given_files, tmp_path_factory, monkeypatch):
    """The working directory, with copies of the files that commands are given."""
    folder = tmp_path_factory.mktemp("beside")
    shutil.copytree(given_files, folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)


def test_every_command_is_tried():
    """A new command has to join the tests of mistakes."""
    assert set(COMMANDS) == set(USES) | ELSEWHERE | WITHOUT_MEMORY


@pytest.mark.parametrize("command", ON_FILE)
def test_a_memory_that_is_not_there_is_not_made(shell, command):
    """A reader with a wrong --db makes nothing and says so; nor does a writer that fails."""
    if command in NO_MEMORY:
        shell(*command.split(), *USES[command])
    elif command in MAKE:
        shell(*command.split(), *USES[command], "--embedder", "nonsense", code=1, stdin="")
    else:
        assert "here" in shell(*command.split(), *USES[command], code=1).output
    assert list(shell.db.parent.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("set", "a..x", "1", "-k", "ada"),
        ("set", "x", "1", "-k", ""),
        ("add", "x", "-k", "ada", "--importance", "7"),
        ("add", "x", "-k", "ada", "--set", ""),
        ("add", "x", "--knowledge", ""),
        ("add", "x", "-k", "ada", "--space", ""),
        ("chat", "-k", "ada", "--name", ""),
        ("chat", "-k", ""),
        ("import", "in.jsonl", "--space", ""),
        ("run", "cli_agent:Counter", "-i", "-", "--knowledge", ""),
    ],
)
def test_what_fails_makes_no_file(shell, beside, words):
    """A first write is tried in RAM before its file is made."""
    shell(*words, "--embedder", "words", code=1, stdin="")
    assert list(shell.db.parent.iterdir()) == []


@pytest.mark.parametrize("command", ON_FILE)
def test_every_command_names_its_file(filled, command, beside):
    """The file is on stderr once; not with --quiet, and with --json only if --verbose asks."""
    words = [*command.split(), *USES[command], "--db", str(filled.db)]
    line = f"alveus: using {filled.db}, space 'default'\n"
    uses = command not in {*NO_MEMORY, "demo"}  # demo refuses a file that exists
    for options, times in (
        (["--dry-run"] if command == "forget" else [], 1),
        (["--quiet"], 0),
        (["--json"], 0),
        (["--json", "--verbose"], 1),
    ):
        Path("copy.db").unlink(missing_ok=True)
        result = CliRunner().invoke(alveus, [*words, *options], input="")
        assert result.stderr.count(line) == times * uses, (options, result.stderr)
        assert line not in result.stdout


@pytest.mark.parametrize("command", ON_FILE)
def test_every_error_is_one_json_object(tmp_path, command, beside):
    """With --json an error is one line on stderr: its class, its message and its facts."""
    (tmp_path / "file.db").write_text("dear diary\n" * 500)
    shell = Shell(tmp_path / "file.db")
    wrong = ["--bogus"] if command in NO_MEMORY else []
    result = shell(*command.split(), *USES[command], *wrong, "--json", code=2 if wrong else 1)
    if command == "doctor":
        return  # it is what finds errors: they are its result
    (line,) = result.stderr.splitlines()
    error = json.loads(line)["error"]
    kinds = {"demo": "InvalidInput"} | dict.fromkeys(NO_MEMORY, "NoSuchOption")
    assert error["type"] == kinds.get(command, "NotAStore")
    assert wrong or str(shell.db) in error["message"]
    assert command in kinds or error["facts"]["path"] == str(shell.db)


@pytest.mark.parametrize("command", sorted(MAKE))
def test_no_command_makes_a_file_in_silence(shell, command, beside):
    """A command that writes says that it made the file; the next one uses it."""
    words = [*command.split(), *USES[command], "--embedder", "words"]
    assert f"alveus: made {shell.db}, space 'default'\n" in shell(*words, stdin="").stderr
    assert f"alveus: using {shell.db}" in shell("stats").stderr


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - NO_MEMORY - ELSEWHERE - WITHOUT_MEMORY))
@pytest.mark.parametrize("kind", ["folder", "text", "other", "newer"])
def test_a_file_that_is_no_memory_is_said_to_be_none(tmp_path, command, kind, beside):
    """A folder, a text, another SQLite file, a newer memory: exit 1, a message, no harm."""
    db = tmp_path / "file.db"
    if kind == "folder":
        db.mkdir()
    elif kind == "text":
        db.write_text("dear diary\n" * 500)
    elif kind == "other":
        apsw.Connection(str(db)).execute("CREATE TABLE mine (x)")
    else:
        Memory.open(db, embedder="words").close()
        apsw.Connection(str(db)).execute("PRAGMA user_version = 99")
    before = db.read_bytes() if db.is_file() else b""
    result = Shell(db)(*command.split(), *USES[command], code=1)
    assert (result.stdout if command == "doctor" else result.stderr).strip()
    assert not db.is_file() or db.read_bytes() == before


AS_NOBODY = f"""
import difflib, sys  # click imports the first as it parses
from alveus import Memory
from alveus.cli import main
from alveus.cli.commands import COMMANDS
from alveus.store.sqlite import checksums
for command in COMMANDS:  # imports, while files can be read
    command.load()
with Memory.open(embedder="words") as memory:
    memory.key("ada").add("x")
checksums.vfs()
{DROP_RIGHTS}
main()
"""


def test_a_memory_that_cannot_be_written_can_be_read():
    """Read-only is an error for writers only."""
    with closed_folder() as shared:
        db = shared / "app.db"
        with Memory.open(db, embedder="words") as memory:
            memory.key("ada").add("green tea")
        shut(shared, db)

        def nobody(*words):
            command = [sys.executable, "-c", AS_NOBODY, "--db", str(db), *words]
            return subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=LIMIT_S
            )

        read, refused = nobody("list", "-k", "ada"), nobody("add", "x", "-k", "ada")
        assert (read.returncode, "green tea" in read.stdout) == (0, True), read.stderr
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith(f"alveus: {db}"), refused.stderr
        assert "mode=" not in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["add", "x"], 2),
        (["add", "x", "-k", "ada", "--knowledge", "k"], 2),
        (["add", "x", "-k", ""], 1),
        (["add", "x", "-k", "ada", "-s", ""], 1),
        (["add", "x", "-k", "ada", "--id", "a"], 1),
        (["add", "x", "-k", "ada", "--metadata", "{"], 2),
        (["add", "x", "-k", "ada", "--metadata", "[]"], 2),
        (["add", "x", "-k", "ada", "--importance", "7"], 1),
        (["add", "x", "-k", "ada", "--time", "today"], 2),
        (["add", "x", "-k", "\udcff"], 1),
        (["add", "x", "-k", "k" * 5000], 1),
        (["search", "x", "-k", "ada", "--limit", "0"], 2),
        (["search", "x", "-k", "ada", "--limit", "1001"], 2),
        (["search", "x", "-k", "ada", "--limit", "9" * 400], 2),
        (["search", "x", "-k", "ada", "--where", "topic"], 2),
        (["search", "x", "-k", "ada", "--where", "[" * 100_000], 2),
        (["search", "x", "-k", "ada", "--where", '{"n": {"like": 1}}'], 1),
        (["search", "x", "-k", "ada", "--as-of", "then"], 2),
        (["search", "x", "-k", "ada", "-s", "nope"], 3),
        (["search", "x", "-k", "nobody"], 3),
        (["context", "x", "--budget", "0", "-k", "ada"], 2),
        (["context", "x", "--budget", "1", "-k", "ada"], 1),
        (["context", "x", "--recent", "-1", "-k", "ada"], 2),
        (["context", "x", "--where", "topic", "-k", "ada"], 2),
        (["context", "x", "--as-of", "then", "-k", "ada"], 2),
        (["context", "x", "-s", "nope", "-k", "ada"], 3),
        (["context", "x", "-k", ""], 1),
        (["show", "nope", "-k", "ada"], 3),
        (["show", "a", "-k", "ada", "-s", "nope"], 3),
        (["show", "a", "-k", "ada", "--as-of", "0"], 3),
        (["show", "", "-k", "ada"], 1),
        (["list", "-k", "nobody"], 3),
        (["list", "-k", "ada", "-n", "99999999999999999999"], 0),
        (["recent", "-k", "ada", "-n", "9223372036854775807"], 0),
        (["tree", "-k", "nobody"], 3),
        (["tree", "nope", "-k", "ada"], 3),
        (["tree", "a..b", "-k", "ada"], 1),
        (["tree", "[1]", "-k", "ada"], 2),
        (["tree", "-k", ""], 1),
        (["set", "", "x", "-k", "ada"], 1),
        (["set", "profile", "x", "-k", "ada"], 1),
        (["set", "profile.city.x", "x", "-k", "ada"], 1),
        (["set", "x", "1", "--ttl", "soon", "-k", "ada"], 2),
        (["set", "x", "1", "--ttl", "0s", "-k", "ada"], 2),
        (["set", "x", "1", "--ttl", "999999999999w", "-k", "ada"], 2),
        (["set", "x", "1" * 5000, "-k", "ada"], 2),
        (["set", "x", '{"$float": "many"}', "-k", "ada"], 2),
        (["set", "x", "1", "--ttl", "9" * 400 + "d", "-k", "ada"], 2),
        (["set", "x", "1", "--ttl", "3000000d", "-k", "ada"], 2),
        (["set", "x", "[" * 100_000, "-k", "ada"], 2),
        (["set", "x", "[" * 100_000 + "]" * 100_000, "-k", "ada"], 2),
        (["set", "x", "[" * 150 + "]" * 150, "-k", "ada"], 1),
        (["set", "x", "1e999", "-k", "ada"], 2),
        (["set", "x", '{"a": [-1e999]}', "-k", "ada"], 2),
        (["add", "", "-k", "ada"], 2),
        (["add", " \n", "-k", "ada"], 2),
        (["add", "-", "-k", "ada"], 2),
        (["add", "x", "-k", "ada", "--metadata", '{"a": 1e999}'], 2),
        (["search", "x", "-k", "ada", "--where", '{"not":' * 40 + "{}" + "}" * 40], 1),
        (["search", "x", "-k", "ada", "--where", '{"not":' * 950 + "{}" + "}" * 950], 2),
        (["keys", "--db", ""], 2),
        (["keys", "--db", "/proc/app.db"], 1),
        (["add", "x", "-k", "ada", "--db", "/proc/self/app.db"], 1),
        (["import", ""], 2),
        (["export", ""], 2),
        (["backup", ""], 2),
        (["restore", ""], 2),
        (["rm", "-k", "ada"], 2),
        (["rm", "x"], 2),
        (["rm", "ada", "x"], 2),
        (["rm", "nope", "-k", "ada"], 3),
        (["rm", "x", "--knowledge", "k", "-k", "ada"], 2),
        (["get", "-k", "ada"], 2),
        (["get", "x"], 2),
        (["get", "nope", "-k", "ada"], 3),
        (["get", "profile", "-k", "ada"], 1),
        (["get", "", "-k", "ada"], 1),
        (["delete", "-k", "ada"], 2),
        (["delete", "a"], 2),
        (["delete", "nope", "-k", "ada"], 3),
        (["delete", "a", "nope", "-k", "ada"], 3),
        (["import", "nope.jsonl"], 1),
        (["import", "."], 1),
        (["import", "-", "--on-existing", "never"], 2),
        (["export", "nowhere/out.jsonl"], 1),
        (["run"], 2),
        (["run", "cli_agent:Counter"], 2),
        (["run", "cli_agent", "-i", "-"], 2),
        (["run", "cli_agent:Counter", "-i", "-", "--consumer", "x"], 2),
        (["run", "cli_agent:Counter", "-i", "-", "--output", "-"], 2),
        (["run", "cli_agent:Counter", "--serve", "--output", "x"], 2),
        (["run", "cli_agent:Counter", "-i", "-", "--output", "nowhere/out.jsonl"], 1),
        (["run", "cli_agent:Nobody", "-i", "-"], 1),
        (["run", "cli_agent:json", "-i", "-"], 1),
        (["run", "cli_agent:Idle", "-i", "-"], 1),
        (["run", "cli_agents:Counter", "-i", "-"], 1),
        (["run", "nope.py:Counter", "-i", "-"], 1),
        (["run", "cli_agent:Counter", "-i", "nope.jsonl"], 1),
        (["run", "cli_agent:Counter", "-i", "."], 1),
        (["run", "cli_agent:Counter", "-i", "-", "--concurrency", "0"], 2),
        (["run", "cli_agent:Counter", "-i", "-", "--name", ""], 2),
        (["recover", "cli_agent:Nobody"], 1),
        (["runs"], 2),
        (["runs", "list", "--status", "lost"], 2),
        (["runs", "list", "-k", "nobody"], 0),
        (["runs", "show", "1"], 3),
        (["runs", "show", "0"], 2),
        (["runs", "show", "x"], 2),
        (["runs", "show", "9" * 30], 2),
        (["runs", "retry"], 2),
        (["runs", "retry", "1", "--all"], 2),
        (["runs", "retry", "-k", "ada"], 2),
        (["runs", "retry", "1"], 3),
        (["runs", "retry", "--all"], 0),
        (["runs", "retry", "--all", "-a", "Nobody"], 3),
        (["runs", "discard", "--all", "-k", "nobody"], 3),
        (["runs", "discard", "1", "2"], 3),
        (["replay", "1"], 3),
        (["completion", "tcsh"], 2),
        (["bogus"], 2),
        (["--bogus", "keys"], 2),
        (["keys", "--db", ":memory:"], 2),
        (["keys", "--embedder", "nonsense"], 1),
        (["keys", "--space", ""], 1),
    ],
)
def test_a_mistake_has_an_answer(filled, words, code):
    """No mistake shows a traceback; stderr says what was wrong, in words and in JSON."""
    result = filled(*words, code=code)
    if code:
        assert result.stderr.startswith("alveus: ")
        result = filled("--json", *words, code=code)
    if code in {1, 2}:
        assert set(json.loads(result.stderr)["error"]) == {"type", "message", "facts"}


def test_messages_say_what_to_do(filled, tmp_path):
    """Where, what, and the next step."""
    for words, says in {
        ("keys", "--db", ""): "'--db': it is empty; pass a file",
        (
            "set",
            "x",
            "1",
            "-k",
            "ada",
            "--ttl",
            "3000000d",
        ): "'3000000d' is longer than 1,000 years",
        (
            "set",
            "profile.city.zip",
            "1",
            "-k",
            "ada",
        ): "which has no fields; remove it first: alveus rm\n",
        ("set", "x", "1e999", "-k", "ada"): "1e999 is too large for a float",
        (
            "set",
            "x",
            "[" * 100_000 + "]" * 100_000,
            "-k",
            "ada",
        ): "deeper than 100 levels); pass --text",
        ("set", "x", "[" * 150 + "]" * 150, "-k", "ada"): "…: is nested deeper than 100 levels",
        ("set", "x", '{"a": 1, "a": 2}', "-k", "ada"): "the field 'a' occurs twice",
        ("list", "-k", "ada", "--where", '{"a": 1, "a": 2}'): "the field 'a' occurs twice",
        ("add", "", "-k", "ada"): "TEXT is empty",
        ("add", "-", "-k", "ada"): "stdin is empty",
        ("add", "x", "-k", "ada", "--metadata", "["): "is not JSON; quote it for the shell",
        ("list", "-k", "ada", "--where", '{"not":' * 40 + "{}" + "}" * 40): "than 32 levels",
        ("list", "-k", "ada", "--where", '{"not":' * 950 + "{}" + "}" * 950): "than 100 levels",
        ("add", "x", "-k", "ada", "--db", "/proc/app.db"): "/proc/app.db is on proc, which",
        ("keys", "--db", "~/app.db"): "which only a shell replaces; write '/",
    }.items():
        said = CliRunner().invoke(alveus, ["--db", str(filled.db), *words])
        assert said.exit_code in (1, 2)
        assert says in said.stderr
        assert len(said.stderr) < 400
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"role": "user", "content": "x"}\n{"role": "user"}\n')
    said = filled("import", str(bad), "-k", "ada", "--strict", code=1).stderr
    assert f"alveus: {bad}:2: a message needs" in said
    assert "its sets: default" in filled("list", "-k", "ada", "-s", "nope", code=3).stderr
    assert "--key KEY" in filled("search", "x", code=2).stderr


def test_mistakes_in_a_process_of_its_own(tmp_path):
    """The same through a real process: bytes that are no text, an unknown option."""
    code, _, err = run("add", "x", "-k", b"\xff", db=tmp_path / "app.db")
    assert (code, "is not UTF-8" in err) == (1, True)
    assert run("--nope")[0] == 2
    code, out, _ = run("version", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (code, b"alveus" in out) == (0, True)


def test_what_is_printed_cannot_steer_a_terminal(filled):
    """An item with escape sequences is shown, not obeyed."""
    filled("add", "red \x1b[31m alert \x07", "-k", "eve")
    assert "\x1b" not in filled("list", "-k", "eve").stdout
    assert plain("a\x1b\x9b\n\tb") == "a\\x1b\\x9b\n\tb"


# --- completion --------------------------------------------------------------------------------


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell, shell_name):
    """What a shell loads names the program, and takes any name for one word."""
    script = shell("completion", shell_name).stdout
    assert "_ALVEUS_COMPLETE" in script
    for of_click, mended in MENDED[shell_name]:
        assert mended % () in script
        assert of_click % () not in script.replace(mended % (), "")


def complete(*words, db=None):
    """What bash would offer for the last word."""
    line = ["alveus", *([] if db is None else ["--db", str(db)]), *words]
    variables = {
        "_ALVEUS_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    code, out, err = run(env=os.environ | variables)
    assert (code, err) == (0, "")
    return [line.partition(",")[2] for line in out.decode().split()]


def test_names_are_completed_from_the_memory(filled):
    """Keys, sets and paths are offered; reading them makes no file."""
    filled("add", "x", "-k", "adele", "-s", "notes")
    for beside in ("-wal", "-shm"):
        Path(f"{filled.db}{beside}").unlink(missing_ok=True)
    before = sorted(filled.db.parent.iterdir())
    assert complete("tree", "-k", "ad", db=filled.db) == ["ada", "adele"]
    assert complete("list", "--key", "adele", "--set", "n", db=filled.db) == ["notes"]
    assert complete("set", "-k", "ada", "profile.", db=filled.db) == ["profile.city"]
    assert complete("sea", db=filled.db) == ["search"]
    assert sorted(filled.db.parent.iterdir()) == before


def test_bash_completes_what_it_takes_for_several_words(filled, tmp_path):
    """Names go on past a colon or an equals sign, as in ``user:1``; typed into a real bash."""
    for key in ("user:one", "team:a:two", "a=three", "x y:four"):
        filled("set", "here", key, "-k", key)
    lines = ["-k user:o", "--key=team:", "--key=a=", r"-k x\ y:", '-k "x y:']
    typed = ['eval "$(alveus completion bash)"']
    for n, line in enumerate(lines):
        typed.append(f"alveus get {line}\t here > {tmp_path / str(n)}")
    ours, terminal = os.openpty()
    variables = {
        "ALVEUS_DB": str(filled.db),
        "INPUTRC": os.devnull,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "dumb",
    }
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ | variables,
        start_new_session=True,
    )
    os.close(terminal)
    os.write(ours, "\n".join([*typed, "exit", ""]).encode())
    with contextlib.suppress(OSError):  # EIO: bash has ended
        while os.read(ours, 4096):
            pass
    os.close(ours)
    assert bash.wait(LIMIT_S) == 0
    got = [(tmp_path / str(n)).read_text() for n in range(len(lines))]
    assert got == ["user:one\n", "team:a:two\n", "a=three\n", "x y:four\n", "x y:four\n"]


def test_a_name_of_several_lines_is_not_completed(filled):
    """A shell would take it for several names."""
    filled("add", "x", "-k", "adele\nbob")
    assert complete("tree", "-k", "a", db=filled.db) == ["ada"]


def test_completion_is_never_in_the_way(tmp_path):
    """No memory, or something else: no names, no error, no file."""
    assert complete("tree", "-k", "a", db=tmp_path / "none.db") == []
    (tmp_path / "text.db").write_text("dear diary")
    assert complete("tree", "-k", "a", db=tmp_path / "text.db") == []
    assert [path.name for path in tmp_path.iterdir()] == ["text.db"]


# --- small things ------------------------------------------------------------------------------


def test_every_command_has_help():
    """`--help` of each works, and says in its first sentence what it does."""
    for name in (*COMMANDS, *BY_NAME):
        result = CliRunner().invoke(alveus, [*name.split(), "--help"])
        assert result.exit_code == 0
    for name in COMMANDS:
        shown = CliRunner().invoke(alveus, [*name.split(), "--help"]).stdout
        (example,) = re.findall(r"^  Example: alveus (.*)$", shown, re.MULTILINE)
        words = shlex.split(example)[len(name.split()) :]
        assert example.startswith(name)
        command: click.Command | None = alveus
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word)
        assert command is not None
        assert command.make_context(name, words), "the example can be typed"
    assert "Exit codes" in CliRunner().invoke(alveus, ["-h"]).stdout


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: listed.name)
def test_the_table_of_commands_says_what_each_command_says(listed):
    """The help of the root is written without importing a command, and tells the same."""
    command = listed.load()
    assert command.name == listed.name
    assert command.get_short_help_str(200) == listed.help


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("localhost:8080", "is a host and a port; a server is http://localhost:8080"),
        ("postgresql:/app", "lacks //; a server is postgresql://"),
        ("redis://host/0", "redis:// stores are not supported"),
        ("x" * 248, "the name of a store's file has at most 247 bytes"),
    ],
)
def test_what_names_no_file_makes_none(tmp_path, monkeypatch, place, said):
    """A command refuses what `Memory.open` does, whether it is an option or a variable."""
    monkeypatch.chdir(tmp_path)
    for words, more in ((["--db", place], {}), ([], {"ALVEUS_DB": place})):
        told = CliRunner(env=more).invoke(alveus, ["add", "x", "--key", "ada", *words])
        assert (told.exit_code, said in told.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_beginning_of_keys_makes_no_token_for_all(tmp_path):
    """It is mostly a shell variable that is not set."""
    words = ["token", "new", "shop", "--tokens", str(tmp_path / "tokens.json"), "--keys", ""]
    told = CliRunner().invoke(alveus, words)
    assert told.exit_code == 2
    assert "the beginning of keys must be a non-empty str" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_option_is_spelled_as_it_is_typed():
    """No comma of a synopsis has got into a name."""
    params = [param for command in COMMANDS.values() for param in command.params]
    spelled = {name for param in params if isinstance(param, click.Option) for name in param.opts}
    assert "--input" in spelled
    assert [
        name for name in spelled if not re.fullmatch("-[a-zA-Z]|--[a-z]+(-[a-z]+)*", name)
    ] == []


def test_an_interrupt_while_the_program_is_imported_is_told_in_a_line():
    """As one that comes later; Python would print where it was."""
    program = (
        "import sys\n"
        "from alveus.cli import main\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'alveus.cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "main()"
    )
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (answer.returncode, answer.stderr) == (130, "alveus: interrupted\n")


def test_the_version_needs_no_memory():
    """A command pays for what it uses: neither arrays nor the database nor tables for this one."""
    program = (
        "import sys; from alveus.cli import main; sys.argv = ['alveus', '--version']\n"
        "try: main()\n"
        "finally: assert not {'numpy', 'apsw', 'rich', 'asyncio'} & set(sys.modules), sys.modules"
    )
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert answer.stdout.startswith("alveus ")


def test_sizes_and_bars():
    """Numbers as people write them."""
    assert [size(n) for n in (0, 999, 1000, 123_456_789)] == ["0 B", "999 B", "1.0 kB", "123.5 MB"]
    assert (bar(1, 1, columns=4), bar(0.5, 1, columns=3), bar(0, 0)) == ("████", "█▌", "")


def test_both_modules_run(monkeypatch, capsys):
    """`python -m alveus` is `alveus`."""
    monkeypatch.setattr(sys, "argv", ["alveus", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "alveus 0." in capsys.readouterr().out
    command = [sys.executable, "-m", "alveus", "version"]
    assert subprocess.run(command, check=True, capture_output=True).stdout

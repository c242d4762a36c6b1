"""The same days and offsets through every door: server, client, asyncio, tools, files, commands."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from alveus import AsyncMemory, Item, Memory
from alveus.cli.app import alveus
from alveus.errors import InvalidInput
from alveus.memory.memory_tools import memory_tools
from alveus.server.middleware import MAY_SEND
from alveus.transfer import Target, export_lines, history_lines, import_file
from test_server import ServedHere

EVENING = "2026-03-01T23:30:00-05:00"
WENT = "I was at the dentist yesterday."
NEW_YORK = timedelta(hours=-5)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    """A server in whatever zone this machine is in."""
    made = ServedHere(tmp_path_factory.mktemp("served"))
    yield made
    made.stop()


def asked(served: ServedHere, path: str, body: object, **headers: str) -> Any:
    """Return the answer to a request."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(
        f"http://127.0.0.1:{served.port}{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - of this server
        return json.load(answer)


def test_a_request_says_where_its_reader_is(served: ServedHere) -> None:
    """In a header; times with an offset keep it, what has none gets the reader's."""
    items = [{"id": "given", "value": WENT, "time": EVENING}, {"id": "now", "value": "Tea."}]
    zone = {"Alveus_Timezone": "Asia/Kolkata"}
    asked(served, "/v1/items?key=rest", {"items": items}, **zone)
    given, now = asked(served, "/v1/items/get?key=rest", {"ids": ["given", "now"]})["items"]
    assert given["time"] == EVENING
    assert now["time"].endswith("+05:30")
    found = asked(served, "/v1/search?key=rest", {"query": "tea yesterday"}, **zone)
    assert found["dated"].endswith("counted in Asia/Kolkata")
    with pytest.raises(urllib.error.HTTPError) as refused:  # pyright: ignore[reportAttributeAccessIssue] - the test fails where it is another type
        asked(served, "/v1/search?key=rest", {"query": "tea"}, Alveus_Timezone="Mars/Olympus")
    assert refused.value.code == 400
    assert "Mars/Olympus" in json.load(refused.value)["error"]["message"]


def test_a_page_of_another_origin_may_say_where_its_reader_is() -> None:
    """It may send every header that the client in TypeScript does."""
    client = Path(__file__).parents[1] / "clients" / "typescript" / "connection.js"
    sent = set(
        re.findall(
            r"""headers\.(\w+) =|headers\["([\w-]+)"\] =|"([\w-]+)": this""", client.read_text()
        )
    )
    names = {name for found in sent for name in found if name}
    assert {"Authorization", "Idempotency-Key", "Alveus-Timezone"} <= names
    assert names <= {*MAY_SEND.split(", ")}


def test_a_client_counts_as_the_memory_does(served: ServedHere) -> None:
    """What a client adds, learns and asks is of its zone; a batch and knowledge too."""
    url = f"http://127.0.0.1:{served.port}"
    with Memory.open(url, timezone="America/New_York") as memory:
        assert memory.timezone == "America/New_York"
        key = memory.key("client")
        key.add("Tea.", id="now")
        key.add("Tea.", id="given", time=datetime.fromisoformat(EVENING))
        key.add("Tea.", id="elsewhere", timezone="+14:00")
        with key.batch() as batch:
            batch.add("Tea.", id="drafted", timezone=ZoneInfo("Asia/Tokyo"))
        offsets = [key.get(name).time.utcoffset() for name in ("given", "elsewhere", "drafted")]  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
        assert offsets == [NEW_YORK, timedelta(hours=14), timedelta(hours=9)]
        here = datetime.now(ZoneInfo("America/New_York")).utcoffset()
        assert key.get("now").time.utcoffset() == here  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
        said = {"role": "user", "name": "Ada", "content": WENT, "timestamp": "2026-03-01T23:30:00"}
        key.conversation("chat").add(said)
        other_said = said | {"content": "I was at the doctor yesterday."}
        key.conversation("other", timezone="Asia/Kolkata").add(other_said)
        (fact,) = key.learn(key.conversation("chat"), model=None).added
        assert (fact.when[0], fact.zone) == ("2026-02-28", "UTC-05:00")
        (other,) = key.learn(key.conversation("other"), model=None).added
        assert other.zone == "UTC+05:30"
        assert str(key.search("tea yesterday").dated).endswith("America/New_York")
        far = memory.in_timezone("Pacific/Kiritimati").key("client")
        assert str(far.search("tea yesterday").dated).endswith("Pacific/Kiritimati")
        assert str(key.search("tea yesterday").dated).endswith("America/New_York")
    with Memory.open(url) as memory:  # where this machine is, as an offset
        dated = str(memory.key("client").search("tea yesterday").dated)
        assert dated.rpartition(" ")[2].startswith("UTC")


def test_calls_that_are_awaited_take_a_zone() -> None:
    """As the others do."""

    async def work() -> None:
        async with await AsyncMemory.open(":memory:", embedder="words", timezone="UTC") as memory:
            key = await memory.key("ada")
            talk = key.conversation("chat", timezone="America/New_York")
            await talk.add({"name": "Ada", "content": WENT, "timestamp": 1772425800})
            (fact,) = (await key.learn(talk, model=None)).added
            assert (fact.when[0], fact.zone) == ("2026-02-28", "UTC-05:00")
            far = await memory.in_timezone("+14:00").key("ada")
            assert str((await far.search("tea yesterday")).dated).endswith("UTC+14:00")
            assert memory.timezone == "UTC"

    asyncio.run(work())


def test_a_tool_dates_by_the_reader_and_keeps_an_offset() -> None:
    """A day that a model names begins where the reader is."""
    with Memory.open(":memory:", embedder="words", timezone="America/New_York") as memory:
        key = memory.key("ada")
        tools = memory_tools(key, only=["remember", "recall", "explain", "list"])
        day = tools.call("remember", {"text": "Dentist.", "when": "2026-03-01"}).ids[0]
        given = tools.call("remember", {"text": "Doctor.", "when": "2026-03-02T09:00+09:00"}).ids[0]
        assert key.get(day).time == datetime(2026, 3, 1, 5, tzinfo=UTC)  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
        assert key.get(given).time.utcoffset() == timedelta(hours=9)  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
        assert "(2026-03-01)" in tools.call("list", {}).text
        assert (
            "It happened 2026-03-01 19:00 UTC-05:00." in tools.call("explain", {"id": given}).text
        )


def test_a_prompt_shows_days_of_the_reader_and_names_the_zone() -> None:
    """In the headings, and with all details."""
    with Memory.open(":memory:", embedder="words", timezone="UTC") as memory:
        memory.key("ada").add(WENT, time=datetime.fromisoformat(EVENING))
        for zone, day, stamp in (
            ("America/New_York", "1 March 2026:", "2026-03-01 23:30"),
            ("Asia/Kolkata", "2 March 2026:", "2026-03-02 10:00"),
        ):
            key = memory.in_timezone(zone).key("ada")
            told = key.context("dentist", min_score=0).text
            assert day in told
            assert f"Times are in {zone}." in told
            assert stamp in key.context("dentist", min_score=0, details="show").text
        assert "Times are in" not in memory.key("ada").context("dentist", min_score=0).text


def test_offsets_go_through_files(tmp_path: Path) -> None:
    """An export, and one of the history, bring back the times as they came."""
    with Memory.open(tmp_path / "one.db", embedder="words", timezone="America/New_York") as memory:
        key = memory.key("ada")
        key.add(Item("Tea.", id="given", time=datetime.fromisoformat("2026-03-02T00:30:00+05:45")))
        key.add("Tea.", id="now", metadata={"$offset": 3, "a": 1})
        key.update("given", "Green tea.")
        key.conversation("chat").add({"content": WENT, "timestamp": EVENING, "id": "m"})
        before = [(one.id, one.time.isoformat(), one.metadata) for one in key.list()]
        files = [[*export_lines(memory)], [*history_lines(memory)]]
    for history, lines in enumerate(files):
        with Memory.open(tmp_path / f"two{history}.db", embedder="words", timezone="UTC") as other:
            file = tmp_path / f"file{history}.jsonl"
            file.write_text("\n".join(lines))
            import_file(other, file)
            key = other.key("ada")
            assert [(one.id, one.time.isoformat(), one.metadata) for one in key.list()] == before
            (message,) = key.set("chat").list()
            assert message.time.isoformat() == EVENING
            assert key.conversation("chat").messages()[0]["content"] == WENT


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        ("mem0", {"id": "m-1", "memory": WENT, "created_at": EVENING}),
        ("items", {"id": "m-1", "text": WENT, "created_at": EVENING}),
        ("chat", {"id": "m-1", "role": "user", "content": WENT, "timestamp": EVENING}),
    ],
)
def test_files_of_other_systems_keep_their_offsets(
    tmp_path: Path, layout: Any, line: dict[str, Any]
) -> None:
    """The day of an item is that of where it was written."""
    with Memory.open(":memory:", embedder="words", timezone="UTC") as memory:
        file = tmp_path / "file.jsonl"
        file.write_text(json.dumps(line))
        import_file(memory, file, layout=layout, target=Target(key="ada"))
        (kept,) = memory.key("ada").list()
        assert kept.time.isoformat() == EVENING


# --- the command line ---------------------------------------------------------------------------


def run(db: Path, *words: str, code: int = 0, **env: str) -> str:
    """Return what a command prints."""
    place = ["--db", str(db), "--embedder", "words"]
    result = CliRunner().invoke(alveus, [*place, *words], env=env)
    assert result.exit_code == code, result.output
    return result.output


def test_a_day_of_a_command_is_one_of_the_reader(tmp_path: Path) -> None:
    """It begins and ends where the reader is; an offset wins, and is kept."""
    db = tmp_path / "app.db"
    zone = "--timezone", "America/New_York"
    run(db, "add", "Tea.", "-k", "ada", "--id", "day", "--time", "2026-03-01", *zone)
    run(db, "add", "Tea.", "-k", "ada", "--id", "given", "--time", "2026-03-02T09:00+09:00", *zone)
    to = "--valid-to", "2026-03-01"
    run(db, "add", "Tea.", "-k", "ada", "--id", "held", *to, *zone)
    with Memory.open(db) as memory:
        key = memory.key("ada")
        assert key.get("day").time == datetime(2026, 3, 1, 5, tzinfo=UTC)  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
        assert key.get("held").valid_to == datetime(2026, 3, 2, 5, tzinfo=UTC)  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
        assert key.get("given").time.utcoffset() == timedelta(hours=9)  # pyright: ignore[reportOptionalMemberAccess] - the test fails where it is another type
    shown = run(db, "list", "-k", "ada", *zone)
    assert "2026-03-01 00:00" in shown
    assert "2026-03-01 19:00" in shown
    assert "2026-03-01 14:00" in run(db, "list", "-k", "ada", ALVEUS_TIMEZONE="Asia/Tokyo")
    assert "Mars" in run(db, "list", "-k", "ada", "--timezone", "Mars", code=2)
    dated = run(db, "search", "tea yesterday", "-k", "ada", *zone)
    assert "counted in America/New_York" in dated


def test_since_and_until_are_days_of_the_reader(tmp_path: Path) -> None:
    """SINCE from its begin, UNTIL to its end, so that a day is whole."""
    db = tmp_path / "app.db"
    clock = [datetime(2026, 3, 2, 3, 30, tzinfo=UTC)]  # 1 March, 22:30 in New York
    with Memory.open(db, embedder="words", clock=lambda: clock[0]) as memory:
        memory.key("ada").add("Tea.", id="evening")
        clock[0] += timedelta(hours=10)
        memory.key("ada").add("Tea.", id="morning")

    def changed(*words: str) -> list[str]:
        told = json.loads(run(db, "diff", *words, "-k", "ada", "--json"))
        return [item["id"] for item in told["items"]]

    zone = "--timezone", "America/New_York"
    assert changed("2026-03-01", "2026-03-01", *zone) == ["evening"]
    assert changed("2026-03-02", "2026-03-02", *zone) == ["morning"]
    assert sorted(changed("2026-03-02", "2026-03-02", "--timezone", "UTC")) == [
        "evening",
        "morning",
    ]
    assert changed("2026-03-02T00:00:00-05:00", *zone) == ["morning"]
    as_of = "--as-of", "2026-03-01"
    assert "evening" in run(db, "list", "-k", "ada", *as_of, *zone)


# --- wherever the machine is ----------------------------------------------------------------------

WORK = """
import datetime as d
from alveus import Memory
memory = Memory.open(":memory:", embedder="words")
key = memory.key("ada")
said = {"name": "Ada", "content": "I was ill yesterday.", "timestamp": 1772425800}
key.conversation("chat").add(said)
(fact,) = key.learn(key.conversation("chat"), model=None).added
print(memory.timezone, fact.zone, fact.when[0], key.search("ill last week").dated.split()[-1])
"""


@pytest.mark.parametrize(
    ("zone", "named", "offset", "day"),
    [
        ("America/Los_Angeles", "America/Los_Angeles", "UTC-08:00", "2026-02-28"),
        ("Asia/Kolkata", "Asia/Kolkata", "UTC+05:30", "2026-03-01"),
        ("Pacific/Kiritimati", "Pacific/Kiritimati", "UTC+14:00", "2026-03-01"),
        ("UTC", "UTC", "UTC", "2026-03-01"),
        (":Etc/UTC", "UTC", "UTC", "2026-03-01"),
        ("XYZ-3", "UTC+03:00", "UTC+03:00", "2026-03-01"),
    ],
)
def test_the_zone_of_the_machine_holds_by_default(
    zone: str, named: str, offset: str, day: str
) -> None:
    """And the results name it."""
    environment = {**os.environ, "TZ": zone}
    told = subprocess.run(
        [sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == [named, offset, day, named]


@pytest.mark.parametrize(
    "wrong", ["Mars/Olympus", "", "../../etc/passwd", "+25:00", "+1:00", "A" * 500, 5, b"UTC", True]
)
def test_what_is_no_zone_is_refused_in_one_way(wrong: Any) -> None:
    """At every door, before anything is done."""
    with Memory.open(":memory:", embedder="words") as memory:
        key = memory.key("ada")
        for call in (
            lambda: Memory.open(":memory:", timezone=wrong),
            lambda: memory.in_timezone(wrong),
            lambda: key.conversation("chat", timezone=wrong),
            lambda: key.add("Tea.", timezone=wrong),
        ):
            with pytest.raises(InvalidInput, match="is not a known zone"):
                call()
        assert key.sets() == []

"""What the inspector asks of the server, and how its pages are sent."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alveus import Memory
from alveus.server import inspector, traces
from alveus.server.tokens import TokenFile
from alveus.store.items import Item
from inspected import inspecting, remember
from test_server import Client, ServedHere


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A file with something for every page, and few items."""
    path = tmp_path_factory.mktemp("inspected") / "memory.db"
    remember(path, items=200)
    return path


# --- what it asks of the server -------------------------------------------------------------------

ASKED = re.compile(r"""\b(?P<method>get|post)\(["'](?P<path>[\w/]+)["']""")
"""A call of a script of the pages; a path that is put together is not looked at."""


class ServedWithMeaning(ServedHere):
    """It finds by meaning."""

    embedder = "static"


@pytest.fixture
def served(tmp_path, small):
    shutil.copytree(small.parent, tmp_path / "copy")
    made = ServedWithMeaning(tmp_path / "copy", writes=True)
    yield made
    made.stop()


def test_every_commit_says_what_it_changed(served):
    """Newest first, in pages; those of other spaces are left out."""
    client = served.client()
    client.ask("PUT", "/v1/exact", {"value": 1}, key="ada", path="other", space="elsewhere")
    status, page = client.ask("GET", "/v1/journal", limit=50)
    assert status == 200
    found = page["commits"]
    while page["next"] is not None:
        page = client.ask("GET", "/v1/journal", limit=50, before=page["next"])[1]
        found += page["commits"]
    with Memory.open(served.file, embedder="static") as memory:
        last = memory.stats().store.commits
    numbers = [done["number"] for done in found]
    assert numbers == [*range(last - 1, 0, -1)]
    assert found[0]["key"] is None  # the library's hours, which are knowledge
    first = found[-1]
    assert (first["key"], first["values"][-1]) == ("ada", ["profile", "name"])
    compacted = next(done for done in found if done["compactions"])
    assert (compacted["items_written"], compacted["items_removed"]) == (1, 2)
    large = max(found, key=lambda done: done["items_written"])
    assert (large["items_written"], len(large["items"])) == (200, 20)


def test_commits_among_many_of_another_space_are_found(tmp_path, monkeypatch):
    """In one answer, until too many were looked through; then one goes on."""
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        memory.key("ada").short_term.set("here", 1)
    with Memory.open(tmp_path / "memory.db", embedder="words", space="elsewhere") as other:
        for number in range(60):
            other.key("ada").short_term.set("there", number)
    made = ServedHere(tmp_path)
    try:
        page = made.ask("GET", "/v1/journal", limit=2)[1]
        assert [done["number"] for done in page["commits"]] == [1]
        assert page["next"] is None
        monkeypatch.setattr(inspector, "COMMITS_LOOKED_THROUGH", 50)
        assert made.ask("GET", "/v1/journal", limit=2)[1] == {"commits": [], "next": 12}
        page = made.ask("GET", "/v1/journal", limit=2, before=12)[1]
        assert [done["number"] for done in page["commits"]] == [1]
    finally:
        made.stop()


def test_the_past_of_exact_memory_is_told_commit_by_commit(served):
    """Which commits changed it, and what each of them did."""
    client = served.client()
    commits = client.ask("GET", "/v1/exact/commits", key="ada")[1]["commits"]
    numbers = [each["number"] for each in commits]
    assert len(numbers) == 10
    last = numbers[-1]
    told = client.ask("GET", "/v1/exact/changes", key="ada", since=last - 1, until=last)[1]
    assert told["tree"] == [
        {"kind": "removed", "path": "draft", "before": "Dear Grace,", "after": None}
    ]
    past = client.ask("GET", "/v1/exact", key="ada", path="profile.city", as_of=numbers[1])[1]
    assert past["value"] == "London"
    assert client.ask("GET", "/v1/exact/commits", key="nobody")[1]["commits"] == []
    now = client.ask("GET", "/v1/exact/changes", key="ada", since=0)[1]
    assert {change["kind"] for change in now["tree"]} == {"added"}


def test_a_run_is_told_step_by_step(served):
    """What it read, wrote, called and put out; of a failed one, what is kept of its calls."""
    client = served.client()
    done = client.ask("GET", "/v1/run", run=1)[1]
    assert (done["status"], done["input"], done["error"]) == ("done", "Porto", None)
    (step,) = done["steps"]
    assert step["wrote"]["short_term"][0]["value"] == "5 by the window"
    assert step["calls"][0]["result"] == "5 by the window"
    assert step["outputs"][0]["data"] == {"output": {"seat": "5 by the window"}}
    failed = client.ask("GET", "/v1/run", run=2)[1]
    assert (failed["status"], failed["error"]["type"]) == ("parked", "ValueError")
    assert failed["open"]["calls"][0]["result"] == "8 by the window"
    assert client.ask("GET", "/v1/run", run=7)[0] == 404


def test_growth_lineage_compactions_and_quarantine_are_told(served):
    client = served.client()
    points = client.ask("GET", "/v1/growth")[1]["points"]
    assert [point["commits"] for point in points] == sorted(point["commits"] for point in points)
    assert [point["items"] for point in points] == sorted(point["items"] for point in points)
    assert points[-1]["items"] > 200
    assert client.ask("GET", "/v1/growth", space="empty")[0] == 200
    assert client.ask("GET", "/v1/spaces")[1]["spaces"] == ["default"]
    diary = client.ask("GET", "/v1/items", key="ada", set="diary")[1]["items"]
    week = next(item["id"] for item in diary if item["sources"])
    told = client.ask("GET", "/v1/item/lineage", key="ada", set="diary", id=week)[1]
    assert [node["id"] for node in told["nodes"]] == [week, "day-0", "day-1"]
    assert told["edges"] == [[0, 1], [0, 2]]
    told = client.ask("GET", "/v1/item/relatives", key="ada", set="diary", id="day-0")[1]
    assert [(node["id"], node["depth"]) for node in told["nodes"]] == [("day-0", 0), (week, -1)]
    assert (told["edges"], told["cut"], told["foreign"]) == ([[1, 0]], False, 0)
    told = client.ask("GET", "/v1/item/relatives", key="ada", set="diary", id=week)[1]
    assert [node["depth"] for node in told["nodes"]] == [0, 1, 1]
    assert client.ask("GET", "/v1/item/relatives", key="ada", set="diary", id="none")[0] == 404
    (done,) = client.ask("GET", "/v1/compactions", key="ada", set="diary")[1]["compactions"]
    place = {"key": "ada", "set": "diary", "id": done["id"]}
    sides = client.ask("GET", "/v1/compaction", **place)[1]
    assert [item["id"] for item in sides["before"]] == ["day-0", "day-1"]
    assert ([item["id"] for item in sides["after"]], sides["more"]) == ([week], 0)
    assert client.ask("GET", "/v1/compaction", **{**place, "set": "notes"})[0] == 404
    (held,) = client.ask("GET", "/v1/quarantine", key="ada")[1]["held"]
    assert (held["rule"], held["set"]) == ("injection", "diary")
    released = client.ask("POST", "/v1/quarantine/release", {}, key="ada", id=held["id"])[1]
    item = client.ask("GET", "/v1/item", key="ada", set="diary", id=released["id"])[1]
    assert item["text"] == held["item"]["text"]
    assert client.ask("POST", "/v1/quarantine/discard", {}, key="ada", id=held["id"])[0] == 404


def test_items_are_told_as_points_of_a_map(served):
    """Columns of one length: of a set, of all sets of a key, of knowledge; some of very many."""
    client = served.client()
    told = client.ask("GET", "/v1/map", key="ada", sets="notes")[1]
    assert len(told["ids"]) == 200
    assert {len(told[name]) for name in ("x", "y", "times", "set", "speaker")} == {200}
    assert told["speakers"][told["speaker"][0]] == "Grace"
    assert (told["sets"], told["unplaced"], told["left_out"]) == (["notes"], 0, 0)
    assert max(map(abs, told["x"] + told["y"])) == 1.0
    assert client.ask("GET", "/v1/map", key="ada", limit=50)[1]["left_out"] > 100
    assert client.ask("GET", "/v1/map", key="ada")[1]["sets"] == ["diary", "notes", "support"]
    two = client.ask("GET", "/v1/map", key="ada", sets=["diary", "notes"])[1]
    assert two["sets"] == ["diary", "notes"]
    assert client.ask("GET", "/v1/map")[1]["speaker"] == [-1]
    ids = [told["ids"][0], "nothing", told["ids"][1]]
    found = client.ask("POST", "/v1/items/get", {"ids": ids}, key="ada", set="notes")[1]["items"]
    assert [item and item["id"] for item in found] == [ids[0], None, ids[2]]
    assert found[0]["accessed"] is None


def test_what_has_no_meaning_has_no_map(tmp_path):
    made = ServedHere(tmp_path)
    try:
        status, told = made.ask("GET", "/v1/map", key="ada")
        assert (status, told["error"]["type"]) == (400, "InvalidInput")
    finally:
        made.stop()


def test_relatives_go_as_far_as_the_key_does(served, monkeypatch):
    """Of knowledge, what was made of it for keys is counted, not named; far ones are left out."""
    with Memory.open(served.file, embedder="static") as memory:
        book = memory.knowledge.set("handbook")
        book.add("Returns within 30 days.", id="rule")
        notes, before = memory.key("ada").set("chain"), "rule"
        for n in range(6):
            notes.add(Item(f"Step {n}.", id=f"n{n}", sources=(before,)))
            before = f"n{n}"
        notes.forget(["n5"])
    client = served.client()
    told = client.ask("GET", "/v1/item/relatives", set="handbook", id="rule")[1]
    assert (len(told["nodes"]), told["foreign"]) == (1, 5)
    told = client.ask("GET", "/v1/item/relatives", key="ada", set="chain", id="n1")[1]
    depths = {node["id"]: node["depth"] for node in told["nodes"]}
    assert depths == {"n1": 0, "n0": 1, "rule": 2, "n2": -1, "n3": -2, "n4": -3}
    assert [node["knowledge"] for node in told["nodes"]][2] is True
    monkeypatch.setattr(traces, "MOST_RELATIVES", 2)
    told = client.ask("GET", "/v1/item/relatives", key="ada", set="chain", id="n1")[1]
    assert told["cut"]
    assert {*depths} > {node["id"] for node in told["nodes"]}


def test_an_item_says_which_runs_looked_it_up(served):
    """By which question, in which action; knowledge is read by runs of all keys, and says none."""
    client = served.client()
    place = {"key": "linus", "set": "trips", "id": "porto"}
    (told,) = client.ask("GET", "/v1/item/readings", **place)[1]["readings"]
    assert (told["run"], told["action"], told["queries"]) == (1, "book", ["a trip to Porto"])
    assert client.ask("GET", "/v1/item/readings", set="opening hours", id="x")[1]["readings"] == []


def test_runs_and_what_is_held_back_are_told_in_pages(served, monkeypatch):
    """The next page begins where the last one ended, and the last one says so."""
    client = served.client()
    first = client.ask("GET", "/v1/runs", limit=1)[1]
    assert ([run["run"] for run in first["runs"]], first["more"]) == ([2], True)
    last = client.ask("GET", "/v1/runs", limit=1, before=2)[1]
    assert ([run["run"] for run in last["runs"]], last["more"]) == ([1], False)
    monkeypatch.setattr(inspector, "KEYS_LOOKED_THROUGH", 2)
    page, keys = client.ask("GET", "/v1/quarantine/all")[1], []
    while page["next"] is not None:
        keys += [each["key"] for each in page["held"]]
        page = client.ask("GET", "/v1/quarantine/all", after=page["next"])[1]
    assert keys == ["ada"]


def test_people_and_things_of_a_key_are_listed(served):
    client = served.client()
    found = client.ask("GET", "/v1/facts/entities", key="margaret")[1]["entities"]
    assert {"Lisbon", "Radia"} < {*found}
    assert client.ask("GET", "/v1/facts/entities", key="ada")[1]["entities"] == {}


def test_pages_ask_for_nothing_that_the_server_does_not_answer(served):
    """Each path that a script of the pages names is a route of the server's description."""
    described = served.client().ask("GET", "/openapi.json")[1]["paths"]
    asked = {
        (found["method"], f"/v1/{found['path']}")
        for script in Path(inspector.__file__).with_name("ui").glob("*.js")
        for found in ASKED.finditer(script.read_text("utf-8"))
    }
    assert len(asked) > 20, "the pages ask in another form now"
    missing = [(how, path) for how, path in sorted(asked) if how not in described.get(path, {})]
    assert missing == []


def test_an_empty_memory_has_no_growth(tmp_path):
    made = ServedHere(tmp_path)
    try:
        assert made.ask("GET", "/v1/growth") == (200, {"points": []})
        assert made.ask("GET", "/v1/journal") == (200, {"commits": [], "next": None})
    finally:
        made.stop()


def test_pages_come_from_the_package_under_a_strict_policy(served):
    """No file of them is another's, nothing is loaded from elsewhere, no script is in a page."""
    client = served.client()
    status, page = client.ask("GET", "/ui/")
    assert status == 200
    policy = client.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?://|<style|<script(?! type=\"module\" src=)| on\w+=| style=", page)
    for name in re.findall(r'(?:href|src)="([\w.]+)"', page):
        assert client.ask("GET", f"/ui/{name}")[0] == 200
        assert client.headers["Content-Security-Policy"] == policy
    assert client.ask("GET", "/ui")[0] == 307
    assert client.ask("GET", "/ui/settings")[1]["writes"] is True
    for name in ("nothing.js", "..%2Finspector.py", "%2e%2e/app.py"):
        assert client.ask("GET", f"/ui/{name}")[0] == 404


def test_only_its_own_pages_may_ask_a_server_without_tokens(served):
    """A page of the same address may; one of another port or another name may not."""
    client = served.client()
    own = {"Origin": f"http://127.0.0.1:{served.port}"}
    assert client.ask("POST", "/v1/search", {"query": "train"}, own, key="ada")[0] == 200
    for origin in (
        f"http://127.0.0.1:{served.port + 1}",
        f"https://127.0.0.1:{served.port}",
        "null",
    ):
        answer = client.ask("POST", "/v1/search", {"query": "train"}, {"Origin": origin}, key="ada")
        assert answer[0] == 403
    evil = {"Origin": "http://evil.example", "Host": "evil.example"}
    assert client.ask("GET", "/v1/keys", None, evil)[0] == 403
    # Of a picture, a script or a frame in another page, a browser tells the site, not the origin.
    for site, mode, shown_in, status in (
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "empty", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
    ):
        names = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest")
        told = dict(zip(names, (site, mode, shown_in), strict=True))
        assert client.ask("GET", "/v1/keys", None, told)[0] == status, told


def test_a_token_for_some_keys_sees_no_others(small, tmp_path):
    """Nor does it see what is about all keys, such as journal, runs and receipts, with "admin"."""
    file = TokenFile(tmp_path / "tokens.json")
    some = file.add("some", access="admin", space=None, keys="ad")
    bound = file.add("bound", access="read", space="other", keys="")
    about_all = [
        "journal", "growth", "spaces", "stats", "receipts", "runs", "run", "quarantine/all",
        "export",
    ]  # fmt: skip
    about_one = [
        "facts/entities", "exact", "exact/commits", "exact/changes", "map", "item/lineage",
        "item/relatives", "item/readings", "compaction", "compactions", "runs", "quarantine",
        "facts", "export",
    ]  # fmt: skip
    shutil.copytree(small.parent, tmp_path / "copy")
    served = ServedWithMeaning(tmp_path / "copy", tokens=file)
    client = served.client(some)
    try:
        described = client.ask("GET", "/openapi.json")[1]["paths"]

        def ask(name):
            known = {each["name"] for each in described[f"/v1/{name}"]["get"].get("parameters", ())}
            asked = {"key": "linus", "set": "trips", "id": 1, "since": 0, "run": 2}
            return client.ask("GET", f"/v1/{name}", **{n: asked[n] for n in known & set(asked)})

        for name in about_all:
            status, told = client.ask("GET", f"/v1/{name}", **({"run": 2} if name == "run" else {}))
            assert (status, told["error"]["type"]) == (403, "AccessDenied"), name
        for name in about_one:
            assert ask(name)[0] == 403, name
        assert client.ask("GET", "/v1/runs", key="ada")[1] == {"runs": [], "more": False}
        status, exported = client.ask("GET", "/v1/export", key="ada")
        assert (status, "lentil soup" in exported) == (200, True)
        # Whoever has a token for one space learns which.
        assert served.client(bound).ask("GET", "/v1/spaces")[1] == {"spaces": ["other"]}
    finally:
        served.stop()


def test_it_reads_only_unless_told_otherwise(small):
    """The addresses refuse to write, whatever pages offer."""
    with inspecting(small) as inspected:
        client = Client(int(inspected.url.split(":")[2].split("/")[0]), None)
        status, told = client.ask("POST", "/v1/items", {"items": [{"value": "x"}]}, key="ada")
        assert (status, told["error"]["type"]) == (403, "StoreReadOnly")
        assert client.ask("GET", "/ui/settings")[1]["writes"] is False
        assert client.ask("POST", "/v1/search", {"query": "train"}, key="ada")[1]["hits"]
        client.close()
    words = ["ui", "--host", "192.0.2.1", "--db", str(small)]
    done = subprocess.run(
        [sys.executable, "-m", "alveus", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "alveus token new" in done.stderr

"""The server as mem0's `MemoryClient` asks it: requests as mem0ai 2.2.1 sends them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from alveus import Memory
from alveus.server.tokens import TokenFile
from alveus.transfer import Target, import_file
from alveus.transfer.mem0 import Mem0Location, uuid_of
from test_server import ServedHere

ADD, ALL, SEARCH, ONE = "/v3/memories/add/", "/v3/memories/", "/v3/memories/search/", "/v1/memories"

ADA = {"filters": {"user_id": "ada"}}

NOBODYS = "00000000-0000-0000-0000-00000000000a"

UNSERVED = [
    ("POST", "/v1/feedback/"),
    ("POST", "/v1/exports/"),
    ("POST", "/v1/exports/get/"),
    ("POST", "/v1/summary/"),
    ("POST", "/v2/profiles/jobs/"),
    ("GET", "/v2/profiles/settings/"),
    ("GET", "/v2/entities/user/ada/profile/"),
    ("GET", "/api/v1/orgs/organizations/alveus/projects/default/"),
    ("DELETE", "/api/v1/webhooks/1/"),
]
"""What mem0's client for Python 2.2.1 calls besides."""


@pytest.fixture
def served(tmp_path):
    here = ServedHere(tmp_path)
    yield here
    here.stop()


def said(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


def kept(served, text, **more):
    """Add a memory as it is, and return its id."""
    status, told = served.ask("POST", ADD, said(text, infer=False, **more))
    assert status == 200, told
    (event,) = told["results"]
    assert (event["event"], event["memory"]) == ("ADD", text)
    return event["id"]


def within(filters, levels):
    """Return a filter inside so many others."""
    for _ in range(levels):
        filters = {"AND": [filters]}
    return filters


def listed(served, filters, **query):
    status, told = served.ask("POST", ALL, {"filters": filters}, **query)
    assert status == 200, told
    return [each["memory"] for each in told["results"]]


def test_a_memory_is_kept_found_changed_and_deleted(served, tmp_path):
    """Its history says what became of it, and alveus's own calls see the same item."""
    assert served.ask("GET", "/v1/ping/")[1]["project_id"] == "default"
    one = kept(served, "Prefers window seats.", user_id="ada", metadata={"topic": "travel"})
    kept(served, "Allergic to nuts.", user_id="ada", metadata={"topic": "food"})
    question = {"query": "which seat?", "top_k": 1} | ADA
    (hit,) = served.ask("POST", SEARCH, question)[1]["results"]
    assert (hit["id"], hit["metadata"], hit["user_id"]) == (one, {"topic": "travel"}, "ada")
    assert 0 < hit["score"] <= 1
    place = f"{ONE}/{one}/"
    changed = served.ask("PUT", place, {"text": "Prefers aisle seats."})[1]
    assert (changed["memory"], changed["metadata"]) == ("Prefers aisle seats.", {"topic": "travel"})
    change = {"metadata": {"topic": "seats"}, "timestamp": 86_400, "expiration_date": "2999-01-01"}
    changed = served.ask("PUT", place, change)[1]
    assert changed["created_at"] == "1970-01-02T00:00:00Z"
    assert changed["expiration_date"] == "2999-01-01"
    assert served.ask("PUT", place, {"expiration_date": None})[1]["expiration_date"] is None
    assert served.ask("GET", place)[1]["metadata"] == {"topic": "seats"}
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        texts = {item.text for item in memory.key("ada").list()}
    assert texts == {"Prefers aisle seats.", "Allergic to nuts."}
    assert served.ask("DELETE", place) == (200, {"message": "Memory deleted successfully!"})
    assert served.ask("GET", place)[0] == 404
    rows = served.ask("GET", f"{place}history/")[1]
    assert [row["event"] for row in rows] == ["ADD", *["UPDATE"] * 3, "DELETE"]
    assert [row["new_memory"] for row in rows[:2]] == [
        "Prefers window seats.",
        "Prefers aisle seats.",
    ]
    assert (rows[-1]["old_memory"], rows[-1]["new_memory"]) == ("Prefers aisle seats.", None)


def test_facts_are_learnt_where_the_client_infers(served):
    """New ones are ADD, those that ended to hold are DELETE; what is known of them is kept."""
    body = said("I live in Lisbon.", filters={"user_id": "ada", "run_id": "r1"})
    body |= {"metadata": {"topic": "home"}, "timestamp": 86_400, "expiration_date": "2999-01-01"}
    (event,) = served.ask("POST", ADD, body)[1]["results"]
    shown = served.ask("GET", f"{ONE}/{event['id']}/")[1]
    assert (shown["run_id"], shown["metadata"]["topic"]) == ("r1", "home")
    assert [r["event"] for r in served.ask("GET", f"{ONE}/{event['id']}/history/")[1]] == ["ADD"]
    assert listed(served, {"AND": [{"user_id": "ada"}, {"run_id": "r1"}]}) == [event["memory"]]
    more = served.ask("POST", ADD, said("I moved to Porto.", user_id="ada"))[1]["results"]
    assert [(each["event"], each["memory"]) for each in more] == [
        ("ADD", "The user moved to Porto."),
        ("DELETE", event["memory"]),
    ]
    assert listed(served, ADA["filters"]) == ["The user moved to Porto."]
    change = {"text": "Lives in Porto.", "metadata": {"topic": "home", "kind": "mine"}}
    changed = served.ask("PUT", f"{ONE}/{more[0]['id']}/", change)[1]
    assert (changed["metadata"]["topic"], changed["metadata"]["kind"]) == ("home", "profile")


def test_a_repeated_add_adds_nothing(served):
    """Also where the name of the request is repeated by whoever stands between."""
    client = served.client()
    for text, infer in (("Tea.", False), ("I live in Lisbon.", True)):
        once, body = {"Idempotency-Key": text}, said(text, user_id="ada", infer=infer)
        first, second = (client.ask("POST", ADD, body, once) for _ in range(2))
        assert first == second
        assert len(first[1]["results"]) == 1
    assert sorted(listed(served, ADA["filters"])) == ["Tea.", "The user lives in Lisbon."]


@pytest.mark.parametrize(
    "mark", [5, "bot", ["x"], {"id": "no", "memory": "no", "run_id": {"a": 1}}]
)
def test_a_mark_that_somebody_else_wrote_hides_no_memory(served, tmp_path, mark):
    """An item that is added by alveus's own calls may have any metadata."""
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        memory.key("ada").add("Tea.", metadata={"mem0": mark, "topic": "tea"})
    (shown,) = served.ask("POST", ALL, ADA)[1]["results"]
    assert (shown["memory"], shown["metadata"]) == ("Tea.", {"topic": "tea"})
    assert (shown["user_id"], shown["agent_id"]) == ("ada", None)
    assert served.ask("GET", f"{ONE}/{shown['id']}/")[1] == shown
    assert len(served.ask("GET", f"{ONE}/{shown['id']}/history/")[1]) == 1


HALF = "half a character: \ud83d"


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": within({}, 60)},
        {"metadata": within({}, 300)},
        {"output_format": HALF},
        {"messages": [{"content": "I live in Lisbon.", "role": HALF}]},
        {"filters": {"run_id": HALF}},
        {"user_id": HALF},
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_learnt(served, wrong):
    status, told = served.ask("POST", ADD, said("I live in Lisbon.", user_id="ada") | wrong)
    assert status == 400, told
    assert listed(served, ADA["filters"]) == []


def test_filters_choose_keys_and_memories(served):
    kept(served, "One.", user_id="ada", agent_id="bot", metadata={"n": 1, "a.b": 1, "any": 1})
    kept(served, "Two.", user_id="ada", metadata={"n": 2}, timestamp=0)
    kept(served, "Three.", agent_id="bot", metadata={"n": 3})
    kept(served, "Four.", user_id="bea", metadata={"n": 4})
    ada, bot = {"user_id": "ada"}, {"agent_id": "bot"}

    def found(filters):
        return sorted(listed(served, filters))

    assert found(ada) == ["One.", "Two."]
    assert found(bot) == ["One.", "Three."]
    assert found(ada | bot) == found({"AND": [ada, bot]}) == ["One."]
    assert found({"OR": [ada, bot]}) == ["One.", "Three.", "Two."]
    assert found({"user_id": {"in": ["ada", "bea"]}}) == ["Four.", "One.", "Two."]
    assert found(ada | {"NOT": [{"metadata": {"n": 2}}]}) == ["One."]
    assert found(ada | {"n": {"gte": 2}}) == ["Two."]
    assert found(ada | {"metadata": {"a.b": 1, "any": 1}}) == ["One."]
    assert found(ada | {"OR": [{"n": 1}, ada]}) == ["One.", "Two."]
    assert found(ada | {"created_at": {"lt": "1971-01-01"}}) == ["Two."]
    assert found(ada | {"created_at": "1970-01-01T00:00:00Z"}) == ["Two."]
    body = {"filters": ada, "start_date": "1971-01-01", "end_date": "2999-01-01"}
    assert [e["memory"] for e in served.ask("POST", ALL, body)[1]["results"]] == ["One."]
    body = {"query": "two", "filters": {"OR": [ada, bot]}, "limit": 1}
    (hit,) = served.ask("POST", SEARCH, body)[1]["results"]
    assert hit["memory"] == "Two."


def test_a_memory_is_found_by_each_of_its_entities(served):
    """Whichever of them its key is; who deletes by one of them deletes what it shows."""
    kept(served, "One.", user_id="ada", agent_id="bot", run_id="r")
    kept(served, "Two.", user_id="agent:bot", run_id="r")
    kept(served, "Three.", agent_id="bot", app_id="web", run_id="r")
    kept(served, "Four.", app_id="web", run_id="agent:bot")
    kept(served, "Five.", run_id="r")

    odd = 'é"\\\n\u2028%_\x00'
    kept(served, "Six.", user_id="bob", run_id=odd)

    def found(filters, query=None):
        body = {"filters": filters} | ({} if query is None else {"query": query, "limit": 9})
        told = served.ask("POST", ALL if query is None else SEARCH, body)[1]["results"]
        return sorted(each["memory"] for each in told)

    assert found({"run_id": "r"}) == ["Five.", "One.", "Three.", "Two."]
    assert found({"agent_id": "bot"}) == ["One.", "Three."]
    assert found({"app_id": "web"}) == ["Four.", "Three."]
    assert found({"run_id": odd}) == ["Six."]
    assert found({"run_id": "r", "agent_id": "bot"}) == ["One.", "Three."]
    assert found({"OR": [{"app_id": "web"}, {"user_id": "ada"}]}) == ["Four.", "One.", "Three."]
    assert found({"AND": [{"run_id": "r"}, {"NOT": {"agent_id": "bot"}}]}) == ["Five.", "Two."]
    assert found({"run_id": "r"}, "two three") == ["Three.", "Two."]
    assert served.ask("DELETE", f"{ONE}/", agent_id="bot", run_id="r")[0] == 200
    assert found({"run_id": "r"}) == ["Five.", "Two."]
    assert served.ask("DELETE", "/v2/entities/run/r/")[0] == 200
    assert found({"run_id": "r"}) == ["Two."]


def test_lists_have_pages(served):
    for number in range(5):
        kept(served, f"{number}", user_id="ada", timestamp=number)
    told = served.ask("POST", ALL, ADA, page=2, page_size=2)[1]
    assert (told["count"], [each["memory"] for each in told["results"]]) == (5, ["2", "1"])
    assert "page=3" in told["next"]
    assert "page=1" in told["previous"]
    assert served.ask("POST", ALL, ADA, page=3, page_size=2)[1]["next"] is None


def test_many_are_changed_or_deleted_at_once(served):
    """All of them, or, where one is not there, none."""
    ids = [kept(served, "One.", user_id="ada"), kept(served, "Two.", user_id="bea")]
    changes = [{"memory_id": each, "text": "New."} for each in ids]
    missing = {"memory_id": NOBODYS, "text": "New."}
    assert served.ask("PUT", "/v1/batch/", {"memories": [*changes, missing]})[0] == 404
    assert listed(served, ADA["filters"]) == ["One."]
    assert served.ask("PUT", "/v1/batch/", {"memories": changes})[0] == 200
    both = {"user_id": {"in": ["ada", "bea"]}}
    assert listed(served, both) == ["New.", "New."]
    named = [{"memory_id": each} for each in ids]
    assert served.ask("DELETE", "/v1/batch/", {"memories": [*named, missing]})[0] == 404
    assert served.ask("DELETE", "/v1/batch/", {"memories": named})[0] == 200
    assert listed(served, both) == []


def test_entities_are_listed_and_forgotten(served, tmp_path):
    """What is shown of them is erased for good; exact memory and other sets stay."""
    one = kept(served, "One.", user_id="ada")
    served.ask("POST", ADD, said("I live in Lisbon.", user_id="ada"))
    kept(served, "Two.", agent_id="bot")
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        memory.key("ada").short_term.set("city", "Lisbon")
        memory.key("eve").set("other").add("Not shown.")
    told = served.ask("GET", "/v1/entities/")[1]["results"]
    assert [(each["type"], each["name"], each["total_memories"]) for each in told] == [
        ("user", "ada", 2),
        ("agent", "bot", 1),
    ]
    page = served.ask("GET", "/v1/entities/", page=2, page_size=1)[1]
    assert ([each["name"] for each in page["results"]], page["count"]) == (["bot"], 2)
    assert ("page=1" in page["previous"], page["next"]) == (True, None)
    assert served.ask("DELETE", "/v2/entities/user/ada/")[0] == 200
    assert served.ask("DELETE", "/v2/entities/user/ada/")[0] == 404
    assert served.ask("GET", f"{ONE}/{one}/history/")[0] == 404
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert memory.key("ada").short_term.get("city") == "Lisbon"
        assert not any(memory.key("ada").sets(counts=True).values())
    filters = "{'agent_id': 'bot'}"  # as httpx writes a dict into an address
    assert served.ask("DELETE", f"{ONE}/", filters=filters)[0] == 200
    assert listed(served, {"agent_id": "bot"}) == []


def pasted(kind, name):
    """Ids that a careless layout of keys would take for one another's, or for another kind's."""
    return [name, f"{kind}:{name}", f"user:{kind}:{name}", f"user:user:{kind}:{name}", f"{kind}:"]


NAMES = ["x"]
NAMES += [each for kind in ("user", "agent", "app", "run") for each in pasted(kind, "x")[1:]]
NAMES += ["é", "e\u0301", "x ", " x", "x/", "/x", "%2F", "x\n", "agent:\nx", "NULL", "null", "1"]


def test_no_id_of_one_kind_is_that_of_another(served):
    """Each of the four ids is an identity of its own, whatever it is called; so is each pair."""
    everybody = [{f"{kind}_id": name} for kind in ("user", "agent", "app", "run") for name in NAMES]
    pairs = [{"user_id": "x", "agent_id": "x"}, {"user_id": "x", "run_id": "agent:x"}]
    for ids in (*everybody, *pairs):
        kept(served, json.dumps(ids), **ids)
    for ids in everybody:
        shown = served.ask("POST", ALL, {"filters": ids})[1]["results"]
        whose = [json.loads(each["memory"]) for each in shown]
        assert ids in whose
        assert all(ids.items() <= each.items() for each in whose), (ids, whose)
        assert all(each.items() <= item.items() for each, item in zip(whose, shown, strict=True))
    told = served.ask("GET", "/v1/entities/")[1]["results"]
    assert sorted((each["type"], each["name"]) for each in told) == sorted(
        (entity.removesuffix("_id"), name) for ids in everybody for entity, name in ids.items()
    )


def test_deleting_one_identity_leaves_every_other(served):
    """Not even one whose name begins with the name of a kind, or is another's and a line's end."""
    names = (*NAMES[5:9], "x/", "/x", "a b/../c%2F", "x", "x\n", "x\r", "x\ny", "\n")
    everybody = [{f"{kind}_id": name} for kind in ("user", "agent", "run") for name in names]
    for ids in everybody:
        kept(served, json.dumps(ids), **ids)
    while everybody:
        gone = everybody.pop()
        ((entity, name),) = gone.items()
        if len(everybody) % 2:
            place = f"/v2/entities/{entity.removesuffix('_id')}/{quote(name, safe='')}/"
            assert served.ask("DELETE", place)[0] == 200
        else:
            assert served.ask("DELETE", f"{ONE}/", **gone)[0] == 200
        assert listed(served, gone) == []
        for ids in everybody:
            assert listed(served, ids) == [json.dumps(ids)]


@pytest.mark.parametrize("wrong", ["", "*", True, 1.5, [], {}])
def test_what_names_nobody_is_refused(served, wrong):
    """An id that cannot be one is not passed over: the memory would be somebody else's."""
    kept(served, "One.", agent_id="x")
    for ids in ({"user_id": wrong, "agent_id": "x"}, {"agent_id": "x", "run_id": wrong}):
        for body in (ids, {"filters": ids}, {"filters": {"AND": [ids]}}):
            status, told = served.ask("POST", ADD, said("Two.", infer=False, **body))
            assert (status, list(told)) == (400, ["detail"]), told
        if wrong != {}:
            assert served.ask("POST", ALL, {"filters": ids})[0] == 400
    for ids in ({"user_id": "", "agent_id": "x"}, {"user_id": "*", "agent_id": "x"}):
        assert served.ask("DELETE", f"{ONE}/", **ids)[0] == 400
    assert listed(served, {"agent_id": "x"}) == ["One."]


def test_a_number_is_the_id_that_its_digits_are(served):
    """As mem0 takes an id of a database; one may add by the number, and ask by the text."""
    one = kept(served, "One.", user_id=7, run_id=8)
    for ids in ({"user_id": 7}, {"user_id": "7"}, {"user_id": {"in": [7]}, "run_id": 8}):
        assert listed(served, ids) == ["One."]
    shown = served.ask("GET", f"{ONE}/{one}/")[1]
    assert (shown["user_id"], shown["run_id"]) == ("7", "8")


def test_a_mark_does_not_make_somebody_elses_memory(served, tmp_path):
    """Whoever writes to one key cannot have it found, or shown, as another's."""
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        marks = {"mem0": {"user_id": "ada", "agent_id": "eve", "run_id": "r"}}
        memory.key("bob").add("Bob's.", metadata=marks)
        memory.key("agent:bot").add("The bot's.", metadata=marks)
    either = {"OR": [{"user_id": "ada"}, {"user_id": "bob"}, {"agent_id": "bot"}]}
    found = served.ask("POST", ALL, {"filters": either})[1]["results"]
    whose = sorted((each["memory"], each["user_id"], each["agent_id"]) for each in found)
    assert whose == [("Bob's.", "bob", "eve"), ("The bot's.", None, "bot")]
    for ids in ({"user_id": "ada"}, {"agent_id": "bot", "user_id": "ada"}):
        assert listed(served, ids) == []
    narrowed = {
        "AND": [{"OR": [{"user_id": "bob"}, {"agent_id": "bot"}]}, {"NOT": {"user_id": "bob"}}]
    }
    assert listed(served, narrowed) == ["The bot's."]


PHOTO = {"type": "image_url", "image_url": {"url": "https://example.org/harbour.jpg"}}
CALL = {"id": "c", "type": "function", "function": {"name": "seats", "arguments": "{}"}}
TURNS = [
    ({"role": "user", "content": [{"type": "text", "text": "I live in"}, {"text": "Lisbon."}]}, []),
    ({"role": "user", "content": [PHOTO, {"type": "text", "text": "I drink tea."}]}, ["image_url"]),
    ({"role": "user", "content": PHOTO}, ["image_url"]),
    ({"role": "assistant", "tool_calls": [CALL]}, ["tool_calls"]),
    ({"role": "assistant", "content": None, "tool_calls": [CALL]}, ["tool_calls"]),
    ({"role": "assistant", "content": "", "tool_calls": [CALL]}, ["tool_calls"]),
    ({"role": "assistant", "content": "I look.", "tool_calls": [CALL]}, ["tool_calls"]),
    ({"role": "assistant", "content": [{"type": "tool_use", "name": "seats"}]}, ["tool_use"]),
    ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}, ["input_audio"]),
    ({"role": "user", "content": None}, ["nothing"]),
    ({"role": "user", "content": "  "}, ["nothing"]),
]


@pytest.mark.parametrize("infer", [True, False])
def test_of_a_message_its_text_is_taken_and_the_rest_is_told(served, infer):
    """Calls of tools and pictures are no reason to lose what else was said."""
    turns = [turn for turn, _ in TURNS]
    body = {"messages": turns, "user_id": "ada", "infer": infer}
    status, told = served.ask("POST", ADD, body)
    assert status == 200, told
    assert told["left_out"] == [
        {"message": place, "role": turn["role"], "type": kind}
        for place, (turn, kinds) in enumerate(TURNS)
        for kind in kinds
    ]
    kept = sorted(listed(served, ADA["filters"]))
    if infer:
        assert "The user lives in Lisbon." in kept
        assert not any("example.org" in each or "seats" in each for each in kept)
    else:
        assert kept == ["I drink tea.", "I live in Lisbon.", "I look."]
    for wrong in (7, [7]):
        body = {"messages": [{"role": "user", "content": wrong}], "user_id": "ada", "infer": infer}
        assert served.ask("POST", ADD, body)[0] == 400
    body = {"messages": turns[3:4], "user_id": "ada", "infer": infer}
    assert served.ask("POST", ADD, body)[1]["results"] == []


@pytest.mark.parametrize("infer", [True, False])
def test_an_add_answers_its_event_and_that_it_is_done(served, infer):
    """As version 3 of mem0's client expects; a repeated request has the same event."""
    client, events = served.client(), set()
    for text in ("I live in Lisbon.", "Hm.", "I drink tea.", [PHOTO]):
        once = {"Idempotency-Key": str(text)[:9]}
        body = {"messages": [{"role": "user", "content": text}], "user_id": "ada", "infer": infer}
        first = client.ask("POST", ADD, body)[1]
        named, again = (client.ask("POST", ADD, body, once)[1] for _ in "12")
        assert named == again
        assert {each["status"] for each in (first, named)} == {"SUCCEEDED"}
        events |= {first["event_id"], named["event_id"]}
        assert all(uuid_of(each["event_id"]) for each in (first, named))
        assert all(each["data"] == {"memory": each["memory"]} for each in first["results"])
        served.ask("DELETE", "/v2/entities/user/ada/")
    assert len(events) == 8


def test_an_id_is_that_of_the_item_wherever_it_is(served, tmp_path):
    """A UUID names the memory alone; what else may be an id comes packed with key and set."""
    one, same = kept(served, "One.", user_id="ada"), NOBODYS
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert memory.key("ada").set("default").get(one).text == "One."
        memory.key("agent:bot").set("facts").add("Two.", id="n-1")
        memory.key("bob").set("notes").add("Not shown.", id=same)
        memory.key("bob").add("Bob's.", id=same)
    (shown,) = served.ask("POST", ALL, {"filters": {"agent_id": "bot"}})[1]["results"]
    assert shown["id"] == Mem0Location("agent:bot", "facts", "n-1").packed
    for each, text in ((shown["id"], "Two."), (same, "Bob's."), (same.upper(), "Bob's.")):
        assert served.ask("GET", f"{ONE}/{each}/")[1]["memory"] == text
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        memory.key("ada").add("Ada's.", id=same)
    status, told = served.ask("DELETE", f"{ONE}/{same}/")
    assert (status, "several memories" in told["detail"]) == (400, True)
    bobs = Mem0Location("bob", "default", same).packed
    assert bobs in told["detail"]
    either = {"OR": [{"user_id": "ada"}, {"agent_id": "bot"}]}
    for ids, texts in (
        ([one.upper(), shown["id"]], ["One.", "Two."]),
        ([bobs, NOBODYS], ["Ada's."]),
    ):
        assert sorted(listed(served, either | {"memory_ids": ids})) == texts
        assert sorted(listed(served, either | {"memory_ids": {"in": ids}})) == texts
    for wrong in ("x", [1], {"eq": one}):
        assert served.ask("POST", ALL, {"filters": either | {"memory_ids": wrong}})[0] == 400
    assert served.ask("DELETE", f"{ONE}/{bobs}/")[0] == 200
    assert served.ask("GET", f"{ONE}/{same}/")[1]["memory"] == "Ada's."
    assert [row["event"] for row in served.ask("GET", f"{ONE}/{bobs}/history/")[1]][1:] == [
        "DELETE"
    ]


EXPORTED = {
    "id": "0b5e8a35-6d43-4b5a-9f0e-52a1c3f6d001",
    "memory": "Prefers window seats.",
    "user_id": "ada",
    "agent_id": "bot",
    "app_id": None,
    "run_id": "trip-1",
    "actor_id": "Ada",
    "role": "user",
    "hash": "ec3f6d",
    "metadata": {"topic": "travel", "mem0": [1]},
    "categories": ["travel", "preferences"],
    "created_at": "2025-02-05T04:00:00-08:00",
    "updated_at": "2025-02-06T12:00:00Z",
    "expiration_date": "2999-12-31",
}
"""As mem0's `get_all()` answers it, of the platform and of the open source part."""

EXPORT = [
    EXPORTED,
    {"id": "0b5e8a35-6d43-4b5a-9f0e-52a1c3f6d002", "memory": "Books flights.", "agent_id": "bot",
     "created_at": "2025-02-05T12:00:00Z", "updated_at": None, "metadata": None},
    {"id": "0b5e8a35-6d43-4b5a-9f0e-52a1c3f6d003", "memory": "Not the bot's.",
     "user_id": "agent:bot", "created_at": "2025-02-05T12:00:00Z", "metadata": {"topic": "x"}},
    {"id": "0b5e8a35-6d43-4b5a-9f0e-52a1c3f6d004", "memory": "Of a run.", "runId": "trip-1",
     "appId": "web", "createdAt": "2025-02-05T12:00:00Z", "expirationDate": "2999-12-31"},
]  # fmt: skip
"""The last one as the client for TypeScript has it."""


@pytest.mark.parametrize("target", [None, Target(key_from="entity", set="facts")])
def test_an_import_is_found_as_if_the_client_had_added_it(served, tmp_path, target):
    """By id, by each entity, by filters and by its words, with all that was exported."""
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps({"results": EXPORT}))
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert import_file(memory, file, target=target).done.added == 4
        assert sorted(memory.keys()) == ["ada", "agent:bot", "app:web", "user:agent:bot"]
    window, flights, other, run = (each["id"] for each in EXPORT)

    def found(filters):
        told = served.ask("POST", ALL, {"filters": filters})[1]["results"]
        return {each["id"] for each in told}

    shown = served.ask("GET", f"{ONE}/{window}/")[1]
    assert shown == {name: v for name, v in EXPORTED.items() if name != "hash"}
    assert found({"user_id": "ada"}) == found({"categories": {"in": ["travel"]}} | ADA["filters"])
    assert found({"agent_id": "bot"}) == {window, flights}
    assert found({"user_id": "agent:bot"}) == {other}
    assert found({"run_id": "trip-1"}) == {window, run}
    assert found({"app_id": "web"}) == {run}
    both = {"user_id": "ada", "metadata": {"topic": "travel"}, "created_at": {"lt": "2025-02-06"}}
    assert found(both) == {window}
    assert found({"user_id": "ada", "categories": "food"}) == set()
    (hit,) = served.ask("POST", SEARCH, {"query": "which seats?", **ADA})[1]["results"]
    assert hit["id"] == window
    (row,) = served.ask("GET", f"{ONE}/{window}/history/")[1]
    assert (row["event"], row["new_memory"]) == ("ADD", "Prefers window seats.")
    changed = served.ask("PUT", f"{ONE}/{window}/", {"text": "Prefers aisle seats."})[1]
    assert changed["updated_at"] > EXPORTED["updated_at"]
    assert (changed["run_id"], changed["metadata"]) == ("trip-1", EXPORTED["metadata"])
    assert served.ask("DELETE", f"{ONE}/{run}/")[0] == 200
    assert found({"run_id": "trip-1"}) == {window}


def test_what_is_exported_here_is_imported_as_it_was(served, tmp_path):
    """Answers of this server are a file of mem0, too: they come back with the same ids."""
    kept(served, "One.", user_id="ada", agent_id="bot", run_id="r", metadata={"mem0": 1, "n": 2})
    kept(served, "Two.", run_id="agent:x", timestamp=0, expiration_date="2999-01-01")
    everybody = {"OR": [{"user_id": "ada"}, {"run_id": "agent:x"}]}
    told = served.ask("POST", ALL, {"filters": everybody})[1]
    file = tmp_path / "again.json"
    file.write_text(json.dumps(told))
    (tmp_path / "again").mkdir()
    again = ServedHere(tmp_path / "again")
    try:
        with Memory.open(again.file, embedder="words") as memory:
            import_file(memory, file)
        assert again.ask("POST", ALL, {"filters": everybody})[1] == told
    finally:
        again.stop()


def test_metadata_called_as_the_marks_are_is_kept(served):
    """A name of metadata is the client's own, whatever it is."""
    one = kept(served, "One.", user_id="ada", run_id="r", metadata={"mem0": {"user_id": "x"}})
    place = f"{ONE}/{one}/"
    assert served.ask("GET", place)[1]["metadata"] == {"mem0": {"user_id": "x"}}
    changed = served.ask("PUT", place, {"metadata": {"mem0": "y", "n": 1}})[1]
    assert (changed["metadata"], changed["run_id"]) == ({"mem0": "y", "n": 1}, "r")
    assert listed(served, {"user_id": "ada", "metadata": {"mem0": "y"}}) == ["One."]
    assert listed(served, {"user_id": "ada", "run_id": "r", "mem0": "y"}) == ["One."]
    assert served.ask("PUT", place, {"metadata": {}})[1]["metadata"] == {}
    assert listed(served, {"user_id": "ada", "run_id": "r"}) == ["One."]


def test_the_metadata_of_a_learnt_fact_is_changed(served):
    """A later change replaces what an earlier one said; what makes it a fact stays."""
    (event,) = served.ask("POST", ADD, said("I live in Lisbon.", **ADA))[1]["results"]
    for topic in ("home", "city"):
        change = {"metadata": {"topic": topic, "kind": "mine"}}
        changed = served.ask("PUT", f"{ONE}/{event['id']}/", change)[1]["metadata"]
        assert (changed["topic"], changed["kind"]) == (topic, "profile")


def test_what_is_not_served_is_refused_by_name(served):
    """In the form of which the client makes its own errors; never as a fault of the server."""
    one = kept(served, "One.", user_id="ada")
    ada = ADA["filters"]

    def refused(method, path, body=None, /, **query):
        status, told = served.ask(method, path, body, **query)
        assert (status, list(told)) == (400, ["detail"]), told
        return told["detail"]

    assert "custom_instructions" in refused("POST", ADD, said("x", custom_instructions="x"))
    for filters in ({}, {"user_id": "*"}, {"NOT": [ada]}, {"OR": [ada, {"n": 1}]}, {"AND": 1},
                    ada | {"metadata": 1}, ada | {"keywords": "x"}, ada | {"created_at": "soon"},
                    {"user_id": {"ne": "ada"}}, ada | {"n": {"icontains": "x"}},
                    within(ada, 50), within(ada, 90), within(ada, 300)):  # fmt: skip
        assert refused("POST", ALL, {"filters": filters})
        assert refused("POST", SEARCH, {"query": "x", "filters": filters})
    for filters in ({}, {"n": 1}, {"user_id": {"in": ["ada", "bea"]}}, {"AND": [1]}):
        assert refused("POST", ADD, said("x", filters=filters))
    assert refused("DELETE", f"{ONE}/{one}/", delete_linked="true")
    assert refused("PUT", f"{ONE}/{one}/", {})
    assert refused("DELETE", f"{ONE}/")
    assert refused("DELETE", f"{ONE}/", filters="[1")
    for literal in ("[" * 5_000, "{'user_id': {'ada'}}", "{'user_id': b'ada'}", "{(1,): 'ada'}"):
        assert refused("DELETE", f"{ONE}/", filters=literal)
    for narrower in (
        {"metadata": "{'topic': 'food'}"},
        {"categories": "x"},
        {"user_id": ["b", "c"]},
    ):
        assert refused("DELETE", f"{ONE}/", **{"user_id": "ada", **narrower})
    assert listed(served, ada) == ["One."]
    for wrong in ("nothing", "m%2F1", "WzFd", "WyIiLCIiLCIiXQ", "%C3%A4"):
        for place in (f"{ONE}/{wrong}/", f"{ONE}/{wrong}/history/"):
            assert "is not the id of a memory" in refused("GET", place)
    for gone in (NOBODYS, NOBODYS.upper(), Mem0Location("ada", "default", "x").packed):
        assert served.ask("GET", f"{ONE}/{gone}/")[0] == 404
        assert served.ask("GET", f"{ONE}/{gone}/history/")[0] == 404
    for method, path in UNSERVED:
        body, query = ({}, {}) if method == "POST" else (None, {"fields": "x"})
        assert "is not supported" in refused(method, path, body, **query)


def test_its_key_is_a_token_with_its_scope(tmp_path):
    file = TokenFile(tmp_path / "tokens.json")
    shop = file.add("shop", access="write", space="shop", keys="shop-")
    reader = file.add("reader", access="read", space="shop", keys="")
    here = ServedHere(tmp_path, tokens=file)
    try:
        client = here.client()

        def ask(secret, method, path, body=None):
            return client.ask(method, path, body, {"Authorization": f"Token {secret}"})

        assert ask("wrong", "GET", "/v1/ping/")[0] == 401
        assert client.headers["WWW-Authenticate"] == "Bearer"
        assert ask(shop, "GET", "/v1/ping/")[1]["project_id"] == "shop"
        mine, other = (said("x", user_id=each, infer=False) for each in ("shop-1", "ada"))
        (event,) = ask(shop, "POST", ADD, mine)[1]["results"]
        assert ask(shop, "POST", ADD, other)[0] == 403
        assert ask(reader, "POST", ADD, mine)[0] == 403
        assert ask(reader, "GET", f"{ONE}/{event['id']}/")[0] == 200
        assert ask(reader, "DELETE", f"{ONE}/{event['id']}/")[0] == 403
        assert ask(reader, "DELETE", "/v2/entities/user/shop-1/")[0] == 403
        assert [e["id"] for e in ask(shop, "GET", "/v1/entities/")[1]["results"]] == ["shop-1"]
    finally:
        here.stop()

"""The server as mem0's `MemoryClient` asks it: requests as mem0ai 2.2.1 sends them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from alveus import Memory
from alveus.server.tokens import TokenFile
from test_server import ServedHere

ADD, ALL, SEARCH, ONE = "/v3/memories/add/", "/v3/memories/", "/v3/memories/search/", "/v1/memories"

ADA = {"filters": {"user_id": "ada"}}


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
    assert changed["expiration_date"].startswith("2999-01-01T23:59")
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
        {"metadata": {"a": HALF}},
        {"metadata": within({}, 60)},
        {"metadata": within({}, 300)},
        {"output_format": HALF},
        {"messages": [{"content": "I live in Lisbon.", "role": HALF}]},
        {"filters": {"run_id": HALF}},
        {"messages": [{"content": "I live in Lisbon.", "name": HALF}]},
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
    assert found(bot) == ["Three."]
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
    missing = {"memory_id": "nothing", "text": "New."}
    assert served.ask("PUT", "/v1/batch/", {"memories": [*changes, missing]})[0] == 404
    assert listed(served, ADA["filters"]) == ["One."]
    assert served.ask("PUT", "/v1/batch/", {"memories": changes})[0] == 200
    both = {"user_id": {"in": ["ada", "bea"]}}
    assert listed(served, both) == ["New.", "New."]
    named = [{"memory_id": each} for each in ids]
    assert served.ask("DELETE", "/v1/batch/", {"memories": [*named, missing]})[0] in (400, 404)
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
    """Not even one whose name begins with the name of a kind."""
    everybody = [{f"{kind}_id": name} for kind in ("user", "agent", "run") for name in NAMES[5:10]]
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
        assert served.ask("GET", f"{ONE}/{wrong}/")[0] == 404
        assert served.ask("GET", f"{ONE}/{wrong}/history/")[0] == 404
    gone = served.ask("GET", f"{ONE}/{one[:-4]}AAAA/history/")
    assert gone[0] == 404


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

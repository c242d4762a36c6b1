"""What the server says of itself in /openapi.json, and whether its answers are like that."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from alveus import Item, Memory
from alveus.server.answers import STATUS
from alveus.server.app import create_app
from inspected import remember
from test_server import ServedHere

NOTES = {"key": "ada", "set": "notes"}
AT_ONCE = {"call": "set.add_many", "items": [{"value": "Ordered a tent."}]}


@pytest.fixture
def served(tmp_path):
    remember(tmp_path / "memory.db", items=2, embedder="words")
    made = ServedHere(tmp_path, writes=True)
    yield made
    made.stop()


def described():
    """Return the description of the server."""
    app = create_app(lambda _: Memory.open(":memory:", embedder="words"))
    return app.openapi()


def whole(value: Any) -> Any:
    """Return schemas as those that take no other fields than they name."""
    if isinstance(value, list):
        return [whole(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: whole(each) for name, each in value.items()}
    return found | {"additionalProperties": False} if "properties" in value else found


def test_operations_have_plain_names():
    """Those of the functions that answer, each once: clients are generated from them."""
    paths = described()["paths"]
    names = [each["operationId"] for at in paths.values() for each in at.values()]
    assert len(set(names)) == len(names)
    assert {"list_keys", "add_items", "make_context", "read_health"} <= set(names)
    assert not any("_v1_" in name for name in names)


def test_each_status_of_an_error_is_described():
    """Whatever is wrong, at whichever address: a client that is generated knows the answer."""
    answers = described()["paths"]["/v1/batch"]
    for each in answers.values():
        assert {str(status) for status in STATUS.values()} <= each["responses"].keys()


def asked_of(client):
    """Ask for everything that has something to answer; yield method, address and answer."""
    (done,) = client.ask("GET", "/v1/compactions", key="ada", set="diary")[1]["compactions"]
    (held,) = client.ask("GET", "/v1/quarantine", key="ada")[1]["held"]
    place, learn = {"key": "ada", "path": "a"}, {"texts": ["I live in Lisbon."]}
    new = {"items": [{"value": {"text": "Tea."}, "id": "tea", "time": "2026-11-25T09:00:00Z"}]}
    asks = [
        ("GET", "/v1/keys", None, {}),
        ("GET", "/v1/sets", None, {"key": "ada"}),
        ("PUT", "/v1/exact", {"value": [1, {"$bytes": "AA=="}]}, place),
        ("GET", "/v1/exact", None, place),
        ("DELETE", "/v1/exact", None, place),
        ("POST", "/v1/items", new, NOTES),
        ("GET", "/v1/items", None, {"key": "ada", "set": "diary"}),
        ("GET", "/v1/item", None, {**NOTES, "id": "tea"}),
        ("PATCH", "/v1/item", {"importance": 1}, {**NOTES, "id": "tea"}),
        ("DELETE", "/v1/item", None, {**NOTES, "id": "tea"}),
        ("GET", "/v1/item/history", None, {**NOTES, "id": "tea"}),
        ("POST", "/v1/search", {"query": "the window seat"}, {"key": "ada"}),
        ("POST", "/v1/context", {"query": "the window seat"}, {"key": "ada"}),
        ("POST", "/v1/learn", learn, {"key": "bea"}),
        ("GET", "/v1/facts", None, {"key": "bea"}),
        ("GET", "/v1/about", None, {"key": "bea", "name": "Lisbon"}),
        ("GET", "/v1/profile", None, {"key": "bea"}),
        ("GET", "/v1/compactions", None, {"key": "ada", "set": "diary"}),
        ("POST", "/v1/compactions/undo", None, {"key": "ada", "set": "diary", "id": done["id"]}),
        ("POST", "/v1/call", {"call": "exact.increment", "path": ["n"]}, {"key": "bea"}),
        ("POST", "/v1/batch", {"calls": [{"call": "key.sets"}, AT_ONCE]}, {"key": "bea"}),
        ("POST", "/v1/forget", {"everything": True}, {"key": "bea"}),
        ("GET", "/v1/receipts", None, {}),
        ("GET", "/v1/runs", None, {}),
        ("POST", "/v1/runs/retry", None, {"run": 2}),
        ("POST", "/v1/runs/discard", None, {"run": 2}),
        ("GET", "/v1/stats", None, {}),
        ("GET", "/v1/journal", None, {"limit": 50}),
        ("GET", "/v1/quarantine", None, {"key": "ada"}),
        ("POST", "/v1/quarantine/release", None, {"key": "ada", "id": held["id"]}),
        ("GET", "/v1/item", None, {**NOTES, "id": "nothing"}),
    ]
    for method, path, body, query in asks:
        yield method, path, client.ask(method, path, body, **query)


def test_answers_are_as_they_are_described(served):
    """Each has the fields that its schema names, of these types, and no others."""
    document = whole(described())
    for method, path, told in asked_of(served.client()):
        assert problems_of(document, method, path, *told) == [], (method, path)


def test_a_map_is_as_it_is_described(tmp_path, monkeypatch):
    """It needs vectors."""
    monkeypatch.setattr(ServedHere, "embedder", "static")
    made = ServedHere(tmp_path)
    try:
        with Memory.open(made.file, embedder="static") as memory:
            memory.key("ada").add_many([Item("Tea.", speaker="Ada"), Item("A tent.")])
        told = made.client().ask("GET", "/v1/map", key="ada")
        assert problems_of(whole(described()), "GET", "/v1/map", *told) == []
    finally:
        made.stop()


def problems_of(document, method, path, status, answer):
    """Return what of an answer is not as it is described."""
    assert status in (200, 201, 404), (path, answer)
    content = document["paths"][path][method.lower()]["responses"][f"{status}"]["content"]
    schema = content["application/json"]["schema"]
    assert "$ref" in schema, path
    validator = Draft202012Validator(schema | {"components": document["components"]})
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(answer)]

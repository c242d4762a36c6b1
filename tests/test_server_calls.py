"""The addresses of calls: what who asks may do by them, and what they answer to nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from alveus import Memory
from alveus.errors import InvalidInput
from alveus.server.callers import Memories
from alveus.server.calls import CallBody, MemoryCall
from alveus.server.tokens import TokenFile
from alveus.state import Ttl
from test_server import ServedHere

ITEM, NOTES, MESSAGE = {"value": "Tea."}, {"name": "notes"}, {"role": "user", "content": "Tea."}

CALLS: dict[str, dict[str, Any]] = {
    **{f"exact.{name}": {"path": ["a"]} for name in ("get", "is_exist", "delete")},
    **{
        f"exact.{name}": {"path": []}
        for name in ("get_field_names", "names", "get_fields", "to_dict", "clear")
    },
    **{f"exact.{name}": {"path": ["a"], "value": [1]} for name in ("set", "append", "update")},
    "exact.new_object": {"path": ["b"]},
    "exact.move": {"path": ["a"], "new_path": ["c"]},
    "exact.increment": {"path": ["n"]},
    "exact.copy": {"path": ["d"], "source": ["b"]},
    **{f"set.{name}": {"set": NOTES} for name in ("size", "definition", "list", "recent", "pop")},
    **{f"set.{name}": {"set": NOTES, "id": "a"} for name in ("history", "sources", "lineage")},
    **{f"set.{name}": {"set": NOTES} for name in ("points", "compactions")},
    "set.undo": {"set": NOTES, "compaction": 1},
    "set.get": {"set": NOTES, "ids": ["a"]},
    "set.admit": {"set": NOTES, "value": ITEM},
    "set.add_many": {"set": NOTES, "items": [ITEM]},
    "set.update": {"set": NOTES, "id": "a", "text": "x"},
    "set.delete": {"set": NOTES, "ids": ["a"]},
    "set.supersede": {"set": NOTES, "id": "b", "value": ITEM},
    "set.renew": {"set": NOTES, "ids": ["a"], "ttl_s": 9},
    "set.forget": {"set": NOTES, "ids": ["a"]},
    "set.redefine": {"set": NOTES, "definition": {"capacity": 9}},
    "set.search": {"set": NOTES, "query": "tea"},
    "key.sets": {},
    "key.search": {"query": "tea"},
    "key.points": {},
    "key.context": {"query": "tea"},
    "key.forget": {"where": {"none": 1}},
    "key.diff": {"a": "0"},
    "conversation.add": {"conversation": "chat", "messages": [MESSAGE]},
    **{
        f"conversation.{name}": {"conversation": "chat"}
        for name in ("get_memory", "messages", "size", "summary", "state_dict", "compress", "clear")
    },
    "conversation.uncompress": {"conversation": "summed"},
    "conversation.load_state_dict": {"conversation": "chat", "state": {"content": []}},
    "conversation.update_messages_mark": {"conversation": "summed", "new_mark": "seen"},
    "conversation.update_compressed_summary": {"conversation": "chat", "summary": "They met."},
    **{f"quarantine.{name}": {} for name in ("list", "size")},
    **{f"quarantine.{name}": {"id": "x"} for name in ("get", "release", "discard")},
    **{
        f"facts.{name}": {}
        for name in ("list", "size", "learnings", "check", "entities", "timeline", "profile")
    },
    **{f"facts.{name}": {"id": "x"} for name in ("history", "get")},
    "facts.why": {"fact": "x"},
    **{f"facts.{name}": {"name": "Lisbon"} for name in ("about", "neighbours", "split")},
    "facts.cost": {"conversation": "chat"},
    "facts.merge": {"name": "Grace", "others": ["Gracie"]},
    "facts.undo": {"learnings": ["x"]},
}
"""Arguments for each call; those that they are made on are not always there."""

LONG, HALF = "1" * 4_000, '"\\ud800"'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    made = ServedHere(tmp_path_factory.mktemp("served"))
    yield made
    made.stop()


def test_only_who_may_write_has_items_live_longer(tmp_path: Path) -> None:
    """A read of a set whose items are renewed by reads changes nothing for a token that reads."""
    file = TokenFile(tmp_path / "tokens.json")
    reader = file.add("reader", access="read", space=None, keys="")
    writer = file.add("writer", access="write", space=None, keys="")
    made = ServedHere(tmp_path, tokens=file)
    url, ttl = f"http://127.0.0.1:{made.port}", Ttl(timedelta(days=9), refresh="read")

    def expiry() -> object:
        with Memory.open(made.file, mode="ro", embedder="words") as memory:
            item = memory.key("ada").get("a")
            assert item is not None
            return item.expire_at

    try:
        with Memory.open(url, token=writer) as memory:
            memory.key("ada").add("Tea.", id="a", ttl=timedelta(days=1))
        first = expiry()
        readers: list[tuple[str, Literal["rw", "ro"]]] = [(reader, "rw"), (writer, "ro")]
        for token, mode in readers:
            with Memory.open(url, token=token, mode=mode) as memory:
                opened = memory.key("ada").set("default", ttl=ttl)
                assert opened.get("a") is not None
                assert opened.search("tea")
            assert expiry() == first
        with Memory.open(url, token=writer) as memory:
            assert memory.key("ada").set("default", ttl=ttl).get("a") is not None
        assert expiry() != first
    finally:
        made.stop()


@pytest.mark.parametrize(
    "fields",
    [
        *(
            f'"call": "exact.set", "path": ["a"], "value": {value}'
            for value in ('{"$int": "zz"}', '{"$float": "x"}', '{"$bytes": "a"}', HALF)
        ),
        '"call": "set.list", "where": {"$bytes": "é"}',
        f'"call": "exact.get", "path": [{HALF}]',
        f'"call": "set.get", "ids": [{HALF}]',
        f'"call": {HALF}',
        f'"call": "key.context", "query": "tea", "budget_tokens": {LONG}',
        f'"call": "set.size", "set": {{"definition": {{"item_type": {HALF}}}}}',
        *(
            f'"call": "set.redefine", "definition": {{{wanted}}}'
            for wanted in (
                '"item_type": "x"',
                '"retention": NaN',
                '"retention": 1e999',
                '"compaction": {"name": "trim", "half_life": 1' + "0" * 30 + "}",
            )
        ),
        *(f'"call": "set.list", "limit": {wrong}' for wrong in ("true", '"3"', "3.0")),
        '"call": "set.list", "newest_first": "off"',
        '"call": "set.update", "id": "a", "if_version": "1"',
        '"call": "set.supersede", "id": "a", "item": {"value": "x", "sources": ["b"]}',
        *(
            f'"call": "conversation.{name}", "conversation": "chat", {more}, "msg_ids": [{HALF}]'
            for name, more in (
                ("update_messages_mark", '"new_mark": "a"'),
                ("update_compressed_summary", '"summary": "x"'),
            )
        ),
        '"call": "__class__"',
        '"call": "set.compact"',
    ],
)
def test_nonsense_is_refused_and_no_fault(served: ServedHere, fields: str) -> None:
    """It is 400, whatever is quoted of it, and nothing was changed."""
    status, told = served.ask("POST", "/v1/call", f"{{{fields}}}".encode(), key="ada")
    assert (status, sorted(told)) == (400, ["error"]), told
    body = f'{{"calls": [{{{fields}}}]}}'.encode()
    assert served.ask("POST", "/v1/batch", body, key="ada")[0] == 400
    assert served.ask("POST", "/v1/call", {"call": "exact.to_dict", "path": []}, key="ada") == (
        200,
        {"result": []},
    )


def test_what_is_beyond_all_bounds_means_all_or_nothing(served: ServedHere) -> None:
    """More items than a machine could count; sources that are none."""

    def call(**fields: Any) -> tuple[int, Any]:
        return served.ask("POST", "/v1/call", fields, key="bounds")

    assert call(call="set.add_many", items=[{"value": "x", "id": "a", "sources": None}])[0] == 200
    assert call(call="set.admit", value={"value": "x", "sources": None})[0] == 200
    status, told = call(call="set.pop", n=10**30)
    assert (status, [item["id"] for item in told["result"]]) == (200, ["a"])


@pytest.mark.parametrize("as_of", [-1, True, "x", 10**30, 1 << 62])
def test_what_is_no_moment_is_told_as_on_a_file(served: ServedHere, as_of: Any) -> None:
    """So is a commit of the future; the number of the last one differs."""
    url, found = f"http://127.0.0.1:{served.port}", list[object]()
    for place, space in ((url, "moments"), (":memory:", "default")):
        with Memory.open(place, space=space, embedder=None if place == url else "words") as memory:
            memory.key("ada").add("Tea.", id="a", on_existing="keep")
            try:
                found.append([item.id for item in memory.key("ada").list(as_of=as_of)])
            except InvalidInput as error:
                found.append(str(error).partition("; the last one is ")[0])
    assert found[0] == found[1]


def kinds() -> dict[str, type[MemoryCall]]:
    """Return the classes of all calls, by name."""
    union = get_args(CallBody)[0]
    return {get_args(kind.model_fields["call"].annotation)[0]: kind for kind in get_args(union)}


def test_no_call_reaches_beyond_its_token(tmp_path: Path) -> None:
    """Each is tried by a token of another key, by one that reads, and on all of knowledge."""
    every = kinds()
    assert CALLS.keys() == every.keys()
    file = TokenFile(tmp_path / "tokens.json")
    here = file.add("here", access="write", space="default", keys="ada")
    reader = file.add("reader", access="read", space="default", keys="ada")
    whole = file.add("whole", access="write", space=None, keys="")
    made = ServedHere(tmp_path, tokens=file)
    made_of = [
        {"call": "set.add_many", "items": [{"value": "bea secret", "id": "s"}]},
        {
            "call": "set.add_many",
            "set": {"knowledge": True},
            "items": [{"value": "a tip", "id": "a", "sources": ["s"]}],
        },
    ]
    try:
        assert made.ask("POST", "/v1/batch", {"calls": made_of}, token=whole, key="bea")[0] == 200
        for name, arguments in CALLS.items():
            body, writes = {"call": name, **arguments}, every[name].access == "write"
            for token in (here, reader):
                for place in ({"key": "bea"}, {"key": "ada", "space": "other"}):
                    status, told = made.ask("POST", "/v1/call", body, token=token, **place)
                    assert (status, told["error"]["type"]) == (403, "AccessDenied"), (name, place)
            own = made.ask("POST", "/v1/call", body, token=reader, key="ada")[0]
            assert (own == 403) == writes, (name, own)
            shared = made.ask("POST", "/v1/call", body, token=here)[0]
            assert (shared == 403) if writes else (shared in (200, 400, 404)), (name, shared)
            for of in ({"set": {"knowledge": True}}, {"of_knowledge": True}):
                if of.keys() <= every[name].model_fields.keys():
                    status = made.ask("POST", "/v1/call", body | of, token=here, key="ada")[0]
                    assert (status == 403) == writes, (name, of, status)
                    read = made.ask("POST", "/v1/call", body | of, token=reader, key="ada")
                    assert "bea secret" not in str(read), name
    finally:
        made.stop()


def test_a_call_that_reads_commits_nothing(tmp_path: Path) -> None:
    """So none is taken for one that a token which only reads may make."""
    made = ServedHere(tmp_path)
    try:
        said = [
            {"role": "user", "content": f"I live in place {n}.", "id": f"{n}"} for n in range(4)
        ]
        for body in (
            {"call": "exact.set", "path": ["a"], "value": 1},
            {"call": "set.add_many", "set": NOTES, "items": [ITEM | {"id": "a"}]},
            {"call": "conversation.add", "conversation": "chat", "messages": said},
        ):
            assert made.ask("POST", "/v1/call", body, key="ada")[0] == 200
        before = made.ask("GET", "/v1/stats")[1]["store"]["commits"]
        for name, kind in kinds().items():
            if kind.access == "read":
                made.ask("POST", "/v1/call", {"call": name, **CALLS[name]}, key="ada")
                assert made.ask("GET", "/v1/stats")[1]["store"]["commits"] == before, name
    finally:
        made.stop()


TIPS = {"name": "tips", "knowledge": True}


def shown_of_a_tip(
    served: ServedHere, token: str, space: str, *, writes: bool
) -> list[tuple[str, Any]]:
    """Return what each way tells of the sources of an item of knowledge, with the way's name."""
    place, found = {"key": "ada", "space": space}, list[tuple[str, int, Any]]()
    for name in ("sources", "lineage"):
        body = {"call": f"set.{name}", "set": TIPS, "id": "t"}
        status, answer = served.ask("POST", "/v1/call", body, token=token, **place)
        found.append((name, status, answer["result"]))
        if writes:
            told = served.ask("POST", "/v1/batch", {"calls": [body]}, token=token, **place)
            found.append((name, told[0], told[1]["answers"][0]["result"]))
    for name in ("lineage", "relatives"):
        of = {"space": space, "set": "tips", "id": "t"}
        found.append((name, *served.ask("GET", f"/v1/item/{name}", token=token, **of)))
    assert {status for _, status, _ in found} == {200}
    return [(name, told) for name, _, told in found]


def test_items_of_other_keys_are_not_shown_as_sources(tmp_path: Path) -> None:
    """Nor walked through, by calls, in batches and by addresses; who may see all is shown all."""
    file = TokenFile(tmp_path / "tokens.json")
    whole = file.add("whole", access="write", space=None, keys="")
    limited = [
        file.add("ada", access="write", space=None, keys="ada"),
        file.add("reader", access="read", space="shared", keys="ada"),
        file.add("other", access="read", space="other", keys=""),
    ]
    made = ServedHere(tmp_path, tokens=file)
    made.app.state.memories = Memories(
        lambda space: Memory.open(made.file, space=space, knowledge="common", embedder="words")
    )
    calls = [
        {"call": "set.add_many", "items": [{"value": "bea root", "id": "r"}]},
        {"call": "set.add_many", "items": [{"value": "bea secret", "id": "s", "sources": ["r"]}]},
        {
            "call": "set.add_many",
            "set": TIPS,
            "items": [{"value": "a tip", "id": "t", "sources": ["s"]}],
        },
    ]

    try:
        place = {"key": "bea", "space": "shared"}
        for call in calls:
            told = made.ask("POST", "/v1/batch", {"calls": [call]}, token=whole, **place)
            assert told[0] == 200, told
        for name, told in shown_of_a_tip(made, whole, "shared", writes=True):
            assert "bea secret" in str(told), name
            assert ("bea root" in str(told)) == (name != "sources")
        for token, space in zip(limited, ("shared", "shared", "other"), strict=True):
            for name, told in shown_of_a_tip(made, token, space, writes=token == limited[0]):
                assert "bea" not in str(told), name
                if name == "sources":
                    assert told == []
                else:
                    assert [node["erased"] for node in told["nodes"]] == [False, True]
                    assert told["edges"] == [[0, 1]]
        found = sources_of_a_tip(made, whole, "shared", writes=True)
        assert found == [["s"]] * len(found)
        for token, space in zip(limited, ("shared", "shared", "other"), strict=True):
            found = sources_of_a_tip(made, token, space, writes=token == limited[0])
            assert found == [[]] * len(found)
    finally:
        made.stop()


def sources_of_a_tip(served: ServedHere, token: str, space: str, *, writes: bool) -> list[Any]:
    """Return what each read of an item of knowledge says that it was made of."""
    place = {"space": space} | ({"key": "ada-1"} if writes else {})
    calls: list[dict[str, Any]] = [
        {"call": "set.get", "ids": ["t"]},
        {"call": "set.list"},
        {"call": "set.recent"},
        {"call": "set.history", "id": "t"},
        {"call": "set.search", "query": "tip"},
        {"call": "key.search", "query": "tip", "of_knowledge": True},
    ]
    told: list[Any] = []
    for call in calls:
        body = call | ({} if call["call"] == "key.search" else {"set": TIPS})
        told.append(served.ask("POST", "/v1/call", body, token=token, **place)[1])
        if writes:
            answer = served.ask("POST", "/v1/batch", {"calls": [body]}, token=token, **place)
            told.append(answer[1]["answers"][0])
    of = {"space": space, "set": "tips"}
    told += [
        {"items": [served.ask("GET", "/v1/item", token=token, id="t", **of)[1]]},
        {"items": served.ask("GET", "/v1/item/history", token=token, id="t", **of)[1]["versions"]},
        served.ask("GET", "/v1/items", token=token, **of)[1],
        served.ask("POST", "/v1/items/get", {"ids": ["t"]}, token=token, **of)[1],
        served.ask("POST", "/v1/search", {"query": "tip"}, token=token, space=space)[1],
    ]
    return [_first_item(each)["sources"] for each in told]


def _first_item(answer: Any) -> Any:
    """Return the first item of the answer to a call, or of an address."""
    found = answer.get("result", answer)
    if isinstance(found, list):
        return found[0]
    return found["hits"][0]["item"] if "hits" in found else found["items"][0]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/call", f'{{"call": "set.renew", "ids": [{HALF}], "ttl_s": 1}}'),
        ("/v1/call", f'{{"call": "quarantine.release", "id": {HALF}}}'),
        ("/v1/call", f'{{"call": "quarantine.discard", "id": {HALF}}}'),
    ],
)
def test_what_no_name_can_be_kept_of_is_refused(served: ServedHere, path: str, body: str) -> None:
    headers = {"Idempotency-Key": "half", "Content-Type": "application/json"}
    status, told = served.client().ask("POST", path, body.encode(), headers, key="half")
    assert status == 400, told


def test_lives_and_definitions_are_changed_once_under_a_name(served: ServedHere) -> None:
    """What others did in between stays; another request under the name is refused."""
    client = served.client()

    def call(name: str, once: str, **arguments: Any) -> tuple[int, Any]:
        body = {"call": name, "set": NOTES, **arguments}
        headers = {"Idempotency-Key": once}
        return client.ask("POST", "/v1/call", body, headers, key="once")

    assert call("set.add_many", "add", items=[{**ITEM, "id": "x", "ttl_s": 60}])[0] == 200
    renewed = call("set.renew", "longer", ids=["x"], ttl_s=600)
    assert renewed == (200, {"result": 1})
    assert call("set.renew", "longer", ids=["x"], ttl_s=600) == renewed
    assert call("set.renew", "longer", ids=["x"], ttl_s=6_000)[0] == 409
    first = call("set.redefine", "small", definition={"capacity": 5})
    assert call("set.redefine", "large", definition={"capacity": 50})[0] == 200
    assert call("set.redefine", "small", definition={"capacity": 5}) == first
    assert call("set.redefine", "large", definition={"capacity": 50})[1]["result"]["capacity"] == 50


def test_a_repeated_call_is_answered_as_the_first_one_was(served: ServedHere) -> None:
    """Each call that writes, under one Idempotency-Key; what fails changes nothing either."""
    client = served.client()

    def call(name: str, once: str | None = None, /, **arguments: Any) -> tuple[int, Any]:
        headers = {} if once is None else {"Idempotency-Key": once}
        body = {"call": name, **arguments}
        return client.ask("POST", "/v1/call", body, headers, key="repeated")

    call("exact.set", path=["a"], value=[1])
    call("set.add_many", items=[{**ITEM, "id": name} for name in "ab"], set=NOTES)
    said = [{"role": "user", "content": f"I live in place {n}.", "id": f"{n}"} for n in range(6)]
    for name in ("chat", "summed"):
        call("conversation.add", conversation=name, messages=said)
    call("conversation.compress", conversation="summed", keep_recent=2)
    call("conversation.compress", conversation="summed", keep_recent=1)
    client.ask("POST", "/v1/learn", {"conversation": "chat"}, key="repeated")
    learnings = call("facts.learnings")[1]["result"]
    known, *_ = call("facts.entities")[1]["result"]
    more = {
        "facts.undo": {"learnings": [learnings[0]["id"]]},
        "facts.merge": {"name": known, "others": ["Gracie"]},
    }
    done = set[str]()
    for name, kind in kinds().items():
        if kind.access == "write":
            arguments = CALLS[name] | more.get(name, {})
            first, second = (call(name, f"once {name}", **arguments) for _ in range(2))
            assert first == second, name
            assert first[0] in (200, 404, 409, 412), (name, first)
            done |= {name} if first[0] == 200 else set()
    assert done >= {
        "facts.undo",
        "facts.merge",
        *(n for n in CALLS if n.startswith("conv") and kinds()[n].access == "write"),
    }


@pytest.mark.parametrize("wrong", [None, 1 << 70, [[None]], "\0"])
def test_wrong_arguments_are_no_fault(served: ServedHere, wrong: Any) -> None:
    """Whatever stands for one of them, the server answers with what is wrong, or as it can."""
    client = served.client()
    for name, kind in kinds().items():
        for field in sorted(kind.model_fields.keys() - {"call"}):
            body = {"call": name, **CALLS[name], field: wrong}
            status = client.ask("POST", "/v1/call", body, key="wrong")[0]
            assert status in (200, 400, 404, 409, 410, 412, 413, 422, 501), (name, field, status)

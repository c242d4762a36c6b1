"""The addresses of calls: what who asks may do by them, and what they answer to nonsense."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from fornix import Memory
from fornix.errors import InvalidInput
from fornix.server.tokens import TokenFile
from fornix.state import Ttl
from test_server import ServedHere

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
        '"call": "list", "where": {"$bytes": "é"}',
        f'"call": "exact.get", "path": [{HALF}]',
        f'"call": "get", "ids": [{HALF}]',
        f'"call": {HALF}',
        f'"call": "context", "query": "tea", "budget_tokens": {LONG}',
        f'"call": "describe", "set": {{"definition": {{"item_type": {HALF}}}}}',
        *(
            f'"call": "redefine", "definition": {{{wanted}}}'
            for wanted in (
                '"item_type": "x"',
                '"retention": NaN',
                '"retention": 1e999',
                '"compaction": {"name": "trim", "half_life": 1' + "0" * 30 + "}",
            )
        ),
        '"call": "__class__"',
        '"call": "compact"',
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
        {"nodes": []},
    )


def test_what_is_beyond_all_bounds_means_all_or_nothing(served: ServedHere) -> None:
    """More items than a machine could count; sources that are none."""

    def call(**fields: Any) -> tuple[int, Any]:
        return served.ask("POST", "/v1/call", fields, key="bounds")

    assert call(call="add_many", items=[{"value": "x", "id": "a", "sources": None}])[0] == 200
    assert call(call="admit", item={"value": "x", "sources": None})[0] == 200
    status, told = call(call="pop", n=10**30)
    assert (status, [item["id"] for item in told["items"]]) == (200, ["a"])


@pytest.mark.parametrize("as_of", [-1, True, "x", 10**30, 1 << 62])
def test_what_is_no_moment_is_told_as_on_a_file(served: ServedHere, as_of: Any) -> None:
    """And a commit that is not there yet is the present."""
    url, found = f"http://127.0.0.1:{served.port}", list[object]()
    for place, space in ((url, "moments"), (":memory:", "default")):
        with Memory.open(place, space=space, embedder=None if place == url else "words") as memory:
            memory.key("ada").add("Tea.", id="a", on_existing="keep")
            try:
                found.append([item.id for item in memory.key("ada").list(as_of=as_of)])
            except InvalidInput as error:
                found.append(str(error))
    assert found[0] == found[1]

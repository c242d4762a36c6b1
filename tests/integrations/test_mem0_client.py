"""mem0's own client, asking `alveus serve`."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from alveus import Memory
from waiting import LIMIT_S

os.environ["MEM0_TELEMETRY"] = "False"  # read when it is imported

ADA = {"user_id": "ada"}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A client of a server whose token is for keys that begin with "ada"."""
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    from mem0 import MemoryClient

    alveus = [sys.executable, "-m", "alveus"]
    tokens = ["--tokens", str(tmp_path / "tokens.json")]
    made = subprocess.run(
        [*alveus, "token", "new", "shop", *tokens, "--keys", "ada", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    secret = json.loads(made.stdout)["token"]
    opened: list[MemoryClient] = []
    place = ["--db", str(tmp_path / "memory.db"), "--embedder", "words", "--port", "0"]
    with subprocess.Popen(
        [*alveus, "serve", "--json", *place, *tokens], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]

            def client(key: str = secret) -> MemoryClient:
                made = MemoryClient(api_key=key, host=url)
                opened.append(made)
                return made

            yield client
        finally:
            for each in opened:
                each.client.close()
            server.terminate()
            server.wait(LIMIT_S)


def memories(answer: Any) -> list[str]:
    return [each["memory"] for each in answer["results"]]


def test_what_is_kept_as_it_is(asked, tmp_path):
    """Added, found, listed, changed, deleted; and the same memory is there without a server."""
    client = asked()
    added = client.add("Prefers window seats.", **ADA, infer=False, metadata={"topic": "travel"})
    (event,) = added["results"]
    assert (event["event"], event["memory"]) == ("ADD", "Prefers window seats.")
    client.add("Is allergic to peanuts.", **ADA, infer=False, metadata={"topic": "health"})
    travel = {"AND": [ADA, {"metadata": {"topic": "travel"}}]}
    assert memories(client.search("which window seats?", filters=travel)) == [event["memory"]]
    page = client.get_all(filters=ADA, page=1, page_size=1)
    assert (page["count"], len(page["results"]), bool(page["next"])) == (2, 1, True)
    assert client.update(event["id"], text="Prefers aisle seats.")["memory"] == (
        "Prefers aisle seats."
    )
    client.batch_update([{"memory_id": event["id"], "text": "Prefers any seat."}])
    assert client.get(event["id"])["memory"] == "Prefers any seat."
    assert [row["event"] for row in client.history(event["id"])] == ["ADD", "UPDATE", "UPDATE"]
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        found = memory.key("ada").search("any seat")
        assert found[0].item.text == "Prefers any seat."
    client.batch_delete([{"memory_id": event["id"]}])
    assert memories(client.get_all(filters=ADA)) == ["Is allergic to peanuts."]
    client.delete_all(filters=ADA)
    assert memories(client.get_all(filters=ADA)) == []


def test_what_is_learnt(asked):
    """The client's default: facts by rules where the server has no model; a change replaces."""
    client = asked()
    client.add([{"role": "user", "content": "I live in Lisbon."}], **ADA)
    client.add("I moved to Porto.", **ADA)
    assert memories(client.get_all(filters=ADA)) == ["The user moved to Porto."]
    client.delete_users(**ADA)
    assert memories(client.get_all(filters=ADA)) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_errors_are_the_clients_own(asked):
    """What is not there, not allowed, and not known by that token."""
    from mem0.exceptions import AuthenticationError, MemoryError, MemoryNotFoundError  # noqa: A004 - of mem0

    client = asked()
    event = client.add("To delete.", **ADA, infer=False)["results"][0]
    client.delete(event["id"])
    with pytest.raises(MemoryNotFoundError):
        client.get(event["id"])
    with pytest.raises(MemoryError):
        client.add("x", user_id="bob", infer=False)
    with pytest.raises(MemoryError):
        client.get_all()
    with pytest.raises((AuthenticationError, ValueError)):
        asked("alveus_wrong").get_all(filters=ADA)
    gc.collect()  # a client whose key is refused leaves its connection open; told here, not later

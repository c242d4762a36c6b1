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
from alveus.transfer import import_file
from waiting import LIMIT_S

os.environ["MEM0_TELEMETRY"] = "False"  # read when it is imported

ADA = {"user_id": "ada"}


ALVEUS = [sys.executable, "-m", "alveus"]


def tokens_of(folder: Path) -> list[str]:
    return ["--tokens", str(folder / "tokens.json")]


def new_token(folder: Path, name: str, *reach: str) -> str:
    """Make a token; return its secret."""
    made = subprocess.run(
        [*ALVEUS, "token", "new", name, *tokens_of(folder), *reach, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(made.stdout)["token"]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A client of a server whose token is for keys that begin with "ada"."""
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    from mem0 import MemoryClient

    secret = new_token(tmp_path, "shop", "--keys", "ada")
    opened: list[MemoryClient] = []
    place = ["--db", str(tmp_path / "memory.db"), "--embedder", "words", "--port", "0"]
    with subprocess.Popen(
        [*ALVEUS, "serve", "--json", *place, *tokens_of(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
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


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of what mem0's own `Memory` (open source) returns of each entity, by `get_all`."""
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    from mem0 import Memory as Mem0
    from mem0.configs.embeddings.base import BaseEmbedderConfig
    from mem0.embeddings.base import EmbeddingBase

    class OneVector(EmbeddingBase):
        """mem0's embedder interface; what is exported does not depend on it."""

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return [1.0, 0.0]

    openai = {"provider": "openai", "config": {"api_key": "never-used"}}
    place = {"path": str(tmp_path / "qdrant"), "embedding_model_dims": 2, "collection_name": "m"}
    theirs = Mem0.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": place},
            "embedder": openai,
            "llm": openai,
            "history_db_path": str(tmp_path / "history.db"),
        }
    )
    theirs.embedding_model = OneVector(BaseEmbedderConfig(embedding_dims=2))
    said = [{"role": "user", "name": "Ada", "content": "Prefers window seats."}]
    travel = {"metadata": {"topic": "travel"}, "expiration_date": "2999-12-31"}
    theirs.add(said, user_id="ada", agent_id="bot", run_id="trip-1", infer=False, **travel)
    theirs.add("Books flights.", agent_id="bot", infer=False)
    theirs.add("Is called as an agent is.", user_id="agent:bot", infer=False)
    theirs.add("Of a run.", run_id="trip-1", infer=False)
    whose = [("user_id", "ada"), ("agent_id", "bot"), ("user_id", "agent:bot")]
    whose.append(("run_id", "trip-1"))
    answers = [theirs.get_all(filters={name: value}) for name, value in whose]
    theirs.vector_store.client.close()
    theirs.close()
    file = tmp_path / "exported.json"
    file.write_text(json.dumps(answers))
    return file


def test_what_mem0_exported_is_found_by_its_client(exported, tmp_path, asked):
    """By id, by each entity, by filters, by words; its history, a change and a deletion follow."""
    told = exported.read_text().replace("+00:00", "Z")
    records = {each["memory"]: each for a in json.loads(told) for each in a["results"]}
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert import_file(memory, exported).done.added == len(records) == 4
    client = asked(new_token(tmp_path, "whole"))
    for text, record in records.items():
        shown = client.get(record["id"])
        same = {name: shown.get(name) for name in record if name not in ("hash", "metadata")}
        assert same == {name: value for name, value in record.items() if name in same}, text
        assert shown["metadata"] == (record.get("metadata") or {})
        assert [row["event"] for row in client.history(record["id"])] == ["ADD"]
    window = records["Prefers window seats."]["id"]

    def found(**filters: Any) -> set[str]:
        return set(memories(client.get_all(filters=filters)))

    assert found(user_id="ada") == {"Prefers window seats."}
    assert found(agent_id="bot") == {"Prefers window seats.", "Books flights."}
    assert found(user_id="agent:bot") == {"Is called as an agent is."}
    assert found(run_id="trip-1") == {"Prefers window seats.", "Of a run."}
    assert found(AND=[ADA, {"metadata": {"topic": "travel"}}]) == {"Prefers window seats."}
    assert memories(client.search("window seats", filters=ADA)) == ["Prefers window seats."]
    assert client.update(window, text="Prefers aisle seats.")["id"] == window
    client.delete(window)
    assert found(agent_id="bot") == {"Books flights."}
    client.delete_all(agent_id="bot")
    assert found(user_id="agent:bot") == {"Is called as an agent is."}
    client.delete_users(user_id="agent:bot")
    assert [each["name"] for each in client.users()["results"]] == ["trip-1"]


def test_what_is_learnt(asked):
    """The client's default: facts by rules where the server has no model; a change replaces."""
    client = asked()
    client.add([{"role": "user", "content": "I live in Lisbon."}], **ADA)
    client.add("I moved to Porto.", **ADA)
    assert memories(client.get_all(filters=ADA)) == ["The user moved to Porto."]
    client.delete_users(**ADA)
    assert memories(client.get_all(filters=ADA)) == []


def test_messages_with_calls_and_parts(asked):
    """Their texts are kept, and what else they have is told; nobody loses a conversation to it."""
    call = {"id": "c", "type": "function", "function": {"name": "seats", "arguments": "{}"}}
    photo = {"type": "image_url", "image_url": {"url": "https://example.org/harbour.jpg"}}
    turns: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "I live in Lisbon."}, photo]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    added = asked().add(turns, **ADA)
    assert (added["status"], bool(added["event_id"])) == ("SUCCEEDED", True)
    assert memories(added) == ["The user lives in Lisbon."]
    assert [each["type"] for each in added["left_out"]] == ["image_url", "tool_calls"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_errors_are_the_clients_own(asked):
    """What is not there, not allowed, and not known by that token."""
    from mem0.exceptions import (
        AuthenticationError,
        MemoryError,  # noqa: A004 - of mem0
        MemoryNotFoundError,
        ValidationError,
    )

    client = asked()
    event = client.add("To delete.", **ADA, infer=False)["results"][0]
    client.delete(event["id"])
    with pytest.raises(MemoryNotFoundError):
        client.get(event["id"])
    with pytest.raises(ValidationError):
        client.get("nothing")
    with pytest.raises(ValidationError):
        client.feedback(event["id"], feedback="POSITIVE")
    with pytest.raises(MemoryError):
        client.add("x", user_id="bob", infer=False)
    with pytest.raises(MemoryError):
        client.get_all()
    with pytest.raises((AuthenticationError, ValueError)):
        asked("alveus_wrong").get_all(filters=ADA)
    gc.collect()  # a client whose key is refused leaves its connection open; told here, not later

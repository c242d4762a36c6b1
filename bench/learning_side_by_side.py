"""alveus and mem0 (`infer=True`), each asked to learn the same conversation from the same model.

    python bench/learning_side_by_side.py          prints the table

The model is a script behind a local server of the OpenAI protocol. It notes what each message says,
in other words at each call, as models do, and leaves out what it is shown as known. The
conversation has 40 messages with a fact each, and is learnt 10 messages at a time. Counted are the
calls of the model; facts that are there twice after the application tries again, because it did
not hear that the last call was done; the same after it was killed in the middle, and began again;
and what is left once the user is deleted. Nothing depends on the speed of the machine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus.testing.chat_server import ChatServer, ReceivedRequest
from bench.peers import offline

COUNT, BATCH = 40, 10

KILLED_AT = 3
"""The call of the model at which the process is killed, while it waits for the answer."""

NUMBER = re.compile(r"tea (\d+)")

WORDINGS = ("Ada likes tea {}.", "The user enjoys tea {}.", "Ada's taste: tea {}.")


def said() -> list[dict[str, str]]:
    """Return what Ada says."""
    return [
        {"id": f"m{n}", "role": "user", "name": "Ada", "content": f"I like tea {n}."}
        for n in range(COUNT)
    ]


class Model:
    """The script: what is told as a function of what is asked, and of how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: ReceivedRequest) -> str:
        """Return the answer in the form that the system asks for."""
        wording = WORDINGS[self.calls % len(WORDINGS)]
        self.calls += 1
        text = request.body["messages"][-1]["content"]
        if "## New Messages" in text:
            return self._for_mem0(text, wording)
        asked = json.loads(text)
        if "candidates" in asked:
            return json.dumps({"decisions": [_decision(one) for one in asked["candidates"]]})
        found = [_fact(one, wording) for one in asked["messages"]]
        return json.dumps({"facts": found})

    def _for_mem0(self, text: str, wording: str) -> str:
        known, _, rest = text.partition("## Existing Memories")[2].partition("## New Messages")
        shown = set(NUMBER.findall(known))
        new = NUMBER.findall(rest.partition("## Observation Date")[0])
        facts = [{"text": wording.format(n)} for n in new if n not in shown]
        return json.dumps({"memory": facts})


def _fact(message: Mapping[str, Any], wording: str) -> dict[str, object]:
    number = NUMBER.findall(message["text"])[0]
    return {
        "fact": wording.format(number),
        "subject": "Ada",
        "kind": "preference",
        "entities": ["Ada"],
        "evidence": [{"message": message["id"], "quote": message["text"]}],
    }


def _decision(candidate: Mapping[str, Any]) -> dict[str, object]:
    number = NUMBER.findall(candidate["fact"])
    same = [one["id"] for one in candidate["known"] if NUMBER.findall(one["fact"]) == number]
    decision = "same" if same else "new"
    return {"candidate": candidate["id"], "decision": decision, "fact": next(iter(same), None)}


class Alveus:
    """alveus, in a file."""

    def __init__(self, folder: Path, url: str) -> None:
        from alveus import Memory, OpenAIChat

        self._memory = Memory.open(folder / "app.db", embedder="static")
        self._model = OpenAIChat("script", base_url=url, api_key="none")
        self._key = self._memory.key("ada")

    def learn(self, messages: Sequence[Mapping[str, str]]) -> None:
        """Learn from messages; those that were read are passed over."""
        self._key.learn(messages, model=self._model)

    def facts(self) -> list[str]:
        """Return what the facts say."""
        return [fact.text for fact in self._key.facts.list()]

    def delete_user(self) -> None:
        """Erase all that is known of the user."""
        self._key.forget()

    def close(self) -> None:
        """Close the memory."""
        self._model.close()
        self._memory.close()


class Mem0:
    """mem0 on Qdrant's local mode, with the vectors of alveus's static embedder."""

    def __init__(self, folder: Path, url: str) -> None:
        from mem0 import Memory
        from mem0.configs.embeddings.base import BaseEmbedderConfig
        from mem0.embeddings.base import EmbeddingBase

        from alveus.embed import open_embedder

        static = open_embedder("static")

        class Static(EmbeddingBase):
            def embed(self, text: str, memory_action: str | None = None) -> list[float]:
                del memory_action
                return static.embed([text])[0].tolist()

        size = static.dimensions
        place = {
            "collection_name": "items",
            "path": str(folder / "qdrant"),
            "embedding_model_dims": size,
            "on_disk": True,
        }
        model = {"api_key": "none", "model": "script", "openai_base_url": url}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "embedder": {
                    "provider": "openai",
                    "config": {"api_key": "none", "embedding_dims": size},
                },
                "llm": {"provider": "openai", "config": model},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = Static(BaseEmbedderConfig(embedding_dims=size))

    def learn(self, messages: Sequence[Mapping[str, str]]) -> None:
        """Add messages; it does not take their ids."""
        plain = [{"role": one["role"], "content": one["content"]} for one in messages]
        self._memory.add(plain, user_id="ada")

    def facts(self) -> list[str]:
        """Return what the facts say."""
        found = self._memory.get_all(filters={"user_id": "ada"}, top_k=10_000)
        return [one["memory"] for one in found["results"]]

    def delete_user(self) -> None:
        """Delete all that is known of the user."""
        self._memory.delete_all(user_id="ada")

    def close(self) -> None:
        """Close the memory."""
        self._memory.close()
        self._memory.vector_store.client.close()


SYSTEMS = {"alveus": Alveus, "mem0": Mem0}


def work(name: str, step: str, folder: Path, url: str) -> None:
    """Do a step of the application, in a process of its own; print what is asked for."""
    system = SYSTEMS[name](folder, url)
    messages = said()
    if step == "learn":
        for start in range(0, COUNT, BATCH):
            print(os.getpid(), flush=True)
            system.learn(messages[start : start + BATCH])
    elif step == "again":
        system.learn(messages[-BATCH:])
    elif step == "delete":
        system.delete_user()
    facts = system.facts()
    system.close()
    words = b"I like tea 7"
    files = [path for path in folder.rglob("*") if path.is_file()]
    left = [
        path.name for path in files if words in path.read_bytes() or b"tea 7." in path.read_bytes()
    ]
    distinct = len({NUMBER.findall(text)[0] for text in facts})
    print(json.dumps({"facts": len(facts), "distinct": distinct, "files": sorted(left)}))


def started(name: str, step: str, folder: Path, url: str) -> subprocess.Popen[str]:
    """Return a process that does a step."""
    command = [sys.executable, __file__, name, step, str(folder), url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def done(name: str, step: str, folder: Path, url: str) -> dict[str, Any]:
    """Return what a process printed that did a step."""
    process = started(name, step, folder, url)
    lines = process.communicate()[0].splitlines()
    if process.returncode:
        raise SystemExit(f"{name}: {step} failed with exit code {process.returncode}")
    return json.loads(lines[-1])


def killed(name: str, folder: Path) -> dict[str, Any]:
    """Return what is there after a kill at a call of the model, and another start."""
    model = Model()
    running: list[subprocess.Popen[str]] = []

    def reply(request: ReceivedRequest) -> str:
        answer = model(request)
        if model.calls == KILLED_AT and running:
            os.kill(running[0].pid, signal.SIGKILL)
        return answer

    with ChatServer(reply) as server:
        running.append(started(name, "learn", folder, server.url))
        running[0].communicate()
        assert running.pop().returncode == -signal.SIGKILL, "it was not killed"
        return done(name, "learn", folder, server.url)


def rows(name: str) -> list[tuple[str, str]]:
    """Return what is told of a system, each with its name."""
    told: list[tuple[str, str]] = []
    model = Model()
    with tempfile.TemporaryDirectory() as work, ChatServer(model) as server:
        folder = Path(work)
        offline(folder)
        whole = done(name, "learn", folder, server.url)
        calls = f"{100 * model.calls / COUNT:.0f} in 100 messages"
        told.append(("calls of the model", calls))
        told.append(("facts of 40 messages", f"{whole['distinct']}, {_doubled(whole)}"))
        told.append(("the last 10 again", _doubled(done(name, "again", folder, server.url))))
        told.append(("all 40 again", _doubled(done(name, "learn", folder, server.url))))
        gone = done(name, "delete", folder, server.url)
        told.append(("facts after deleting the user", str(gone["facts"])))
        told.append(("files with their words then", ", ".join(gone["files"]) or "none"))
    with tempfile.TemporaryDirectory() as work:
        after = killed(name, Path(work))
        told.append(("killed at a call, begun again", f"{after['distinct']}, {_doubled(after)}"))
    return told


def _doubled(found: Mapping[str, Any]) -> str:
    return f"{found['facts'] - found['distinct']} twice"


def main() -> None:
    """Print the table."""
    found = {name: dict(rows(name)) for name in SYSTEMS}
    names = [f"alveus {version('alveus')}", f"mem0 {version('mem0ai')}"]
    print(f"| | {' | '.join(names)} |\n|---|---|---|")
    for what in found["alveus"]:
        print(f"| {what} | {' | '.join(found[name][what] for name in SYSTEMS)} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    else:
        main()

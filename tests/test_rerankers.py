"""Re-rankers, and embedders on servers: their protocols, spoken over HTTP, and their faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from alveus import AsyncMemory, Memory
from alveus.cli import alveus
from alveus.embed import OpenAIEmbedder, QueryEmbedder, open_embedder
from alveus.errors import (
    EmbedderConflict,
    EmbedderFailed,
    EmbedderMissing,
    InvalidInput,
    ModelAnswerInvalid,
    ModelUnavailable,
    RerankerFailed,
    StoreClosed,
)
from alveus.llm import ChatReranker, HttpReranker, ScriptedChat
from alveus.store.items import Hit
from alveus.testing.chat_server import ChatReply, ChatServer, ReceivedRequest
from alveus.values import http_json
from waiting import LIMIT_S, SHORT_S

Answer = Callable[[ReceivedRequest], ChatReply]

NOTES = ["Tea with milk.", "Coffee, black.", "Tea and toast.", "The bus to town."]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again at once, and with no key of this machine."""
    monkeypatch.setattr(http_json, "FIRST_PAUSE_S", 0.0)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RERANKER_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def by_length(texts: Sequence[str]) -> list[float]:
    return [1 / len(text) for text in texts]


def cohere(asked: ReceivedRequest) -> ChatReply:
    """Answer as Cohere and Jina do: the best first, each with the place of its text."""
    scores = by_length(asked.body["documents"])
    entries = [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]
    entries.sort(key=lambda entry: -entry["relevance_score"])
    return ChatReply(body=json.dumps({"results": entries}).encode())


def tei(asked: ReceivedRequest) -> ChatReply:
    """Answer as Text Embeddings Inference does."""
    entries = [
        {"index": at, "score": score} for at, score in enumerate(by_length(asked.body["texts"]))
    ]
    return ChatReply(body=json.dumps(entries[::-1]).encode())


@pytest.mark.parametrize(("answer", "model"), [(cohere, "rerank-v3.5"), (tei, None)])
def test_a_server_re_ranks_hits(
    answer: Callable[[ReceivedRequest], ChatReply], model: str | None
) -> None:
    """Its order and its scores are those of the hits, and `parts` and `explain` show them."""
    with ChatServer(answer) as server, Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many([*NOTES, "tea", "more tea for the tea party"])
        reranker = HttpReranker(f"{server.url}/rerank", model=model, api_key="secret")
        hits = ada.search("tea", limit=3, reranker=reranker)
        assert [hit.item.text for hit in hits] == ["tea", "Tea with milk.", "Tea and toast."]
        assert hits[0].score == pytest.approx(1 / len(f"{datetime.now(UTC):%Y-%m-%d}: tea"))
        assert "rerank" in hits.explain()
        assert hits.reranker_failure is None
        (asked,) = server.requests
        assert asked.path == "/v1/rerank"
        assert asked.headers["authorization"] == "Bearer secret"
        assert asked.body["query"] == "tea"
        assert asked.body.get("model") == model


@pytest.mark.parametrize(
    "reply",
    [
        ChatReply(status=401),
        ChatReply(status=503),
        ChatReply(body=b"no JSON"),
        ChatReply(body=b"[]"),
        ChatReply(body=b'{"results": [{"index": 0, "relevance_score": 1}]}'),
        ChatReply(body=b'{"results": 7}'),
        ChatReply(body=b'{"results": [{"index": 9, "relevance_score": NaN}]}'),
        ChatReply(cut_after=3),
    ],
)
def test_a_search_outlives_its_re_ranker(reply: ChatReply) -> None:
    """Without a usable answer hits stay in their own order, and say why."""
    with ChatServer([reply]) as server, Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many(NOTES)
        own = ada.search("tea and milk")
        reranker = HttpReranker(f"{server.url}/rerank", model="m")
        hits = ada.search("tea and milk", reranker=reranker)
        assert [(hit.item.id, hit.score) for hit in hits] == [(h.item.id, h.score) for h in own]
        assert all("rerank" not in hit.parts for hit in hits)
        assert hits.reranker_failure is not None
        assert "not re-ranked" in hits.explain()
        with pytest.raises(RerankerFailed):
            reranker.rerank("tea", ["a", "b"])


def test_a_server_of_tei_is_sent_no_more_texts_than_it_takes() -> None:
    """Which are 32 unless it was told otherwise; the scores of all parts stay in their order."""

    def strict(asked: ReceivedRequest) -> ChatReply:
        return tei(asked) if len(asked.body["texts"]) <= 32 else ChatReply(status=422)

    texts = ["x" * n for n in range(1, 71)]
    with ChatServer(strict) as server:
        assert HttpReranker(server.url).rerank("x", texts) == by_length(texts)
        assert [len(asked.body["texts"]) for asked in server.requests] == [32, 32, 6]
    with ChatServer(cohere) as server:
        assert HttpReranker(server.url, model="m").rerank("x", texts) == by_length(texts)
        assert len(server.requests) == 1


def test_a_busy_server_is_asked_again() -> None:
    """Up to four times; a key or a text is in no error."""
    answer = ChatReply(body=b'[{"index": 0, "score": 0.5}]')
    with ChatServer([ChatReply(status=429), ChatReply(status=500), answer]) as server:
        reranker = HttpReranker(server.url, api_key="hush")
        assert reranker.rerank("private", ["words"]) == [0.5]
        assert len(server.requests) == 3
    with pytest.raises(RerankerFailed, match="tried 4 times") as caught:
        reranker.rerank("private", ["words"])
    assert not {"hush", "private", "words"} & set(str(caught.value).split())


def test_a_chat_model_re_ranks() -> None:
    """It gives marks; what is no list of marks is asked for again."""
    model = ScriptedChat(['{"marks": [1, 2]}', '{"marks": [2, 9.5, 0]}'])
    assert ChatReranker(model).rerank("tea?", ["a", "b", "c"]) == [2.0, 9.5, 0.0]
    with pytest.raises(ModelAnswerInvalid, match="from 0 to 10"):
        ChatReranker(ScriptedChat(['{"marks": [11]}'] * 3)).rerank("tea?", ["a"])
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many(NOTES)
        reranker = ChatReranker(ScriptedChat(['{"marks": [1, 7]}']))
        hits = ada.search("tea", reranker=reranker)
        assert [hit.score for hit in hits] == [7.0, 1.0]
        failing = ada.search("tea", reranker=ChatReranker(ScriptedChat(["never"] * 3)))
        assert len(failing) == 2
        assert failing.reranker_failure is not None


class Backwards:
    """Gives each text a lower number than the one before it."""

    def __init__(self, *numbers: float) -> None:
        self.numbers, self.read = numbers, list[str]()

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.read = list(texts)
        return self.numbers or list(range(len(texts)))


class Counted(Backwards):
    """Says how many hits it wants to read."""

    def __init__(self, candidates: Any) -> None:
        super().__init__()
        self.candidates = candidates


class Failing:
    """Raises an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        raise self.error


def test_a_re_ranker_reads_more_than_is_asked_for() -> None:
    """Fifty hits, or as many as are asked for; only those that are returned count as read."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many([f"tea number {n}" for n in range(70)])
        reranker = Backwards()
        hits = ada.search("tea", limit=2, reranker=reranker)
        assert len(reranker.read) == 50
        assert [said(hit) for hit in hits] == reranker.read[:-3:-1]
        read = [item for item in ada.set("default").list(limit=100) if item.accessed]
        assert {item.id for item in read} == {hit.item.id for hit in hits}
        assert len(ada.search("tea", limit=60, reranker=Backwards())) == 60
        assert ada.search("nothing of it", reranker=Backwards()) == ()


@pytest.mark.parametrize("numbers", [(1.0,), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_what_is_no_number_for_each_text_is_a_failure(numbers: tuple[float, ...]) -> None:
    """The search stands."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many(NOTES)
        hits = ada.search("tea", reranker=Backwards(*numbers))
        assert len(hits) == 2
        assert "one number for each text" in (hits.reranker_failure or "")
        no_reranker: Any = "cohere"
        for call in (ada.search, ada.context, ada.conversation("c").search):
            wrongs: list[Any] = [no_reranker, 7, Backwards]
            for wrong in wrongs:
                with pytest.raises(InvalidInput, match="with a method rerank"):
                    call("tea", reranker=wrong)
        with pytest.raises(InvalidInput, match="with a method rerank"):
            Memory.open(reranker=no_reranker)


def said(hit: Hit) -> str:
    """Return the text of a hit as a re-ranker is given it."""
    assert hit.item.time is not None
    return f"{hit.item.time:%Y-%m-%d}: {hit.item.text}"


def test_parts_of_a_re_ranked_hit_add_up_to_its_score() -> None:
    """Those of the search stand as they were; "rerank" is what the re-ranker changed."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many(NOTES)
        first = {hit.item.id: hit for hit in ada.search("tea and milk")}
        hits = ada.search("tea and milk", reranker=Backwards(0.25, 0.75))
        assert [hit.score for hit in hits] == [0.75, 0.25]
        for hit in hits:
            own = first[hit.item.id]
            assert sum(hit.parts.values()) == pytest.approx(hit.score)
            assert hit.parts["rerank"] == pytest.approx(hit.score - own.score)
            assert {n: part for n, part in hit.parts.items() if n != "rerank"} == dict(own.parts)
        assert "words" in hits.explain()


def test_a_re_ranker_reads_who_said_it_and_when() -> None:
    """As a reader would see it: the speaker, else the role, and the day of the item."""
    day = datetime(2024, 5, 2, 23, 30, tzinfo=UTC)
    reranker = Backwards()
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add("I moved to Lisbon.", speaker="Ada", time=day)
        ada.conversation("chat").add(
            {"role": "user", "content": "Is Lisbon nice?", "timestamp": "2024-05-03T09:00:00Z"}
        )
        ada.search("Lisbon", reranker=reranker)
    assert sorted(reranker.read) == [
        "Ada, 2024-05-02: I moved to Lisbon.",
        "user, 2024-05-03: Is Lisbon nice?",
    ]


def test_a_memory_has_a_re_ranker_for_all_its_calls() -> None:
    """A call's own wins, and with None a call goes without; not so where nothing is passed."""
    default, other = Backwards(), Backwards()
    with Memory.open(embedder="words", reranker=default) as memory:
        ada = memory.key("ada")
        ada.add_many(NOTES)
        chat = ada.conversation("chat")
        chat.add([{"role": "user", "content": text} for text in NOTES])
        memory.knowledge.set("facts").add("Tea is a drink.")

        def searches(**given: Any) -> list[Callable[[], object]]:
            return [
                lambda: ada.search("tea", **given),
                lambda: ada.set("default").search("tea", **given),
                lambda: memory.knowledge.search("tea", **given),
                lambda: chat.search("tea", **given),
                lambda: ada.context("tea", **given),
                lambda: memory.context("tea", key="ada", **given),
            ]

        for search in searches():
            default.read, other.read = [], []
            search()
            assert default.read
            assert not other.read
        for search in searches(reranker=other):
            default.read, other.read = [], []
            search()
            assert other.read
            assert not default.read
        for search in searches(reranker=None):
            default.read, other.read = [], []
            search()
            assert not default.read
            assert not other.read
        with ada.batch() as batch:
            batch.add("Tea at four.")
            assert "Tea at four." in {hit.item.text for hit in batch.search("tea")}
            assert any(text.endswith("Tea at four.") for text in default.read)


def test_a_context_shows_what_its_re_ranker_prefers() -> None:
    """What a budget has room for is chosen in the re-ranker's order, and `why` shows its score."""
    with ChatServer(tei) as server, Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many([f"tea {'and tea ' * n}number {n}" for n in range(40)])
        reranker = HttpReranker(f"{server.url}/rerank")
        made = memory.context("tea", key="ada", budget_tokens=60, min_score=0, reranker=reranker)
        assert "tea number 0" in made.text
        (best,) = [piece for piece in made.why if piece.part == "items" and piece.rank == 1]
        assert best.text == "tea number 0"
        assert best.shown
        assert best.parts["rerank"]
        assert [len(asked.body["texts"]) for asked in server.requests] == [32, 8]


def test_a_context_outlives_its_re_ranker() -> None:
    """Its pieces stay in the search's order, and it says why."""
    with ChatServer([ChatReply(status=401)]) as server, Memory.open(embedder="words") as memory:
        memory.key("ada").add_many(NOTES)
        plain = memory.context("tea", key="ada")
        made = memory.context("tea", key="ada", reranker=HttpReranker(server.url))
        assert made.messages == plain.messages
        assert plain.reranker_failure is None
        assert "status 401" in (made.reranker_failure or "")
        assert "not re-ranked" in made.explain()


def test_the_command_line_re_ranks(tmp_path: Path) -> None:
    """By a server that is named by its address; where that fails, a note says so."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add_many(["tea with milk", "tea"])

    def ran(*words: str) -> Result:
        return CliRunner().invoke(alveus, [*words, "--db", str(path), "--key", "ada"])

    with ChatServer(cohere) as server:
        options = ["--reranker", f"{server.url}/rerank", "--reranker-model", "m"]
        found = json.loads(ran("search", "tea milk", "--json", *options).stdout)
        assert [hit["item"]["text"] for hit in found["hits"]] == ["tea", "tea with milk"]
        assert found["reranker_failure"] is None
        made = json.loads(ran("context", "tea milk", "--json", *options).stdout)
        assert [piece["rank"] for piece in made["why"] if piece["text"] == "tea"] == [1]
        assert {asked.body["model"] for asked in server.requests} == {"m"}
        assert len(server.requests) == 2
    with ChatServer([ChatReply(status=401)]) as server:
        failed = ran("search", "tea milk", "--reranker", server.url)
        assert failed.exit_code == 0
        assert "not re-ranked" in failed.stderr
        made = json.loads(ran("context", "tea", "--json", "--reranker", server.url).stdout)
        assert "status 401" in made["reranker_failure"]
    assert "--reranker URL" in ran("search", "tea", "--reranker-model", "m").stderr


def test_asyncio_re_ranks_as_well() -> None:
    """By the memory's re-ranker, by a call's own, or not at all."""

    async def searched() -> tuple[list[str], list[str], bool]:
        default, own = Backwards(), Backwards()
        async with await AsyncMemory.open(embedder="words", reranker=default) as memory:
            ada = await memory.key("ada")
            await ada.add_many(NOTES)
            await ada.conversation("chat").add({"role": "user", "content": "tea"})
            await ada.search("tea")
            read = default.read
            default.read = []
            await ada.conversation("chat").search("tea", reranker=own)
            await memory.context("tea", key="ada", reranker=own, min_score=0)
            await memory.context("tea", key="ada", reranker=None)
            return read, own.read, bool(default.read)

    read, own, again = asyncio.run(searched())
    assert len(read) == 3
    assert len(own) == 3
    assert not again


def test_a_re_ranker_says_how_many_hits_it_reads() -> None:
    """From 1 to 1,000, and never fewer than the search returns."""
    reranker, limited = Backwards(), Counted(7)
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many([f"tea number {n}" for n in range(70)])
        ada.search("tea", limit=2, reranker=limited)
        assert len(limited.read) == 7
        ada.search("tea", limit=9, reranker=limited)
        assert len(limited.read) == 9
        ada.search("tea", reranker=reranker)
        assert len(reranker.read) == 50
        for wrong in (0, 1_001, "50", True):
            with pytest.raises(InvalidInput, match="candidates of a re-ranker"):
                ada.search("tea", reranker=Counted(wrong))
    model = ScriptedChat([])
    assert ChatReranker(model, candidates=20).candidates == 20
    with pytest.raises(InvalidInput, match="from 1 to 1,000"):
        ChatReranker(model, candidates=0)
    with pytest.raises(InvalidInput, match="from 1 to 1,000"):
        HttpReranker("http://localhost", candidates=1_001)


@pytest.mark.parametrize(
    ("error", "survives"),
    [
        (OSError("the network is down"), True),
        (KeyError("results"), True),
        (RerankerFailed("no answer"), True),
        (ModelUnavailable("gpt", "it is busy"), True),
        (NameError("texs"), False),
        (TypeError("rerank() takes 2 arguments"), False),
        (InvalidInput("a key must be a str"), False),
        (StoreClosed("the store was closed"), False),
    ],
)
def test_a_search_outlives_faults_of_models_and_of_servers(
    error: Exception, survives: bool
) -> None:
    """A mistake in the code of a re-ranker, and an error of the store, is raised as it is."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many(NOTES)
        if survives:
            assert ada.search("tea", reranker=Failing(error)).reranker_failure
            return
        with pytest.raises(type(error)) as caught:
            ada.search("tea", reranker=Failing(error))
        assert caught.value is error


@pytest.mark.parametrize("url", ["localhost:80", "ftp://host/x", "", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """When it is made, not when it is asked."""
    with pytest.raises(InvalidInput, match="http or https"):
        HttpReranker(url)
    if url:
        with pytest.raises(InvalidInput, match="http or https"):
            OpenAIEmbedder("m", base_url=url)


def test_a_silent_server_is_asked_once() -> None:
    """Time runs for all tries together, also where an answer trickles in without an end."""
    trickle = ChatReply(body=b" " * 4096, drip_s=0.05)
    for slow in (ChatReply(delay_s=LIMIT_S), trickle):
        with ChatServer([slow]) as server:
            reranker = HttpReranker(server.url, timeout_s=SHORT_S)  # no answer ever ends in time
            with pytest.raises(RerankerFailed, match="did not answer within"):
                reranker.rerank("tea", ["a"])
            assert len(server.requests) <= 1  # on a slow machine it is too late even to be asked


@pytest.mark.parametrize("longest_s", [20.0, 9 * LIMIT_S])
def test_a_pause_that_is_too_long_is_not_waited_for(
    longest_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that asks to be left alone for longer than there is time has failed."""
    monkeypatch.setattr(http_json, "LONGEST_PAUSE_S", longest_s)
    busy = ChatReply(status=429, headers={"Retry-After": str(2 * LIMIT_S)})
    with ChatServer([busy]) as server:
        with pytest.raises(RerankerFailed, match="status 429"):
            HttpReranker(server.url, timeout_s=LIMIT_S).rerank("tea", ["a"])
        assert len(server.requests) == 1


def test_a_key_goes_to_its_server_alone() -> None:
    """A redirect is an error, so that no other host is sent the key."""
    with ChatServer() as other:
        moved = ChatReply(status=302, headers={"Location": f"{other.url}/elsewhere"})
        with ChatServer([moved]) as server, pytest.raises(RerankerFailed, match="status 302"):
            HttpReranker(server.url, api_key="secret").rerank("tea", ["a"])
        assert other.requests == ()
        assert other.connections == 0


@pytest.mark.parametrize("key", ["sk-hidden\n", "sk hidden", "sk-hidd\u00e9n", "sk-hidden\r\nX: y"])
def test_a_key_that_cannot_be_sent_is_in_no_message(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A key with an end of line is a common slip; hits, errors and logs do not repeat it."""
    with ChatServer() as server, Memory.open(embedder="words") as memory:
        memory.key("ada").add_many(NOTES)
        hits = memory.key("ada").search("tea", reranker=HttpReranker(server.url, api_key=key))
        assert "HTTP headers cannot hold" in (hits.reranker_failure or "")
        with pytest.raises(EmbedderFailed, match="HTTP headers cannot hold") as caught:
            OpenAIEmbedder("m", base_url=server.url, api_key=key, dimensions=3).embed(["tea"])
        assert server.requests == ()
    for said in (caplog.text, hits.explain(), str(caught.value), repr(caught.value.__cause__)):
        assert "hidd" not in said


# --- embedders --------------------------------------------------------------------------------


def vectors(asked: ReceivedRequest) -> ChatReply:
    """Answer as an embeddings server does, in another order than asked: counts of letters."""
    size = asked.body.get("dimensions", 26)
    entries = [
        {"index": at, "embedding": [text.lower().count(chr(97 + i)) + 0.1 for i in range(size)]}
        for at, text in enumerate(asked.body["input"])
    ]
    return ChatReply(body=json.dumps({"data": entries[::-1]}).encode())


def test_a_server_embeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """By name or as an object; stored, searched and remembered as any embedder."""
    with ChatServer(vectors) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        path = tmp_path / "app.db"
        with Memory.open(path, embedder="openai:letters") as memory:
            ada = memory.key("ada")
            ada.add_many(["zigzag", "banana", "   "])
            memory.settle()
            assert ada.search("zzz")[0].item.text == "zigzag"
            assert ada.search("zzz", min_score=0)[0].relevance is not None
        assert {asked.path for asked in server.requests} == {"/v1/embeddings"}
        assert {asked.body["model"] for asked in server.requests} == {"letters"}
        assert server.requests[0].headers["authorization"] == "Bearer secret"
        assert all(text.strip() for asked in server.requests for text in asked.body["input"])
        with pytest.raises(EmbedderConflict):
            Memory.open(path, embedder=OpenAIEmbedder("others"))
        with Memory.open(path) as memory:  # the name is remembered
            assert memory.key("ada").search("zzz")[0].item.text == "zigzag"


def test_questions_have_a_prefix_of_their_own() -> None:
    """And so have texts, which is a part of the embedder's name."""
    with ChatServer(vectors) as server:
        embedder = OpenAIEmbedder(
            "e5",
            base_url=server.url,
            dimensions=26,
            query_prefix="query: ",
            text_prefix="passage: ",
        )
        assert isinstance(embedder, QueryEmbedder)
        assert embedder.name == "openai:e5@26 'passage: '"
        with Memory.open(embedder=embedder) as memory:
            ada = memory.key("ada")
            ada.add("banana")
            memory.settle()
            ada.search("fruit")
        assert [asked.body["input"] for asked in server.requests] == [
            ["passage: banana"],
            ["query: fruit"],
        ]
        assert server.requests[0].body["dimensions"] == 26


def test_many_texts_are_sent_in_parts() -> None:
    """In their order, each with its own row."""
    with ChatServer(vectors) as server:
        embedder = OpenAIEmbedder("letters", base_url=server.url)
        texts = [chr(97 + n % 26) * 3 for n in range(300)]
        rows = embedder.embed(texts)
        assert rows.argmax(axis=1).tolist() == [n % 26 for n in range(300)]
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(300), abs=1e-5)
        assert [len(asked.body["input"]) for asked in server.requests] == [1, 128, 128, 44]


@pytest.mark.parametrize(
    "reply",
    [
        ChatReply(status=401),
        ChatReply(body=b"{}"),
        ChatReply(body=b'{"data": []}'),
        ChatReply(body=b'{"data": [{"index": 1, "embedding": [1.0]}]}'),
        ChatReply(body=b'{"data": [{"index": 0, "embedding": [NaN]}]}'),
        ChatReply(body=b'{"data": [{"index": 0, "embedding": [1.0, 2.0]}]}'),
        ChatReply(body=b'{"data": [{"index": 0, "embedding": ["x"]}]}'),
    ],
)
def test_wrong_vectors_are_refused(reply: ChatReply) -> None:
    """Nothing wrong is stored: the item waits for its vector, and is found by its words."""
    with ChatServer([reply]) as server:
        embedder = OpenAIEmbedder("m", base_url=server.url, dimensions=3)
        with pytest.raises(EmbedderFailed, match="openai:m"):
            embedder.embed(["tea"])


def only_up_to(characters: int, status: int) -> Answer:
    """Answer as servers do that take so much in a text, and four times as much in a request."""

    def answer(asked: ReceivedRequest) -> ChatReply:
        lengths = [len(text) for text in asked.body["input"]]
        if max(lengths) > characters or sum(lengths) > 4 * characters:
            return ChatReply(status=status, error={"code": "context_length_exceeded"})
        return vectors(asked)

    return answer


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_that_is_too_long_for_the_model_harms_no_other(status: int) -> None:
    """Of it the beginning has a vector; nothing waits, and searches go on."""
    with ChatServer(only_up_to(500, status)) as server:
        embedder = OpenAIEmbedder("letters", base_url=server.url)
        with Memory.open(embedder=embedder) as memory:
            ada = memory.key("ada")
            ada.add_many([*NOTES, "zigzag " * 300, *["filler " * 60 for _ in range(9)]])
            assert memory.settle()
            hits = ada.search("zzz")
            assert hits[0].item.text is not None
            assert hits[0].item.text.startswith("zigzag")
            assert not hits.partial


def test_a_server_that_refuses_everything_is_not_asked_for_long() -> None:
    """Another reason than length ends soon, with the server's answer."""
    with ChatServer([ChatReply(status=400)]) as server:
        embedder = OpenAIEmbedder("m", base_url=server.url, dimensions=3)
        with pytest.raises(EmbedderFailed, match="status 400"):
            embedder.embed(["tea " * 5_000] * 64)
        assert len(server.requests) < 20


def test_a_name_tells_how_an_embedder_was_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Opened by the name that is remembered, it is the same, or it is refused."""
    with ChatServer(vectors) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        path = tmp_path / "fewer.db"
        for embedder in (OpenAIEmbedder("letters", dimensions=13), None):
            with Memory.open(path, embedder=embedder) as memory:
                memory.key("ada").add("zigzag")
                memory.settle()
                memory.key("ada").search("zzz")
                assert memory.embedder.dimensions == 13
        bodies = {(asked.body["model"], asked.body["dimensions"]) for asked in server.requests}
        assert bodies == {("letters", 13)}
    for name in ("openai:a 'passage", "openai:a 'x' + 'y'"):
        with pytest.raises(InvalidInput, match=r"OpenAIEmbedder\('a', text_prefix"):
            open_embedder(name)
    assert open_embedder("openai:gecko@003").name == "openai:gecko@003"


def asked_by_a_search(memory: Memory, server: ChatServer) -> list[list[str]]:
    """Return what the server was asked for: a text, and a question that nobody asked before."""
    before = len(server.requests)
    memory.key("ada").add("banana")
    memory.settle()
    memory.key("ada").search("fruit")
    return [asked.body["input"] for asked in server.requests[before:]]


def test_a_memory_remembers_the_prefixes_of_its_embedder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Opened by name, or by none, it puts before texts and questions what it put there before."""
    path = tmp_path / "app.db"
    with ChatServer(vectors) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        for n, (text_prefix, query_prefix) in enumerate(
            [("passage: ", "query: "), ("it's ", '"so" asked: '), ("", "Represent: "), ("", "")]
        ):
            space = f"space {n}"
            made = OpenAIEmbedder(
                "a@003", dimensions=26, text_prefix=text_prefix, query_prefix=query_prefix
            )
            expected = [[f"{text_prefix}banana"], [f"{query_prefix}fruit"]]
            for embedder in (made, None, made.name):
                with Memory.open(path, space=space, embedder=embedder) as memory:
                    assert asked_by_a_search(memory, server) == expected
                    assert memory.embedder.name == made.name
            with Memory.open(path, space=space, mode="ro") as memory:
                memory.key("ada").search("apple")
                assert server.requests[-1].body["input"] == [f"{query_prefix}apple"]


def test_a_prefix_of_questions_can_be_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """It is that of the last embedder that was passed, and vectors of texts stay."""
    path = tmp_path / "app.db"
    with ChatServer(vectors) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        for prefix in ("query: ", "ask: ", ""):
            embedder = OpenAIEmbedder("m", query_prefix=prefix)
            Memory.open(path, space="one", knowledge="shared", embedder=embedder).close()
            with Memory.open(path, space="one", knowledge="shared") as memory:
                assert asked_by_a_search(memory, server)[-1] == [f"{prefix}fruit"]
        shared = OpenAIEmbedder("m", query_prefix="for all: ")
        Memory.open(path, space="one", knowledge="shared", embedder=shared).close()
        with Memory.open(path, space="two", knowledge="shared") as memory:  # known by knowledge
            assert asked_by_a_search(memory, server)[-1] == ["for all: fruit"]
        other = OpenAIEmbedder("n", query_prefix="new: ")
        Memory.reindex(path, space="one", knowledge="one's", embedder=other)
        with Memory.open(path, space="one", knowledge="one's") as memory:
            assert asked_by_a_search(memory, server)[-1] == ["new: fruit"]
        Memory.reindex(path, space="one", knowledge="one's", embedder="words")
        with Memory.open(path, space="one", knowledge="one's") as memory:
            assert memory.embedder.name == "words"


def test_names_say_which_there_are() -> None:
    """What is no embedder, and what is not installed, is said when it is opened."""
    for name in ("openai", "openai:", "cohere:x", ""):
        with pytest.raises(InvalidInput, match=r"openai:MODEL, sentence-transformers:MODEL"):
            open_embedder(name)
    for kind in ("sentence-transformers", "fastembed"):
        with pytest.raises(EmbedderMissing, match=f"pip install {kind}"):
            open_embedder(f"{kind}:some/model")

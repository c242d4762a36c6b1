"""Servers of models that fail in an answer of status 200 are as those that fail by a status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from alveus import Memory, OpenAIChat
from alveus.errors import ModelAnswerInvalid, ModelRefused, ModelUnavailable
from alveus.facts import LearnOptions
from alveus.llm import Asking, HttpReranker
from alveus.testing import ChatReply, ChatServer
from alveus.testing.chat_server import ReceivedRequest
from alveus.values import http_json
from alveus.values.http_json import failure_of, reported_failure
from alveus.values.retries import Retry
from facts_script import answer
from waiting import LIMIT_S

SAID = [{"role": "user", "content": "Where does Ada live?"}]
KEY = "sk-never-to-be-seen"


class Down(NamedTuple):
    """What a server answers while it cannot answer."""

    server: str
    body: object
    kind: str = "application/json"


def choice(**fields: Any) -> dict[str, Any]:
    """Return a body with one choice."""
    return {"id": "x", "object": "chat.completion", "choices": [{"index": 0, **fields}]}


HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
RATE = {"message": f"Provider returned error {KEY}", "code": 429, "metadata": {"raw": "busy"}}

DOWN = [
    Down("OpenRouter, rate limit", {"error": RATE, "user_id": "u"}),
    Down("OpenRouter, upstream", {"error": {"code": 502, "message": "upstream"}}),
    Down("OpenRouter, no provider", {"error": {"code": 503, "message": "no provider"}}),
    Down("OpenRouter, time", {"error": {"code": "408", "message": "timed out"}}),
    Down("OpenRouter, in the choice",
         choice(error=RATE, message={"content": ""}, finish_reason="error")),
    Down("OpenRouter, half an answer",
         choice(message={"content": '{"facts": ['}, finish_reason="error")),
    Down("OpenRouter, warming up", choice(message={"content": ""}, finish_reason=None)),
    Down("9Router, NVIDIA", {"id": None, "choices": None, "usage": None}),
    Down("LiteLLM", {"choices": []}),
    Down("OpenAI, by its code", {"error": {"type": "server_error", "code": None, "param": None}}),
    Down("Anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
    Down("Google", [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0s"}]}}]),
    Down("Mistral", {"object": "error", "message": "Rate limit", "type": "rate_limit_error"}),
    Down("MiniMax", {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate"}}),
    Down("Baidu", {"error_code": 18, "error_msg": "Open api qps request limit reached"}),
    Down("DeepSeek", choice(
        message={"content": "Ada"}, finish_reason="insufficient_system_resource")),
    Down("Zhipu", choice(message={"content": "Ada"}, finish_reason="network_error")),
    Down("vLLM", choice(message={"content": "Ada"}, finish_reason="abort")),
    Down("SGLang", choice(message={"content": "Ada"},
                          finish_reason={"type": "abort", "message": "gone"})),
    Down("LM Studio", choice(message={"content": "Ada"}, finish_reason="failed")),
    Down("LM Studio, unloading", choice(message={"content": ""}, finish_reason="modelUnloaded")),
    Down("Cohere", choice(message={"content": "Ada"}, finish_reason="USER_CANCEL")),
    Down("Moonshot", choice(message={"content": ""}, finish_reason="engine_overloaded")),
    Down("a gateway, in the message", choice(
        message={"content": "", "error": {"code": 502, "message": "x"}}, finish_reason="stop")),
    Down("vLLM, in a body", {"object": "error", "message": "gone", "type": "InternalServerError",
                             "param": None, "code": 500}),
    Down("Ollama", {"error": "model runner has unexpectedly stopped"}),
    Down("Ollama, loading", choice(message={"content": ""}, finish_reason="load")),
    Down("llama.cpp", {"error": {"code": 503, "message": "Loading", "type": "unavailable_error"}}),
    Down("TGI", {"error": "Model is overloaded", "error_type": "overloaded"}),
    Down("FastAPI", {"detail": "Service temporarily unavailable"}),
    Down("a gateway", {"message": "Too many requests", "code": "too_many_requests"}),
    Down("a gateway, numbers", {"code": 503, "message": "upstream connect error", "data": None}),
    Down("Cloudflare", {"success": False, "errors": [{"code": 7009, "message": "Upstream"}]}),
    Down("Apigee", {"fault": {"faultstring": "x", "detail": {"errorcode": "timeout"}}}),
    Down("nginx", HTML, "text/html"),
    Down("nginx, called JSON", HTML),
    Down("a captive portal", HTML, "text/html; charset=utf-8"),
    Down("a load balancer", ""),
    Down("a load balancer, blank", "\n", "text/plain"),
    Down("a proxy that cuts", '{"id": "x", "choices": [{"index": 0, "mess'),
    Down("plain text", "upstream request timeout", "text/plain"),
    Down("JSON null", None),
    Down("an object", {}),
]  # fmt: skip


def replied(down: Down) -> ChatReply:
    body = down.body if isinstance(down.body, str) else json.dumps(down.body)
    return ChatReply(body=body.encode(), kind=down.kind)


class Served:
    """A server whose replies are given one after the other, and then by the script of facts."""

    def __init__(self) -> None:
        self.replies: list[ChatReply] = []
        self.asked = 0
        self.server = ChatServer(self._reply)
        self.url = self.server.url

    def _reply(self, request: ReceivedRequest) -> str | ChatReply:
        self.asked += 1
        if self.replies:
            return self.replies.pop(0)
        return answer(request.body["messages"])

    def client(self, attempts: int = 1) -> OpenAIChat:
        """Return a client that makes so many tries."""
        retry = Retry(attempts=attempts, wait_s=0.001)
        return OpenAIChat("small", base_url=self.url, api_key=KEY, timeout_s=LIMIT_S, retry=retry)


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Served, OpenAIChat, OpenAIChat]]:
    """The server, a client that asks once, and a patient one."""
    served = Served()
    with served.client() as once, served.client(attempts=4) as patient:
        yield served, once, patient
    served.server.close()


@pytest.fixture
def served(opened: tuple[Served, OpenAIChat, OpenAIChat]) -> Served:
    """The server, which has been asked nothing."""
    opened[0].replies.clear()
    opened[0].asked = 0
    return opened[0]


@pytest.fixture
def once(opened: tuple[Served, OpenAIChat, OpenAIChat]) -> OpenAIChat:
    """A client that asks once."""
    return opened[1]


@pytest.fixture
def patient(opened: tuple[Served, OpenAIChat, OpenAIChat]) -> OpenAIChat:
    """A client that asks four times."""
    return opened[2]


@pytest.mark.parametrize("down", DOWN, ids=[down.server for down in DOWN])
def test_messages_are_learnt_once_the_server_is_back(
    served: Served, once: OpenAIChat, patient: OpenAIChat, down: Down
) -> None:
    """A server that says with status 200 that it is away costs no message a try."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        talk = ada.conversation("chat")
        talk.add({"role": "user", "content": "Ada lives in Porto."})
        served.replies[:] = [replied(down)] * 4
        for _ in range(4):  # one more than after which messages would be set aside
            with pytest.raises(ModelUnavailable) as raised:
                ada.learn(talk, model=once)
            assert KEY not in str(raised.value)
        served.replies[:] = [replied(down)] * 3
        report = ada.learn(talk, model=patient)
        assert [fact.text for fact in report.added] == ["Ada lives in Porto."]
        assert (report.set_aside, report.messages, report.model_calls) == (0, 1, 1)
        assert served.asked == 8


@pytest.mark.parametrize("down", DOWN, ids=[down.server for down in DOWN])
def test_a_stream_is_asked_for_again(served: Served, patient: OpenAIChat, down: Down) -> None:
    """A stream that never began is tried again, whatever came in its place."""
    served.replies[:] = [replied(down)] * 3 + [ChatReply("It is back.")]
    assert "".join(patient.stream(SAID)) == "It is back."


EVENTS = [
    'data: {"error": {"code": 502}, "choices": [{"delta": {}, "finish_reason": "error"}]}',
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}',
    'data: {"choices": [{"index": 0, "delta": {}, "error": {"message": "gone"}}]}',
    'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}',
    'error: {"code": 500, "message": "slot", "type": "server_error"}',
    'data: {"message": "upstream lost", "code": 503}',
    'data: {"object": "error", "message": "gone", "type": "InternalServerError", "code": 500}',
    'data: {"error": "model runner stopped"}',
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]}',
    'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "upstream_timed_out"}]}',
    'data: {"choices": [{"index": 0, "delta": {"error": {"code": 502}}}]}',
    "data: upstream connect error",
    "data: <html>",
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_error_in_the_middle_of_a_stream_is_no_end(
    served: Served, patient: OpenAIChat, event: str
) -> None:
    """Before the first piece it is tried again; after it the pieces stand, and the error comes."""
    said = 'data: {"choices": [{"index": 0, "delta": {"content": "Well, "}}]}\n\n'
    done = "data: [DONE]\n\n"
    kind = "text/event-stream"
    first = ChatReply(body=f"{event}\n\n{done}".encode(), kind=kind)
    served.replies[:] = [first, first, ChatReply("It is back.")]
    assert "".join(patient.stream(SAID)) == "It is back."
    later = ChatReply(body=f"{said}{event}\n\n{done}".encode(), kind=kind)
    served.replies[:] = [later]
    heard: list[str] = []
    with pytest.raises(ModelUnavailable):
        heard.extend(patient.stream(SAID))
    assert heard == ["Well, "]
    assert served.asked == 4


class Final(NamedTuple):
    """A failure that will not pass, and the status that it stands for."""

    status: int
    error: dict[str, object]
    says: str


FINAL = [
    Final(401, {"code": 401, "message": "No auth credentials found"}, "OPENAI_API_KEY"),
    Final(401, {"type": "authentication_error", "message": "invalid x-api-key"}, "OPENAI_API_KEY"),
    Final(401, {"code": "invalid_api_key", "type": "invalid_request_error"}, "OPENAI_API_KEY"),
    Final(402, {"code": 402, "message": "Insufficient credits"}, "check the model"),
    Final(402, {"type": "insufficient_quota", "code": "insufficient_quota"}, "no quota left"),
    Final(403, {"code": 403, "status": "PERMISSION_DENIED"}, "rights"),
    Final(404, {"code": 404, "message": "No endpoints found for x"}, "model="),
    Final(404, {"code": "model_not_found"}, "model="),
    Final(400, {"code": "context_length_exceeded", "type": "invalid_request_error"}, "context_l"),
    Final(400, {"code": 400, "message": "maximum context length"}, "400"),
    Final(400, {"code": "content_policy_violation"}, "content_policy_violation"),
    Final(413, {"code": 413}, "less text"),
    Final(422, {"code": 422}, "dialect"),
]


@pytest.mark.parametrize("final", FINAL, ids=[str(one.error) for one in FINAL])
def test_a_refusal_of_status_200_is_as_one_by_its_status(
    served: Served, patient: OpenAIChat, final: Final
) -> None:
    """A wrong key, an unknown model or a text too long is told at once, and is not tried again."""
    by_status = ChatReply(status=final.status, error=final.error)
    for reply in (ChatReply(error=final.error), by_status):
        for ask in (patient.complete, lambda said: list(patient.stream(said))):
            served.replies[:] = [reply]
            served.asked = 0
            with pytest.raises(ModelRefused, match=final.says) as raised:
                ask(SAID)
            assert raised.value.status == final.status
            assert served.asked == 1


@pytest.mark.parametrize(("code", "set_aside"), [(400, 1), (413, 1), (401, 0), (402, 0), (404, 0)])
def test_what_counts_against_messages_is_as_by_status(
    served: Served, once: OpenAIChat, code: int, set_aside: int
) -> None:
    """A text too long is set aside in the end; a wrong key or model costs no message a try."""
    for reply in (ChatReply(error={"code": code}), ChatReply(status=code)):
        with Memory.open(embedder="words") as memory:
            ada = memory.key("ada")
            talk = ada.conversation("chat")
            talk.add({"role": "user", "content": "Ada lives in Porto."})
            served.replies[:] = [reply] * 3
            for _ in range(2 if set_aside else 3):
                with pytest.raises(ModelRefused):
                    ada.learn(talk, model=once)
            report = ada.learn(talk, model=once)
            assert (report.set_aside, report.messages) == (set_aside, 1 - set_aside)


@pytest.mark.parametrize(
    ("report", "asked_s"),
    [
        ({"error": {"code": 429, "metadata": {"headers": {"Retry-After": "7"}}}}, 7.0),
        ({"error": {"code": 429, "retry_after": 2.5}}, 2.5),
        ({"error": {"code": 429, "retry_after_ms": 250}}, 0.25),
        ({"error": {"code": 429, "details": [{"retryDelay": "34.5s"}]}}, 34.5),
        ({"error": {"message": "Rate limit. Please try again in 7.66s. Visit …"}}, 7.66),
        ({"error": {"message": "Please try again in 120ms."}}, 0.12),
        ({"error": {"message": "Please try again in 1m30s."}}, 90.0),
        ({"error": {"message": "Please retry after 20 seconds."}}, 20.0),
        ({"error": {"message": "try again in 2h5m"}}, 7500.0),
        ({"message": "rate limited", "retry_after": -3}, 0.0),
        ({"error": {"retry_after": float("nan"), "message": "soon"}}, None),
        ({"error": {"retry_after": True, "message": "try again in a moment"}}, None),
        ({"error": {"retry_after": "9" * 400}}, float("inf")),
    ],
)
def test_how_long_to_wait_may_stand_in_a_body(report: object, asked_s: float | None) -> None:
    """Google, Groq, OpenAI and OpenRouter say so there."""
    found = reported_failure(report)
    assert found is not None
    assert found.retry_after_s == asked_s


def test_a_wait_that_is_asked_for_in_a_body_is_kept_and_bounded(served: Served) -> None:
    """It is waited for up to `most_s`; a longer one is told to the caller at once."""
    bounded = Retry(attempts=3, wait_s=0.001, most_s=0.5)
    chat = OpenAIChat("small", base_url=served.url, api_key=KEY, timeout_s=LIMIT_S, retry=bounded)
    with chat:
        served.replies[:] = [ChatReply(error={"code": 429, "retry_after_ms": 20})]
        assert chat.complete(SAID_FACTS)
        for wait in (3600, "1e999"):
            served.replies[:] = [ChatReply(error={"code": 429, "retry_after": wait})]
            served.asked = 0
            with pytest.raises(ModelUnavailable, match="left alone") as raised:
                chat.complete(SAID)
            assert raised.value.retry_after_s == float(wait)
            assert served.asked == 1
        headers = {"Retry-After": "3600"}
        served.replies[:] = [ChatReply(error={"code": 429}, headers=headers)]
        with pytest.raises(ModelUnavailable) as raised:
            chat.complete(SAID)
        assert (raised.value.retry_after_s, raised.value.status) == (3600, 429)


SAID_FACTS = [{"role": "user", "content": json.dumps({"messages": []})}]


@pytest.mark.parametrize(
    "body",
    [
        choice(message={"content": "ok"}, finish_reason="stop") | {"error": None},
        choice(message={"content": "ok"}, finish_reason="stop") | {"error": {"code": None}},
        choice(message={"content": "ok"}, finish_reason="stop") | {"base_resp": {"status_code": 0}},
        choice(message={"content": "ok"}, finish_reason="eos_token") | {"code": 0, "message": "ok"},
        choice(message={"content": "ok"}, finish_reason=None),
    ],
)
def test_an_answer_that_reports_no_failure_is_one(
    served: Served, once: OpenAIChat, body: object
) -> None:
    """A field for errors that is empty, and a zero where codes are, are no failure."""
    served.replies[:] = [ChatReply(body=json.dumps(body).encode())]
    assert once.complete(SAID) == "ok"


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [], "prompt_filter_results": [{"content_filter_results": {
            "hate": {"filtered": True, "severity": "high"}}}]},
        {"choices": [], "promptFeedback": {"blockReason": "SAFETY"}},
    ],
)  # fmt: skip
def test_a_filtered_request_is_a_refusal(served: Served, once: OpenAIChat, body: object) -> None:
    """Azure and Google say so without a choice."""
    served.replies[:] = [ChatReply(body=json.dumps(body).encode())]
    with pytest.raises(ModelRefused, match="content filter"):
        once.complete(SAID)


def test_a_bad_answer_still_counts(served: Served, once: OpenAIChat) -> None:
    """What the model says is its answer, and three bad ones set messages aside as before."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        talk = ada.conversation("chat")
        talk.add({"role": "user", "content": "Ada lives in Porto."})
        served.replies[:] = [ChatReply("I cannot help.")] * 3
        options = LearnOptions(asking=Asking(attempts=1))
        for _ in range(2):
            with pytest.raises(ModelAnswerInvalid):
                ada.learn(talk, model=once, options=options)
        assert ada.learn(talk, model=once, options=options).set_aside == 1


@pytest.mark.parametrize("report", [3, "x", [], [1], None, {"error": [[[[[[[[{}]]]]]]]]}])
def test_a_report_may_be_anything(report: object) -> None:
    """What a server sends as a failure is read without trust."""
    assert failure_of(report).may_pass
    assert isinstance(failure_of(report).code, str)


# --- re-rankers and embedders -------------------------------------------------------------------


@pytest.mark.parametrize(
    "down",
    [down for down in DOWN if down.body and "choices" not in str(down.body)],
    ids=lambda down: down.server,
)
def test_other_servers_are_asked_again_too(monkeypatch: pytest.MonkeyPatch, down: Down) -> None:
    """Servers of re-rankers and embedders report in answers of status 200 as well."""
    monkeypatch.setattr(http_json, "FIRST_PAUSE_S", 0.0)
    scores = json.dumps({"results": [{"index": 0, "relevance_score": 0.5}]}).encode()
    with ChatServer([replied(down), replied(down), ChatReply(body=scores)]) as server:
        reranker = HttpReranker(f"{server.url}/rerank", model="m", api_key=KEY)
        assert reranker.rerank("where?", ["Lisbon"]) == [0.5]
        assert len(server.requests) == 3

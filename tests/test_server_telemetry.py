"""What a server tells OpenTelemetry of its requests."""

from __future__ import annotations

import pytest
from opentelemetry.trace import SpanKind

from test_server import Broken, ServedHere
from test_telemetry import Emitted, attributes_of, id_of, parent_of
from waiting import wait_until

CANARY = "zzcanary"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
REQUESTS = 5


@pytest.fixture
def emitted(tmp_path):
    """What was emitted of a few requests, one of which belongs to a trace of its client."""
    told = Emitted()
    served = ServedHere(tmp_path, telemetry=told.telemetry)
    try:
        client = served.client()
        place = {"key": CANARY, "set": CANARY}
        body = {"items": [{"value": CANARY, "id": CANARY}]}
        traced = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        assert client.ask("POST", "/v1/items", body, traced, **place)[0] == 201
        torn = {"traceparent": "torn"}
        assert client.ask("POST", "/v1/search", {"query": CANARY}, torn, key=CANARY)[0] == 200
        assert client.ask("GET", "/v1/item", id="gone", **place)[0] == 404
        assert client.ask("GET", f"/{CANARY}")[0] == 404
        assert client.ask("ODD", "/v1/item")[0] == 405
        wait_until(lambda: len(told.spans("alveus.request")) == REQUESTS)
    finally:
        served.stop()
    return told


def test_a_request_is_a_span_with_what_the_memory_did_in_it(emitted):
    """By method, route and status, and a child of the client's span where it names one."""
    told = [attributes_of(span) for span in emitted.spans("alveus.request")]
    assert [
        (each["http.request.method"], each.get("http.route"), each["http.response.status_code"])
        for each in told[:4]
    ] == [
        ("POST", "/v1/items", 201),
        ("POST", "/v1/search", 200),
        ("GET", "/v1/item", 404),
        ("GET", None, 404),
    ]
    assert told[4]["http.request.method"] == "_OTHER"
    added, searched, *_ = emitted.spans("alveus.request")
    assert added.kind == SpanKind.SERVER
    assert (added.context.trace_id, parent_of(added)) == (int(TRACE, 16), int(SPAN, 16))
    assert parent_of(searched) is None
    assert parent_of(emitted.span("alveus.search")) == id_of(searched)
    assert id_of(added) in {parent_of(span) for span in emitted.spans("alveus.commit")}
    assert emitted.value("http.server.request.duration") == REQUESTS


def test_no_name_and_no_text_of_a_request_is_exported(emitted):
    assert CANARY not in emitted.text()


def test_a_request_that_failed_unexpectedly_is_an_error(tmp_path):
    """Its span says so, as it does where no answer came."""
    told = Emitted()
    served = Broken(tmp_path, telemetry=told.telemetry)
    try:
        assert served.ask("GET", "/v1/keys")[0] == 500
        wait_until(lambda: told.spans("alveus.request"))
    finally:
        served.stop()
    assert attributes_of(told.span("alveus.request"))["error.type"] == "InternalError"

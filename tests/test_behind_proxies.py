"""The server behind proxies: addresses, schemes and hosts, pages of other origins, weak ETags."""

from __future__ import annotations

import http.client
import json
import re
from contextlib import contextmanager
from ipaddress import ip_network

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from alveus import Memory
from alveus.errors import InvalidInput
from alveus.server.mcp.http import create_mcp_app
from alveus.server.mcp.served_key import Asker, ServedKey
from alveus.server.middleware import MAY_SEND, TrustedProxies, origins_of
from alveus.server.tokens import TokenFile
from test_mcp import HELLO, running
from test_server import ServedHere, serving
from waiting import LIMIT_S

HOST = "memory.example:8443"
PAGE = "https://app.example"


@contextmanager
def answer_of(port, method, path, body=None, **headers):
    """Ask as a proxy does, which knows the server by another name; the body may be a stream."""
    given = {"Host": HOST, "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    text = None if body is None else json.dumps(body).encode()
    connection.putrequest(method, path, skip_host=True)
    for name, value in given.items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(text or b"")))
    connection.endheaders(text)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def told(port, method, path, body=None, **headers):
    """Return status, headers and text of an answer; of a stream no text."""
    with answer_of(port, method, path, body, **headers) as answer:
        stream = answer.headers.get_content_type() == "text/event-stream"
        return answer.status, dict(answer.headers), "" if stream else answer.read().decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with tokens; the token of who may do everything."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = TokenFile(folder / "tokens.json")
    admin = tokens.add("admin", access="admin", space=None, keys="")
    made = ServedHere(folder, tokens=tokens)
    yield made, {"Authorization": f"Bearer {admin}"}
    made.stop()


def every_address(app):
    """Yield method and address of each route, with a name that nothing has where one stands."""
    for route in app.routes:
        if isinstance(route, (APIRoute, Route)):
            path = re.sub(r"\{(\w+)(:path)?\}", "none", route.path)
            yield from ((method, path) for method in sorted(route.methods or ()))


def test_a_slash_at_the_end_of_an_address_changes_nothing(guarded):
    """Of every address, with a token and without: no answer leads to another scheme or host."""
    served, token = guarded
    addresses = sorted({*every_address(served.app), ("OPTIONS", "/v1/items"), ("BREW", "/v1/x")})
    assert len(addresses) > 80
    served_at = [(method, path.rstrip("/")) for method, path in every_address(served.app)]
    assert len(served_at) == len({*served_at})  # no two differ by the slash alone
    unlike = {"/ui", "/metrics"}  # a browser needs the slash for names beside it; counters count
    for method, path in addresses:
        for headers in ({}, token):
            found = [told(served.port, method, f"{path}{end}", **headers) for end in ("", "/")]
            texts = [re.sub(r"[0-9a-f]{12,}", "", text) for _, _, text in found]
            assert found[0][0] == found[1][0] or path == "/ui", (method, path, found)
            assert texts[0] == texts[1] or path in unlike, (method, path)
            for status, sent, text in found:
                assert status not in (301, 302, 303, 307, 308) or sent["location"] == "ui/"
                assert HOST not in f"{sent}{text}"
                assert f"127.0.0.1:{served.port}" not in f"{sent}{text}"


def test_a_name_may_end_with_a_slash(guarded):
    """One that is percent-encoded stays, as does one before the last; no address is a redirect."""
    served, token = guarded
    for path, status in (
        ("/v1/items//", 404),
        ("//v1/items", 404),
        ("/v1//items", 404),
        ("/v1/items%2F", 404),
        ("/health/", 200),
        ("/openapi.json/", 200),
        ("/ui/", 200),
    ):
        assert told(served.port, "GET", path, **token)[0] == status, path
    for name in ("ada/", "b/a"):
        body = {"messages": [{"role": "user", "content": "Tea."}], "user_id": name, "infer": False}
        assert told(served.port, "POST", "/v3/memories/add", body, **token)[0] == 200
        kept = [each["name"] for each in entities(served, token)]
        assert name in kept
        assert told(served.port, "DELETE", f"/v2/entities/user/{name}/", **token)[0] == 200
    assert entities(served, token) == []


def entities(served, token):
    """Return whose memories there are."""
    return json.loads(told(served.port, "GET", "/v1/entities", **token)[2])["results"]


def test_a_page_of_a_list_names_no_scheme_and_no_host(guarded):
    """The next page of mem0's lists is an address alone: behind TLS it was one of http."""
    served, token = guarded
    said = [{"role": "user", "content": text} for text in ("Tea.", "Milk.")]
    new = {"messages": said, "user_id": "ada", "infer": False}
    assert told(served.port, "POST", "/v3/memories/add/", new, **token)[0] == 200
    filters = {"filters": {"user_id": "ada"}}
    path = "/v3/memories/?page=1&page_size=1"
    page = json.loads(told(served.port, "POST", path, filters, **token)[2])
    assert page["next"] == "/v3/memories?page=2&page_size=1"
    assert json.loads(told(served.port, "POST", page["next"], filters, **token)[2])["results"]


def test_mcp_takes_a_slash_at_the_end_and_redirects_nowhere(tmp_path):
    """It asks for the token first, and answers at both addresses alike."""
    tokens = TokenFile(tmp_path / "tokens.json")
    secret = tokens.add("me", access="write", space=None, keys="")
    accept = {"Accept": "application/json, text/event-stream"}
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        served = ServedKey(memory.key("ada"))
        app = create_mcp_app(served, tokens=tokens, asker=Asker(), origins=[PAGE])
        with running(app) as url:
            port = int(url.split(":")[2].split("/")[0])
            for path, status in (("/mcp", 200), ("/mcp/", 200), ("/mcp//", 404)):
                found = told(port, "POST", path, HELLO, Origin=PAGE, **accept)
                assert (found[0], found[1]["access-control-allow-origin"]) == (401, PAGE)
                given = {"Authorization": f"Bearer {secret}", **accept}
                found = told(port, "POST", path, HELLO, **given)
                assert (found[0], found[1].get("location")) == (status, None)
            asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
            assert told(port, "OPTIONS", "/mcp", **asked)[0] == 204


# --- what a proxy says ----------------------------------------------------------------------------

TRUSTED = ("10.0.0.0/8", "::1")


@pytest.mark.parametrize(
    ("client", "headers", "seen"),
    [
        ("10.0.0.1", {}, ("http", "a.example", "10.0.0.1")),
        (
            "10.0.0.1",
            {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "HTTPS"},
            ("https", "a.example", "9.9.9.9"),
        ),
        ("9.9.9.9", {"X-Forwarded-For": "127.0.0.1"}, ("http", "a.example", "9.9.9.9")),
        ("127.0.0.1", {"X-Forwarded-Proto": "https"}, ("http", "a.example", "127.0.0.1")),
        ("::ffff:10.0.0.1", {"X-Forwarded-For": "9.9.9.9"}, ("http", "a.example", "9.9.9.9")),
        (
            "10.0.0.1",  # a client made up the first, and the proxy added who asked it
            {"X-Forwarded-For": "127.0.0.1, 9.9.9.9", "X-Forwarded-Host": "b.example:8443"},
            ("http", "b.example:8443", "9.9.9.9"),
        ),
        (
            "10.0.0.1",  # two proxies, each of which added to every list
            {
                "X-Forwarded-For": "127.0.0.1, 9.9.9.9, 10.0.0.2",
                "X-Forwarded-Proto": "ftp, https, http",
                "X-Forwarded-Host": "made.up, b.example, inner",
            },
            ("https", "b.example", "9.9.9.9"),
        ),
        (
            "10.0.0.1",
            {"Forwarded": 'for=127.0.0.1;host=x, For="[2001:db8::1]:47";proto=https;host="c:1"'},
            ("https", "c:1", "2001:db8::1"),
        ),
        (
            "10.0.0.1",  # a client made it up, and the proxy writes the others
            {"Forwarded": "for=127.0.0.1;host=localhost", "X-Forwarded-For": "9.9.9.9"},
            ("http", "a.example", "9.9.9.9"),
        ),
        ("::1", {"Forwarded": 'for="_hidden, a";proto=https'}, ("https", "a.example", "::1")),
        (
            "10.0.0.1",
            {
                "X-Forwarded-For": "unknown",
                "X-Forwarded-Host": "a b",
                "X-Forwarded-Proto": "gopher",
            },
            ("http", "a.example", "10.0.0.1"),
        ),
    ],
)
def test_only_a_proxy_that_is_named_is_believed(client, headers, seen):
    """What it says counts for the client that asked the outermost of them, and nothing before."""
    raw = [(b"host", b"a.example")]
    raw += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"scheme": "http", "client": (client, 5), "headers": raw, "type": "http"}
    TrustedProxies.parse(TRUSTED).apply(scope)
    hosts = [value.decode() for name, value in scope["headers"] if name == b"host"]
    assert (scope["scheme"], *hosts, scope["client"][0]) == seen


def test_a_proxy_is_named_by_its_address():
    """No name, which another could answer for; no word that means anybody."""
    assert TrustedProxies.parse(["10.1.2.3"]).networks == (ip_network("10.1.2.3/32"),)
    for text in ("*", "proxy.example", "10.0.0.1/8", ""):
        with pytest.raises(InvalidInput, match="must be an address"):
            TrustedProxies.parse([text])


def test_a_server_without_tokens_knows_who_is_behind_a_trusted_proxy(tmp_path, monkeypatch):
    """Without the option it believes nobody, whatever a variable of its library says."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    from_afar = {"Host": "127.0.0.1", "X-Forwarded-For": "9.9.9.9"}
    secure = {"Host": "localhost", "Origin": "https://localhost", "X-Forwarded-Proto": "https"}
    for words, statuses in (((), (200, 403)), (("--trusted-proxy", "127.0.0.1"), (403, 200))):
        with serving(tmp_path, *words) as served:
            asked = (from_afar, secure)
            assert tuple(told(served.port, "GET", "/v1/keys", **each)[0] for each in asked) == (
                statuses
            )


# --- pages of other origins -----------------------------------------------------------------------


def test_pages_of_a_named_origin_may_ask_and_of_no_other(tmp_path):
    """Also of a server without tokens; a preflight is answered before a token is asked for."""
    with serving(tmp_path, "--cors-origin", PAGE, "--cors-origin", "http://localhost:5173") as on:
        here = {"Host": f"localhost:{on.port}"}
        asks = {"Access-Control-Request-Method": "PUT"}
        status, sent, _ = told(on.port, "OPTIONS", "/v1/exact", **here, **asks, Origin=PAGE)
        assert (status, sent["access-control-allow-origin"], sent["vary"]) == (204, PAGE, "Origin")
        assert "Authorization" in sent["access-control-allow-headers"]
        assert "PUT" in sent["access-control-allow-methods"]
        value = {"value": "Faro"}
        status, sent, _ = told(
            on.port, "PUT", "/v1/exact?key=ada&path=city", value, **here, Origin=PAGE
        )
        assert (status, sent["access-control-allow-origin"]) == (200, PAGE)
        readable = sent["access-control-expose-headers"]
        assert {"ETag", "Alveus-Version"} <= {*readable.split(", ")}
        assert "access-control-allow-credentials" not in sent
        for other in ("https://app.example.evil.example", "http://app.example", "null"):
            assert told(on.port, "OPTIONS", "/v1/exact", **here, **asks, Origin=other)[0] == 403
            status, sent, _ = told(on.port, "GET", "/v1/keys", **here, Origin=other)
            assert (status, "access-control-allow-origin" in sent) == (403, False)
            assert sent["vary"] == "Origin"
        far = told(on.port, "GET", "/v1/keys", Host="far.example", Origin=PAGE)
        assert far[0] == 403  # a page has its own name lead here


def test_a_client_of_another_system_may_send_its_headers_from_a_page(tmp_path):
    """Those of mem0 and Anthropic name themselves in headers, which the server does not read."""
    with serving(tmp_path, "--cors-origin", PAGE) as on:
        asks = {"Access-Control-Request-Method": "POST", "Host": f"localhost:{on.port}"}
        for sent, allowed in (
            ("authorization,mem0-user-id, X-Mem0-Source", {"mem0-user-id", "x-mem0-source"}),
            ("anthropic-version, x-stainless-os", {"anthropic-version", "x-stainless-os"}),
            ("a b", set()),
            ("", set()),
        ):
            asks["Access-Control-Request-Headers"] = sent
            status, got, _ = told(on.port, "OPTIONS", "/v3/memories/add/", **asks, Origin=PAGE)
            names = {*re.split(", *", got["access-control-allow-headers"].lower())}
            assert (status, names - usual()) == (204, allowed)


def usual():
    """The headers that any page of a named origin may send."""
    return {*MAY_SEND.lower().split(", ")}


def test_without_the_option_no_answer_has_a_header_of_cors(guarded):
    """A token makes no difference, and a preflight is an address that is not there."""
    served, token = guarded
    for method, headers in (
        ("GET", {"Origin": PAGE, **token}),
        ("OPTIONS", {"Origin": PAGE, "Access-Control-Request-Method": "GET"}),
    ):
        sent = told(served.port, method, "/v1/keys", **headers)[1]
        assert not [name for name in sent if name.startswith("access-control")]


def test_an_origin_is_named_as_browsers_send_it():
    """No path, no large letters, no port that goes without saying, no word for all of them."""
    assert origins_of([PAGE, "http://[::1]:8080", "app://obsidian.md"]) >= {PAGE}
    for text in ("*", "null", f"{PAGE}/", "https://App.example", f"{PAGE}:443", "app.example", ""):
        with pytest.raises(InvalidInput, match="an origin must be"):
            origins_of([text])


# --- what a proxy makes of an ETag ----------------------------------------------------------------


def compressed(etag):
    """Return an ETag as proxies make it of one, when they compress the answer."""
    bare = etag.strip('"')
    yield from (f"W/{etag}", f'"{bare}-gzip"', f'"{bare}--gzip"', f'W/"{bare}-zstd"')
    yield from (f'"{bare}-br"', f'"{bare};gzip"', f'"0", W/{etag}' if len(bare) > 2 else etag)


def test_an_etag_is_the_same_after_a_proxy_compressed_the_answer(guarded):
    """nginx makes it weak, Apache and Caddy add how they compressed; another one stays another."""
    served, token = guarded
    place = "/v1/exact?key=etags&path=city"
    first = told(served.port, "PUT", place, {"value": "Faro"}, **token)[1]["etag"]
    for form in compressed(first):
        headers = {"If-Match": form, **token}
        status, sent, text = told(served.port, "PUT", place, {"value": "Faro"}, **headers)
        assert (status, sent["etag"]) == (200, first), (form, text)
    told(served.port, "PUT", place, {"value": "Porto"}, **token)
    for form in compressed(first):
        headers = {"If-Match": form, **token}
        assert told(served.port, "PUT", place, {"value": "Faro"}, **headers)[0] == 412
    new = {"items": [{"value": "Tea.", "id": "tea"}]}
    assert told(served.port, "POST", "/v1/items?key=etags", new, **token)[0] == 201
    item = "/v1/item?key=etags&id=tea"
    for number, made in enumerate(compressed('"1"'), 1):
        form = made.replace("1", str(number))
        headers = {"If-Match": form, **token}
        assert told(served.port, "PATCH", item, {"value": form}, **headers)[0] == 200, form
        assert told(served.port, "PATCH", item, {"value": form}, **headers)[0] == 412, form
    for form in ('"1", "2"', "", '"1-other"', 'W/"x"'):
        headers = {"If-Match": form, **token}
        assert told(served.port, "PATCH", item, {"value": form}, **headers)[0] == 400, form

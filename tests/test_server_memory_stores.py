"""The server as the client of Anthropic's Memory Stores asks it."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

import anthropic
import pytest
from anthropic import Anthropic

from alveus import Memory, MemorySet
from alveus.server.tokens import TokenFile
from test_server import ServedHere
from waiting import LIMIT_S


@pytest.fixture
def served(tmp_path):
    here = ServedHere(tmp_path)
    yield here
    here.stop()


def client_of(served, token):
    return Anthropic(api_key=token, base_url=f"http://127.0.0.1:{served.port}", max_retries=0)


@pytest.fixture
def stores(served):
    with client_of(served, "any") as client:
        yield client.beta.memory_stores


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_store_is_made_changed_archived_and_deleted(stores, tmp_path):
    """An archived store is read and deleted only; a deleted one is gone with all in it."""
    one = stores.create(name="One", description="Of Ada.", metadata={"a": "1", "b": "2"})
    two = stores.create(name="Two")
    assert stores.retrieve(one.id).description == "Of Ada."
    changed = stores.update(one.id, description="", metadata={"a": None, "c": "3"})
    assert (changed.name, changed.description, changed.metadata) == (
        "One",
        "",
        {"b": "2", "c": "3"},
    )
    assert [each.id for each in stores.list(limit=1)] == [two.id, one.id]
    now = datetime.now(UTC)
    assert not list(stores.list(created_at_gte=now))
    assert len(list(stores.list(created_at_lte=now))) == 2
    memory = stores.memories.create(one.id, path="/a", content="x")
    assert stores.archive(one.id).archived_at == stores.archive(one.id).archived_at is not None
    assert [each.id for each in stores.list()] == [two.id]
    assert len(list(stores.list(include_archived=True))) == 2
    for refused in (
        lambda: stores.update(one.id, name="x"),
        lambda: stores.memories.create(one.id, path="/b", content="x"),
        lambda: stores.memories.update(memory.id, memory_store_id=one.id, content="y"),
    ):
        with pytest.raises(anthropic.BadRequestError, match="archived"):
            refused()
    stores.memories.delete(memory.id, memory_store_id=one.id)
    assert stores.delete(one.id).type == "memory_store_deleted"
    with pytest.raises(anthropic.NotFoundError):
        stores.retrieve(one.id)
    with Memory.open(tmp_path / "memory.db", embedder="words") as opened:
        assert list(opened.keys()) == [f"memory_store:{two.id}"]


def test_memories_have_paths_versions_and_preconditions(stores, tmp_path):
    """A text is changed only if it is the one that was read; every change is a version."""
    store = stores.create(name="One").id
    made = stores.memories.create(store, path="/notes/a.md", content="Tea.")
    assert (made.content, made.content_sha256, made.content_size_bytes) == (None, digest("Tea."), 4)
    assert stores.memories.retrieve(made.id, memory_store_id=store).content == "Tea."

    def change(**fields):
        return stores.memories.update(made.id, memory_store_id=store, view="full", **fields)

    held = {"type": "content_sha256", "content_sha256": digest("Tea.")}
    changed = change(content="Coffee.", precondition=held)
    assert (changed.id, changed.content, changed.path) == (made.id, "Coffee.", "/notes/a.md")
    assert changed.created_at == made.created_at < changed.updated_at
    with pytest.raises(anthropic.ConflictError):
        change(content="Milk.", precondition=held)
    assert change(path="/notes/b.md").content == "Coffee."
    assert change(content="Coffee.").path == "/notes/b.md"
    with pytest.raises(anthropic.ConflictError):
        stores.memories.create(store, path="/notes/b.md", content="x")
    stores.memories.create(store, path="/notes/a.md", content="")
    with pytest.raises(anthropic.ConflictError):
        change(path="/notes/a.md")
    with Memory.open(tmp_path / "memory.db", embedder="words") as opened:
        (hit,) = opened.key(f"memory_store:{store}").set("memories").search("coffee", limit=1)
    assert hit.item.metadata["path"] == "/notes/b.md"


def test_a_deleted_memory_leaves_versions(stores):
    """The text that is deleted is the one that was read; what it held before can be listed."""
    store = stores.create(name="One").id
    made = stores.memories.create(store, path="/notes/a.md", content="Tea.")
    stores.memories.update(made.id, memory_store_id=store, content="Coffee.")
    stores.memories.update(made.id, memory_store_id=store, path="/notes/b.md")
    other = stores.memories.create(store, path="/notes/a.md", content="")
    with pytest.raises(anthropic.ConflictError):
        stores.memories.delete(
            made.id, memory_store_id=store, expected_content_sha256=digest("Tea.")
        )
    stores.memories.delete(
        made.id, memory_store_id=store, expected_content_sha256=digest("Coffee.")
    )
    for gone in (stores.memories.delete, stores.memories.retrieve):
        with pytest.raises(anthropic.NotFoundError):
            gone(made.id, memory_store_id=store)
    versions = list(stores.memory_versions.list(store, memory_id=made.id, limit=1))
    assert [each.operation for each in versions] == ["deleted", "modified", "modified", "created"]
    assert [each.path for each in versions[:2]] == ["/notes/b.md"] * 2
    assert (versions[0].content_sha256, versions[3].content_sha256) == (None, digest("Tea."))
    full = stores.memory_versions.list(store, view="full", operation="created", limit=100).data
    assert {each.content for each in full} == {"Tea.", ""}
    assert other.memory_version_id in {each.id for each in full}
    assert not stores.memory_versions.list(store, session_id="sesn_1").data
    assert len(stores.memory_versions.list(store, api_key_id="local").data) == 5


def test_a_version_is_redacted(stores, tmp_path):
    """What it held is erased, from history too; that it was stays. The current one is refused."""
    store = stores.create(name="One").id
    made = stores.memories.create(store, path="/secret", content="Secret.")
    version = made.memory_version_id
    with pytest.raises(anthropic.BadRequestError, match="first"):
        stores.memory_versions.redact(version, memory_store_id=store)
    stores.memories.update(made.id, memory_store_id=store, path="/a", content="Open.")
    seen = stores.memory_versions.retrieve(version, memory_store_id=store)
    assert (seen.content, seen.path, seen.redacted_at) == ("Secret.", "/secret", None)
    first, again = (stores.memory_versions.redact(version, memory_store_id=store) for _ in range(2))
    assert first == again == stores.memory_versions.retrieve(version, memory_store_id=store)
    assert (first.content, first.path, first.content_sha256) == (None, None, None)
    assert (first.created_at, first.memory_id) == (seen.created_at, made.id)
    assert first.redacted_at is not None
    found = [(each.operation, each.path) for each in stores.memory_versions.list(store)]
    assert found == [("modified", "/a"), ("created", None)]
    with Memory.open(tmp_path / "memory.db", embedder="words") as opened:
        key = opened.key(f"memory_store:{store}")
        assert not any(key.set(name).history(version) for name in ("memories", "versions"))
    with pytest.raises(anthropic.NotFoundError):
        stores.memory_versions.redact("memver_none", memory_store_id=store)


def test_a_version_that_is_redacted_meanwhile_is_listed(stores, monkeypatch):
    """As it was, or as one that is redacted."""
    store = stores.create(name="One").id
    made = stores.memories.create(store, path="/secret", content="Secret.")
    stores.memories.update(made.id, memory_store_id=store, content="Open.")
    versions, listed, read = stores.memory_versions, MemorySet.list, []

    def list_and_redact(self, **options):
        found = listed(self, **options)
        read.append(self.name)
        if len(read) == 1:
            versions.redact(made.memory_version_id, memory_store_id=store)
        return found

    monkeypatch.setattr(MemorySet, "list", list_and_redact)
    assert [each.operation for each in versions.list(store)] == ["modified", "created"]
    assert len(set(read)) == 2


def test_lists_have_pages_and_folders(stores):
    store = stores.create(name="One").id
    for path in ("/a", "/b/c", "/b/d/e", "/bc", "/f/g"):
        stores.memories.create(store, path=path, content=path)

    def found(**options):
        return [each.path for each in stores.memories.list(store, limit=2, **options)]

    assert found() == ["/a", "/b/c", "/b/d/e", "/bc", "/f/g"]
    assert found(depth=1) == ["/a", "/b/", "/bc", "/f/"]
    assert found(depth=1, path_prefix="/b/") == ["/b/c", "/b/d/"]
    assert [each.content for each in stores.memories.list(store, view="full")][:1] == ["/a"]
    for wrong in ({"page": "x"}, {"page": "é"}, {"path_prefix": "/b"}, {"depth": 2}, {"limit": 0}):
        with pytest.raises(anthropic.BadRequestError):
            stores.memories.list(store, **wrong)


def test_what_cannot_be_kept_is_refused(stores, served):
    store = stores.create(name="One").id
    paths = (
        "",
        "a",
        "/",
        "/a/",
        "/../a",
        "/a//b",
        "/a\n",
        "/e\u0301",
        "/" + "a" * 1_024,
        "/a" * 21,
    )
    for path in paths:
        with pytest.raises(anthropic.BadRequestError):
            stores.memories.create(store, path=path, content="x")
    for refused in (
        lambda: stores.memories.create(store, path="/a", content="x" * 102_401),
        lambda: stores.memories.create(store, path="/a", content=None),
        lambda: stores.update(store, metadata={str(number): "" for number in range(17)}),
        lambda: stores.create(name=""),
        lambda: stores.list(created_at_gte="2026-01-01T00:00:00"),
    ):
        with pytest.raises(anthropic.BadRequestError):
            refused()
    body = b'{"path": "/a\\ud800", "content": "x"}'
    place = f"/v1/memory_stores/{store}/memories"
    assert served.ask("POST", place, body)[0] == 400
    assert served.ask("POST", "/v1/memory_stores", {})[0] == 400
    served.ask("PUT", "/v1/exact", {"value": 1}, key="ada", path="a")
    with pytest.raises(anthropic.NotFoundError):
        stores.retrieve("ada")


def test_its_key_is_a_token_with_its_scope(tmp_path):
    file = TokenFile(tmp_path / "tokens.json")
    shop = file.add("shop", access="write", space=None, keys="shop-")
    reader = file.add("reader", access="read", space=None, keys="")
    bank = file.add("bank", access="write", space=None, keys="bank-")
    here = ServedHere(tmp_path, tokens=file)
    try:
        with client_of(here, shop) as mine, client_of(here, reader) as reads:
            one = mine.beta.memory_stores.create(name="One")
            assert one.id.startswith("shop-memstore_")
            assert reads.beta.memory_stores.retrieve(one.id).name == "One"
            with pytest.raises(anthropic.PermissionDeniedError):
                reads.beta.memory_stores.delete(one.id)
        with client_of(here, bank) as other:
            assert not other.beta.memory_stores.list().data
            with pytest.raises(anthropic.PermissionDeniedError):
                other.beta.memory_stores.retrieve(one.id)
        with client_of(here, "wrong") as unknown, pytest.raises(anthropic.AuthenticationError):
            unknown.beta.memory_stores.list()
    finally:
        here.stop()


def test_what_a_page_shows_is_deleted_before_the_next(stores):
    """The list goes on after it, whether it holds stores or memories."""
    store = stores.create(name="Kept").id
    for number in range(5):
        stores.create(name=f"Store {number}.")
        stores.memories.create(store, path=f"/{number}", content="Tea.")
    for memory in stores.memories.list(store, limit=2):
        stores.memories.delete(memory.id, memory_store_id=store)
    for each in stores.list(limit=2):
        if each.name != "Kept":
            stores.delete(each.id)
    assert [each.id for each in stores.list()] == [store]
    assert not list(stores.memories.list(store))
    versions = [each.id for each in stores.memory_versions.list(store, limit=3)]
    assert len(versions) == len(set(versions)) == 10


def at_once(*calls):
    """Make calls at the same time; return the errors of those that were refused."""
    with ThreadPoolExecutor(len(calls)) as pool:
        failed = [done.exception(LIMIT_S) for done in [pool.submit(call) for call in calls]]
    return [each for each in failed if each is not None]


def test_changes_of_a_store_at_the_same_time(stores):
    """None is lost, and none opens a store that another one archives."""
    store = stores.create(name="One").id
    named = [partial(stores.update, store, metadata={f"k{n}": "v"}) for n in range(8)]
    assert not at_once(*named)
    assert stores.retrieve(store).metadata == {f"k{n}": "v" for n in range(8)}
    for _ in range(10):
        store = stores.create(name="Two").id
        refused = at_once(
            partial(stores.update, store, name="x"),
            partial(stores.archive, store),
            partial(stores.update, store, name="y"),
        )
        assert all(isinstance(each, anthropic.BadRequestError) for each in refused)
        assert stores.retrieve(store).archived_at is not None


def test_a_store_is_deleted_while_it_is_changed(stores, tmp_path):
    """Nothing of it comes back."""
    for _ in range(10):
        store = stores.create(name="One").id
        refused = at_once(
            partial(stores.update, store, name="x"),
            partial(stores.memories.create, store, path="/a", content="Tea."),
            partial(stores.delete, store),
            partial(stores.archive, store),
            partial(stores.update, store, description="y"),
        )
        kinds = anthropic.NotFoundError, anthropic.BadRequestError
        assert all(isinstance(each, kinds) for each in refused)
    with Memory.open(tmp_path / "memory.db", embedder="words") as opened:
        assert not list(opened.keys())

"""Users of a server that may use some spaces only: what they can do, and what they cannot."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import errors, sql

from alveus import Memory
from alveus.cli import alveus
from alveus.errors import AccessDenied, InvalidInput
from alveus.store import Batch, QueuedInput, Scope, SetRef
from alveus.store.postgres import PostgresStore
from alveus.store.postgres.connection import ServerLocation
from alveus.store.postgres.dialect import TABLES, translated
from alveus.store.postgres.store import _KEYS
from alveus.store.sql.rows import BY_ID
from alveus.store.sql.tree import _LATEST
from alveus.testing import NOW, add
from alveus.testing.commit_laws import CommitLaws
from alveus.testing.item_laws import ItemLaws
from alveus.testing.run_laws import LaneLaws
from doors import Letters
from harness.store.erasing_laws import ErasingLaws, ErasingRunLaws
from harness.store.lineage_laws import LineageLaws
from postgres_server import dropped, orphans, server, url_for, user


@pytest.fixture
def url(tmp_path):
    return url_for(tmp_path / "memory")


@pytest.fixture
def raw():
    with psycopg.connect(server(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def guest(raw):
    name = user(raw, "guest")
    yield name
    dropped(raw, name)


@pytest.fixture
def shell():
    def run(*words, code=0):
        result = CliRunner().invoke(alveus, words)
        assert result.exit_code == code, result.output + result.stderr
        return result

    return run


@pytest.fixture
def theirs(url, guest):
    """The URL of a memory with spaces "mine" and "yours", for a user that may use "mine"."""
    fill(url)
    store = PostgresStore.open(url)
    store.grant(guest, space="mine")
    store.close()
    return f"{url}&user={guest}"


@pytest.fixture
def session(theirs):
    """A connection of that user, which sends what SQL it likes."""
    place = ServerLocation.of(theirs)
    with psycopg.connect(place.conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(place.schema)))
        yield connection


def fill(url):
    """Put something into every table, for each of two spaces."""
    for space in ("mine", "yours"):
        with Memory.open(url, space=space, embedder=Letters()) as memory:
            ada = memory.key("ada")
            ada.add(f"The canary of {space} sings.", id="a")
            ada.short_term.set("song", f"canary of {space}")
            ada.add("to be erased", id="gone")
            ada.forget(["gone"])
            memory.knowledge.set("handbook").add(f"knowledge of {space}", id="k")
            memory.store.acquire_lease(Scope(space, "ada"), "a host")


def test_a_granted_user_does_all_that_a_memory_does(theirs, url):
    with Memory.open(theirs, space="mine", embedder=Letters()) as memory:
        ada = memory.key("new")
        ada.add("Prefers window seats.", id="w")
        ada.update("w", "Prefers aisle seats.")
        assert [hit.item.id for hit in ada.search("seats")] == ["w"]
        assert [item.version for item in ada.history("w")] == [1, 2]
        ada.short_term.set(("trip", "to"), "Lisbon")
        ada.short_term.delete("trip")
        notes = ada.set("few", capacity=2)
        for number in range(6):
            notes.add(f"note number {number}")
        notes.compact()
        assert memory.sweep() >= 0
        assert ada.forget().changed
        assert not memory.key("new").list()
        memory.key("new").add("It is used again.")
        assert list(memory.keys()) == ["ada", "new"]
        assert memory.stats().store.commits > 6
    with Memory.open(url, space="mine", embedder=Letters()) as memory:
        assert [item.text for item in memory.key("new").list()] == ["It is used again."]


def test_a_granted_user_makes_keys_sets_and_lanes_without_the_lock(url, theirs, monkeypatch):
    """It may number them, as the owner does."""
    with closing(PostgresStore.open(theirs)) as store:
        monkeypatch.setattr(store, "_begin", lambda _: pytest.fail("the lock was taken"))
        new = Scope("mine", "new")
        made = store.commit(Batch(scope=new, time=NOW, items=[add("a", to=SetRef(new, "notes"))]))
        assert not made.adopted
        assert store.accept("agent", [QueuedInput(new, "1", NOW)])[0].number == 0
    with closing(PostgresStore.open(url)) as store:
        assert not orphans(store)


def test_a_granted_user_appends_beside_the_owner(theirs, url, session, raw):
    """In one round trip each; neither sees or moves the row of the other's host."""
    schema = sql.Identifier(ServerLocation.of(theirs).schema)
    rows = sql.SQL("SELECT id FROM {}.appender").format(schema)
    with (
        Memory.open(theirs, space="mine", embedder=Letters()) as guest,
        Memory.open(url, space="yours", embedder=Letters()) as owner,
    ):
        for number in range(4):
            guest.key("eve").add(f"guest {number}")
            owner.key("bob").add(f"owner {number}")
        assert len(guest.key("eve").list()) == len(owner.key("bob").list()) == 4
        everyone, its_own = {*raw.execute(rows)}, {*session.execute(rows)}
        assert len(its_own) == 1
        assert its_own < everyone
        fence = sql.SQL("UPDATE {}.appender SET fence = attempt + 1").format(schema)
        assert session.execute(fence).rowcount == 1
        owner.key("bob").add("still")
        guest.key("eve").add("in another try")  # its next attempt was fenced: not lost
        assert len(guest.key("eve").list()) == 5


def test_another_space_is_refused_at_the_door(theirs, guest):
    """It is neither empty nor a traceback; so is a knowledge that was not granted."""
    for mode in ("rw", "ro"):
        with pytest.raises(AccessDenied, match=f"alveus grant {guest} --space yours"):
            Memory.open(theirs, space="yours", mode=mode)
        with pytest.raises(AccessDenied, match=f"alveus grant {guest} --knowledge yours"):
            Memory.open(theirs, space="mine", knowledge="yours", mode=mode)


def test_a_knowledge_is_granted_without_its_space(theirs, url, guest):
    """Spaces share what is granted to the users of each, and nothing else of its owner."""
    store = PostgresStore.open(url)
    store.grant(guest, knowledge="yours")
    store.close()
    with Memory.open(theirs, space="mine", knowledge="yours", embedder=Letters()) as memory:
        handbook = memory.knowledge.set("handbook")
        assert [item.text for item in handbook.list()] == ["knowledge of yours"]
        handbook.add("added by a guest", id="g")
        assert [hit.item.id for hit in handbook.search("guest")][:1] == ["g"]
    with pytest.raises(AccessDenied):
        Memory.open(theirs, space="yours", knowledge="mine")


def test_what_is_shared_is_forgotten_by_the_owner(theirs, url, raw, guest):
    """A user does not see what came of it elsewhere; what is its own it forgets."""
    other = user(raw, "other")
    with Memory.open(theirs, space="mine", embedder=Letters()) as memory:
        memory.knowledge.set("handbook").add("early", id="early")
        assert memory.knowledge.set("handbook").forget(["early"]).changed
        store = PostgresStore.open(url)
        store.grant(other, knowledge="mine")
        store.close()
        with pytest.raises(AccessDenied, match="owner of the tables forget"):
            memory.knowledge.set("handbook").forget(["k"])
        assert memory.key("ada").forget(["a"]).state == "pending"
    with Memory.open(url, space="mine", embedder=Letters()) as memory:
        assert memory.knowledge.set("handbook").forget(["k"]).changed
    dropped(raw, other)


def test_who_was_granted_nothing_is_told(url, raw, guest):
    PostgresStore.open(url).close()
    with pytest.raises(AccessDenied, match="alveus grant"):
        Memory.open(f"{url}&user={guest}", space="mine")


def test_a_grant_may_be_repeated_and_taken_back(url, raw, guest, shell):
    """The command line says what is granted by then."""
    fill(url)
    for _ in range(2):
        said = shell("--db", url, "grant", guest, "--space", "mine", "--json").stdout
        assert json.loads(said) == {"role": guest, "spaces": ["mine"], "knowledge": ["mine"]}
    shell("--db", url, "grant", guest, "--knowledge", "yours", "--quiet")
    listed = json.loads(shell("--db", url, "grants", "--json").stdout)
    assert listed == {"role": guest, "spaces": ["mine"], "knowledge": ["mine", "yours"]}
    assert guest in shell("--db", url, "grants").stdout
    Memory.open(f"{url}&user={guest}", space="mine", embedder=Letters()).close()
    for _ in range(2):
        shell("--db", url, "revoke", guest, "--knowledge", "yours")
        said = shell("--db", url, "revoke", guest, "--space", "mine").stdout
        assert said == f"{guest} may use spaces: none; knowledge: none\n"
    with pytest.raises(AccessDenied):
        Memory.open(f"{url}&user={guest}", space="mine")


def test_only_the_owner_grants(theirs, url, guest, shell):
    """To a role that there is, on a server."""
    assert "owner" in shell("--db", theirs, "grant", guest, "--space", "yours", code=1).stderr
    assert "owner" in shell("--db", theirs, "grants", code=1).stderr
    store = PostgresStore.open(url)
    with pytest.raises(InvalidInput, match="no role 'nobody'"):
        store.grant("nobody", space="mine")
    store.close()
    assert "users exist only on a server" in shell("--db", "x.db", "grants", code=1).stderr
    assert "users exist only on a server" in shell("grant", guest, code=1).stderr


def test_what_is_revoked_while_open_is_gone(theirs, url, guest):
    """Writes are refused; what is read is empty, until it is opened again, which is refused."""
    with Memory.open(theirs, space="mine", embedder=Letters()) as memory:
        store = PostgresStore.open(url)
        store.grant(guest, space="other")
        store.revoke(guest, space="mine")
        store.close()
        assert not memory.key("ada").list()
        with pytest.raises(AccessDenied):
            memory.key("ada").add("x")


MARK = b"yours".hex()
"""As it stands in values, which are bytes."""

# --- raw SQL ----------------------------------------------------------------------------------


def counts(connection, schema):
    """How many rows of each table a connection sees."""
    return {
        table: connection.execute(
            sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
        ).fetchone()[0]
        for table in TABLES
        if table != "space_grant"
    }


def test_raw_sql_sees_nothing_of_another_space(session, raw, theirs):
    """No row of any table has a name or a content of it; the owner sees both."""
    schema = ServerLocation.of(theirs).schema
    for table in TABLES:
        if table == "space_grant":
            continue
        query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
        seen, there = (
            [row for (row,) in connection.execute(query) if "yours" in row or MARK in row]
            for connection in (session, raw)
        )
        assert not seen, table
        assert there or table not in {"scope", "item", "node", "note", "lease", "receipt"}, table
    with pytest.raises(errors.InsufficientPrivilege):
        session.execute("SELECT * FROM space_grant")


def test_raw_sql_changes_nothing_of_another_space(session, raw, theirs):
    """What it updates or deletes, by any condition, is its own."""
    schema = ServerLocation.of(theirs).schema
    yours = (
        "SELECT count(*), coalesce(sum(length(text)), 0) FROM {0}.item JOIN {0}.memory_set "
        "ON memory_set.id = set_id JOIN {0}.scope ON scope.id = scope WHERE space = 'yours'"
    )
    before = raw.execute(sql.SQL(yours).format(sql.Identifier(schema))).fetchone()
    session.execute("UPDATE item SET text = 'taken over'")
    session.execute("UPDATE memory_set SET name = name || '!'")
    session.execute("UPDATE note SET text = 'other' WHERE name LIKE 'embedder of%'")
    session.execute("DELETE FROM note WHERE name = 'salt'")
    session.execute("UPDATE owner SET expires = 'epoch'::timestamptz WHERE name LIKE 'host%'")
    for table in ("item", "feature", "node", "journal", "lease", "receipt", "change", "scope"):
        session.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
    assert raw.execute(sql.SQL(yours).format(sql.Identifier(schema))).fetchone() == before
    left = counts(raw, schema)
    assert min(left[table] for table in ("item", "feature", "node", "journal", "lease")) >= 1
    found = raw.execute(
        sql.SQL("SELECT name, text FROM {}.note WHERE name = 'salt' OR name LIKE '%yours'").format(
            sql.Identifier(schema)
        )
    ).fetchall()
    assert {name for name, _ in found} >= {"salt", "embedder of space yours"}
    assert "other" not in {text for _, text in found}
    expired = sql.SQL("SELECT count(*) FROM {}.owner WHERE expires < now() - interval '1 h'")
    assert raw.execute(expired.format(sql.Identifier(schema))).fetchone() == (0,)


INTRUSIONS = {
    "a scope": "INSERT INTO scope (space, key) VALUES ('yours', 'eve')",
    "a scope with a number": "INSERT INTO scope (id, space, key) OVERRIDING SYSTEM VALUE "
    "VALUES (999, 'yours', 'eve')",
    "a number to come of a scope": "INSERT INTO scope (id, space, key) OVERRIDING SYSTEM VALUE "
    "VALUES (999, 'mine', 'eve')",
    "a number to come of a set": "INSERT INTO memory_set (id, scope, name, definition) "
    "OVERRIDING SYSTEM VALUE SELECT 999, min(id), 'x', '{{}}' FROM scope",
    "a number to come of an agent": "INSERT INTO agent (id, space, name) OVERRIDING SYSTEM VALUE "
    "VALUES (999, 'mine', 'x')",
    "a number to come of a lane": "INSERT INTO lane (id, agent, scope, next) OVERRIDING SYSTEM "
    "VALUE SELECT 999, min(agent.id), min(scope.id), 0 FROM agent, scope",
    "the number of the next one": "SELECT setval('scope_id_seq', 1)",
    "its home": "INSERT INTO scope (space, key, home) VALUES ('x', 'eve', 'space mine')",
    "a scope moved": "UPDATE scope SET space = 'yours'",
    "its home moved": "UPDATE scope SET home = 'space yours'",
    "a lease": "INSERT INTO lease (space, key, owner, epoch) VALUES ('yours', 'ada', 'me', 9)",
    "an item": "INSERT INTO item (row, set_id, id, first, version, begun, time, created, updated, "
    "metadata, importance, compacted) VALUES (1, {set}, 'x', 1, 1, 1, 1, 1, 1, '{{}}', 1, 0)",
    "an item moved": "UPDATE item SET set_id = {set}",
    "a set": "INSERT INTO memory_set (scope, name, definition) VALUES ({scope}, 'x', '{{}}')",
    "a set moved": "UPDATE memory_set SET scope = {scope}",
    "a node": "INSERT INTO node (id, scope, parent, name, place, begun) "
    "VALUES (1, {scope}, '', 'x', 1, 1)",
    "a commit": "INSERT INTO journal (n, time, scope) VALUES (999, 1, {scope})",
    "a change": "INSERT INTO change (seq, set_id, row, kind) VALUES (999, {set}, 1, 0)",
    "a feature moved": "UPDATE feature SET set_id = {set}",
    "an agent": "INSERT INTO agent (space, name) VALUES ('yours', 'x')",
    "a note": "INSERT INTO note (name, text) VALUES ('embedder of space elsewhere', 'x')",
    "the salt": "INSERT INTO note (name, text) VALUES ('salt', 'x')",
    "a receipt": "INSERT INTO receipt (id, n, owner, asked, erased, state, open, held) "
    "VALUES ('x', 1, 'space yours', '', '', 0, '', '')",
    "a grant": "INSERT INTO space_grant (role, home) VALUES (current_user, 'space yours')",
    "the schema": "UPDATE ledger SET least = 99",
    "a table": "CREATE TABLE mine (x text)",
    "a policy": "DROP POLICY wall ON item",
    "the wall": "ALTER TABLE item DISABLE ROW LEVEL SECURITY",
    "a function": "CREATE OR REPLACE FUNCTION granted(who name) RETURNS text[] LANGUAGE sql "
    "RETURN ARRAY['space yours']",
    "a commit renumbered": "UPDATE setback SET time = 0",
    "another role": "SET ROLE postgres",
}


def test_raw_sql_puts_nothing_into_another_space(session, raw, theirs):
    """Nor into the tables that all share, but for the numbers that a commit moves on."""
    query = (
        "SELECT scope.id, memory_set.id FROM {0}.scope JOIN {0}.memory_set ON scope = scope.id "
        "WHERE space = 'yours' AND key = 'ada'"
    )
    schema = sql.Identifier(ServerLocation.of(theirs).schema)
    scope, number = raw.execute(sql.SQL(query).format(schema)).fetchone()
    for what, statement in INTRUSIONS.items():
        with pytest.raises(errors.InsufficientPrivilege):
            assert session.execute(statement.format(scope=scope, set=number)), what


LOOKUPS = {
    "scope_name": ("SELECT id FROM scope WHERE space IS ? AND key IS ?", ("mine", "ada")),
    "scope_order": (_KEYS, ("mine", "a", 10, "ad", "ae")),
    "set_name": ("SELECT id FROM memory_set WHERE scope = ? AND name IS ?", (1, "default")),
    "item_versions": (BY_ID, (1, "a")),
    "node_live": (_LATEST, (1, "", "song")),
    "lease_name": ("SELECT owner FROM lease WHERE space IS ? AND key IS ?", ("mine", "ada")),
    "note_name": ("SELECT text FROM note WHERE name IS ?", ("embedder of space mine",)),
    "agent_name": ("SELECT id FROM agent WHERE space IS ? AND name IS ?", ("mine", "a")),
    "receipt_of_owner": ("SELECT id FROM receipt WHERE owner IS ?", ("space mine",)),
}


@pytest.mark.parametrize("index", LOOKUPS)
def test_indexes_serve_a_user_behind_the_wall(looked_up, index):
    """By the digest of a name, which is compared before policies are asked."""
    statement, bindings = LOOKUPS[index]
    plan = looked_up(statement, bindings)
    assert index in plan
    found = plan.split(index, 1)[1].split("Filter", 1)[0]
    assert "_digest =" in found or "ROW(space_digest, key_start) >" in found.replace("scope_1.", "")


def test_indexes_serve_many_names_at_once(looked_up):
    statement = (
        "SELECT id FROM item WHERE set_id = ? AND id IN (SELECT value FROM carray(?) AS names)"
    )
    plan = looked_up(statement, (1, ["a", "b"]))
    assert "item_versions" in plan
    assert "id_digest = ANY" in plan.split("Filter", 1)[0]


@pytest.fixture(scope="module")
def planner(tmp_path_factory):
    """A connection of a user that was granted a space, for which indexes are always cheaper."""
    url = url_for(tmp_path_factory.mktemp("planner") / "memory")
    with psycopg.connect(server(), autocommit=True) as raw:
        name = user(raw, "planner")
        store = PostgresStore.open(url)
        store.grant(name, space="mine")
        store.close()
        raw.execute(
            sql.SQL(
                """INSERT INTO {0}.item (row, set_id, id, first, version, begun, time, created,
                updated, metadata, importance, compacted) SELECT n, n / 2000, n::text, n, 1, 1, n,
                1, 1, '{{}}', 1, 0 FROM generate_series(1, 6000) AS n; ANALYZE {0}.item"""
            ).format(sql.Identifier(ServerLocation.of(url).schema))
        )
        with psycopg.connect(f"{server()}&user={name}", autocommit=True) as connection:
            for setting in ("enable_seqscan", "enable_bitmapscan"):
                connection.execute(f"SET {setting} = off")
            yield connection, ServerLocation.of(url).schema
        dropped(raw, name)


@pytest.fixture
def looked_up(planner):
    """What the server does for a shared statement."""
    connection, schema = planner

    def explain(statement, bindings):
        asked = f"EXPLAIN {translated(statement, schema)}".encode()
        rows = psycopg.RawCursor(connection).execute(asked, bindings).fetchall()
        return "\n".join(row for (row,) in rows)

    return explain


def test_a_user_learns_nothing_of_what_others_were_granted(session, theirs, raw, url):
    """Neither from the table nor from the function that policies ask."""
    other = user(raw, "other")
    store = PostgresStore.open(url)
    store.grant(other, space="yours")
    store.close()
    for who in (other, raw.info.user):
        found = session.execute("SELECT granted(%s::name)", (who,)).fetchone()
        assert found == ([],)
    (found,) = session.execute("SELECT granted(current_user)").fetchone()
    assert sorted(found) == ["knowledge mine", "space mine"]
    dropped(raw, other)


# --- the contract of stores ----------------------------------------------------------------------


class ScrubbedByOwner(PostgresStore):
    """The store of a user, for whom the owner of the tables scrubs."""

    owner_url = ""

    def scrub(self, *, now):
        owner = PostgresStore.open(self.owner_url)
        try:
            return owner.scrub(now=now)
        finally:
            owner.close()


@pytest.mark.server
class TestGranted(CommitLaws, ItemLaws, LineageLaws, ErasingLaws, ErasingRunLaws, LaneLaws):
    """As a user that owns nothing, and was granted the spaces of the contract: most of its laws."""

    SPACES = ("ada", "another app", "ap", "app", "app 2", "handbook", "other app")

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def guest(cls):
        with psycopg.connect(server(), autocommit=True) as connection:
            cls.name, cls.granted = user(connection, "guest"), set()
            yield
            dropped(connection, cls.name)

    def location(self, path):
        url = url_for(path)
        if url not in self.granted:
            owner = PostgresStore.open(url)
            for space in self.SPACES:
                owner.grant(self.name, space=space)
            owner.close()
            self.granted.add(url)
        return f"{url}&user={self.name}"

    def open(self, path):
        store = ScrubbedByOwner.open(self.location(path))
        store.owner_url = url_for(path)
        return store

    def kill_owner(self, store, owner):
        assert isinstance(store, PostgresStore)
        store._owners.dismiss(owner)

-- The schema of a store in PostgreSQL, number 1. `alveus` is replaced by the schema of the store.
--
-- The tables are those of store/sqlite/schema.sql, which documents each table, column and index;
-- the comments here say what differs. A value is a `bytea`: the UTF-8 of its JSON text, or its
-- packed form.
--
-- A name may have 4,096 characters, too many for a B-tree. So an index holds its digest, a column
-- beside it, and every query compares digests too. (A query with policies cannot use an index on an
-- expression.)
--
-- PostgreSQL's text cannot hold U+0000: it is stored as U+0001 U+0002, and U+0001 as U+0001 U+0003.
-- That keeps the order of texts.

CREATE SCHEMA IF NOT EXISTS alveus;

-- --- functions of names and texts ---------------------------------------------------------------

CREATE FUNCTION alveus.digest(name text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(sha256(convert_to(name, 'UTF8')) FOR 16);

CREATE FUNCTION alveus.digests(names text[]) RETURNS bytea[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT array_agg(alveus.digest(one)) FROM unnest(names) AS one);

-- Bytes of a value, and of a text in UTF-8 as it was before U+0000 was replaced.

CREATE FUNCTION alveus.size_of(content bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN octet_length(content);

CREATE FUNCTION alveus.size_of(content text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN octet_length(content) - (length(content) - length(replace(content, E'\x01', '')));

-- Whether an item has a meaning to embed: `has_meaning` of store/records.py.

CREATE FUNCTION alveus.is_meant(content text, metadata text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN btrim(content, E'\t\n\x0b\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003'
        '\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000') <> ''
    OR CASE json_typeof(metadata::json -> 'caption')
        WHEN 'string' THEN (metadata::json -> 'caption')::text <> '""'
        WHEN 'array' THEN json_array_length(metadata::json -> 'caption') > 0 AND NOT EXISTS (
            SELECT FROM json_array_elements(metadata::json -> 'caption') AS one
            WHERE json_typeof(one) <> 'string')
        ELSE FALSE END;

-- --- tables --------------------------------------------------------------------------------------

-- One row: the order of all commits, of all hosts. Every transaction that writes locks it.
CREATE TABLE alveus.ledger (
    version bigint NOT NULL,               -- how many transactions wrote
    number bigint NOT NULL DEFAULT 0,      -- the last commit, and its time
    time bigint NOT NULL DEFAULT 0,
    structure bigint NOT NULL DEFAULT 0,   -- changes with what hosts cache: the ids of scopes
                                           -- and sets, definitions, notes
    schema integer NOT NULL,               -- the number of this schema
    least integer NOT NULL                 -- the least schema that a program must know
);

-- Called by the tables whose rows hosts cache.
CREATE FUNCTION alveus.structure_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE alveus.ledger SET structure = structure + 1;
    RETURN NULL;
END $$;

-- Owners of leases, and the time until which each counts as alive.
CREATE TABLE alveus.owner (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    expires timestamptz NOT NULL,          -- by the server's clock; its process extends it
    role name NOT NULL DEFAULT current_user
);

-- Small facts by name.
CREATE TABLE alveus.note (
    name text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL,
    name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED
);

CREATE UNIQUE INDEX note_name ON alveus.note (name_digest);

CREATE TRIGGER note_changed AFTER INSERT OR UPDATE OR DELETE ON alveus.note
FOR EACH STATEMENT EXECUTE FUNCTION alveus.structure_changed();

-- Keys and knowledge.
CREATE TABLE alveus.scope (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    floor bigint NOT NULL DEFAULT 0,
    since bigint NOT NULL DEFAULT 0,
    home text COLLATE "C" NOT NULL,        -- see `find_home`; a forgotten key keeps it
    space_digest bytea GENERATED ALWAYS AS (alveus.digest(space)) STORED,
    key_digest bytea GENERATED ALWAYS AS (alveus.digest(key)) STORED,
    key_start text COLLATE "C" GENERATED ALWAYS AS (left(key, 64)) STORED
);

CREATE UNIQUE INDEX scope_name ON alveus.scope (space_digest, key_digest);
-- Keys of a space in their order, which their first characters are enough for.
CREATE INDEX scope_order ON alveus.scope (space_digest, key_start);

CREATE TRIGGER scope_renamed AFTER UPDATE OF space, key OR DELETE ON alveus.scope
FOR EACH STATEMENT EXECUTE FUNCTION alveus.structure_changed();

-- The right to run a key.
CREATE TABLE alveus.lease (
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    epoch bigint NOT NULL,
    home text COLLATE "C" NOT NULL,        -- see `find_home`
    space_digest bytea GENERATED ALWAYS AS (alveus.digest(space)) STORED,
    key_digest bytea GENERATED ALWAYS AS (alveus.digest(key)) STORED
);

CREATE UNIQUE INDEX lease_name ON alveus.lease (space_digest, key_digest);

-- One row per commit.
CREATE TABLE alveus.journal (
    n bigint PRIMARY KEY,
    time bigint NOT NULL,
    scope bigint NOT NULL,
    op bytea,
    request bytea,
    result bytea,
    ended text COLLATE "C",
    erased bigint
);

CREATE UNIQUE INDEX journal_op ON alveus.journal (op) WHERE op IS NOT NULL;
-- Erasing: commits of a scope.
CREATE INDEX journal_scope ON alveus.journal (scope);

-- Commits whose time is before that of the commit before them.
CREATE TABLE alveus.setback (
    n bigint PRIMARY KEY,
    time bigint NOT NULL
);

-- Exact memory: a version of a node of a tree.
CREATE TABLE alveus.node (
    id bigint PRIMARY KEY,
    scope bigint NOT NULL,
    parent text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    value bytea,
    expires bigint,
    begun bigint NOT NULL,
    ended bigint,
    parent_digest bytea GENERATED ALWAYS AS (alveus.digest(parent)) STORED,
    name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED
);

CREATE UNIQUE INDEX node_live ON alveus.node (scope, parent_digest, name_digest)
WHERE ended IS NULL;

CREATE INDEX node_ended ON alveus.node (scope, parent_digest, ended)
WHERE ended IS NOT NULL;

CREATE INDEX node_expires ON alveus.node (expires) WHERE expires IS NOT NULL;

-- Sets, with what they hold. Half of a page stays free: each add updates the row in place.
CREATE TABLE alveus.memory_set (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    items bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    retention bigint,
    floor bigint NOT NULL DEFAULT 0,
    name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX set_name ON alveus.memory_set (scope, name_digest);
CREATE INDEX set_retention ON alveus.memory_set (id) WHERE retention IS NOT NULL;

CREATE TRIGGER set_changed AFTER UPDATE OF scope, name, definition OR DELETE ON alveus.memory_set
FOR EACH STATEMENT EXECUTE FUNCTION alveus.structure_changed();

-- A version of an item.
CREATE TABLE alveus.item (
    row bigint PRIMARY KEY,
    set_id bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    first bigint NOT NULL,
    version bigint NOT NULL,
    begun bigint NOT NULL,
    ended bigint,
    time bigint NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    value bytea,
    text text COLLATE "C",
    metadata text COLLATE "C" NOT NULL,
    importance double precision NOT NULL,
    speaker text COLLATE "C",
    role text COLLATE "C",
    session text COLLATE "C",
    sources text COLLATE "C",
    compacted integer NOT NULL,
    tokens bigint NOT NULL DEFAULT 0,
    until bigint,
    expires bigint,
    valid_from bigint,
    valid_to bigint,
    id_digest bytea GENERATED ALWAYS AS (alveus.digest(id)) STORED
);

CREATE UNIQUE INDEX item_versions ON alveus.item (set_id, id_digest, version);
CREATE INDEX item_order ON alveus.item (set_id, time, first) WHERE ended IS NULL;
CREATE INDEX item_ended ON alveus.item (set_id, ended) WHERE ended IS NOT NULL;
-- The policy of `access` looks for an item by its first version.
CREATE INDEX item_first ON alveus.item (first);

CREATE INDEX item_expires ON alveus.item (set_id, expires)
WHERE ended IS NULL AND expires IS NOT NULL;

CREATE INDEX item_timed ON alveus.item (set_id)
WHERE ended IS NULL AND (valid_from IS NOT NULL OR valid_to IS NOT NULL);

-- Counts of a set go down wherever items end.
CREATE FUNCTION alveus.item_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE alveus.memory_set SET items = items - 1, tokens = tokens - old.tokens, bytes = bytes
        - coalesce(alveus.size_of(old.value), 0) - coalesce(alveus.size_of(old.text), 0)
        - alveus.size_of(old.metadata)
    WHERE id = old.set_id;
    RETURN NULL;
END $$;

CREATE TRIGGER item_ends AFTER UPDATE OF ended ON alveus.item FOR EACH ROW
WHEN (old.ended IS NULL AND new.ended IS NOT NULL) EXECUTE FUNCTION alveus.item_gone();

CREATE TRIGGER item_vanishes AFTER DELETE ON alveus.item FOR EACH ROW
WHEN (old.ended IS NULL) EXECUTE FUNCTION alveus.item_gone();

-- Lineage: which version was derived from which.
CREATE TABLE alveus.link (
    row bigint NOT NULL,
    source bigint NOT NULL,
    PRIMARY KEY (row, source)
);

CREATE INDEX link_source ON alveus.link (source, row);

-- Lineage of purged sources.
CREATE TABLE alveus.stub (
    row bigint NOT NULL,
    set_id bigint NOT NULL,
    source bytea NOT NULL,
    PRIMARY KEY (row, set_id, source)
);

CREATE INDEX stub_source ON alveus.stub (set_id, source);

-- Compactions, so that they can be listed and undone.
CREATE TABLE alveus.compaction (
    id bigint PRIMARY KEY,
    set_id bigint NOT NULL,
    how text COLLATE "C" NOT NULL,
    retired text COLLATE "C" NOT NULL,
    added text COLLATE "C" NOT NULL,
    undone bigint,
    purged boolean NOT NULL DEFAULT FALSE
);

CREATE INDEX compaction_of_set ON alveus.compaction (set_id, id);
CREATE INDEX compaction_undone ON alveus.compaction (undone) WHERE undone IS NOT NULL;

-- When an item was last read.
CREATE TABLE alveus.access (
    first bigint PRIMARY KEY,
    time bigint NOT NULL
);

-- What search reads of a version.
CREATE TABLE alveus.feature (
    set_id bigint NOT NULL,
    ended bigint NOT NULL,
    row bigint NOT NULL,
    first bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    begun bigint NOT NULL,
    time bigint NOT NULL,
    importance double precision NOT NULL,
    speaker text COLLATE "C",
    role text COLLATE "C",
    session text COLLATE "C",
    metadata text COLLATE "C" NOT NULL,
    terms bytea NOT NULL,
    tokens bigint NOT NULL,
    temporal integer NOT NULL,
    vectors bytea,
    PRIMARY KEY (set_id, ended, row)
);

CREATE INDEX feature_pending ON alveus.feature (ended, row) WHERE vectors IS NULL;

-- Vectors of the embedder that a memory changes to.
CREATE TABLE alveus.staged (
    row bigint PRIMARY KEY,
    vectors bytea NOT NULL
);

-- The change log of features.
CREATE TABLE alveus.change (
    seq bigint PRIMARY KEY,
    set_id bigint NOT NULL,
    row bigint NOT NULL,
    kind integer NOT NULL,
    rows bigint NOT NULL DEFAULT 1
);

-- The argument of the trigger is the kind of the line.
CREATE FUNCTION alveus.feature_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO alveus.change (seq, set_id, row, kind)
    SELECT coalesce(max(seq), 0) + 1, old.set_id, old.row, tg_argv[0]::integer FROM alveus.change;
    RETURN NULL;
END $$;

CREATE TRIGGER feature_ended AFTER UPDATE OF ended ON alveus.feature FOR EACH ROW
EXECUTE FUNCTION alveus.feature_changed(1);

CREATE TRIGGER feature_embedded AFTER UPDATE OF vectors ON alveus.feature FOR EACH ROW
EXECUTE FUNCTION alveus.feature_changed(2);

CREATE TRIGGER feature_removed AFTER DELETE ON alveus.feature FOR EACH ROW
EXECUTE FUNCTION alveus.feature_changed(3);

-- Runners.
CREATE TABLE alveus.agent (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    floor bigint NOT NULL DEFAULT 0,
    pruned bigint NOT NULL DEFAULT 0,
    space_digest bytea GENERATED ALWAYS AS (alveus.digest(space)) STORED,
    name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED
);

CREATE UNIQUE INDEX agent_name ON alveus.agent (space_digest, name_digest);

-- The queue of one agent and key.
CREATE TABLE alveus.lane (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent bigint NOT NULL,
    scope bigint NOT NULL,
    next bigint NOT NULL,
    UNIQUE (agent, scope)
);

-- Erasing: lanes of a scope, their runs, and runs that took over an input.
CREATE INDEX lane_scope ON alveus.lane (scope);

-- Accepted inputs, each with the run that processes it.
CREATE TABLE alveus.run (
    id bigint PRIMARY KEY,
    agent bigint NOT NULL,
    lane bigint NOT NULL,
    number bigint NOT NULL,
    status integer NOT NULL,
    event bytea NOT NULL,
    accepted bigint NOT NULL,
    now bigint,
    actions text COLLATE "C",
    ended bigint,
    error text COLLATE "C",
    origin bigint,
    erased bigint
);

CREATE INDEX run_open ON alveus.run (agent, lane, id, status) WHERE ended IS NULL;
CREATE INDEX run_ended ON alveus.run (agent, ended) WHERE ended IS NOT NULL;
CREATE INDEX run_lane ON alveus.run (lane, id);
CREATE INDEX run_origin ON alveus.run (origin) WHERE origin IS NOT NULL;

-- Tasks of runs that are done.
CREATE TABLE alveus.step (
    id bigint PRIMARY KEY,
    n bigint NOT NULL,
    action text COLLATE "C" NOT NULL,
    sent bytea,
    sensory bytea,
    looked text COLLATE "C",
    skipped text COLLATE "C"
);

-- Durable calls of tasks.
CREATE TABLE alveus.durable_call (
    step bigint NOT NULL,
    position bigint NOT NULL,
    n bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    status integer NOT NULL,
    outcome bytea,
    attempts bigint NOT NULL,
    PRIMARY KEY (step, position)
);

-- Events for the world outside.
CREATE TABLE alveus.output (
    agent bigint NOT NULL,
    id bigint NOT NULL,
    step bigint NOT NULL,
    event bytea NOT NULL,
    PRIMARY KEY (agent, id)
);

-- Named readers of outputs.
CREATE TABLE alveus.consumer (
    agent bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED
);

CREATE UNIQUE INDEX consumer_name ON alveus.consumer (agent, name_digest);

-- Ids of accepted inputs.
CREATE TABLE alveus.event_id (
    agent bigint NOT NULL,
    digest bytea NOT NULL,
    run bigint NOT NULL,
    number bigint NOT NULL,
    request bytea,
    time bigint NOT NULL,
    PRIMARY KEY (agent, digest)
);

CREATE INDEX event_id_time ON alveus.event_id (agent, time);

-- Proofs of what was forgotten.
CREATE TABLE alveus.receipt (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    n bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    asked text COLLATE "C" NOT NULL,
    erased text COLLATE "C" NOT NULL,
    state integer NOT NULL,
    open text COLLATE "C" NOT NULL,
    held text COLLATE "C" NOT NULL,
    scrubbed bigint,
    owner_digest bytea GENERATED ALWAYS AS (alveus.digest(owner)) STORED
);

CREATE INDEX receipt_of_owner ON alveus.receipt (owner_digest, n);

-- --- drafts: most commits are one packet (store/postgres/drafting.py) ----------------------------

-- Writing hosts. A host that lost the answer of a commit looks up its attempt here.
CREATE TABLE alveus.appender (
    id bigint PRIMARY KEY,
    attempt bigint NOT NULL,               -- the last one that was committed
    fence bigint NOT NULL DEFAULT 0,       -- attempts up to this one are refused
    number bigint NOT NULL DEFAULT 0,      -- the commit before the last attempt
    time bigint NOT NULL DEFAULT 0,
    used timestamptz NOT NULL DEFAULT now(),
    role name NOT NULL DEFAULT current_user,
    run bigint NOT NULL DEFAULT 0          -- the last run before it, if it began one
);

-- Lock the ledger, and take numbers for a draft of this host. The statements of the draft read how
-- far numbers and times have moved from settings of the transaction. FX001: draft it again.

CREATE FUNCTION alveus.begin_draft(host bigint, this_attempt bigint, known_structure bigint,
    known_version bigint, read_version bigint, known_number bigint, known_run bigint,
    commits bigint, earliest bigint, latest bigint, last_time bigint, wait text,
    OUT number_before bigint, OUT time_before bigint, OUT version_before bigint,
    OUT run_before bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', wait, TRUE), set_config('synchronous_commit', 'off', TRUE);
    SELECT number, time, version INTO number_before, time_before, version_before
    FROM alveus.ledger WHERE structure = known_structure AND time BETWEEN earliest AND latest
        AND (known_version IS NULL OR version = known_version) FOR UPDATE;
    IF known_run IS NOT NULL THEN
        SELECT max(id) INTO run_before FROM (SELECT max(id) AS id FROM alveus.every_run
            UNION ALL SELECT max(pruned) FROM alveus.every_agent UNION ALL SELECT 0) AS used;
    END IF;
    INSERT INTO alveus.appender AS mine (id, attempt, number, time, run)
    SELECT host, this_attempt, number_before, time_before, coalesce(run_before, 0)
    WHERE number_before IS NOT NULL
    ON CONFLICT (id) DO UPDATE SET attempt = excluded.attempt, number = excluded.number,
        time = excluded.time, run = excluded.run, used = now() WHERE mine.fence < excluded.attempt;
    IF NOT FOUND THEN
        RAISE 'others have changed what this host knows' USING ERRCODE = 'FX001';
    END IF;
    UPDATE alveus.ledger SET version = version + 1, number = number + commits,
        time = CASE WHEN known_version IS NULL THEN greatest(time, last_time) ELSE last_time END;
    PERFORM set_config('alveus.moved', (number_before - known_number)::text, TRUE),
        set_config('alveus.time', time_before::text, TRUE),
        set_config('alveus.runs_moved', (run_before - known_run)::text, TRUE),
        set_config('alveus.unchanged',
            (version_before IS NOT DISTINCT FROM coalesce(known_version, read_version))::text,
            TRUE);
END $$;

-- Refuse a draft whose reads have changed. FX002: no other host wrote, so another draft would be
-- refused too.

CREATE FUNCTION alveus.check_same(before bytea, again bytea) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF before IS DISTINCT FROM again THEN
        RAISE 'others have changed what was read' USING ERRCODE =
            CASE current_setting('alveus.unchanged') WHEN 'true' THEN 'FX002' ELSE 'FX001' END;
    END IF;
    RETURN TRUE;
END $$;

-- Refuse a draft whose ids of items are not new.

CREATE FUNCTION alveus.check_new(in_set bigint, one text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM alveus.item
        WHERE set_id = in_set AND id_digest = alveus.digest(one) AND id = one) THEN
        RAISE 'an item has this id' USING ERRCODE = 'FX001';
    END IF;
END $$;

CREATE FUNCTION alveus.check_new(in_set bigint, many text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM alveus.item
        WHERE set_id = in_set AND id_digest = ANY (alveus.digests(many)) AND id = ANY (many)) THEN
        RAISE 'an item has one of these ids' USING ERRCODE = 'FX001';
    END IF;
END $$;

-- Refuse a new id that the sequence of its table did not give: it would block later ones.

CREATE FUNCTION alveus.check_number() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    IF row_security_active(tg_relid) THEN
        EXECUTE format('SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM %s',
            pg_get_serial_sequence(tg_relid::regclass::text, 'id')) INTO last;
        IF new.id > last THEN
            RAISE 'this number was not given by its sequence' USING ERRCODE = '42501';
        END IF;
    END IF;
    RETURN new;
END $$;

CREATE TRIGGER scope_numbered BEFORE INSERT ON alveus.scope
FOR EACH ROW EXECUTE FUNCTION alveus.check_number();

CREATE TRIGGER set_numbered BEFORE INSERT ON alveus.memory_set
FOR EACH ROW EXECUTE FUNCTION alveus.check_number();

CREATE TRIGGER agent_numbered BEFORE INSERT ON alveus.agent
FOR EACH ROW EXECUTE FUNCTION alveus.check_number();

CREATE TRIGGER lane_numbered BEFORE INSERT ON alveus.lane
FOR EACH ROW EXECUTE FUNCTION alveus.check_number();

-- --- access of other users -----------------------------------------------------------------------
--
-- The owner of the tables, and superusers, may use all: policies do not apply to them. `alveus
-- grant` gives any other user the schema, and rows of `space_grant`.

-- What a user was granted. A home is 'space NAME', for the keys of the space, or 'knowledge NAME'.
CREATE TABLE alveus.space_grant (
    role name NOT NULL,
    home text COLLATE "C" NOT NULL,
    home_digest bytea GENERATED ALWAYS AS (alveus.digest(home)) STORED
);

CREATE UNIQUE INDEX space_grant_role ON alveus.space_grant (role, home_digest);

-- The homes that were granted to a user, or to a role that it is in.
CREATE FUNCTION alveus.granted(who name) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT coalesce(array_agg(home), '{}') FROM alveus.space_grant
    JOIN pg_catalog.pg_roles ON pg_roles.rolname = space_grant.role
    WHERE pg_has_role(who, pg_roles.oid, 'USAGE') AND pg_has_role(session_user, who, 'MEMBER'));

-- The home that a note is about.
CREATE FUNCTION alveus.owner_in(note text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(note FROM '^(?:embedder|query prefix) of ((?:space|knowledge) .*)$');

-- The home of a key, a knowledge, or the lease of a compaction, which is named by its set.
CREATE FUNCTION alveus.find_home() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.space <> '' THEN
        new.home := CASE new.key WHEN '' THEN 'knowledge ' ELSE 'space ' END || new.space;
    ELSIF tg_op = 'INSERT' THEN
        new.home := coalesce((SELECT scope.home FROM alveus.memory_set JOIN alveus.scope
            ON scope.id = memory_set.scope
            WHERE memory_set.id = substring(new.key FROM '^compaction ([0-9]{1,18})$')::bigint), '');
    END IF;
    RETURN new;
END $$;

CREATE TRIGGER scope_named BEFORE INSERT OR UPDATE OF space, key ON alveus.scope
FOR EACH ROW EXECUTE FUNCTION alveus.find_home();

CREATE TRIGGER lease_named BEFORE INSERT OR UPDATE OF space, key ON alveus.lease
FOR EACH ROW EXECUTE FUNCTION alveus.find_home();

-- Whether a role may use a knowledge without the space of its name: then items derived from it may
-- be in spaces that only the owner of the tables sees.
CREATE FUNCTION alveus.is_shared(knowledge text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN EXISTS (SELECT FROM alveus.space_grant AS alone WHERE alone.home = 'knowledge ' || knowledge
    AND NOT EXISTS (SELECT FROM alveus.space_grant AS whole
        WHERE whole.role = alone.role AND whole.home = 'space ' || knowledge));

-- Numbers and times of all spaces, which order commits and runs. No policy applies to these views.

CREATE VIEW alveus.every_commit AS SELECT n, time FROM alveus.journal;
CREATE VIEW alveus.every_run AS SELECT id, ended FROM alveus.run;
CREATE VIEW alveus.every_agent AS SELECT pruned FROM alveus.agent;
CREATE VIEW alveus.every_step AS SELECT id, n FROM alveus.step;
CREATE VIEW alveus.every_call AS SELECT step, n FROM alveus.durable_call;

GRANT SELECT ON alveus.every_commit, alveus.every_run, alveus.every_agent, alveus.every_step,
    alveus.every_call, alveus.ledger, alveus.setback, alveus.owner TO PUBLIC;
GRANT UPDATE (version, number, time, structure) ON alveus.ledger TO PUBLIC;
GRANT INSERT ON alveus.setback TO PUBLIC;
GRANT INSERT, UPDATE, DELETE ON alveus.owner TO PUBLIC;
GRANT SELECT, INSERT, DELETE ON alveus.change TO PUBLIC;
GRANT USAGE, SELECT ON SEQUENCE alveus.scope_id_seq, alveus.memory_set_id_seq, alveus.agent_id_seq,
    alveus.lane_id_seq TO PUBLIC;
GRANT SELECT, DELETE, INSERT (id, space, key),
    UPDATE (space, key, head, floor, since) ON alveus.scope TO PUBLIC;
GRANT SELECT, DELETE, INSERT (space, key, owner, epoch),
    UPDATE (space, key, owner, epoch) ON alveus.lease TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON alveus.note, alveus.journal, alveus.node,
    alveus.memory_set, alveus.item, alveus.link, alveus.stub, alveus.compaction, alveus.access,
    alveus.feature, alveus.staged, alveus.agent, alveus.lane, alveus.run, alveus.step,
    alveus.durable_call, alveus.output, alveus.consumer, alveus.event_id, alveus.receipt,
    alveus.appender TO PUBLIC;

-- A user who may use a space sees and changes its rows. The spaces of the user are looked up once
-- per statement. A policy that reads another table sees the rows that the policy there allows.

CREATE POLICY wall ON alveus.scope USING (home = ANY ((SELECT alveus.granted(current_user))::text[]));
CREATE POLICY wall ON alveus.lease USING (home = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY wall ON alveus.agent
USING ('space ' || space = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY wall ON alveus.receipt
USING (owner = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY readable ON alveus.note FOR SELECT USING (alveus.owner_in(name) IS NULL
    OR alveus.owner_in(name) = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY wall ON alveus.note USING (CASE WHEN alveus.owner_in(name) IS NOT NULL
    THEN alveus.owner_in(name) = ANY ((SELECT alveus.granted(current_user))::text[])
    ELSE name NOT IN ('salt', 'ops swept') END);

CREATE POLICY wall ON alveus.journal USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = journal.scope));
CREATE POLICY wall ON alveus.node USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = node.scope));
CREATE POLICY wall ON alveus.memory_set USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = memory_set.scope));
CREATE POLICY wall ON alveus.lane USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = lane.scope));

CREATE POLICY wall ON alveus.item USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = item.set_id));
CREATE POLICY wall ON alveus.feature USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = feature.set_id));
CREATE POLICY wall ON alveus.stub USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = stub.set_id));
CREATE POLICY wall ON alveus.compaction USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = compaction.set_id));

CREATE POLICY readable ON alveus.change FOR SELECT USING (TRUE);
CREATE POLICY wall ON alveus.change USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = change.set_id));

CREATE POLICY wall ON alveus.link USING (EXISTS (SELECT FROM alveus.item
    WHERE item.row = link.row));
CREATE POLICY wall ON alveus.staged USING (EXISTS (SELECT FROM alveus.item
    WHERE item.row = staged.row));
CREATE POLICY wall ON alveus.access USING (EXISTS (SELECT FROM alveus.item
    WHERE item.first = access.first));

CREATE POLICY wall ON alveus.run USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = run.agent));
CREATE POLICY wall ON alveus.output USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = output.agent));
CREATE POLICY wall ON alveus.consumer USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = consumer.agent));
CREATE POLICY wall ON alveus.event_id USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = event_id.agent));

CREATE POLICY wall ON alveus.step USING (EXISTS (SELECT FROM alveus.run
    WHERE run.id = step.id >> 20));
CREATE POLICY wall ON alveus.durable_call USING (EXISTS (SELECT FROM alveus.run
    WHERE run.id = durable_call.step >> 20));

CREATE POLICY readable ON alveus.owner FOR SELECT USING (TRUE);
CREATE POLICY wall ON alveus.owner
USING (role = current_user OR expires < clock_timestamp()) WITH CHECK (role = current_user);

CREATE POLICY wall ON alveus.appender USING (role = current_user);

ALTER TABLE alveus.scope ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.agent ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.receipt ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.note ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.journal ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.node ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.memory_set ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.lane ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.item ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.feature ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.stub ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.compaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.change ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.link ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.staged ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.access ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.run ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.output ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.consumer ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.event_id ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.step ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.durable_call ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.owner ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.appender ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.space_grant ENABLE ROW LEVEL SECURITY;

-- --- no copies of contents -----------------------------------------------------------------------
--
-- The planner keeps no samples of texts and bytes, which would outlive the rows.

DO $$
DECLARE
    sampled record;
BEGIN
    FOR sampled IN SELECT attrelid::regclass AS relation, attname FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r'
        WHERE relnamespace = (SELECT relnamespace FROM pg_class
            WHERE oid = 'alveus.ledger'::regclass)
        AND atttypid IN ('text'::regtype, 'bytea'::regtype) AND attnum > 0 AND NOT attisdropped
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0',
            sampled.relation, sampled.attname);
    END LOOP;
END $$;

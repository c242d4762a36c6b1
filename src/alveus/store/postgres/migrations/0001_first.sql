-- least: 1
-- The first schema of an alveus store in PostgreSQL; the tables are those of store/sqlite/schema.sql.
--
-- `alveus` stands for the schema that the store is in. Rows are versioned: `begun` and `ended` are
-- commit numbers, a live row has no end. `node.id`, `item.row` and `output.id` are (commit number
-- << 20 | position in the commit). Times: microseconds since 1970, UTC. A `bytea` that is not a
-- digest, terms or vectors holds wire text, or a value that contains bytes, packed.
--
-- Names may have 4,096 characters, too many for a B-tree: they are found by `digest(name)`, and
-- every query that compares a name compares its digest too. U+0000, which PostgreSQL's text cannot
-- hold, is kept as U+0001 U+0002, and U+0001 as U+0001 U+0003; that keeps the order of texts.

CREATE SCHEMA IF NOT EXISTS alveus;

CREATE FUNCTION alveus.digest(name text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(sha256(convert_to(name, 'UTF8')) FOR 16);

CREATE FUNCTION alveus.size_of(content bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN octet_length(content);

CREATE FUNCTION alveus.size_of(content text) RETURNS bigint  -- in UTF-8, before U+0000 is replaced
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN octet_length(content) - (length(content) - length(replace(content, E'\x01', '')));

CREATE FUNCTION alveus.is_meant(content text, metadata text) RETURNS boolean  -- as is_meant in
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE                                   -- store/records.py
RETURN btrim(content, E'\t\n\x0b\f\r\x1c\x1d\x1e\x1f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003'
        '\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000') <> ''
    OR CASE json_typeof(metadata::json -> 'caption')
        WHEN 'string' THEN (metadata::json -> 'caption')::text <> '""'
        WHEN 'array' THEN json_array_length(metadata::json -> 'caption') > 0 AND NOT EXISTS (
            SELECT FROM json_array_elements(metadata::json -> 'caption') AS one
            WHERE json_typeof(one) <> 'string')
        ELSE FALSE END;

CREATE TABLE alveus.ledger (   -- one row, which every transaction that writes locks
    version bigint NOT NULL,   -- how many did
    number bigint NOT NULL DEFAULT 0,      -- the last commit, and its time
    time bigint NOT NULL DEFAULT 0,
    structure bigint NOT NULL DEFAULT 0,   -- changes of what hosts remember: the numbers of keys
                                           -- and sets, their definitions, notes
    schema integer NOT NULL,   -- the number of this schema
    least integer NOT NULL     -- the least one that a program must know to work with it
);

CREATE FUNCTION alveus.structure_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE alveus.ledger SET structure = structure + 1;
    RETURN NULL;
END $$;

CREATE TABLE alveus.owner (    -- who may hold leases, and until when it counts as alive
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    expires timestamptz NOT NULL           -- by the server's clock; its process moves it on
);

CREATE TABLE alveus.note (     -- small facts: the salt, the embedder of each space
    name text COLLATE "C" NOT NULL,
    text text COLLATE "C" NOT NULL
);

CREATE UNIQUE INDEX note_name ON alveus.note (alveus.digest(name));

CREATE TRIGGER note_changed AFTER INSERT OR UPDATE OR DELETE ON alveus.note
FOR EACH STATEMENT EXECUTE FUNCTION alveus.structure_changed();

CREATE TABLE alveus.scope (    -- a key of a space; key '' is a knowledge (a key is never empty);
                               -- space '': a forgotten key, its name a digest
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    head bigint NOT NULL DEFAULT 0,        -- the last commit that changed its exact tree
    floor bigint NOT NULL DEFAULT 0,       -- the commit, and the time, from which on the past of
    since bigint NOT NULL DEFAULT 0        -- the tree is whole: what was removed was there before
);

CREATE UNIQUE INDEX scope_name ON alveus.scope (alveus.digest(space), alveus.digest(key));
CREATE INDEX scope_order ON alveus.scope (alveus.digest(space), left(key, 64));

CREATE TRIGGER scope_renamed AFTER UPDATE OF space, key OR DELETE ON alveus.scope
FOR EACH STATEMENT EXECUTE FUNCTION alveus.structure_changed();

CREATE TABLE alveus.lease (    -- the right to run a key; a higher epoch fences the earlier owner
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    owner text COLLATE "C",                -- NULL: given back
    epoch bigint NOT NULL
);

CREATE UNIQUE INDEX lease_name ON alveus.lease (alveus.digest(space), alveus.digest(key));

CREATE TABLE alveus.journal (  -- one row per commit; what it changed is found by reference
    n bigint PRIMARY KEY,
    time bigint NOT NULL,
    scope bigint NOT NULL,
    op bytea,                  -- digest of its name, while repetitions are recognised
    request bytea,             -- digest of what was asked
    result bytea,              -- what a repetition is told
    ended text COLLATE "C",    -- JSON: {"nodes": [id, …] removed, "items": [row, …] ended}
    erased bigint              -- the commit that erased what this one says
);

CREATE UNIQUE INDEX journal_op ON alveus.journal (op) WHERE op IS NOT NULL;
CREATE INDEX journal_scope ON alveus.journal (scope);

CREATE TABLE alveus.setback (  -- commits whose time is before that of the last one: a clock that
    n bigint PRIMARY KEY,      -- was ahead went back; in between times rise with the numbers
    time bigint NOT NULL
);

CREATE TABLE alveus.node (     -- one version of one node of an exact tree
    id bigint PRIMARY KEY,
    scope bigint NOT NULL,
    parent text COLLATE "C" NOT NULL,      -- path of the object above, names escaped and dotted
    name text COLLATE "C" NOT NULL,        -- escaped
    place bigint NOT NULL,     -- order among its siblings: the id of the version that made it
    value bytea,               -- NULL: an object
    expires bigint,
    begun bigint NOT NULL,
    ended bigint
);

CREATE UNIQUE INDEX node_live ON alveus.node (scope, alveus.digest(parent), alveus.digest(name))
WHERE ended IS NULL;

CREATE INDEX node_ended ON alveus.node (scope, alveus.digest(parent), ended)
WHERE ended IS NOT NULL;

CREATE INDEX node_expires ON alveus.node (expires) WHERE expires IS NOT NULL;

CREATE TABLE alveus.memory_set (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    items bigint NOT NULL DEFAULT 0,       -- live; what begins is counted as it is inserted,
                                           -- what ends by triggers
    bytes bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    retention bigint,          -- how long ended versions are kept; NULL: for good
    floor bigint NOT NULL DEFAULT 0        -- the last commit whose ended versions were purged
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX set_name ON alveus.memory_set (scope, alveus.digest(name));
CREATE INDEX set_retention ON alveus.memory_set (id) WHERE retention IS NOT NULL;

CREATE TRIGGER set_changed AFTER UPDATE OF scope, name, definition OR DELETE ON alveus.memory_set
FOR EACH STATEMENT EXECUTE FUNCTION alveus.structure_changed();

CREATE TABLE alveus.item (     -- one version of one item
    row bigint PRIMARY KEY,
    set_id bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    first bigint NOT NULL,     -- row of its first version: orders items of equal time
    version bigint NOT NULL,
    begun bigint NOT NULL,
    ended bigint,
    time bigint NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    value bytea,               -- NULL: a str, the same as text
    text text COLLATE "C",
    metadata text COLLATE "C" NOT NULL,
    importance double precision NOT NULL,
    speaker text COLLATE "C",
    role text COLLATE "C",
    session text COLLATE "C",
    sources text COLLATE "C",  -- JSON list of ids; NULL: none
    compacted integer NOT NULL,
    tokens bigint NOT NULL DEFAULT 0,
    until bigint,              -- the end of the span of time that it stands for
    expires bigint,
    valid_from bigint,         -- when what it says began to hold, and ceased to
    valid_to bigint
);

CREATE UNIQUE INDEX item_versions ON alveus.item (set_id, alveus.digest(id), version);
CREATE INDEX item_order ON alveus.item (set_id, time, first) WHERE ended IS NULL;
CREATE INDEX item_ended ON alveus.item (set_id, ended) WHERE ended IS NOT NULL;
CREATE INDEX item_first ON alveus.item (first);

CREATE INDEX item_expires ON alveus.item (set_id, expires)
WHERE ended IS NULL AND expires IS NOT NULL;

CREATE INDEX item_timed ON alveus.item (set_id)
WHERE ended IS NULL AND (valid_from IS NOT NULL OR valid_to IS NOT NULL);

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

CREATE TABLE alveus.link (     -- which version was derived from which
    row bigint NOT NULL,
    source bigint NOT NULL,
    PRIMARY KEY (row, source)
);

CREATE INDEX link_source ON alveus.link (source, row);

CREATE TABLE alveus.stub (     -- what a version came from, to any depth, that is purged by now
    row bigint NOT NULL,
    set_id bigint NOT NULL,
    source bytea NOT NULL,     -- digest of its id
    PRIMARY KEY (row, set_id, source)
);

CREATE INDEX stub_source ON alveus.stub (set_id, source);

CREATE TABLE alveus.compaction (
    id bigint PRIMARY KEY,     -- commit number << 20 | position in the commit
    set_id bigint NOT NULL,
    how text COLLATE "C" NOT NULL,         -- JSON: the strategy, and who did it
    retired text COLLATE "C" NOT NULL,     -- JSON: rows of versions; those erased are not there
    added text COLLATE "C" NOT NULL,
    undone bigint,             -- the commit that undid it
    purged boolean NOT NULL DEFAULT FALSE  -- whether what it retired is no longer kept
);

CREATE INDEX compaction_of_set ON alveus.compaction (set_id, id);
CREATE INDEX compaction_undone ON alveus.compaction (undone) WHERE undone IS NOT NULL;

CREATE TABLE alveus.access (   -- when an item was last read; flushed with later commits
    first bigint PRIMARY KEY,
    time bigint NOT NULL
);

CREATE TABLE alveus.feature (  -- what search reads of a version
    set_id bigint NOT NULL,
    ended bigint NOT NULL,     -- 0: live
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
    terms bytea NOT NULL,      -- term hashes (u32) then counts (u8)
    tokens bigint NOT NULL,
    temporal integer NOT NULL,
    vectors bytea,             -- int8 rows; NULL: waits for the embedder; empty: never
    PRIMARY KEY (set_id, ended, row)
);

CREATE INDEX feature_pending ON alveus.feature (ended, row) WHERE vectors IS NULL;

CREATE TABLE alveus.staged (   -- vectors of another embedder, until they take their places
    row bigint PRIMARY KEY,
    vectors bytea NOT NULL
);

CREATE TABLE alveus.change (   -- what happened to features; the oldest lines are dropped
    seq bigint PRIMARY KEY,    -- a line of several rows takes as many numbers; this is the last
    set_id bigint NOT NULL,
    row bigint NOT NULL,       -- the first of its rows, which follow each other
    kind integer NOT NULL,     -- 0 added, 1 ended, 2 embedded, 3 removed
    rows bigint NOT NULL DEFAULT 1
);

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

CREATE TABLE alveus.agent (    -- whose lanes they are: the name of a runner, in a space
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    floor bigint NOT NULL DEFAULT 0,       -- the last of its outputs that was pruned
    pruned bigint NOT NULL DEFAULT 0       -- the last of its runs that was: no id is used again
);

CREATE UNIQUE INDEX agent_name ON alveus.agent (alveus.digest(space), alveus.digest(name));

CREATE TABLE alveus.lane (     -- the queue of one agent and key
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent bigint NOT NULL,
    scope bigint NOT NULL,
    next bigint NOT NULL,      -- the number of its next run
    UNIQUE (agent, scope)
);

CREATE INDEX lane_scope ON alveus.lane (scope);

CREATE TABLE alveus.run (
    id bigint PRIMARY KEY,
    agent bigint NOT NULL,
    lane bigint NOT NULL,
    number bigint NOT NULL,
    status integer NOT NULL,   -- 0 waiting, 1 parked, 2 done, 3 discarded, 4 retried
    event bytea NOT NULL,
    accepted bigint NOT NULL,
    now bigint,                -- its own time; NULL: not begun
    actions text COLLATE "C",  -- JSON: what the event set off
    ended bigint,
    error text COLLATE "C",
    origin bigint,             -- the run whose input it took over
    erased bigint              -- the commit that erased its event and all that it left
);

CREATE INDEX run_open ON alveus.run (agent, lane, id, status) WHERE ended IS NULL;
CREATE INDEX run_ended ON alveus.run (agent, ended) WHERE ended IS NOT NULL;
CREATE INDEX run_lane ON alveus.run (lane, id);
CREATE INDEX run_origin ON alveus.run (origin) WHERE origin IS NOT NULL;

CREATE TABLE alveus.step (     -- a task that is done
    id bigint PRIMARY KEY,     -- run << 20 | ordinal
    n bigint NOT NULL,
    action text COLLATE "C" NOT NULL,
    sent bytea,
    sensory bytea,             -- NULL once the run has ended
    looked text COLLATE "C",
    skipped text COLLATE "C"
);

CREATE TABLE alveus.durable_call (
    step bigint NOT NULL,      -- of the task, which need not be done: run << 20 | ordinal
    position bigint NOT NULL,
    n bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    status integer NOT NULL,   -- 0 pending, 1 returned, 2 raised
    outcome bytea,
    attempts bigint NOT NULL,
    PRIMARY KEY (step, position)
);

CREATE TABLE alveus.output (   -- an event for the world
    agent bigint NOT NULL,
    id bigint NOT NULL,        -- commit number << 20 | position in the commit
    step bigint NOT NULL,
    event bytea NOT NULL,
    PRIMARY KEY (agent, id)
);

CREATE TABLE alveus.consumer ( -- who reads outputs, and up to where it has
    agent bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    position bigint NOT NULL
);

CREATE UNIQUE INDEX consumer_name ON alveus.consumer (agent, alveus.digest(name));

CREATE TABLE alveus.event_id ( -- ids of inputs, while repetitions are recognised
    agent bigint NOT NULL,
    digest bytea NOT NULL,
    run bigint NOT NULL,       -- it may be pruned before this is
    number bigint NOT NULL,
    request bytea,             -- digest of what was sent
    time bigint NOT NULL,
    PRIMARY KEY (agent, digest)
);

CREATE INDEX event_id_time ON alveus.event_id (agent, time);

CREATE TABLE alveus.receipt (  -- what was forgotten: counts and digests, no content
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    n bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,       -- the space or knowledge
    asked text COLLATE "C" NOT NULL,       -- JSON
    erased text COLLATE "C" NOT NULL,      -- JSON
    state integer NOT NULL,    -- 0 erased, 1 rewritten but for side files, 2 scrubbed
    open text COLLATE "C" NOT NULL,        -- JSON: runs whose records go once they have ended
    held text COLLATE "C" NOT NULL,        -- JSON: who was in the way when it was scrubbed last
    scrubbed bigint
);

CREATE INDEX receipt_of_owner ON alveus.receipt (alveus.digest(owner), n);

-- The whole schema of an alveus store today; migrations/ lead here from every earlier one.
--
-- Rows are versioned: `begun` and `ended` are commit numbers, a live row has no end.
-- `node.id`, `item.row` and `output.id` are (commit number << 20 | position in the commit): unique,
-- never reused, rising, and all that one commit began lies in one range. Times: microseconds, UTC.
-- A column that may be ANY holds wire text, or a value that contains bytes, packed.

CREATE TABLE note (            -- small facts: the salt, the embedder of each space
    name TEXT NOT NULL PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE scope (           -- a key of a space; key '' is a knowledge (a key is never empty);
                               -- space '': a forgotten key, its name a digest
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    head INTEGER NOT NULL DEFAULT 0,   -- the last commit that changed its exact tree
    floor INTEGER NOT NULL DEFAULT 0,  -- the commit, and the time, from which on the past of
    since INTEGER NOT NULL DEFAULT 0,  -- the tree is whole: what was removed was there before
    UNIQUE (space, key)
) STRICT;

CREATE TABLE lease (           -- the right to run a key; a higher epoch fences the earlier owner
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    owner TEXT,                -- NULL: given back
    epoch INTEGER NOT NULL,
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (         -- one row per commit; what it changed is found by reference
    n INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    scope INTEGER NOT NULL REFERENCES scope,
    op BLOB,                   -- digest of its name, while repetitions are recognised
    request BLOB,              -- digest of what was asked
    result ANY,                -- what a repetition is told
    ended TEXT,                -- JSON: {"nodes": [id, …] removed, "items": [row, …] ended}
    erased INTEGER             -- the commit that erased what this one says
) STRICT;

CREATE UNIQUE INDEX journal_op ON journal (op) WHERE op IS NOT NULL;

CREATE TABLE setback (         -- commits whose time is before that of the last one: a clock that
    n INTEGER PRIMARY KEY,     -- was ahead went back; in between times rise with the numbers
    time INTEGER NOT NULL
) STRICT;

CREATE TABLE node (            -- one version of one node of an exact tree
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scope,
    parent TEXT NOT NULL,      -- path of the object above, names escaped and dotted; '' is the root
    name TEXT NOT NULL,        -- escaped
    place INTEGER NOT NULL,    -- order among its siblings: the id of the version that made it
    value ANY,                 -- wire form, or packed; NULL: an object
    expires INTEGER,
    begun INTEGER NOT NULL,
    ended INTEGER
) STRICT;

CREATE UNIQUE INDEX node_live ON node (scope, parent, name) WHERE ended IS NULL;
CREATE INDEX node_ended ON node (scope, parent, ended) WHERE ended IS NOT NULL;
CREATE INDEX node_expires ON node (expires) WHERE expires IS NOT NULL;

CREATE TABLE memory_set (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: caches and side files know sets by it
    scope INTEGER NOT NULL REFERENCES scope,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    items INTEGER NOT NULL DEFAULT 0,      -- live; what begins is counted as it is inserted,
                                           -- what ends by triggers
    bytes INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    retention INTEGER,         -- how long ended versions are kept; NULL: for good
    floor INTEGER NOT NULL DEFAULT 0,      -- the last commit whose ended versions were purged
    UNIQUE (scope, name)
) STRICT;

CREATE INDEX set_retention ON memory_set (id) WHERE retention IS NOT NULL;

CREATE TABLE item (            -- one version of one item
    row INTEGER PRIMARY KEY,
    set_id INTEGER NOT NULL REFERENCES memory_set,
    id TEXT NOT NULL,
    first INTEGER NOT NULL,    -- row of its first version: orders items of equal time
    version INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    ended INTEGER,
    time INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    value ANY,                 -- wire form, or packed; NULL: a str, the same as text
    text TEXT,
    metadata TEXT NOT NULL,
    importance REAL NOT NULL,
    speaker TEXT,
    role TEXT,
    session TEXT,
    sources TEXT,              -- JSON list of ids; NULL: none
    compacted INTEGER NOT NULL,
    tokens INTEGER NOT NULL DEFAULT 0,
    until INTEGER,             -- the end of the span of time that it stands for
    expires INTEGER,
    valid_from INTEGER,        -- when what it says began to hold, and ceased to
    valid_to INTEGER
) STRICT;

CREATE UNIQUE INDEX item_versions ON item (set_id, id, version);  -- the last one may be live
CREATE INDEX item_order ON item (set_id, time, first) WHERE ended IS NULL;
CREATE INDEX item_ended ON item (set_id, ended) WHERE ended IS NOT NULL;

CREATE INDEX item_expires ON item (set_id, expires)
WHERE ended IS NULL AND expires IS NOT NULL;

CREATE INDEX item_timed ON item (set_id)
WHERE ended IS NULL AND (valid_from IS NOT NULL OR valid_to IS NOT NULL);

CREATE TRIGGER item_ends AFTER UPDATE OF ended ON item
WHEN old.ended IS NULL AND new.ended IS NOT NULL BEGIN
    UPDATE memory_set SET items = items - 1, tokens = tokens - old.tokens, bytes = bytes
        - ifnull(octet_length(old.value), 0) - ifnull(octet_length(old.text), 0)
        - octet_length(old.metadata)
    WHERE id = old.set_id;
END;

CREATE TRIGGER item_vanishes AFTER DELETE ON item WHEN old.ended IS NULL BEGIN
    UPDATE memory_set SET items = items - 1, tokens = tokens - old.tokens, bytes = bytes
        - ifnull(octet_length(old.value), 0) - ifnull(octet_length(old.text), 0)
        - octet_length(old.metadata)
    WHERE id = old.set_id;
END;

CREATE TABLE link (            -- which version was derived from which
    row INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (row, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_source ON link (source, row);

CREATE TABLE stub (            -- what a version came from, to any depth, that is purged by now
    row INTEGER NOT NULL,
    set_id INTEGER NOT NULL,
    source BLOB NOT NULL,      -- digest of its id
    PRIMARY KEY (row, set_id, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX stub_source ON stub (set_id, source);

CREATE TABLE compaction (
    id INTEGER PRIMARY KEY,    -- commit number << 20 | position in the commit
    set_id INTEGER NOT NULL REFERENCES memory_set,
    how TEXT NOT NULL,         -- JSON: the strategy, and who did it
    retired TEXT NOT NULL,     -- JSON: rows of versions; those erased since are not there
    added TEXT NOT NULL,
    undone INTEGER,            -- the commit that undid it
    purged INTEGER NOT NULL DEFAULT 0      -- whether what it retired is no longer kept
) STRICT;

CREATE INDEX compaction_of_set ON compaction (set_id, id);
CREATE INDEX compaction_undone ON compaction (undone) WHERE undone IS NOT NULL;

CREATE TABLE access (          -- when an item was last read; flushed with later commits
    first INTEGER PRIMARY KEY,
    time INTEGER NOT NULL
) STRICT;

CREATE TABLE feature (         -- what search reads of a version, clustered by set, live ones first
    set_id INTEGER NOT NULL,
    ended INTEGER NOT NULL,    -- 0: live
    row INTEGER NOT NULL,
    first INTEGER NOT NULL,
    id TEXT NOT NULL,
    begun INTEGER NOT NULL,
    time INTEGER NOT NULL,
    importance REAL NOT NULL,
    speaker TEXT,
    role TEXT,
    session TEXT,
    metadata TEXT NOT NULL,
    terms BLOB NOT NULL,       -- term hashes (u32) then counts (u8)
    tokens INTEGER NOT NULL,
    temporal INTEGER NOT NULL,
    vectors BLOB,              -- int8 rows; NULL: waits for the embedder; empty: never
    PRIMARY KEY (set_id, ended, row)
) STRICT, WITHOUT ROWID;

CREATE INDEX feature_pending ON feature (ended, row) WHERE vectors IS NULL;

CREATE TABLE staged (          -- vectors of another embedder, until they take their places
    row INTEGER PRIMARY KEY,
    vectors BLOB NOT NULL
) STRICT;

CREATE TABLE change (          -- what happened to features; the oldest lines are dropped
    seq INTEGER PRIMARY KEY,   -- a line of several rows takes as many numbers; this is the last
    set_id INTEGER NOT NULL,
    row INTEGER NOT NULL,      -- the first of its rows, which follow each other
    kind INTEGER NOT NULL,     -- 0 added, 1 ended, 2 embedded, 3 removed
    rows INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TRIGGER feature_ended AFTER UPDATE OF ended ON feature BEGIN
    INSERT INTO change (set_id, row, kind) VALUES (new.set_id, new.row, 1);
END;

CREATE TRIGGER feature_embedded AFTER UPDATE OF vectors ON feature BEGIN
    INSERT INTO change (set_id, row, kind) VALUES (new.set_id, new.row, 2);
END;

CREATE TRIGGER feature_removed AFTER DELETE ON feature BEGIN
    INSERT INTO change (set_id, row, kind) VALUES (old.set_id, old.row, 3);
END;

CREATE TABLE agent (           -- whose lanes they are: the name of a runner, in a space
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    floor INTEGER NOT NULL DEFAULT 0,      -- the last of its outputs that was pruned
    pruned INTEGER NOT NULL DEFAULT 0,     -- the last of its runs that was: no id is used again
    UNIQUE (space, name)
) STRICT;

CREATE TABLE lane (            -- the queue of one agent and key
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agent,
    scope INTEGER NOT NULL REFERENCES scope,
    next INTEGER NOT NULL,     -- the number of its next run
    UNIQUE (agent, scope)
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agent,
    lane INTEGER NOT NULL REFERENCES lane,
    number INTEGER NOT NULL,
    status INTEGER NOT NULL,   -- 0 waiting, 1 parked, 2 done, 3 discarded, 4 retried
    event ANY NOT NULL,
    accepted INTEGER NOT NULL,
    now INTEGER,               -- its own time; NULL: not begun
    actions TEXT,              -- JSON: what the event set off
    ended INTEGER,
    error TEXT,
    origin INTEGER,            -- the run whose input it took over
    erased INTEGER             -- the commit that erased its event and all that it left
) STRICT;

CREATE INDEX run_open ON run (agent, lane, id, status) WHERE ended IS NULL;
CREATE INDEX run_ended ON run (agent, ended) WHERE ended IS NOT NULL;

CREATE TABLE step (            -- a task that is done
    id INTEGER PRIMARY KEY,    -- run << 20 | ordinal
    n INTEGER NOT NULL REFERENCES journal,
    action TEXT NOT NULL,
    sent ANY,
    sensory ANY,               -- NULL once the run has ended
    looked TEXT,
    skipped TEXT
) STRICT;

CREATE TABLE durable_call (
    step INTEGER NOT NULL,     -- of the task, which need not be done: run << 20 | ordinal
    position INTEGER NOT NULL,
    n INTEGER NOT NULL REFERENCES journal,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    status INTEGER NOT NULL,   -- 0 pending, 1 returned, 2 raised
    outcome ANY,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (step, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE output (          -- an event for the world
    agent INTEGER NOT NULL REFERENCES agent,
    id INTEGER NOT NULL,       -- commit number << 20 | position in the commit
    step INTEGER NOT NULL REFERENCES step,
    event ANY NOT NULL,
    PRIMARY KEY (agent, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE consumer (        -- who reads outputs, and up to where it has
    agent INTEGER NOT NULL REFERENCES agent,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE event_id (        -- ids of inputs, while repetitions are recognised
    agent INTEGER NOT NULL REFERENCES agent,
    digest BLOB NOT NULL,
    run INTEGER NOT NULL,      -- it may be pruned before this is
    number INTEGER NOT NULL,
    request BLOB,              -- digest of what was sent
    time INTEGER NOT NULL,
    PRIMARY KEY (agent, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX event_id_time ON event_id (agent, time);

CREATE TABLE receipt (         -- what was forgotten: counts and digests, no content
    id TEXT NOT NULL PRIMARY KEY,
    n INTEGER NOT NULL REFERENCES journal,
    owner TEXT NOT NULL,       -- the space or knowledge
    asked TEXT NOT NULL,       -- JSON
    erased TEXT NOT NULL,      -- JSON
    state INTEGER NOT NULL,    -- 0 erased, 1 rewritten but for log and side files, 2 scrubbed
    open TEXT NOT NULL,        -- JSON: runs whose records are to be erased once they have ended
    held TEXT NOT NULL,        -- JSON: who was in the way when it was scrubbed last
    scrubbed INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX receipt_of_owner ON receipt (owner, n);

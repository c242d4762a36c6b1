-- The schema of a store file, number 1: one part for each table, in the order of a reader.
--
-- Versions. Rows that memory consists of are never overwritten: `begun` is the number of the commit
-- that made a row, `ended` that of the commit that ended it; NULL: the row is live.
-- Numbers. An id or row of a node, item, compaction or output is (commit number << 20 | position in
-- the commit). It is unique, it is never used again, later ones are higher, and all that a commit
-- made lies in one range.
-- Times are microseconds since 1970, UTC.
-- Values. A column of type ANY holds the JSON text of a value, or the packed form of a value that
-- contains bytes (store/packed_values.py).

-- Small facts by name: the salt of the store, the embedder of each space, and the like.
CREATE TABLE note (
    name TEXT NOT NULL PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys and knowledge. Rows of other tables refer to a scope by its id.
CREATE TABLE scope (
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,               -- '': a forgotten key, whose name is a digest
    key TEXT NOT NULL,                 -- '': a knowledge, named by `space`; no key is empty
    head INTEGER NOT NULL DEFAULT 0,   -- the last commit that changed its exact tree
    floor INTEGER NOT NULL DEFAULT 0,  -- the past of its tree is complete from this commit on,
    since INTEGER NOT NULL DEFAULT 0,  -- which is of this time
    UNIQUE (space, key)
) STRICT;

-- The right to run a key: one row a key. A higher epoch fences the owner before.
CREATE TABLE lease (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    owner TEXT,                        -- NULL: given back
    epoch INTEGER NOT NULL,
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;

-- One row per commit. The row refers to what the commit changed, and does not repeat it.
CREATE TABLE journal (
    n INTEGER PRIMARY KEY,             -- 1, 2, 3 …: the order of all commits
    time INTEGER NOT NULL,
    scope INTEGER NOT NULL REFERENCES scope,
    op BLOB,                           -- digest of its name; NULL once it is recognised no longer
    request BLOB,                      -- digest of the request
    result ANY,                        -- the answer, which a repetition gets too
    ended TEXT,                        -- JSON: {"nodes": [id, …], "items": [row, …]}, as it ended
    erased INTEGER                     -- the commit that erased the contents of this row
) STRICT;

-- No two commits have the same op.
CREATE UNIQUE INDEX journal_op ON journal (op) WHERE op IS NOT NULL;

-- Commits whose time is before that of the commit before them: a clock that was ahead went back.
-- Between two rows of this table, times rise with the numbers of commits.
CREATE TABLE setback (
    n INTEGER PRIMARY KEY,
    time INTEGER NOT NULL
) STRICT;

-- Exact memory: a version of a node of a tree.
CREATE TABLE node (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scope,
    parent TEXT NOT NULL,              -- path of its object: escaped names with dots; '': the root
    name TEXT NOT NULL,                -- escaped
    place INTEGER NOT NULL,            -- its order among siblings: the id of its first version
    value ANY,                         -- NULL: an object
    expires INTEGER,
    begun INTEGER NOT NULL,
    ended INTEGER
) STRICT;

-- One live node has a name; the fields of an object lie side by side.
CREATE UNIQUE INDEX node_live ON node (scope, parent, name) WHERE ended IS NULL;
-- Reads of the past: what an object lost since a commit.
CREATE INDEX node_ended ON node (scope, parent, ended) WHERE ended IS NOT NULL;
-- Sweeps: what has expired.
CREATE INDEX node_expires ON node (expires) WHERE expires IS NOT NULL;

-- Sets, with what they hold. Inserts of items count up `items`, `bytes` and `tokens`; the triggers
-- of `item` count down.
CREATE TABLE memory_set (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- no id is used again: index files are named by it
    scope INTEGER NOT NULL REFERENCES scope,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,          -- JSON
    items INTEGER NOT NULL DEFAULT 0,  -- live ones; so are bytes and tokens
    bytes INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    retention INTEGER,                 -- how long ended versions are kept; NULL: forever
    floor INTEGER NOT NULL DEFAULT 0,  -- the last commit whose ended versions were purged
    UNIQUE (scope, name)
) STRICT;

-- Sweeps: sets that do not keep everything.
CREATE INDEX set_retention ON memory_set (id) WHERE retention IS NOT NULL;

-- A version of an item.
CREATE TABLE item (
    row INTEGER PRIMARY KEY,
    set_id INTEGER NOT NULL REFERENCES memory_set,
    id TEXT NOT NULL,
    first INTEGER NOT NULL,            -- row of its first version: orders items of equal time
    version INTEGER NOT NULL,          -- 1, 2, 3 …
    begun INTEGER NOT NULL,
    ended INTEGER,
    time INTEGER NOT NULL,             -- when it happened
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    value ANY,                         -- NULL: a str, which is `text`
    text TEXT,
    metadata TEXT NOT NULL,            -- JSON
    importance REAL NOT NULL,
    speaker TEXT,
    role TEXT,
    session TEXT,
    sources TEXT,                      -- JSON list of ids; NULL: none
    compacted INTEGER NOT NULL,
    tokens INTEGER NOT NULL DEFAULT 0,
    until INTEGER,                     -- `time` to `until` is the span of what it sums up
    expires INTEGER,
    valid_from INTEGER,                -- what it says holds from this time
    valid_to INTEGER                   -- to this time
) STRICT;

-- Each version of an id is there once.
CREATE UNIQUE INDEX item_versions ON item (set_id, id, version);
-- Live items of a set in the order of their times.
CREATE INDEX item_order ON item (set_id, time, first) WHERE ended IS NULL;
-- Reads of the past, and sweeps: what a set lost since a commit.
CREATE INDEX item_ended ON item (set_id, ended) WHERE ended IS NOT NULL;

-- Live items of a set that expire, the next one first.
CREATE INDEX item_expires ON item (set_id, expires)
WHERE ended IS NULL AND expires IS NOT NULL;

-- Whether a set has live items that hold for a time only.
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

-- Lineage: the version `row` was derived from the version `source`. Both exist.
CREATE TABLE link (
    row INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (row, source)
) STRICT, WITHOUT ROWID;

-- What was derived from a version.
CREATE INDEX link_source ON link (source, row);

-- Lineage of purged sources: the version `row` came, in any number of steps, from an item of the
-- set whose versions are no longer there. Forgetting that item finds the version by it.
CREATE TABLE stub (
    row INTEGER NOT NULL,
    set_id INTEGER NOT NULL,
    source BLOB NOT NULL,              -- digest of the item's id
    PRIMARY KEY (row, set_id, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX stub_source ON stub (set_id, source);

-- Compactions, so that they can be listed and undone.
CREATE TABLE compaction (
    id INTEGER PRIMARY KEY,
    set_id INTEGER NOT NULL REFERENCES memory_set,
    how TEXT NOT NULL,                 -- JSON: the strategy, and who did it
    retired TEXT NOT NULL,             -- JSON: rows of versions, without those erased since
    added TEXT NOT NULL,               -- the same
    undone INTEGER,                    -- the commit that undid it
    purged INTEGER NOT NULL DEFAULT 0  -- 1: what it retired is no longer kept
) STRICT;

CREATE INDEX compaction_of_set ON compaction (set_id, id);
-- What a commit undid.
CREATE INDEX compaction_undone ON compaction (undone) WHERE undone IS NOT NULL;

-- When an item was last read. Written with later commits; a killed process may lose the last times.
CREATE TABLE access (
    first INTEGER PRIMARY KEY,         -- row of the item's first version
    time INTEGER NOT NULL
) STRICT;

-- What search reads of a version. Each version has one row. A set's rows lie side by side, the live
-- ones first, so that a search of a small set is one range.
CREATE TABLE feature (
    set_id INTEGER NOT NULL,
    ended INTEGER NOT NULL,            -- 0: live
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
    terms BLOB NOT NULL,               -- hashes of terms (u32), then their counts (u8)
    tokens INTEGER NOT NULL,
    temporal INTEGER NOT NULL,         -- how many words of its text are about time
    vectors BLOB,                      -- rows of int8; NULL: waits for the embedder; empty: none
    PRIMARY KEY (set_id, ended, row)
) STRICT, WITHOUT ROWID;

-- What waits for the embedder, live versions first.
CREATE INDEX feature_pending ON feature (ended, row) WHERE vectors IS NULL;

-- Vectors of the embedder that a memory changes to, until all are there and replace the old ones.
CREATE TABLE staged (
    row INTEGER PRIMARY KEY,
    vectors BLOB NOT NULL
) STRICT;

-- The change log of features, by which every process keeps its index up to date. The oldest lines
-- are dropped; an index that has not read them is made again. Inserts of features write their lines
-- themselves, the triggers write the others.
CREATE TABLE change (
    seq INTEGER PRIMARY KEY,           -- the last number of a line, which has one for each row
    set_id INTEGER NOT NULL,
    row INTEGER NOT NULL,              -- the first of its rows, which follow each other
    kind INTEGER NOT NULL,             -- 0 added, 1 ended, 2 embedded, 3 removed
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

-- Runners: each has a name within a space.
CREATE TABLE agent (
    id INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    floor INTEGER NOT NULL DEFAULT 0,  -- the last of its outputs that was pruned
    pruned INTEGER NOT NULL DEFAULT 0, -- the last of its runs that was pruned: no id is used again
    UNIQUE (space, name)
) STRICT;

-- The queue of one agent and key.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agent,
    scope INTEGER NOT NULL REFERENCES scope,
    next INTEGER NOT NULL,             -- the number of its next run
    UNIQUE (agent, scope)
) STRICT;

-- Accepted inputs, each with the run that processes it.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    agent INTEGER NOT NULL REFERENCES agent,
    lane INTEGER NOT NULL REFERENCES lane,
    number INTEGER NOT NULL,           -- 1, 2, 3 … within its lane
    status INTEGER NOT NULL,           -- 0 waiting, 1 parked, 2 done, 3 discarded, 4 retried
    event ANY NOT NULL,
    accepted INTEGER NOT NULL,
    now INTEGER,                       -- the time that its actions see; NULL: not begun
    actions TEXT,                      -- JSON: the actions that the event calls
    ended INTEGER,                     -- the time of its end
    error TEXT,
    origin INTEGER,                    -- the run whose input it took over
    erased INTEGER                     -- the commit that erased its event and all that it left
) STRICT;

-- Runs of a lane that have not ended, in their order.
CREATE INDEX run_open ON run (agent, lane, id, status) WHERE ended IS NULL;
-- Pruning: runs that ended.
CREATE INDEX run_ended ON run (agent, ended) WHERE ended IS NOT NULL;

-- Tasks of runs that are done, as they were committed.
CREATE TABLE step (
    id INTEGER PRIMARY KEY,            -- run << 20 | position of the task in the run
    n INTEGER NOT NULL REFERENCES journal,
    action TEXT NOT NULL,
    sent ANY,                          -- events to other actions
    sensory ANY,                       -- changes of sensory memory; NULL once the run has ended
    looked TEXT,                       -- JSON: what it read of memory
    skipped TEXT                       -- JSON: the error that its agent chose to go on after
) STRICT;

-- Durable calls of tasks, done or not: each is made once, and its outcome is kept.
CREATE TABLE durable_call (
    step INTEGER NOT NULL,             -- the id of the task's step, which need not exist yet
    position INTEGER NOT NULL,
    n INTEGER NOT NULL REFERENCES journal,
    name TEXT NOT NULL,
    digest TEXT NOT NULL,              -- of the arguments
    status INTEGER NOT NULL,           -- 0 pending, 1 returned, 2 raised
    outcome ANY,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (step, position)
) STRICT, WITHOUT ROWID;

-- Events for the world outside, in the order of their commits.
CREATE TABLE output (
    agent INTEGER NOT NULL REFERENCES agent,
    id INTEGER NOT NULL,
    step INTEGER NOT NULL REFERENCES step,
    event ANY NOT NULL,
    PRIMARY KEY (agent, id)
) STRICT, WITHOUT ROWID;

-- Named readers of outputs, each with the last output that it has read.
CREATE TABLE consumer (
    agent INTEGER NOT NULL REFERENCES agent,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;

-- Ids of accepted inputs: a repeated input is recognised as long as its row is kept, which may be
-- longer than its run is.
CREATE TABLE event_id (
    agent INTEGER NOT NULL REFERENCES agent,
    digest BLOB NOT NULL,              -- of the id
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    request BLOB,                      -- digest of the input
    time INTEGER NOT NULL,
    PRIMARY KEY (agent, digest)
) STRICT, WITHOUT ROWID;

-- Pruning: the oldest ids.
CREATE INDEX event_id_time ON event_id (agent, time);

-- Proofs of what was forgotten: counts and digests, no content.
CREATE TABLE receipt (
    id TEXT NOT NULL PRIMARY KEY,
    n INTEGER NOT NULL REFERENCES journal,
    owner TEXT NOT NULL,               -- the space or knowledge
    asked TEXT NOT NULL,               -- JSON: what to forget
    erased TEXT NOT NULL,              -- JSON: how much that was
    state INTEGER NOT NULL,            -- 0 erased, 1 database rewritten, 2 log and side files too
    open TEXT NOT NULL,                -- JSON: runs whose records are erased once they have ended
    held TEXT NOT NULL,                -- JSON: who held up the last scrub
    scrubbed INTEGER                   -- the time of that
) STRICT, WITHOUT ROWID;

CREATE INDEX receipt_of_owner ON receipt (owner, n);

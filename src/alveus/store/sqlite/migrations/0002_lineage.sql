-- What items were derived from, compactions that can be undone, items that have their time, and
-- what was forgotten.

ALTER TABLE scope ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN since INTEGER NOT NULL DEFAULT 0;

ALTER TABLE memory_set ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory_set ADD COLUMN retention INTEGER;
ALTER TABLE memory_set ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;

CREATE INDEX set_retention ON memory_set (id) WHERE retention IS NOT NULL;

ALTER TABLE item ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item ADD COLUMN until INTEGER;
ALTER TABLE item ADD COLUMN expires INTEGER;
ALTER TABLE item ADD COLUMN valid_from INTEGER;
ALTER TABLE item ADD COLUMN valid_to INTEGER;

UPDATE item SET tokens = ifnull((SELECT feature.tokens FROM feature
    WHERE feature.set_id = item.set_id AND feature.ended = ifnull(item.ended, 0)
    AND feature.row = item.row), 0);
UPDATE memory_set SET tokens = (SELECT ifnull(sum(item.tokens), 0) FROM item
    WHERE item.set_id = memory_set.id AND item.ended IS NULL);

CREATE INDEX item_expires ON item (set_id, expires)
WHERE ended IS NULL AND expires IS NOT NULL;

CREATE INDEX item_timed ON item (set_id)
WHERE ended IS NULL AND (valid_from IS NOT NULL OR valid_to IS NOT NULL);

DROP TRIGGER item_ends;
CREATE TRIGGER item_ends AFTER UPDATE OF ended ON item
WHEN old.ended IS NULL AND new.ended IS NOT NULL BEGIN
    UPDATE memory_set SET items = items - 1, tokens = tokens - old.tokens, bytes = bytes
        - ifnull(octet_length(old.value), 0) - ifnull(octet_length(old.text), 0)
        - octet_length(old.metadata)
    WHERE id = old.set_id;
END;

DROP TRIGGER item_vanishes;
CREATE TRIGGER item_vanishes AFTER DELETE ON item WHEN old.ended IS NULL BEGIN
    UPDATE memory_set SET items = items - 1, tokens = tokens - old.tokens, bytes = bytes
        - ifnull(octet_length(old.value), 0) - ifnull(octet_length(old.text), 0)
        - octet_length(old.metadata)
    WHERE id = old.set_id;
END;

CREATE TABLE link (
    row INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (row, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_source ON link (source, row);

CREATE TABLE stub (
    row INTEGER NOT NULL,
    set_id INTEGER NOT NULL,
    source BLOB NOT NULL,
    PRIMARY KEY (row, set_id, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX stub_source ON stub (set_id, source);

CREATE TABLE compaction (
    id INTEGER PRIMARY KEY,
    set_id INTEGER NOT NULL REFERENCES memory_set,
    how TEXT NOT NULL,
    retired TEXT NOT NULL,
    added TEXT NOT NULL,
    undone INTEGER,
    purged INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX compaction_of_set ON compaction (set_id, id);
CREATE INDEX compaction_undone ON compaction (undone) WHERE undone IS NOT NULL;

ALTER TABLE journal ADD COLUMN erased INTEGER;
ALTER TABLE run ADD COLUMN erased INTEGER;

CREATE TABLE receipt (
    id TEXT NOT NULL PRIMARY KEY,
    n INTEGER NOT NULL REFERENCES journal,
    owner TEXT NOT NULL,
    asked TEXT NOT NULL,
    erased TEXT NOT NULL,
    state INTEGER NOT NULL,
    open TEXT NOT NULL,
    held TEXT NOT NULL,
    scrubbed INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX receipt_of_owner ON receipt (owner, n);

-- Values that contain bytes are kept packed, as blobs (see packed_values.py). Rows stay as they are.
-- Only what is declared of columns changes; SQLite's page on ALTER TABLE allows it in this way.

PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql, ' value TEXT', ' value ANY')
WHERE type = 'table' AND name IN ('node', 'item');

UPDATE sqlite_schema SET sql = replace(sql, ' result TEXT', ' result ANY')
WHERE type = 'table' AND name = 'journal';

UPDATE sqlite_schema SET sql = replace(sql, ' event TEXT', ' event ANY')
WHERE type = 'table' AND name IN ('run', 'output');

UPDATE sqlite_schema
SET sql = replace(replace(sql, ' sent TEXT', ' sent ANY'), ' sensory TEXT', ' sensory ANY')
WHERE type = 'table' AND name = 'step';

UPDATE sqlite_schema SET sql = replace(sql, ' outcome TEXT', ' outcome ANY')
WHERE type = 'table' AND name = 'durable_call';

PRAGMA writable_schema = RESET;

-- A statement that SQLite itself takes for a change has all connections read the schema again.
CREATE TABLE changed (x ANY);
DROP TABLE changed;

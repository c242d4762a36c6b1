-- Each query counts a problem, which the comment above it describes; see `checking.problems`.

-- items without features
SELECT count(*) FROM item WHERE NOT EXISTS (SELECT 1 FROM feature WHERE set_id = item.set_id
    AND feature.ended = ifnull(item.ended, 0) AND feature.row = item.row);

-- features without items
SELECT count(*) FROM feature WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.row = feature.row);

-- items with several live versions
SELECT count(*) FROM (SELECT 1 FROM item
    WHERE ended IS NULL GROUP BY set_id, id HAVING count(*) > 1);

-- sets whose count is wrong
SELECT count(*) FROM memory_set WHERE items != (SELECT count(*) FROM item
    WHERE set_id = memory_set.id AND ended IS NULL);

-- runs whose lane is wrong
SELECT count(*) FROM run WHERE NOT EXISTS (SELECT 1 FROM lane WHERE lane.id = run.lane
    AND lane.agent = run.agent AND run.number < lane.next);

-- runs that ended in part
SELECT count(*) FROM run WHERE (status >= 2) != (ended IS NOT NULL)
    OR (now IS NULL) != (actions IS NULL);

-- steps without a run and a commit
SELECT count(*) FROM step WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.id = step.id >> 20
    AND now IS NOT NULL AND (ended IS NULL OR sensory IS NULL)) OR NOT EXISTS (SELECT 1
    FROM journal WHERE journal.n = step.n);

-- durable calls without a run
SELECT count(*) FROM durable_call WHERE NOT EXISTS (SELECT 1 FROM run
    WHERE run.id = durable_call.step >> 20 AND now IS NOT NULL);

-- outputs without a step
SELECT count(*) FROM output WHERE NOT EXISTS (SELECT 1 FROM step WHERE step.id = output.step
    AND step.n = output.id >> 20);

-- sets whose size is wrong
SELECT count(*) FROM memory_set WHERE bytes !=
    (SELECT ifnull(sum(ifnull(octet_length(value), 0) + ifnull(octet_length(text), 0)
    + octet_length(metadata)), 0) FROM item WHERE set_id = memory_set.id AND ended IS NULL);

-- sets whose tokens are wrong
SELECT count(*) FROM memory_set WHERE tokens != (SELECT ifnull(sum(tokens), 0) FROM item
    WHERE set_id = memory_set.id AND ended IS NULL);

-- items whose tokens are not those of their features
SELECT count(*) FROM item JOIN feature ON feature.set_id = item.set_id
    AND feature.row = item.row AND feature.ended = ifnull(item.ended, 0)
    WHERE feature.tokens != item.tokens;

-- links of versions that are not there
SELECT count(*) FROM link WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.row = link.row)
    OR NOT EXISTS (SELECT 1 FROM item WHERE item.row = link.source);

-- compactions without a commit or a set
SELECT count(*) FROM compaction WHERE NOT EXISTS (SELECT 1 FROM journal
    WHERE journal.n = compaction.id >> 20) OR NOT EXISTS (SELECT 1 FROM memory_set
    WHERE memory_set.id = set_id) OR undone IS NOT NULL AND NOT EXISTS (SELECT 1 FROM journal
    WHERE n = undone);

-- compactions of versions that they did not change
SELECT count(*) FROM compaction WHERE EXISTS (SELECT 1 FROM json_each(retired) AS r
    JOIN item ON item.row = r.value WHERE item.set_id != compaction.set_id
    OR item.ended IS NOT compaction.id >> 20) OR EXISTS (SELECT 1 FROM json_each(added) AS a
    JOIN item ON item.row = a.value WHERE item.set_id != compaction.set_id
    OR item.begun != compaction.id >> 20);

-- forgotten runs that left something
SELECT count(*) FROM run WHERE erased IS NOT NULL AND (event != '' OR error IS NOT NULL
    OR ended IS NULL OR EXISTS (SELECT 1 FROM step WHERE step.id BETWEEN run.id << 20
    AND (run.id << 20) + 1048575) OR EXISTS (SELECT 1 FROM durable_call
    WHERE step BETWEEN run.id << 20 AND (run.id << 20) + 1048575));

-- forgotten keys that left something
SELECT count(*) FROM scope WHERE space = '' AND (EXISTS (SELECT 1 FROM memory_set
    WHERE memory_set.scope = scope.id) OR EXISTS (SELECT 1 FROM node
    WHERE node.scope = scope.id) OR EXISTS (SELECT 1 FROM lane JOIN run ON run.lane = lane.id
    WHERE lane.scope = scope.id AND run.erased IS NULL));

-- receipts without a commit
SELECT count(*) FROM receipt WHERE NOT EXISTS (SELECT 1 FROM journal
    WHERE journal.n = receipt.n);

-- nodes whose parent is no object
SELECT count(*) FROM node AS child WHERE ended IS NULL AND parent != '' AND NOT EXISTS
    (SELECT 1 FROM node WHERE scope = child.scope AND value IS NULL AND ended IS NULL
    AND iif(parent = '', name, parent || '.' || name) = child.parent);

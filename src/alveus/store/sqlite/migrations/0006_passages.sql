-- What words read of a text: a long one is cut into passages, and texts may bear marks (see
-- values/words.py). What that changes is read again; `is_read_again`, `terms_of` and `tokens_of`
-- are functions of alveus.

UPDATE feature
SET terms = terms_of(item.text, item.time, item.speaker, item.metadata),
    tokens = tokens_of(item.text, item.time, item.speaker, item.metadata)
FROM item
WHERE item.set_id = feature.set_id AND item.row = feature.row
    AND ifnull(item.ended, 0) = feature.ended AND is_read_again(item.text);

UPDATE item
SET tokens = tokens_of(text, time, speaker, metadata)
WHERE is_read_again(text);

UPDATE memory_set
SET tokens = (
    SELECT ifnull(sum(tokens), 0) FROM item WHERE set_id = memory_set.id AND ended IS NULL
);

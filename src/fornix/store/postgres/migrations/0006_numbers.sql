-- least: 2
-- A draft gives new keys, sets, agents and lanes their numbers itself.

GRANT USAGE ON SEQUENCE fornix.scope_id_seq, fornix.memory_set_id_seq, fornix.agent_id_seq,
    fornix.lane_id_seq TO PUBLIC;
GRANT INSERT (id) ON fornix.scope TO PUBLIC;

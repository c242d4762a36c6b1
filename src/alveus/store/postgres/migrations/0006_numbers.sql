-- least: 2
-- A draft gives new keys, sets, agents and lanes their numbers itself.

GRANT USAGE, SELECT ON SEQUENCE alveus.scope_id_seq, alveus.memory_set_id_seq, alveus.agent_id_seq,
    alveus.lane_id_seq TO PUBLIC;
GRANT INSERT (id) ON alveus.scope TO PUBLIC;

CREATE FUNCTION alveus.check_number() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    IF row_security_active(tg_relid) THEN  -- a number that is yet to come would be in others' way
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

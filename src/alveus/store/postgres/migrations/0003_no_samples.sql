-- least: 2
-- Whether somebody may use a knowledge without the space of its name: what came of its items may lie
-- where nobody but the owner of the tables sees all of it.

CREATE FUNCTION alveus.is_shared(knowledge text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN EXISTS (SELECT FROM alveus.space_grant AS alone WHERE alone.home = 'knowledge ' || knowledge
    AND NOT EXISTS (SELECT FROM alveus.space_grant AS whole
        WHERE whole.role = alone.role AND whole.home = 'space ' || knowledge));

-- The server keeps no samples of texts and bytes for its planner: they would outlive the rows.

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

-- What was sampled before goes where the server has a function for that: from PostgreSQL 18 on.

DO $$
DECLARE
    sampled record;
BEGIN
    IF to_regproc('pg_catalog.pg_clear_attribute_stats') IS NULL THEN
        RETURN;
    END IF;
    FOR sampled IN SELECT nspname, relname, attname FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r'
        JOIN pg_namespace AS space ON space.oid = relnamespace
        WHERE relnamespace = (SELECT relnamespace FROM pg_class
            WHERE oid = 'alveus.ledger'::regclass)
        AND attstattarget = 0 AND attnum > 0 AND NOT attisdropped
    LOOP
        EXECUTE format('SELECT pg_catalog.pg_clear_attribute_stats(%L, %L, %L, FALSE)',
            sampled.nspname, sampled.relname, sampled.attname);
    END LOOP;
END $$;

-- least: 2
-- Users that may use some spaces only. Names are found by stored digests, which indexes are of use
-- for behind a policy; the tables are rewritten.

CREATE FUNCTION fornix.digests(names text[]) RETURNS bytea[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT array_agg(fornix.digest(one)) FROM unnest(names) AS one);

ALTER TABLE fornix.owner ADD COLUMN role name NOT NULL DEFAULT current_user;

ALTER TABLE fornix.scope ADD COLUMN home text COLLATE "C";

UPDATE fornix.scope SET home = CASE WHEN space = '' THEN '' WHEN key = '' THEN 'knowledge ' || space
    ELSE 'space ' || space END;

ALTER TABLE fornix.scope ALTER COLUMN home SET NOT NULL;

ALTER TABLE fornix.lease ADD COLUMN home text COLLATE "C";

UPDATE fornix.lease SET home = CASE WHEN space = '' THEN '' WHEN key = '' THEN 'knowledge ' || space
    ELSE 'space ' || space END;

ALTER TABLE fornix.lease ALTER COLUMN home SET NOT NULL;

ALTER TABLE fornix.note
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (fornix.digest(name)) STORED;

ALTER TABLE fornix.scope
    ADD COLUMN space_digest bytea GENERATED ALWAYS AS (fornix.digest(space)) STORED,
    ADD COLUMN key_digest bytea GENERATED ALWAYS AS (fornix.digest(key)) STORED,
    ADD COLUMN key_start text COLLATE "C" GENERATED ALWAYS AS (left(key, 64)) STORED;

ALTER TABLE fornix.lease
    ADD COLUMN space_digest bytea GENERATED ALWAYS AS (fornix.digest(space)) STORED,
    ADD COLUMN key_digest bytea GENERATED ALWAYS AS (fornix.digest(key)) STORED;

ALTER TABLE fornix.node
    ADD COLUMN parent_digest bytea GENERATED ALWAYS AS (fornix.digest(parent)) STORED,
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (fornix.digest(name)) STORED;

ALTER TABLE fornix.memory_set
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (fornix.digest(name)) STORED;

ALTER TABLE fornix.item
    ADD COLUMN id_digest bytea GENERATED ALWAYS AS (fornix.digest(id)) STORED;

ALTER TABLE fornix.agent
    ADD COLUMN space_digest bytea GENERATED ALWAYS AS (fornix.digest(space)) STORED,
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (fornix.digest(name)) STORED;

ALTER TABLE fornix.consumer
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (fornix.digest(name)) STORED;

ALTER TABLE fornix.receipt
    ADD COLUMN owner_digest bytea GENERATED ALWAYS AS (fornix.digest(owner)) STORED;

DROP INDEX fornix.note_name, fornix.scope_name, fornix.scope_order, fornix.lease_name,
    fornix.node_live, fornix.node_ended, fornix.set_name, fornix.item_versions, fornix.agent_name,
    fornix.consumer_name, fornix.receipt_of_owner;

CREATE UNIQUE INDEX note_name ON fornix.note (name_digest);
CREATE UNIQUE INDEX scope_name ON fornix.scope (space_digest, key_digest);
CREATE INDEX scope_order ON fornix.scope (space_digest, key_start);
CREATE UNIQUE INDEX lease_name ON fornix.lease (space_digest, key_digest);
CREATE UNIQUE INDEX node_live ON fornix.node (scope, parent_digest, name_digest)
WHERE ended IS NULL;
CREATE INDEX node_ended ON fornix.node (scope, parent_digest, ended)
WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX set_name ON fornix.memory_set (scope, name_digest);
CREATE UNIQUE INDEX item_versions ON fornix.item (set_id, id_digest, version);
CREATE UNIQUE INDEX agent_name ON fornix.agent (space_digest, name_digest);
CREATE UNIQUE INDEX consumer_name ON fornix.consumer (agent, name_digest);
CREATE INDEX receipt_of_owner ON fornix.receipt (owner_digest, n);

-- Who may use which space. The owner of the tables, and superusers, may use all; policies do not
-- apply to them. `fornix grant` gives any other user the schema and rows here.

CREATE TABLE fornix.space_grant (
    role name NOT NULL,
    home text COLLATE "C" NOT NULL,        -- 'space …': its keys; 'knowledge …'
    home_digest bytea GENERATED ALWAYS AS (fornix.digest(home)) STORED
);

CREATE UNIQUE INDEX space_grant_role ON fornix.space_grant (role, home_digest);

CREATE FUNCTION fornix.granted(who name) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT coalesce(array_agg(home), '{}') FROM fornix.space_grant
    JOIN pg_catalog.pg_roles ON pg_roles.rolname = space_grant.role
    WHERE pg_has_role(who, pg_roles.oid, 'USAGE') AND pg_has_role(session_user, who, 'MEMBER'));

CREATE FUNCTION fornix.owner_in(note text) RETURNS text  -- the space or knowledge it is about
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(note FROM '^(?:embedder|query prefix) of ((?:space|knowledge) .*)$');

CREATE FUNCTION fornix.find_home() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.space <> '' THEN
        new.home := CASE new.key WHEN '' THEN 'knowledge ' ELSE 'space ' END || new.space;
    ELSIF tg_op = 'INSERT' THEN  -- the lease of a set that is compacted, by its number
        new.home := coalesce((SELECT scope.home FROM fornix.memory_set JOIN fornix.scope
            ON scope.id = memory_set.scope
            WHERE memory_set.id = substring(new.key FROM '^compaction ([0-9]{1,18})$')::bigint), '');
    END IF;
    RETURN new;
END $$;

CREATE TRIGGER scope_named BEFORE INSERT OR UPDATE OF space, key ON fornix.scope
FOR EACH ROW EXECUTE FUNCTION fornix.find_home();

CREATE TRIGGER lease_named BEFORE INSERT OR UPDATE OF space, key ON fornix.lease
FOR EACH ROW EXECUTE FUNCTION fornix.find_home();

-- Numbers and times of all spaces, which order commits and runs; whoever has the schema sees them.

CREATE VIEW fornix.every_commit AS SELECT n, time FROM fornix.journal;
CREATE VIEW fornix.every_run AS SELECT id, ended FROM fornix.run;
CREATE VIEW fornix.every_agent AS SELECT pruned FROM fornix.agent;
CREATE VIEW fornix.every_step AS SELECT id, n FROM fornix.step;
CREATE VIEW fornix.every_call AS SELECT step, n FROM fornix.durable_call;

GRANT SELECT ON fornix.every_commit, fornix.every_run, fornix.every_agent, fornix.every_step,
    fornix.every_call, fornix.ledger, fornix.setback, fornix.owner TO PUBLIC;
GRANT UPDATE (version, number, time, structure) ON fornix.ledger TO PUBLIC;
GRANT INSERT ON fornix.setback TO PUBLIC;
GRANT INSERT, UPDATE, DELETE ON fornix.owner TO PUBLIC;
GRANT SELECT, INSERT, DELETE ON fornix.change TO PUBLIC;
GRANT SELECT, DELETE, INSERT (space, key),
    UPDATE (space, key, head, floor, since) ON fornix.scope TO PUBLIC;
GRANT SELECT, DELETE, INSERT (space, key, owner, epoch),
    UPDATE (space, key, owner, epoch) ON fornix.lease TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON fornix.note, fornix.journal, fornix.node,
    fornix.memory_set, fornix.item, fornix.link, fornix.stub, fornix.compaction, fornix.access,
    fornix.feature, fornix.staged, fornix.agent, fornix.lane, fornix.run, fornix.step,
    fornix.durable_call, fornix.output, fornix.consumer, fornix.event_id, fornix.receipt TO PUBLIC;

-- A row is seen and changed by whoever may use its space. Which spaces those are is found once per
-- statement; a policy that asks another table sees the rows there that its own policy lets through.

CREATE POLICY wall ON fornix.scope USING (home = ANY ((SELECT fornix.granted(current_user))::text[]));
CREATE POLICY wall ON fornix.lease USING (home = ANY ((SELECT fornix.granted(current_user))::text[]));

CREATE POLICY wall ON fornix.agent
USING ('space ' || space = ANY ((SELECT fornix.granted(current_user))::text[]));

CREATE POLICY wall ON fornix.receipt
USING (owner = ANY ((SELECT fornix.granted(current_user))::text[]));

CREATE POLICY readable ON fornix.note FOR SELECT USING (fornix.owner_in(name) IS NULL
    OR fornix.owner_in(name) = ANY ((SELECT fornix.granted(current_user))::text[]));

CREATE POLICY wall ON fornix.note USING (CASE WHEN fornix.owner_in(name) IS NOT NULL
    THEN fornix.owner_in(name) = ANY ((SELECT fornix.granted(current_user))::text[])
    ELSE name NOT IN ('salt', 'ops swept') END);

CREATE POLICY wall ON fornix.journal USING (EXISTS (SELECT FROM fornix.scope
    WHERE scope.id = journal.scope));
CREATE POLICY wall ON fornix.node USING (EXISTS (SELECT FROM fornix.scope
    WHERE scope.id = node.scope));
CREATE POLICY wall ON fornix.memory_set USING (EXISTS (SELECT FROM fornix.scope
    WHERE scope.id = memory_set.scope));
CREATE POLICY wall ON fornix.lane USING (EXISTS (SELECT FROM fornix.scope
    WHERE scope.id = lane.scope));

CREATE POLICY wall ON fornix.item USING (EXISTS (SELECT FROM fornix.memory_set
    WHERE memory_set.id = item.set_id));
CREATE POLICY wall ON fornix.feature USING (EXISTS (SELECT FROM fornix.memory_set
    WHERE memory_set.id = feature.set_id));
CREATE POLICY wall ON fornix.stub USING (EXISTS (SELECT FROM fornix.memory_set
    WHERE memory_set.id = stub.set_id));
CREATE POLICY wall ON fornix.compaction USING (EXISTS (SELECT FROM fornix.memory_set
    WHERE memory_set.id = compaction.set_id));

CREATE POLICY readable ON fornix.change FOR SELECT USING (TRUE);
CREATE POLICY wall ON fornix.change USING (EXISTS (SELECT FROM fornix.memory_set
    WHERE memory_set.id = change.set_id));

CREATE POLICY wall ON fornix.link USING (EXISTS (SELECT FROM fornix.item
    WHERE item.row = link.row));
CREATE POLICY wall ON fornix.staged USING (EXISTS (SELECT FROM fornix.item
    WHERE item.row = staged.row));
CREATE POLICY wall ON fornix.access USING (EXISTS (SELECT FROM fornix.item
    WHERE item.first = access.first));

CREATE POLICY wall ON fornix.run USING (EXISTS (SELECT FROM fornix.agent
    WHERE agent.id = run.agent));
CREATE POLICY wall ON fornix.output USING (EXISTS (SELECT FROM fornix.agent
    WHERE agent.id = output.agent));
CREATE POLICY wall ON fornix.consumer USING (EXISTS (SELECT FROM fornix.agent
    WHERE agent.id = consumer.agent));
CREATE POLICY wall ON fornix.event_id USING (EXISTS (SELECT FROM fornix.agent
    WHERE agent.id = event_id.agent));

CREATE POLICY wall ON fornix.step USING (EXISTS (SELECT FROM fornix.run
    WHERE run.id = step.id >> 20));
CREATE POLICY wall ON fornix.durable_call USING (EXISTS (SELECT FROM fornix.run
    WHERE run.id = durable_call.step >> 20));

CREATE POLICY readable ON fornix.owner FOR SELECT USING (TRUE);
CREATE POLICY wall ON fornix.owner
USING (role = current_user OR expires < clock_timestamp()) WITH CHECK (role = current_user);

ALTER TABLE fornix.scope ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.agent ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.receipt ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.note ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.journal ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.node ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.memory_set ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.lane ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.item ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.feature ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.stub ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.compaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.change ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.link ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.staged ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.access ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.run ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.output ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.consumer ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.event_id ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.step ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.durable_call ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.owner ENABLE ROW LEVEL SECURITY;
ALTER TABLE fornix.space_grant ENABLE ROW LEVEL SECURITY;

-- least: 2
-- Users that may use some spaces only. Names are found by stored digests, which indexes are of use
-- for behind a policy; the tables are rewritten.

CREATE FUNCTION alveus.digests(names text[]) RETURNS bytea[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT array_agg(alveus.digest(one)) FROM unnest(names) AS one);

ALTER TABLE alveus.owner ADD COLUMN role name NOT NULL DEFAULT current_user;

ALTER TABLE alveus.scope ADD COLUMN home text COLLATE "C";

UPDATE alveus.scope SET home = CASE WHEN space = '' THEN '' WHEN key = '' THEN 'knowledge ' || space
    ELSE 'space ' || space END;

ALTER TABLE alveus.scope ALTER COLUMN home SET NOT NULL;

ALTER TABLE alveus.lease ADD COLUMN home text COLLATE "C";

UPDATE alveus.lease SET home = CASE WHEN space = '' THEN '' WHEN key = '' THEN 'knowledge ' || space
    ELSE 'space ' || space END;

ALTER TABLE alveus.lease ALTER COLUMN home SET NOT NULL;

ALTER TABLE alveus.note
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED;

ALTER TABLE alveus.scope
    ADD COLUMN space_digest bytea GENERATED ALWAYS AS (alveus.digest(space)) STORED,
    ADD COLUMN key_digest bytea GENERATED ALWAYS AS (alveus.digest(key)) STORED,
    ADD COLUMN key_start text COLLATE "C" GENERATED ALWAYS AS (left(key, 64)) STORED;

ALTER TABLE alveus.lease
    ADD COLUMN space_digest bytea GENERATED ALWAYS AS (alveus.digest(space)) STORED,
    ADD COLUMN key_digest bytea GENERATED ALWAYS AS (alveus.digest(key)) STORED;

ALTER TABLE alveus.node
    ADD COLUMN parent_digest bytea GENERATED ALWAYS AS (alveus.digest(parent)) STORED,
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED;

ALTER TABLE alveus.memory_set
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED;

ALTER TABLE alveus.item
    ADD COLUMN id_digest bytea GENERATED ALWAYS AS (alveus.digest(id)) STORED;

ALTER TABLE alveus.agent
    ADD COLUMN space_digest bytea GENERATED ALWAYS AS (alveus.digest(space)) STORED,
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED;

ALTER TABLE alveus.consumer
    ADD COLUMN name_digest bytea GENERATED ALWAYS AS (alveus.digest(name)) STORED;

ALTER TABLE alveus.receipt
    ADD COLUMN owner_digest bytea GENERATED ALWAYS AS (alveus.digest(owner)) STORED;

DROP INDEX alveus.note_name, alveus.scope_name, alveus.scope_order, alveus.lease_name,
    alveus.node_live, alveus.node_ended, alveus.set_name, alveus.item_versions, alveus.agent_name,
    alveus.consumer_name, alveus.receipt_of_owner;

CREATE UNIQUE INDEX note_name ON alveus.note (name_digest);
CREATE UNIQUE INDEX scope_name ON alveus.scope (space_digest, key_digest);
CREATE INDEX scope_order ON alveus.scope (space_digest, key_start);
CREATE UNIQUE INDEX lease_name ON alveus.lease (space_digest, key_digest);
CREATE UNIQUE INDEX node_live ON alveus.node (scope, parent_digest, name_digest)
WHERE ended IS NULL;
CREATE INDEX node_ended ON alveus.node (scope, parent_digest, ended)
WHERE ended IS NOT NULL;
CREATE UNIQUE INDEX set_name ON alveus.memory_set (scope, name_digest);
CREATE UNIQUE INDEX item_versions ON alveus.item (set_id, id_digest, version);
CREATE UNIQUE INDEX agent_name ON alveus.agent (space_digest, name_digest);
CREATE UNIQUE INDEX consumer_name ON alveus.consumer (agent, name_digest);
CREATE INDEX receipt_of_owner ON alveus.receipt (owner_digest, n);

-- Who may use which space. The owner of the tables, and superusers, may use all; policies do not
-- apply to them. `alveus grant` gives any other user the schema and rows here.

CREATE TABLE alveus.space_grant (
    role name NOT NULL,
    home text COLLATE "C" NOT NULL,        -- 'space …': its keys; 'knowledge …'
    home_digest bytea GENERATED ALWAYS AS (alveus.digest(home)) STORED
);

CREATE UNIQUE INDEX space_grant_role ON alveus.space_grant (role, home_digest);

CREATE FUNCTION alveus.granted(who name) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN (SELECT coalesce(array_agg(home), '{}') FROM alveus.space_grant
    JOIN pg_catalog.pg_roles ON pg_roles.rolname = space_grant.role
    WHERE pg_has_role(who, pg_roles.oid, 'USAGE') AND pg_has_role(session_user, who, 'MEMBER'));

CREATE FUNCTION alveus.owner_in(note text) RETURNS text  -- the space or knowledge it is about
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN substring(note FROM '^(?:embedder|query prefix) of ((?:space|knowledge) .*)$');

CREATE FUNCTION alveus.find_home() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.space <> '' THEN
        new.home := CASE new.key WHEN '' THEN 'knowledge ' ELSE 'space ' END || new.space;
    ELSIF tg_op = 'INSERT' THEN  -- the lease of a set that is compacted, by its number
        new.home := coalesce((SELECT scope.home FROM alveus.memory_set JOIN alveus.scope
            ON scope.id = memory_set.scope
            WHERE memory_set.id = substring(new.key FROM '^compaction ([0-9]{1,18})$')::bigint), '');
    END IF;
    RETURN new;
END $$;

CREATE TRIGGER scope_named BEFORE INSERT OR UPDATE OF space, key ON alveus.scope
FOR EACH ROW EXECUTE FUNCTION alveus.find_home();

CREATE TRIGGER lease_named BEFORE INSERT OR UPDATE OF space, key ON alveus.lease
FOR EACH ROW EXECUTE FUNCTION alveus.find_home();

-- Numbers and times of all spaces, which order commits and runs; whoever has the schema sees them.

CREATE VIEW alveus.every_commit AS SELECT n, time FROM alveus.journal;
CREATE VIEW alveus.every_run AS SELECT id, ended FROM alveus.run;
CREATE VIEW alveus.every_agent AS SELECT pruned FROM alveus.agent;
CREATE VIEW alveus.every_step AS SELECT id, n FROM alveus.step;
CREATE VIEW alveus.every_call AS SELECT step, n FROM alveus.durable_call;

GRANT SELECT ON alveus.every_commit, alveus.every_run, alveus.every_agent, alveus.every_step,
    alveus.every_call, alveus.ledger, alveus.setback, alveus.owner TO PUBLIC;
GRANT UPDATE (version, number, time, structure) ON alveus.ledger TO PUBLIC;
GRANT INSERT ON alveus.setback TO PUBLIC;
GRANT INSERT, UPDATE, DELETE ON alveus.owner TO PUBLIC;
GRANT SELECT, INSERT, DELETE ON alveus.change TO PUBLIC;
GRANT SELECT, DELETE, INSERT (space, key),
    UPDATE (space, key, head, floor, since) ON alveus.scope TO PUBLIC;
GRANT SELECT, DELETE, INSERT (space, key, owner, epoch),
    UPDATE (space, key, owner, epoch) ON alveus.lease TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON alveus.note, alveus.journal, alveus.node,
    alveus.memory_set, alveus.item, alveus.link, alveus.stub, alveus.compaction, alveus.access,
    alveus.feature, alveus.staged, alveus.agent, alveus.lane, alveus.run, alveus.step,
    alveus.durable_call, alveus.output, alveus.consumer, alveus.event_id, alveus.receipt TO PUBLIC;

-- A row is seen and changed by whoever may use its space. Which spaces those are is found once per
-- statement; a policy that asks another table sees the rows there that its own policy lets through.

CREATE POLICY wall ON alveus.scope USING (home = ANY ((SELECT alveus.granted(current_user))::text[]));
CREATE POLICY wall ON alveus.lease USING (home = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY wall ON alveus.agent
USING ('space ' || space = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY wall ON alveus.receipt
USING (owner = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY readable ON alveus.note FOR SELECT USING (alveus.owner_in(name) IS NULL
    OR alveus.owner_in(name) = ANY ((SELECT alveus.granted(current_user))::text[]));

CREATE POLICY wall ON alveus.note USING (CASE WHEN alveus.owner_in(name) IS NOT NULL
    THEN alveus.owner_in(name) = ANY ((SELECT alveus.granted(current_user))::text[])
    ELSE name NOT IN ('salt', 'ops swept') END);

CREATE POLICY wall ON alveus.journal USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = journal.scope));
CREATE POLICY wall ON alveus.node USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = node.scope));
CREATE POLICY wall ON alveus.memory_set USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = memory_set.scope));
CREATE POLICY wall ON alveus.lane USING (EXISTS (SELECT FROM alveus.scope
    WHERE scope.id = lane.scope));

CREATE POLICY wall ON alveus.item USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = item.set_id));
CREATE POLICY wall ON alveus.feature USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = feature.set_id));
CREATE POLICY wall ON alveus.stub USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = stub.set_id));
CREATE POLICY wall ON alveus.compaction USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = compaction.set_id));

CREATE POLICY readable ON alveus.change FOR SELECT USING (TRUE);
CREATE POLICY wall ON alveus.change USING (EXISTS (SELECT FROM alveus.memory_set
    WHERE memory_set.id = change.set_id));

CREATE POLICY wall ON alveus.link USING (EXISTS (SELECT FROM alveus.item
    WHERE item.row = link.row));
CREATE POLICY wall ON alveus.staged USING (EXISTS (SELECT FROM alveus.item
    WHERE item.row = staged.row));
CREATE POLICY wall ON alveus.access USING (EXISTS (SELECT FROM alveus.item
    WHERE item.first = access.first));

CREATE POLICY wall ON alveus.run USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = run.agent));
CREATE POLICY wall ON alveus.output USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = output.agent));
CREATE POLICY wall ON alveus.consumer USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = consumer.agent));
CREATE POLICY wall ON alveus.event_id USING (EXISTS (SELECT FROM alveus.agent
    WHERE agent.id = event_id.agent));

CREATE POLICY wall ON alveus.step USING (EXISTS (SELECT FROM alveus.run
    WHERE run.id = step.id >> 20));
CREATE POLICY wall ON alveus.durable_call USING (EXISTS (SELECT FROM alveus.run
    WHERE run.id = durable_call.step >> 20));

CREATE POLICY readable ON alveus.owner FOR SELECT USING (TRUE);
CREATE POLICY wall ON alveus.owner
USING (role = current_user OR expires < clock_timestamp()) WITH CHECK (role = current_user);

ALTER TABLE alveus.scope ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.lease ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.agent ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.receipt ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.note ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.journal ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.node ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.memory_set ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.lane ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.item ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.feature ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.stub ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.compaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.change ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.link ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.staged ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.access ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.run ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.output ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.consumer ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.event_id ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.step ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.durable_call ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.owner ENABLE ROW LEVEL SECURITY;
ALTER TABLE alveus.space_grant ENABLE ROW LEVEL SECURITY;

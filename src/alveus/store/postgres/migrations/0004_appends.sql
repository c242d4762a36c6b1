-- least: 2
-- Commits that only add items take one round trip.

CREATE TABLE alveus.appender ( -- hosts that add in one round trip, which asks for nothing before
    id bigint PRIMARY KEY,
    attempt bigint NOT NULL,               -- the last that was committed
    fence bigint NOT NULL DEFAULT 0,       -- up to this one, no attempt may be committed any more
    number bigint NOT NULL DEFAULT 0,      -- the commit before it, and its time
    time bigint NOT NULL DEFAULT 0,
    used timestamptz NOT NULL DEFAULT now(),
    role name NOT NULL DEFAULT current_user
);

CREATE FUNCTION alveus.begin_append(host bigint, this_attempt bigint, known_structure bigint,
    known_number bigint, commits bigint, latest bigint, last_time bigint, wait text,
    OUT number_before bigint, OUT time_before bigint, OUT version_before bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', wait, TRUE), set_config('synchronous_commit', 'off', TRUE);
    SELECT number, time, version INTO number_before, time_before, version_before
    FROM alveus.ledger WHERE structure = known_structure AND time <= latest FOR UPDATE;
    UPDATE alveus.appender SET attempt = this_attempt, number = number_before, time = time_before,
        used = now()
    WHERE id = host AND fence < this_attempt AND number_before IS NOT NULL;
    IF NOT FOUND THEN
        RAISE 'others have changed what this host knows' USING ERRCODE = 'FX001';
    END IF;
    UPDATE alveus.ledger SET version = version + 1, number = number + commits,
        time = greatest(time, last_time);
    PERFORM set_config('alveus.moved', (number_before - known_number)::text, TRUE),
        set_config('alveus.time', time_before::text, TRUE);
END $$;

CREATE FUNCTION alveus.check_new(in_set bigint, one text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM alveus.item
        WHERE set_id = in_set AND id_digest = alveus.digest(one) AND id = one) THEN
        RAISE 'an item has this id' USING ERRCODE = 'FX001';
    END IF;
END $$;

CREATE FUNCTION alveus.check_new(in_set bigint, many text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM alveus.item
        WHERE set_id = in_set AND id_digest = ANY (alveus.digests(many)) AND id = ANY (many)) THEN
        RAISE 'an item has one of these ids' USING ERRCODE = 'FX001';
    END IF;
END $$;

GRANT SELECT, INSERT, UPDATE, DELETE ON alveus.appender TO PUBLIC;

CREATE POLICY wall ON alveus.appender USING (role = current_user);

ALTER TABLE alveus.appender ENABLE ROW LEVEL SECURITY;

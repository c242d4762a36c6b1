-- least: 2
-- Most commits are drafts: the lock is held only while the server executes what was sent as one.

ALTER TABLE alveus.appender ADD COLUMN run bigint NOT NULL DEFAULT 0;

CREATE FUNCTION alveus.begin_draft(host bigint, this_attempt bigint, known_structure bigint,
    known_version bigint, read_version bigint, known_number bigint, known_run bigint,
    commits bigint, earliest bigint, latest bigint, last_time bigint, wait text,
    OUT number_before bigint, OUT time_before bigint, OUT version_before bigint,
    OUT run_before bigint)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', wait, TRUE), set_config('synchronous_commit', 'off', TRUE);
    SELECT number, time, version INTO number_before, time_before, version_before
    FROM alveus.ledger WHERE structure = known_structure AND time BETWEEN earliest AND latest
        AND (known_version IS NULL OR version = known_version) FOR UPDATE;
    IF known_run IS NOT NULL THEN
        SELECT max(id) INTO run_before FROM (SELECT max(id) AS id FROM alveus.every_run
            UNION ALL SELECT max(pruned) FROM alveus.every_agent UNION ALL SELECT 0) AS used;
    END IF;
    UPDATE alveus.appender SET attempt = this_attempt, number = number_before, time = time_before,
        run = coalesce(run_before, 0), used = now()
    WHERE id = host AND fence < this_attempt AND number_before IS NOT NULL;
    IF NOT FOUND THEN
        RAISE 'others have changed what this host knows' USING ERRCODE = 'FX001';
    END IF;
    UPDATE alveus.ledger SET version = version + 1, number = number + commits,
        time = CASE WHEN known_version IS NULL THEN greatest(time, last_time) ELSE last_time END;
    PERFORM set_config('alveus.moved', (number_before - known_number)::text, TRUE),
        set_config('alveus.time', time_before::text, TRUE),
        set_config('alveus.runs_moved', (run_before - known_run)::text, TRUE),
        set_config('alveus.unchanged',
            (version_before IS NOT DISTINCT FROM coalesce(known_version, read_version))::text,
            TRUE);
END $$;

CREATE FUNCTION alveus.check_same(before bytea, again bytea) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF before IS DISTINCT FROM again THEN
        RAISE 'others have changed what was read' USING ERRCODE =
            CASE current_setting('alveus.unchanged') WHEN 'true' THEN 'FX002' ELSE 'FX001' END;
    END IF;
    RETURN TRUE;
END $$;

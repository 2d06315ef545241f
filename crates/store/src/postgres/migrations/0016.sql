-- A table that is published (FOR ALL TABLES) must tell its rows apart, or PostgreSQL deletes none of it; this one has no key. Where wal_level is
-- logical each row that is cleared away is in the log once more; elsewhere it costs nothing.
ALTER TABLE krarup.archive REPLICA IDENTITY FULL;

-- As before, unless it is there: after it has said so a broker looks for messages, and behind many that are gone that takes long. One of whose sessions
-- is at work, or was a moment ago, is no less alive than one that has swept. A session that waits for a lock, or for a client that takes no more, may
-- be left of one that is not. Where sessions of others cannot be seen, the sweeps alone count.
CREATE OR REPLACE FUNCTION krarup.is_no_more(whose bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    -- What was read of sessions holds for a transaction, and those of another broker that is no more may have been given back for long in it.
    PERFORM pg_stat_clear_snapshot();
    IF EXISTS (
        SELECT FROM pg_locks AS its JOIN pg_stat_activity AS session ON session.pid = its.pid
        WHERE its.locktype = 'advisory' AND its.mode = 'ShareLock' AND its.granted AND session.datname = current_database()
          AND its.classid = 1802658164 AND its.objid::bigint = (whose & 2147483647) AND its.objsubid = 2
          AND (session.state_change BETWEEN clock_timestamp() - interval '1500 ms' AND clock_timestamp()
               OR (session.state = 'active' AND coalesce(session.wait_event_type, '') NOT IN ('Client', 'Lock'))))
    THEN
        RETURN;
    END IF;
    FOR held IN
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL WHERE state = 3 AND holder >> 32 = whose RETURNING id, tube, reserves
    LOOP
        PERFORM krarup.give_up(held.id, held.tube, held.reserves);
    END LOOP;
    UPDATE krarup.broker SET gone = true WHERE number = whose;
END $$;

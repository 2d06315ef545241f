-- Leases and delays have one index still, and lie apart in it: where many delays were due at once, each look for leases that are over read all of these,
-- and what a broker held that is no more was looked for among all messages. An index for each would be opened by every put and every lease; and one of
-- leases alone would be gone through to find a single one, where PostgreSQL was told that nothing is leased. The old one goes first: a transaction that
-- has read messages and writes some would else wait for this one, and this one for it.
DO $$
BEGIN
    IF (SELECT shards = 0 FROM krarup.layout) THEN
        DROP INDEX IF EXISTS krarup.due;
        CREATE INDEX IF NOT EXISTS leases_and_delays ON krarup.message_row (state, due) WHERE due IS NOT NULL;
    END IF;
END $$;

-- As before; it looks through leases alone, each of which is due at some time: that is what their index asks for.
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
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL
        WHERE state = 3 AND due > '-infinity' AND holder >> 32 = whose RETURNING id, tube, reserves
    LOOP
        PERFORM krarup.give_up(held.id, held.tube, held.reserves);
    END LOOP;
    UPDATE krarup.broker SET gone = true WHERE number = whose;
END $$;

-- As before; and where they have been counted as they change, they are counted once more: no trigger sees TRUNCATE, nor a statement that names
-- krarup.message_row. Only what differs is written.
CREATE OR REPLACE FUNCTION krarup.count_messages(counts boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    works boolean := (SELECT tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = 'krarup.message'::regclass AND tgname = 'count_new');
BEGIN
    IF NOT counts THEN
        IF works THEN
            ALTER TABLE ONLY krarup.message DISABLE TRIGGER count_new, DISABLE TRIGGER count_gone, DISABLE TRIGGER count_moved;
        END IF;
        RETURN;
    END IF;
    IF NOT works THEN
        ALTER TABLE ONLY krarup.message ENABLE TRIGGER count_new, ENABLE TRIGGER count_gone, ENABLE TRIGGER count_moved;
        DELETE FROM krarup.count;
        UPDATE krarup.outcome SET tube = NULL WHERE tube IS NOT NULL;
    END IF;
    INSERT INTO krarup.count AS sum
    SELECT tube, 0, sum(urgent), sum(ready), sum(reserved), sum(delayed), sum(buried), sum(put)
    FROM (
        SELECT tube, count(*) FILTER (WHERE state = 0 AND priority < 1024) AS urgent, count(*) FILTER (WHERE state = 0) AS ready,
               count(*) FILTER (WHERE state = 3) AS reserved, count(*) FILTER (WHERE state = 1) AS delayed,
               count(*) FILTER (WHERE state = 2) AS buried, CASE WHEN works THEN 0 ELSE count(*) END AS put
        FROM krarup.message GROUP BY tube
        UNION ALL
        SELECT tube, -urgent, -ready, -reserved, -delayed, -buried, 0 FROM krarup.counted
    ) AS differs
    GROUP BY tube
    HAVING (sum(urgent), sum(ready), sum(reserved), sum(delayed), sum(buried), sum(put)) <> (0, 0, 0, 0, 0, 0)
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed;
END $$;

-- What each batch of an owner asks for is in a row that is written at a take-over only. That of krarup.owner is written three times a second, and under a
-- snapshot that is held for long all its versions were passed over for each batch. A broker of an earlier version that is still up follows, too.
CREATE TABLE krarup.turn (
    shard integer PRIMARY KEY,
    epoch bigint NOT NULL
);
CREATE FUNCTION krarup.follow_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO krarup.turn VALUES (NEW.shard, NEW.epoch) ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch;
    RETURN NULL;
END $$;
CREATE TRIGGER follow_owner AFTER INSERT OR UPDATE OF epoch ON krarup.owner FOR EACH ROW EXECUTE FUNCTION krarup.follow_owner();
INSERT INTO krarup.turn SELECT shard, epoch FROM krarup.owner;

-- As before, by that row.
CREATE OR REPLACE FUNCTION krarup.still_owner(number bigint, of_shard integer, fence integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1802658162, fence);
    PERFORM FROM krarup.turn WHERE epoch = number AND shard = of_shard;
    IF NOT FOUND THEN
        RAISE 'another broker has taken the queues over' USING ERRCODE = 'KR001';
    END IF;
    RETURN true;
END $$;

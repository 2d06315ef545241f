-- How many messages there are, for those who ask often, where the database decides: counted as they change, so that nobody counts them all. Each session adds up in rows of its own, one
-- for each tube, so that none waits for another; rows that rest are added to those of number 0. `put` is how many there have been, and never falls.
CREATE TABLE krarup.count (
    tube     text COLLATE "C" NOT NULL,
    session  integer NOT NULL,
    urgent   bigint NOT NULL,
    ready    bigint NOT NULL,
    reserved bigint NOT NULL,
    delayed  bigint NOT NULL,
    buried   bigint NOT NULL,
    put      bigint NOT NULL,
    changed  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tube, session)
) WITH (fillfactor = 50);
ALTER TABLE krarup.count SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

-- What a statement has changed. Those that a broker carries out most often count by themselves, which takes less, and say so in a setting of their session.
CREATE FUNCTION krarup.count_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO krarup.count AS sum
        SELECT tube, pg_backend_pid(), count(*) FILTER (WHERE state = 0 AND priority < 1024), count(*) FILTER (WHERE state = 0),
               count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*)
        FROM added GROUP BY tube
        ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
            reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
            put = sum.put + excluded.put, changed = excluded.changed;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO krarup.count AS sum
        SELECT tube, pg_backend_pid(), -count(*) FILTER (WHERE state = 0 AND priority < 1024), -count(*) FILTER (WHERE state = 0),
               -count(*) FILTER (WHERE state = 3), -count(*) FILTER (WHERE state = 1), -count(*) FILTER (WHERE state = 2), 0
        FROM removed GROUP BY tube
        ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
            reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
            changed = excluded.changed;
    ELSE
        INSERT INTO krarup.count AS sum
        SELECT tube, pg_backend_pid(), coalesce(sum(one) FILTER (WHERE state = 0 AND priority < 1024), 0), coalesce(sum(one) FILTER (WHERE state = 0), 0),
               coalesce(sum(one) FILTER (WHERE state = 3), 0), coalesce(sum(one) FILTER (WHERE state = 1), 0),
               coalesce(sum(one) FILTER (WHERE state = 2), 0), 0
        FROM (SELECT tube, state, priority, 1 AS one FROM added UNION ALL SELECT tube, state, priority, -1 FROM removed) AS moved
        GROUP BY tube
        ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
            reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
            changed = excluded.changed;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_new AFTER INSERT ON krarup.message REFERENCING NEW TABLE AS added FOR EACH STATEMENT
WHEN (current_setting('krarup.counts', true) IS DISTINCT FROM 'itself') EXECUTE FUNCTION krarup.count_changes();
CREATE TRIGGER count_gone AFTER DELETE ON krarup.message REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
WHEN (current_setting('krarup.counts', true) IS DISTINCT FROM 'itself') EXECUTE FUNCTION krarup.count_changes();
CREATE TRIGGER count_moved AFTER UPDATE ON krarup.message REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT
WHEN (current_setting('krarup.counts', true) IS DISTINCT FROM 'itself') EXECUTE FUNCTION krarup.count_changes();
ALTER TABLE krarup.message DISABLE TRIGGER count_new, DISABLE TRIGGER count_gone, DISABLE TRIGGER count_moved;

-- From now on messages are counted as they change, or no longer are: an owner counts in its memory. Where they were not, they are counted once; nobody changes any meanwhile.
CREATE FUNCTION krarup.count_messages(counts boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    works boolean := (SELECT tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = 'krarup.message'::regclass AND tgname = 'count_new');
BEGIN
    IF counts AND NOT works THEN
        ALTER TABLE krarup.message ENABLE TRIGGER count_new, ENABLE TRIGGER count_gone, ENABLE TRIGGER count_moved;
        DELETE FROM krarup.count;
        INSERT INTO krarup.count
        SELECT tube, 0, count(*) FILTER (WHERE state = 0 AND priority < 1024), count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 3),
               count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*)
        FROM krarup.message GROUP BY tube;
    ELSIF works AND NOT counts THEN
        ALTER TABLE krarup.message DISABLE TRIGGER count_new, DISABLE TRIGGER count_gone, DISABLE TRIGGER count_moved;
    END IF;
END $$;

-- Every five seconds one of the brokers adds up what rests, so that there are few rows for each tube. A tube that was empty for a day is forgotten.
CREATE FUNCTION krarup.sum_up() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM krarup.count WHERE tube = '' AND session = 0 AND changed > clock_timestamp() - interval '5 s')
       OR NOT pg_try_advisory_xact_lock(1802658162, 4) THEN
        RETURN;
    END IF;
    INSERT INTO krarup.count VALUES ('', 0, 0, 0, 0, 0, 0, 0)
    ON CONFLICT (tube, session) DO UPDATE SET changed = excluded.changed;
    -- One that is written just now is left as it is.
    WITH rests AS MATERIALIZED (
        SELECT tube, session FROM krarup.count WHERE session <> 0 AND changed < clock_timestamp() - interval '5 s'
        LIMIT 10000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM krarup.count AS sum USING rests WHERE sum.tube = rests.tube AND sum.session = rests.session RETURNING sum.*
    )
    INSERT INTO krarup.count AS sum
    SELECT tube, 0, sum(urgent), sum(ready), sum(reserved), sum(delayed), sum(buried), sum(put) FROM gone GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed;
    DELETE FROM krarup.count
    WHERE session = 0 AND tube <> '' AND changed < clock_timestamp() - interval '1 day'
      AND (urgent, ready, reserved, delayed, buried) = (0, 0, 0, 0, 0);
END $$;

-- Brokers that share the queues now are not waited for.
SELECT krarup.count_messages(true) FROM krarup.layout WHERE shards = 0;

-- Messages that expire, and what is kept of those that are gone: both are settings of a tube, in seconds; 0 is none.
ALTER TABLE krarup.tube ADD COLUMN expires integer NOT NULL DEFAULT 0 CHECK (expires >= 0);
ALTER TABLE krarup.tube ADD COLUMN keeps integer NOT NULL DEFAULT 0 CHECK (keeps >= 0);

-- Messages that are gone, however they went, until `until`.
CREATE TABLE krarup.archive (
    id       bigint NOT NULL,
    tube     text COLLATE "C" NOT NULL,
    priority bigint NOT NULL,
    created  timestamptz NOT NULL,
    sender   text COLLATE "C",
    receiver text COLLATE "C",
    body     bytea NOT NULL,
    gone     timestamptz NOT NULL,
    until    timestamptz NOT NULL
);
CREATE INDEX ON krarup.archive (until);
ALTER TABLE krarup.archive SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION krarup.archive_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO krarup.archive
    SELECT gone.id, gone.tube, gone.priority, gone.created, gone.sender, gone.receiver, gone.body,
           clock_timestamp(), clock_timestamp() + make_interval(secs => tube.keeps)
    FROM gone JOIN krarup.tube AS tube ON tube.name = gone.tube WHERE tube.keeps > 0;
    RETURN NULL;
END $$;

-- The trigger works as long as a tube archives, so that others pay nothing. It is never dropped: that would wait for everybody who reads. What
-- expires is found by an index where the database decides (`shares`); an owner knows by himself.
CREATE FUNCTION krarup.follow_tubes(shares boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    archives boolean := EXISTS (SELECT FROM krarup.tube WHERE keeps > 0);
    works boolean := (SELECT tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = 'krarup.message'::regclass AND tgname = 'archive_gone');
BEGIN
    IF archives AND works IS NULL THEN
        CREATE TRIGGER archive_gone AFTER DELETE ON krarup.message REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION krarup.archive_gone();
    ELSIF archives AND NOT works THEN
        ALTER TABLE krarup.message ENABLE TRIGGER archive_gone;
    ELSIF works AND NOT archives THEN
        ALTER TABLE krarup.message DISABLE TRIGGER archive_gone;
    END IF;
    IF shares AND EXISTS (SELECT FROM krarup.tube WHERE expires > 0) THEN
        CREATE INDEX IF NOT EXISTS expiring ON krarup.message (tube, created) WHERE state IN (0, 1);
    END IF;
END $$;

-- What a tube shall do from now on; null leaves as it is what it was told before.
CREATE FUNCTION krarup.keep_tube(named text, new_expires integer, new_keeps integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO krarup.tube VALUES (named, false, 0, NULL, coalesce(new_expires, 0), coalesce(new_keeps, 0))
    ON CONFLICT (name) DO UPDATE SET expires = coalesce(new_expires, tube.expires), keeps = coalesce(new_keeps, tube.keeps);
    DELETE FROM krarup.tube WHERE name = named AND NOT created AND most = 0 AND expires = 0 AND keeps = 0;
    PERFORM krarup.follow_tubes(true);
END $$;

-- Clears away the oldest of what was kept long enough, a thousand at a time; how many those were.
CREATE FUNCTION krarup.prune() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    pruned integer;
BEGIN
    DELETE FROM krarup.archive
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM krarup.archive WHERE until <= clock_timestamp() ORDER BY until LIMIT 1000));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;

-- What happens when nobody does anything, where the database decides: as before; what a broker held that was killed is ready again at once; and
-- messages of tubes in which they expire are gone.
ALTER FUNCTION krarup.sweep(bigint, bigint, bigint, text[], text[]) RENAME TO sweep_leases;
CREATE FUNCTION krarup.sweep(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    dead record;
BEGIN
    -- A broker whose last connection is over is no more, and what it held need not wait until it has been silent for long; unless all connections
    -- are over because the database was.
    FOR dead IN
        SELECT number FROM krarup.broker
        WHERE NOT gone AND number <> own AND renewed < clock_timestamp() - interval '400 ms'
          AND pg_postmaster_start_time() < clock_timestamp() - interval '2 s'
          AND pg_try_advisory_xact_lock(1802658164, (number & 2147483647)::integer)
        FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL WHERE state = 3 AND holder >> 32 = dead.number;
        UPDATE krarup.broker SET gone = true WHERE number = dead.number;
    END LOOP;
    IF EXISTS (SELECT FROM krarup.tube WHERE expires > 0) THEN
        DELETE FROM krarup.message WHERE id IN (
            SELECT old.id FROM krarup.tube AS its, LATERAL (
                SELECT message.id FROM krarup.message
                WHERE message.tube = its.name AND state IN (0, 1)
                  AND message.created <= clock_timestamp() - make_interval(secs => its.expires)
                ORDER BY message.created LIMIT 1000 FOR UPDATE SKIP LOCKED
            ) AS old
            WHERE its.expires > 0);
    END IF;
    PERFORM krarup.prune();
    RETURN krarup.sweep_leases(own, clear_from, clear_to, waited, waiting);
END $$;

-- Statements that count for themselves what they change name krarup.message_row, all others krarup.message, which is the same messages and has the triggers that count. PostgreSQL copies each row that
-- a statement changes for triggers that see all of them, also where none of them is called: so what is done most often names a table that has none.
ALTER TABLE krarup.message RENAME TO message_row;
ALTER INDEX krarup.message_pkey RENAME TO message_row_pkey;
-- It was made anew from its text for each statement.
ALTER TABLE krarup.message_row DROP CONSTRAINT message_state_check;
CREATE TABLE krarup.message (LIKE krarup.message_row INCLUDING DEFAULTS, PRIMARY KEY (id)) PARTITION BY RANGE (id);
ALTER TABLE krarup.message ATTACH PARTITION krarup.message_row FOR VALUES FROM (MINVALUE) TO (MAXVALUE);

-- Who might read or change messages may do so still.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT privilege_type, is_grantable, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS receiver
        FROM pg_class, aclexplode(relacl)
        WHERE oid = 'krarup.message_row'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON krarup.message TO %s%s', given.privilege_type, given.receiver, CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;

-- The triggers work where they worked.
DO $$
DECLARE
    counts boolean := (SELECT tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = 'krarup.message_row'::regclass AND tgname = 'count_new');
BEGIN
    DROP TRIGGER count_new ON krarup.message_row;
    DROP TRIGGER count_gone ON krarup.message_row;
    DROP TRIGGER count_moved ON krarup.message_row;
    CREATE TRIGGER count_new AFTER INSERT ON krarup.message REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    WHEN (current_setting('krarup.counts', true) IS DISTINCT FROM 'itself') EXECUTE FUNCTION krarup.count_changes();
    CREATE TRIGGER count_gone AFTER DELETE ON krarup.message REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    WHEN (current_setting('krarup.counts', true) IS DISTINCT FROM 'itself') EXECUTE FUNCTION krarup.count_changes();
    CREATE TRIGGER count_moved AFTER UPDATE ON krarup.message REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT
    WHEN (current_setting('krarup.counts', true) IS DISTINCT FROM 'itself') EXECUTE FUNCTION krarup.count_changes();
    IF NOT counts THEN
        ALTER TABLE ONLY krarup.message DISABLE TRIGGER count_new, DISABLE TRIGGER count_gone, DISABLE TRIGGER count_moved;
    END IF;
END $$;

-- A request that has a transaction of its own says in the row that names this which message it was about, and how many messages became how many of what in its tube: the broker adds that up, and clears
-- the row away, when its outcome is no longer of interest. So a request writes one row beside its message's.
ALTER TABLE krarup.outcome
    ADD COLUMN id bigint, ADD COLUMN tube text COLLATE "C", ADD COLUMN urgent smallint, ADD COLUMN ready smallint, ADD COLUMN reserved smallint,
    ADD COLUMN delayed smallint, ADD COLUMN buried smallint, ADD COLUMN put smallint;
-- Below it this broker's rows are cleared away.
ALTER TABLE krarup.broker ADD COLUMN cleared bigint NOT NULL DEFAULT 0;

-- How many messages there are, as parts that are to be added.
CREATE VIEW krarup.counted AS
SELECT tube, urgent, ready, reserved, delayed, buried, put FROM krarup.count
UNION ALL
SELECT tube, urgent, ready, reserved, delayed, buried, put
FROM krarup.broker JOIN krarup.outcome ON outcome.broker = number AND serial >= cleared WHERE tube IS NOT NULL;

-- Rows of a broker's transactions go, and what they count is added up.
CREATE FUNCTION krarup.clear_outcomes(own bigint, clear_from bigint, clear_to bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM krarup.outcome WHERE broker = own AND serial >= clear_from AND serial < clear_to RETURNING *
    )
    INSERT INTO krarup.count AS sum
    SELECT tube, pg_backend_pid(), sum(urgent), sum(ready), sum(reserved), sum(delayed), sum(buried), sum(put)
    FROM gone WHERE tube IS NOT NULL GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed;
END $$;

-- As before; `message` has the triggers.
CREATE OR REPLACE FUNCTION krarup.count_messages(counts boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    works boolean := (SELECT tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = 'krarup.message'::regclass AND tgname = 'count_new');
BEGIN
    IF counts AND NOT works THEN
        ALTER TABLE ONLY krarup.message ENABLE TRIGGER count_new, ENABLE TRIGGER count_gone, ENABLE TRIGGER count_moved;
        DELETE FROM krarup.count;
        UPDATE krarup.outcome SET tube = NULL WHERE tube IS NOT NULL;
        INSERT INTO krarup.count
        SELECT tube, 0, count(*) FILTER (WHERE state = 0 AND priority < 1024), count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 3),
               count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*)
        FROM krarup.message GROUP BY tube;
    ELSIF works AND NOT counts THEN
        ALTER TABLE ONLY krarup.message DISABLE TRIGGER count_new, DISABLE TRIGGER count_gone, DISABLE TRIGGER count_moved;
    END IF;
END $$;

-- As before, for statements that name either table.
CREATE OR REPLACE FUNCTION krarup.follow_tubes(shares boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    archives boolean := EXISTS (SELECT FROM krarup.tube WHERE keeps > 0);
    works boolean;
    its text;
BEGIN
    FOREACH its IN ARRAY ARRAY['krarup.message', 'krarup.message_row'] LOOP
        works := (SELECT tgenabled <> 'D' FROM pg_trigger WHERE tgrelid = its::regclass AND tgname = 'archive_gone');
        IF archives AND works IS NULL THEN
            EXECUTE 'CREATE TRIGGER archive_gone AFTER DELETE ON ' || its || ' REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION krarup.archive_gone()';
        ELSIF archives AND NOT works THEN
            EXECUTE 'ALTER TABLE ONLY ' || its || ' ENABLE TRIGGER archive_gone';
        ELSIF works AND NOT archives THEN
            EXECUTE 'ALTER TABLE ONLY ' || its || ' DISABLE TRIGGER archive_gone';
        END IF;
    END LOOP;
    IF shares AND EXISTS (SELECT FROM krarup.tube WHERE expires > 0) THEN
        CREATE INDEX IF NOT EXISTS expiring ON krarup.message_row (tube, created) WHERE state IN (0, 1);
    END IF;
END $$;
SELECT krarup.follow_tubes(false);

-- Only clients that are registered send messages and are sent some: until there is one, nothing is written into the indexes by which theirs are found.
CREATE FUNCTION krarup.follow_clients() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM krarup.client) OR to_regclass('krarup.sent_to_one') IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(1802658162, 5);
    CREATE INDEX IF NOT EXISTS ready_for_one ON krarup.message_row (receiver, tube, priority, id) WHERE state = 0 AND receiver IS NOT NULL;
    -- One for each question: an index in which a receiver may be absent is in no query's order.
    CREATE INDEX IF NOT EXISTS sent_to_all ON krarup.message_row (sender, id) WHERE state = 0 AND receiver IS NULL AND sender IS NOT NULL;
    CREATE INDEX IF NOT EXISTS sent_to_one ON krarup.message_row (sender, receiver, id) WHERE state = 0 AND receiver IS NOT NULL;
END $$;

-- As before; what is over is found by one index up to now, and not looked for among all that is not over yet.
CREATE OR REPLACE FUNCTION krarup.sweep_leases(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    late record;
BEGIN
    INSERT INTO krarup.broker (number, cleared) OVERRIDING SYSTEM VALUE VALUES (own, clear_to)
    ON CONFLICT (number) DO UPDATE SET renewed = clock_timestamp(), gone = false, cleared = excluded.cleared;
    PERFORM krarup.clear_outcomes(own, clear_from, clear_to);
    FOR late IN
        SELECT id, tube, reserves FROM krarup.message WHERE state = 3 AND due <= now()
        ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL, timeouts = timeouts + 1 WHERE id = late.id;
        PERFORM krarup.give_up(late.id, late.tube, late.reserves);
    END LOOP;
    UPDATE krarup.message SET state = 0, due = NULL
    WHERE id IN (SELECT id FROM krarup.message WHERE state = 1 AND due <= now() ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED);
    DELETE FROM krarup.pause WHERE until <= clock_timestamp();
    WITH laid AS (
        DELETE FROM krarup.incoming
        WHERE number IN (SELECT number FROM krarup.incoming ORDER BY number LIMIT 1000 FOR UPDATE SKIP LOCKED)
        RETURNING *
    ), ordered AS MATERIALIZED (SELECT * FROM laid ORDER BY number)
    INSERT INTO krarup.message
    SELECT nextval('krarup.message_id'), tube, CASE WHEN delay > 0 THEN 1 ELSE 0 END, priority, krarup.after(delay), NULL, delay, ttr,
           clock_timestamp(), NULL, NULL, 0, 0, 0, 0, 0, NULL, body
    FROM ordered;
    FOR late IN
        SELECT number FROM krarup.broker WHERE NOT gone AND renewed < clock_timestamp() - interval '1500 ms' FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL WHERE state = 3 AND holder >> 32 = late.number;
        UPDATE krarup.broker SET gone = true WHERE number = late.number;
    END LOOP;
    -- One that comes back within a day still learns what became of its last transactions.
    FOR late IN
        DELETE FROM krarup.broker WHERE gone AND renewed < clock_timestamp() - interval '1 day' RETURNING number
    LOOP
        PERFORM krarup.clear_outcomes(late.number, 0, 9223372036854775807);
    END LOOP;
    RETURN ARRAY(
        SELECT place::integer FROM unnest(waited, waiting) WITH ORDINALITY AS wish (name, client, place)
        WHERE NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = name)
          AND (EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver IS NULL AND state = 0)
               OR EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver = client AND state = 0)));
END $$;

-- As before, up to now.
CREATE OR REPLACE FUNCTION krarup.expire() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    alone bigint;
    of_tubes bigint := 0;
BEGIN
    DELETE FROM krarup.message WHERE id IN (
        SELECT id FROM krarup.message WHERE expires IS NOT NULL AND expires <= now() AND state IN (0, 1)
        ORDER BY expires LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS alone = ROW_COUNT;
    IF EXISTS (SELECT FROM krarup.tube WHERE expires > 0) THEN
        DELETE FROM krarup.message WHERE id IN (
            SELECT old.id FROM krarup.tube AS its, LATERAL (
                SELECT message.id FROM krarup.message
                WHERE message.tube = its.name AND state IN (0, 1)
                  AND message.created <= now() - make_interval(secs => its.expires)
                ORDER BY message.created LIMIT 1000 FOR UPDATE SKIP LOCKED
            ) AS old
            WHERE its.expires > 0);
        GET DIAGNOSTICS of_tubes = ROW_COUNT;
    END IF;
    RETURN alone + of_tubes;
END $$;

-- Brokers that share the queues now find what they need.
DO $$
BEGIN
    IF (SELECT shards = 0 FROM krarup.layout) THEN
        DROP INDEX IF EXISTS krarup.ending, krarup.delayed;
        CREATE INDEX IF NOT EXISTS due ON krarup.message_row (due) WHERE due IS NOT NULL;
    END IF;
END $$;

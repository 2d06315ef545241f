-- Messages that were out of the line of those ready for any client, and came back into it with the number they had: leased, or delayed. All others come behind those that are there, and may be looked for from
-- where the last ones were found: rows that are gone, and that another session's snapshot keeps, are not read again by each lease.
DO $$
BEGIN
    IF (SELECT shards = 0 FROM krarup.layout) THEN
        CREATE INDEX IF NOT EXISTS ready_again ON krarup.message_row (tube, priority, id)
        WHERE state = 0 AND receiver IS NULL AND (reserves > 0 OR timeouts > 0 OR releases > 0 OR kicks > 0 OR delay <> 0);
    END IF;
END $$;

-- How many entries of its index are read until the first message of a tube is found that is ready for any client: those of messages that are gone lie before it.
CREATE FUNCTION krarup.entries_to_first(of text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    line oid := to_regclass('krarup.ready_for_all');
    before bigint := pg_stat_get_xact_tuples_returned(line);
BEGIN
    PERFORM FROM krarup.message_row WHERE tube = of AND receiver IS NULL AND state = 0 ORDER BY priority, id LIMIT 1;
    RETURN coalesce(pg_stat_get_xact_tuples_returned(line) - coalesce(before, 0), 0);
END $$;

-- As before, found by its number whatever PostgreSQL believes of the other indexes: where it was told that nothing is leased, it would go through all that is.
CREATE OR REPLACE FUNCTION krarup.move(kind integer, wanted bigint, taker bigint, new_priority bigint, new_delay integer, seconds bigint, OUT word smallint)
LANGUAGE plpgsql AS $$
DECLARE
    moved record;
BEGIN
    IF kind = 1 OR kind = 5 THEN
        UPDATE krarup.message
        SET state = CASE WHEN kind = 1 AND seconds > 0 THEN 1 ELSE 0 END, due = CASE WHEN kind = 1 THEN krarup.after(seconds) END,
            holder = NULL, priority = CASE WHEN kind = 1 THEN new_priority ELSE priority END,
            delay = CASE WHEN kind = 1 THEN new_delay ELSE delay END, releases = releases + CASE WHEN kind = 1 THEN 1 ELSE 0 END
        WHERE id = wanted AND state = 3 AND holder = taker AND coalesce(due > clock_timestamp(), false)
        RETURNING tube, reserves INTO moved;
        word := CASE WHEN NOT FOUND THEN 1 WHEN krarup.give_up(wanted, moved.tube, moved.reserves) THEN 2 ELSE 0 END;
    ELSIF kind = 2 THEN
        UPDATE krarup.message
        SET state = 2, due = NULL, holder = NULL, priority = new_priority, buries = buries + 1, buried = nextval('krarup.buried_order')
        WHERE id = wanted AND state = 3 AND holder = taker AND coalesce(due > clock_timestamp(), false);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    ELSIF kind = 3 THEN
        UPDATE krarup.message SET due = clock_timestamp() + make_interval(secs => ttr)
        WHERE id = wanted AND state = 3 AND holder = taker AND coalesce(due > clock_timestamp(), false);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    ELSE
        UPDATE krarup.message SET state = 0, due = NULL, buried = NULL, kicks = kicks + 1 WHERE id = wanted AND state IN (1, 2);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    END IF;
END $$;

-- As before; a message that was given back without a word counts as released once, so that its new tube finds it by the index above.
CREATE OR REPLACE FUNCTION krarup.give_up(wanted bigint, its_tube text, tried integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    bound record;
BEGIN
    SELECT dead INTO bound FROM krarup.tube WHERE name = its_tube AND most > 0 AND tried >= most;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF bound.dead IS NULL THEN
        UPDATE krarup.message
        SET state = 2, due = NULL, holder = NULL, buries = buries + 1, buried = nextval('krarup.buried_order') WHERE id = wanted;
    ELSE
        UPDATE krarup.message SET tube = bound.dead, state = 0, due = NULL, holder = NULL, reserves = 0,
            releases = releases + CASE WHEN timeouts + releases + kicks > 0 THEN 0 ELSE 1 END
        WHERE id = wanted;
    END IF;
    RETURN true;
END $$;

-- In which row a session counts: another one every four seconds, so that a row has few versions, which are read one after the other as long as another session's snapshot keeps them. A process has a number
-- below 2^22; rows that rest are added up long before a number comes again.
CREATE FUNCTION krarup.summand() RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT pg_backend_pid() | ((extract(epoch FROM clock_timestamp())::bigint / 4 % 512)::integer << 22)
$$;

CREATE OR REPLACE FUNCTION krarup.count_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO krarup.count AS sum
        SELECT tube, krarup.summand(), count(*) FILTER (WHERE state = 0 AND priority < 1024), count(*) FILTER (WHERE state = 0),
               count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(*)
        FROM added GROUP BY tube
        ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
            reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
            put = sum.put + excluded.put, changed = excluded.changed;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO krarup.count AS sum
        SELECT tube, krarup.summand(), -count(*) FILTER (WHERE state = 0 AND priority < 1024), -count(*) FILTER (WHERE state = 0),
               -count(*) FILTER (WHERE state = 3), -count(*) FILTER (WHERE state = 1), -count(*) FILTER (WHERE state = 2), 0
        FROM removed GROUP BY tube
        ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
            reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
            changed = excluded.changed;
    ELSE
        INSERT INTO krarup.count AS sum
        SELECT tube, krarup.summand(), coalesce(sum(one) FILTER (WHERE state = 0 AND priority < 1024), 0), coalesce(sum(one) FILTER (WHERE state = 0), 0),
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

CREATE OR REPLACE FUNCTION krarup.clear_outcomes(own bigint, clear_from bigint, clear_to bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM krarup.outcome WHERE broker = own AND serial >= clear_from AND serial < clear_to RETURNING *
    )
    INSERT INTO krarup.count AS sum
    SELECT tube, krarup.summand(), sum(urgent), sum(ready), sum(reserved), sum(delayed), sum(buried), sum(put)
    FROM gone WHERE tube IS NOT NULL GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed;
END $$;

-- As before, of as many rows as there may be now.
CREATE OR REPLACE FUNCTION krarup.sum_up() RETURNS void LANGUAGE plpgsql AS $$
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
        LIMIT 100000 FOR UPDATE SKIP LOCKED
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

-- What is due is looked for from where the look before ended: entries of leases that are over, which another session's snapshot keeps, are not read again by each sweep. Twice a minute all are read: a lease
-- that was locked when it was due is found then, or one whose transaction took longer than the overlap of two looks.
ALTER TABLE krarup.broker
    ADD COLUMN looked timestamptz NOT NULL DEFAULT '-infinity',     -- what was due until then was found by the last look
    ADD COLUMN looks_from timestamptz NOT NULL DEFAULT '-infinity', -- and this look begins there
    ADD COLUMN looked_at_all timestamptz NOT NULL DEFAULT '-infinity';

CREATE OR REPLACE FUNCTION krarup.sweep_leases(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    late record;
    since timestamptz;
    ended integer := 0;
    ready integer;
BEGIN
    INSERT INTO krarup.broker AS its (number, cleared) OVERRIDING SYSTEM VALUE VALUES (own, clear_to)
    ON CONFLICT (number) DO UPDATE SET renewed = clock_timestamp(), gone = false, cleared = excluded.cleared, looked = now() - interval '2 s',
        looks_from = CASE WHEN its.looked_at_all BETWEEN now() - interval '30 s' AND now() THEN its.looked ELSE '-infinity' END,
        looked_at_all = CASE WHEN its.looked_at_all BETWEEN now() - interval '30 s' AND now() THEN its.looked_at_all ELSE now() END
    RETURNING looks_from INTO since;
    PERFORM krarup.clear_outcomes(own, clear_from, clear_to);
    FOR late IN
        SELECT id, tube, reserves FROM krarup.message WHERE state = 3 AND due > since AND due <= now()
        ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL, timeouts = timeouts + 1 WHERE id = late.id;
        PERFORM krarup.give_up(late.id, late.tube, late.reserves);
        ended := ended + 1;
    END LOOP;
    UPDATE krarup.message SET state = 0, due = NULL
    WHERE id IN (SELECT id FROM krarup.message WHERE state = 1 AND due > since AND due <= now() ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS ready = ROW_COUNT;
    IF ended = 1000 OR ready = 1000 THEN
        -- More may be due: the next look begins where this one did.
        UPDATE krarup.broker SET looked = since WHERE number = own;
    END IF;
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

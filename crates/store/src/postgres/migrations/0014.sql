-- Since when a broker has been heard without a gap.
ALTER TABLE krarup.broker ADD COLUMN heard timestamptz NOT NULL DEFAULT clock_timestamp();

-- As before; but a broker judges others only where it has itself been heard for long, in a session that has stood for long. After an outage, or a step
-- of the clock, the first that is back would else take for dead all that come a moment later. A session that seems to begin later than now is one from
-- before the clock was set back. Behind a pooler the session is the pooler's, and what was heard alone counts.
CREATE OR REPLACE FUNCTION krarup.sweep_leases(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    late record;
    since timestamptz;
    there_since timestamptz;
    seen timestamptz;
    ended integer := 0;
    ready integer;
BEGIN
    INSERT INTO krarup.broker AS its (number, cleared) OVERRIDING SYSTEM VALUE VALUES (own, clear_to)
    ON CONFLICT (number) DO UPDATE SET renewed = clock_timestamp(), gone = false,
        heard = CASE WHEN its.renewed BETWEEN clock_timestamp() - interval '1 s' AND clock_timestamp() THEN its.heard ELSE clock_timestamp() END,
        cleared = excluded.cleared, looked = now() - interval '2 s',
        looks_from = CASE WHEN its.looked_at_all BETWEEN now() - interval '30 s' AND now() THEN its.looked ELSE '-infinity' END,
        looked_at_all = CASE WHEN its.looked_at_all BETWEEN now() - interval '30 s' AND now() THEN its.looked_at_all ELSE now() END
    RETURNING looks_from, heard, renewed INTO since, there_since, seen;
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
    -- A step of the clock meanwhile, in either direction, makes no other silent.
    seen := least(seen, clock_timestamp());
    IF there_since < seen - interval '1500 ms'
       AND EXISTS (SELECT FROM krarup.broker WHERE NOT gone AND number <> own AND renewed < seen - interval '400 ms')
       AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = pg_backend_pid() AND backend_start BETWEEN seen - interval '1500 ms' AND clock_timestamp())
    THEN
        -- A broker whose last connection is over is no more, and what it held need not wait until it has been silent for long; unless all
        -- connections are over because the database was.
        FOR late IN
            SELECT number FROM krarup.broker
            WHERE NOT gone AND number <> own AND renewed < seen - interval '400 ms'
              AND (renewed < seen - interval '1500 ms'
                   OR (pg_postmaster_start_time() < clock_timestamp() - interval '2 s'
                       AND pg_try_advisory_xact_lock(1802658164, (number & 2147483647)::integer)))
            FOR UPDATE SKIP LOCKED
        LOOP
            PERFORM krarup.is_no_more(late.number);
        END LOOP;
    END IF;
    -- One that comes back within a day still learns what became of its last transactions.
    FOR late IN
        DELETE FROM krarup.broker WHERE gone AND renewed < clock_timestamp() - interval '1 day' RETURNING number
    LOOP
        PERFORM krarup.clear_outcomes(late.number, 0, 9223372036854775807);
    END LOOP;
    RETURN ARRAY(
        SELECT place::integer FROM unnest(waited, waiting) WITH ORDINALITY AS wish (name, client, place)
        WHERE NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = name)
          AND (EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver IS NULL AND state = 0 OFFSET 0)
               OR (client IS NOT NULL AND EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver = client AND state = 0 OFFSET 0))));
END $$;

-- As before; the leases' sweep alone judges.
CREATE OR REPLACE FUNCTION krarup.sweep(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    places integer[];
BEGIN
    PERFORM krarup.prune();
    places := krarup.sweep_leases(own, clear_from, clear_to, waited, waiting);
    -- Last: by now this broker has said that it is there, and no message is waited for while keys are locked. A put that has just found the key of
    -- another message reads that one's number a moment later.
    DELETE FROM krarup.key
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM krarup.key WHERE until <= now() - interval '1 s' ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED));
    RETURN places;
END $$;

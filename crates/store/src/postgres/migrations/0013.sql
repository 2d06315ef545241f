-- Keys whose time is over are cleared away, the oldest first, also those that no client puts again.
CREATE INDEX key_until ON krarup.key (until);
ALTER TABLE krarup.key SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

-- A broker is no more: what it held is ready again, or was reserved too often.
CREATE FUNCTION krarup.is_no_more(whose bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    FOR held IN
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL WHERE state = 3 AND holder >> 32 = whose RETURNING id, tube, reserves
    LOOP
        PERFORM krarup.give_up(held.id, held.tube, held.reserves);
    END LOOP;
    UPDATE krarup.broker SET gone = true WHERE number = whose;
END $$;

-- As before; what a broker held that is no more counts as given back.
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
        PERFORM krarup.is_no_more(late.number);
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
          AND (EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver IS NULL AND state = 0 OFFSET 0)
               OR (client IS NOT NULL AND EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver = client AND state = 0 OFFSET 0))));
END $$;

-- As before, for the same reason; and keys whose time is over are no more.
CREATE OR REPLACE FUNCTION krarup.sweep(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    dead record;
    places integer[];
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
        PERFORM krarup.is_no_more(dead.number);
    END LOOP;
    PERFORM krarup.prune();
    places := krarup.sweep_leases(own, clear_from, clear_to, waited, waiting);
    -- Last: by now this broker has said that it is there, and no message is waited for while keys are locked. A put that has just found the key of
    -- another message reads that one's number a moment later.
    DELETE FROM krarup.key
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM krarup.key WHERE until <= now() - interval '1 s' ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED));
    RETURN places;
END $$;

-- As before; messages for one receiver are looked for only where a client asks who has a name. Until a client is registered there is no index of them, and to look for those of none read all messages.
CREATE OR REPLACE FUNCTION krarup.lock_first(kind integer, names text[], client text, OUT word smallint, OUT first bigint) LANGUAGE plpgsql AS $$
DECLARE
    line record;
BEGIN
    word := 0;
    IF kind = 2 AND NOT EXISTS (SELECT FROM krarup.tube WHERE name = names[1] AND created) THEN
        word := 2;
        RETURN;
    END IF;
    IF kind = 3 THEN
        IF NOT EXISTS (SELECT FROM krarup.client WHERE name = names[1]) THEN
            word := 3;
            RETURN;
        END IF;
        FOR line IN
            SELECT * FROM (
                (SELECT id, receiver FROM krarup.message WHERE sender = names[1] AND receiver IS NULL AND state = 0 ORDER BY id LIMIT 1)
                UNION ALL
                (SELECT id, receiver FROM krarup.message WHERE sender = names[1] AND receiver = client AND state = 0 ORDER BY id LIMIT 1)
            ) AS lines ORDER BY id
        LOOP
            IF line.receiver IS NULL THEN
                SELECT id INTO first FROM krarup.message WHERE sender = names[1] AND receiver IS NULL AND state = 0
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
            ELSE
                SELECT id INTO first FROM krarup.message WHERE sender = names[1] AND receiver = client AND state = 0
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
            END IF;
            EXIT WHEN first IS NOT NULL;
        END LOOP;
    ELSIF client IS NULL AND array_length(names, 1) = 1 THEN
        -- The common case needs no comparison of lines.
        IF kind = 2 OR NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = names[1] AND until > clock_timestamp()) THEN
            SELECT id INTO first FROM krarup.message WHERE tube = names[1] AND receiver IS NULL AND state = 0
            ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED;
        END IF;
    ELSE
        FOR line IN
            SELECT tubes.name, best.receiver
            FROM unnest(names) AS tubes (name), LATERAL (
                (SELECT id, priority, receiver FROM krarup.message
                 WHERE tube = tubes.name AND receiver IS NULL AND state = 0 ORDER BY priority, id LIMIT 1)
                UNION ALL
                (SELECT id, priority, receiver FROM krarup.message
                 WHERE client IS NOT NULL AND tube = tubes.name AND receiver = client AND state = 0 ORDER BY priority, id LIMIT 1)
            ) AS best
            WHERE kind = 2 OR NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = tubes.name AND until > clock_timestamp())
            ORDER BY best.priority, best.id
        LOOP
            IF line.receiver IS NULL THEN
                SELECT id INTO first FROM krarup.message WHERE tube = line.name AND receiver IS NULL AND state = 0
                ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED;
            ELSE
                SELECT id INTO first FROM krarup.message WHERE tube = line.name AND receiver = client AND state = 0
                ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED;
            END IF;
            EXIT WHEN first IS NOT NULL;
        END LOOP;
    END IF;
    IF first IS NULL THEN
        word := 1;
    END IF;
END $$;

-- As before, for the same reason.
CREATE OR REPLACE FUNCTION krarup.look(kind integer, named text, client text, wanted bigint, OUT word smallint, OUT id bigint, OUT body bytea)
LANGUAGE plpgsql AS $$
BEGIN
    word := 0;
    IF kind = 1 THEN
        SELECT message.id, message.body INTO id, body FROM krarup.message WHERE message.id = wanted;
    ELSIF kind = 3 THEN
        SELECT message.id, message.body INTO id, body FROM krarup.message WHERE tube = named AND state = 1 ORDER BY due LIMIT 1;
    ELSIF kind = 4 THEN
        SELECT message.id, message.body INTO id, body FROM krarup.message WHERE tube = named AND state = 2 ORDER BY buried LIMIT 1;
    ELSIF kind = 6 THEN
        IF NOT EXISTS (SELECT FROM krarup.client WHERE name = named) THEN
            word := 3;
        END IF;
        SELECT lines.id, lines.body INTO id, body FROM (
            (SELECT message.id, message.body FROM krarup.message
             WHERE sender = named AND receiver IS NULL AND state = 0 ORDER BY message.id LIMIT 1)
            UNION ALL
            (SELECT message.id, message.body FROM krarup.message
             WHERE sender = named AND receiver = client AND state = 0 ORDER BY message.id LIMIT 1)
        ) AS lines ORDER BY lines.id LIMIT 1;
    ELSE
        IF kind = 5 AND NOT EXISTS (SELECT FROM krarup.tube WHERE name = named AND created) THEN
            word := 2;
        END IF;
        SELECT lines.id, lines.body INTO id, body FROM (
            (SELECT message.id, priority, message.body FROM krarup.message
             WHERE tube = named AND receiver IS NULL AND state = 0 ORDER BY priority, message.id LIMIT 1)
            UNION ALL
            (SELECT message.id, priority, message.body FROM krarup.message
             WHERE client IS NOT NULL AND tube = named AND receiver = client AND state = 0 ORDER BY priority, message.id LIMIT 1)
        ) AS lines ORDER BY lines.priority, lines.id LIMIT 1;
    END IF;
    IF word = 0 AND id IS NULL THEN
        word := 1;
    END IF;
END $$;

-- As before, for the same reason. `OFFSET 0`: without it PostgreSQL may read all ready messages into a hash table, to look up there which tubes have some.
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
          AND (EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver IS NULL AND state = 0 OFFSET 0)
               OR (client IS NOT NULL AND EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver = client AND state = 0 OFFSET 0))));
END $$;

-- As before, without messages of tubes in which they expire: krarup.expire() finds them by their index up to now, and tells how many they were.
CREATE OR REPLACE FUNCTION krarup.sweep(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
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
    PERFORM krarup.prune();
    RETURN krarup.sweep_leases(own, clear_from, clear_to, waited, waiting);
END $$;

-- As before; what was put into tubes that are forgotten is added to the row without a tube, which is never deleted: the sum of all rows does not fall.
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
    WITH forgotten AS (
        DELETE FROM krarup.count
        WHERE session = 0 AND tube <> '' AND changed < clock_timestamp() - interval '1 day'
          AND (urgent, ready, reserved, delayed, buried) = (0, 0, 0, 0, 0)
        RETURNING put
    )
    UPDATE krarup.count AS rest SET put = rest.put + gone.put
    FROM (SELECT sum(put) AS put FROM forgotten) AS gone
    WHERE rest.tube = '' AND rest.session = 0 AND gone.put > 0;
END $$;

-- What memcached's `set` says of a single message: flags that come back with it, and when it is gone if it still waits.
ALTER TABLE krarup.message ADD COLUMN flags bigint NOT NULL DEFAULT 0;
ALTER TABLE krarup.message ADD COLUMN expires timestamptz;
CREATE INDEX expiring_alone ON krarup.message (expires) WHERE expires IS NOT NULL AND state IN (0, 1);

-- As krarup.send, with flags and the seconds after which it is gone.
CREATE FUNCTION krarup.send_item(
    to_tube text, from_client text, to_client text, under text, strict boolean, its_priority bigint, its_delay integer,
    seconds bigint, its_ttr integer, its_body bytea, remember double precision, its_flags bigint, lives bigint,
    OUT word smallint, OUT id bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT sent.word, sent.id INTO word, id
    FROM krarup.send(to_tube, from_client, to_client, under, strict, its_priority, its_delay, seconds, its_ttr, its_body, remember) AS sent;
    IF word = 0 AND (its_flags <> 0 OR lives IS NOT NULL) THEN
        UPDATE krarup.message SET flags = its_flags, expires = clock_timestamp() + make_interval(secs => lives)
        WHERE message.id = send_item.id;
    END IF;
END $$;

CREATE FUNCTION krarup.flags_of(wanted bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((SELECT flags FROM krarup.message WHERE id = wanted), 0);
END $$;

-- As before, and the flags.
DROP FUNCTION krarup.take(integer, text[], text, bigint, bigint, integer, boolean);
CREATE FUNCTION krarup.take(kind integer, names text[], client text, wanted bigint, taker bigint, most integer, pops boolean)
RETURNS TABLE (word smallint, id bigint, ttr integer, body bytea, flags bigint) LANGUAGE plpgsql AS $$
DECLARE
    taken integer := 0;
BEGIN
    WHILE taken < most LOOP
        IF kind = 4 THEN
            SELECT 0, message.id INTO word, id FROM krarup.message
            WHERE message.id = wanted AND (receiver IS NULL OR receiver = client) AND (state <> 3 OR due <= clock_timestamp())
            FOR UPDATE;
            IF NOT FOUND THEN
                word := 1;
            END IF;
        ELSE
            SELECT found.word, found.first INTO word, id FROM krarup.lock_first(kind, names, client) AS found;
        END IF;
        EXIT WHEN word <> 0;
        IF pops THEN
            DELETE FROM krarup.message WHERE message.id = take.id RETURNING message.ttr, message.body, message.flags INTO ttr, body, flags;
        ELSE
            UPDATE krarup.message
            SET state = 3, due = clock_timestamp() + make_interval(secs => message.ttr), holder = taker, buried = NULL,
                reserves = reserves + 1
            WHERE message.id = take.id RETURNING message.ttr, message.body, message.flags INTO ttr, body, flags;
        END IF;
        RETURN NEXT;
        taken := taken + 1;
    END LOOP;
    IF taken = 0 THEN
        id := 0;
        RETURN NEXT;
    END IF;
END $$;

-- Where the database decides: messages that have waited too long are gone, some at a time; how many.
CREATE FUNCTION krarup.expire() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    alone bigint;
    of_tubes bigint := 0;
BEGIN
    DELETE FROM krarup.message WHERE id IN (
        SELECT id FROM krarup.message WHERE expires IS NOT NULL AND expires <= clock_timestamp() AND state IN (0, 1)
        ORDER BY expires LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS alone = ROW_COUNT;
    IF EXISTS (SELECT FROM krarup.tube WHERE expires > 0) THEN
        DELETE FROM krarup.message WHERE id IN (
            SELECT old.id FROM krarup.tube AS its, LATERAL (
                SELECT message.id FROM krarup.message
                WHERE message.tube = its.name AND state IN (0, 1)
                  AND message.created <= clock_timestamp() - make_interval(secs => its.expires)
                ORDER BY message.created LIMIT 1000 FOR UPDATE SKIP LOCKED
            ) AS old
            WHERE its.expires > 0);
        GET DIAGNOSTICS of_tubes = ROW_COUNT;
    END IF;
    RETURN alone + of_tubes;
END $$;

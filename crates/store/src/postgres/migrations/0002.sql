-- Queues that nobody owns (modes `direct` and `batch`): every request is decided by the database itself. The functions below
-- carry out one request each; a batch calls them row by row within one statement and one commit.

CREATE SEQUENCE krarup.message_id;
CREATE SEQUENCE krarup.buried_order;

-- Which brokers share the queues, and when each was last heard of.
CREATE TABLE krarup.broker (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    renewed timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- it was not heard of, and has lost what it held
    gone    boolean NOT NULL DEFAULT false
);

-- One row per transaction of such a broker, written by it: after a connection broke, the row tells whether the transaction was
-- committed. Old rows are cleared away.
CREATE TABLE krarup.outcome (
    broker bigint NOT NULL,
    serial bigint NOT NULL,
    PRIMARY KEY (broker, serial)
);
ALTER TABLE krarup.outcome SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

-- Tubes whose messages nobody is given until then.
CREATE TABLE krarup.pause (
    tube   text COLLATE "C" PRIMARY KEY,
    length interval NOT NULL,
    until  timestamptz NOT NULL
);

CREATE FUNCTION krarup.after(seconds bigint) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN seconds > 0 THEN clock_timestamp() + make_interval(secs => seconds) END
$$;

-- A message for one receiver, under a key, or into a tube that must have been created.
-- word: 0 inserted, 1 its key is that of message `id`, 2 no such tube, 3 no such client
CREATE FUNCTION krarup.send(
    to_tube text, from_client text, to_client text, under text, strict boolean, its_priority bigint, its_delay integer,
    seconds bigint, its_ttr integer, its_body bytea, remember double precision, OUT word smallint, OUT id bigint
) LANGUAGE plpgsql AS $$
BEGIN
    id := 0;
    IF strict AND NOT EXISTS (SELECT FROM krarup.tube WHERE name = to_tube AND created) THEN
        word := 2;
        RETURN;
    END IF;
    IF to_client IS NOT NULL AND NOT EXISTS (SELECT FROM krarup.client WHERE name = to_client) THEN
        word := 3;
        RETURN;
    END IF;
    id := nextval('krarup.message_id');
    IF under IS NOT NULL THEN
        DELETE FROM krarup.key AS old WHERE old.tube = to_tube AND old.key = under AND old.until <= clock_timestamp();
        INSERT INTO krarup.key VALUES (to_tube, under, id, clock_timestamp() + make_interval(secs => remember))
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            word := 1;
            SELECT old.id INTO id FROM krarup.key AS old WHERE old.tube = to_tube AND old.key = under;
            RETURN;
        END IF;
    END IF;
    INSERT INTO krarup.message VALUES (
        id, to_tube, CASE WHEN seconds > 0 THEN 1 ELSE 0 END, its_priority, krarup.after(seconds), NULL, its_delay, its_ttr,
        clock_timestamp(), from_client, to_client, 0, 0, 0, 0, 0, NULL, its_body);
    word := 0;
END $$;

-- The first ready message of the tubes for this client (kind 1), of one created tube whatever its pause (kind 2), or of a sender in any
-- tube (kind 3); locked, and none that somebody else has locked.
-- word: 0 found, 1 there is none, 2 no such tube, 3 no such client
CREATE FUNCTION krarup.lock_first(kind integer, names text[], client text, OUT word smallint, OUT first bigint) LANGUAGE plpgsql AS $$
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
                 WHERE tube = tubes.name AND receiver = client AND state = 0 ORDER BY priority, id LIMIT 1)
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

-- Takes messages: kinds as above, 4 by its number. Popped, they are gone; otherwise `taker` holds them.
CREATE FUNCTION krarup.take(kind integer, names text[], client text, wanted bigint, taker bigint, most integer, pops boolean)
RETURNS TABLE (word smallint, id bigint, ttr integer, body bytea) LANGUAGE plpgsql AS $$
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
            DELETE FROM krarup.message WHERE message.id = take.id RETURNING message.ttr, message.body INTO ttr, body;
        ELSE
            UPDATE krarup.message
            SET state = 3, due = clock_timestamp() + make_interval(secs => message.ttr), holder = taker, buried = NULL,
                reserves = reserves + 1
            WHERE message.id = take.id RETURNING message.ttr, message.body INTO ttr, body;
        END IF;
        RETURN NEXT;
        taken := taken + 1;
    END LOOP;
    IF taken = 0 THEN
        id := 0;
        RETURN NEXT;
    END IF;
END $$;

-- A message that was given back, tried so often: whether that was too often, and it was set aside or begins anew in the tube of the dead.
CREATE FUNCTION krarup.give_up(wanted bigint, its_tube text, tried integer) RETURNS boolean LANGUAGE plpgsql AS $$
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
        UPDATE krarup.message SET tube = bound.dead, state = 0, due = NULL, holder = NULL, reserves = 0 WHERE id = wanted;
    END IF;
    RETURN true;
END $$;

-- What is done to a message by who holds it: 1 release, 2 bury, 3 touch, 5 give back without a word; or by anybody: 4 kick.
-- word: 0 done, 1 he does not hold it, 2 done, and it was given up
CREATE FUNCTION krarup.move(kind integer, wanted bigint, taker bigint, new_priority bigint, new_delay integer, seconds bigint, OUT word smallint)
LANGUAGE plpgsql AS $$
DECLARE
    moved record;
BEGIN
    IF kind = 1 OR kind = 5 THEN
        UPDATE krarup.message
        SET state = CASE WHEN kind = 1 AND seconds > 0 THEN 1 ELSE 0 END, due = CASE WHEN kind = 1 THEN krarup.after(seconds) END,
            holder = NULL, priority = CASE WHEN kind = 1 THEN new_priority ELSE priority END,
            delay = CASE WHEN kind = 1 THEN new_delay ELSE delay END, releases = releases + CASE WHEN kind = 1 THEN 1 ELSE 0 END
        WHERE id = wanted AND state = 3 AND holder = taker AND due > clock_timestamp()
        RETURNING tube, reserves INTO moved;
        word := CASE WHEN NOT FOUND THEN 1 WHEN krarup.give_up(wanted, moved.tube, moved.reserves) THEN 2 ELSE 0 END;
    ELSIF kind = 2 THEN
        UPDATE krarup.message
        SET state = 2, due = NULL, holder = NULL, priority = new_priority, buries = buries + 1, buried = nextval('krarup.buried_order')
        WHERE id = wanted AND state = 3 AND holder = taker AND due > clock_timestamp();
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    ELSIF kind = 3 THEN
        UPDATE krarup.message SET due = clock_timestamp() + make_interval(secs => ttr)
        WHERE id = wanted AND state = 3 AND holder = taker AND due > clock_timestamp();
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    ELSE
        UPDATE krarup.message SET state = 0, due = NULL, buried = NULL, kicks = kicks + 1 WHERE id = wanted AND state IN (1, 2);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    END IF;
END $$;

-- What is looked at and left: 1 by its number, 2 the first ready of a tube, 3 the first delayed, 4 the first set aside, 5 the first of
-- a created tube, 6 the first of a sender.
-- word: 0 found, 1 there is none, 2 no such tube, 3 no such client
CREATE FUNCTION krarup.look(kind integer, named text, client text, wanted bigint, OUT word smallint, OUT id bigint, OUT body bytea)
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
             WHERE tube = named AND receiver = client AND state = 0 ORDER BY priority, message.id LIMIT 1)
        ) AS lines ORDER BY lines.priority, lines.id LIMIT 1;
    END IF;
    IF word = 0 AND id IS NULL THEN
        word := 1;
    END IF;
END $$;

-- Makes messages of a tube ready that were set aside, or where there are none, that are delayed; how many.
CREATE FUNCTION krarup.kick(named text, bound bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    done bigint;
BEGIN
    UPDATE krarup.message SET state = 0, buried = NULL, kicks = kicks + 1
    WHERE id IN (SELECT id FROM krarup.message WHERE tube = named AND state = 2 ORDER BY buried LIMIT bound FOR UPDATE);
    GET DIAGNOSTICS done = ROW_COUNT;
    IF done = 0 THEN
        UPDATE krarup.message SET state = 0, due = NULL, kicks = kicks + 1
        WHERE id IN (SELECT id FROM krarup.message WHERE tube = named AND state = 1 ORDER BY due LIMIT bound FOR UPDATE);
        GET DIAGNOSTICS done = ROW_COUNT;
    END IF;
    RETURN done;
END $$;

-- A tube and all its messages are no more; whether there was one.
CREATE FUNCTION krarup.delete_tube(named text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    was boolean;
BEGIN
    DELETE FROM krarup.tube WHERE name = named;
    was := FOUND;
    DELETE FROM krarup.message WHERE tube = named;
    RETURN was OR FOUND;
END $$;

-- What happens when nobody does anything: leases, delays and pauses come to their ends, what applications have laid down comes in, and
-- brokers that are no more lose what they held. The places of those tubes waited for, each by one client, that hold something for him.
CREATE FUNCTION krarup.sweep(own bigint, clear_from bigint, clear_to bigint, waited text[], waiting text[])
RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    late record;
BEGIN
    INSERT INTO krarup.broker OVERRIDING SYSTEM VALUE VALUES (own)
    ON CONFLICT (number) DO UPDATE SET renewed = clock_timestamp(), gone = false;
    DELETE FROM krarup.outcome WHERE broker = own AND serial >= clear_from AND serial < clear_to;
    FOR late IN
        SELECT id, tube, reserves FROM krarup.message WHERE state = 3 AND due <= clock_timestamp()
        ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE krarup.message SET state = 0, due = NULL, holder = NULL, timeouts = timeouts + 1 WHERE id = late.id;
        PERFORM krarup.give_up(late.id, late.tube, late.reserves);
    END LOOP;
    UPDATE krarup.message SET state = 0, due = NULL
    WHERE id IN (SELECT id FROM krarup.message WHERE state = 1 AND due <= clock_timestamp() ORDER BY due LIMIT 1000 FOR UPDATE SKIP LOCKED);
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
    WITH forgotten AS (DELETE FROM krarup.broker WHERE gone AND renewed < clock_timestamp() - interval '1 day' RETURNING number)
    DELETE FROM krarup.outcome USING forgotten WHERE broker = number;
    RETURN ARRAY(
        SELECT place::integer FROM unnest(waited, waiting) WITH ORDINALITY AS wish (name, client, place)
        WHERE NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = name)
          AND (EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver IS NULL AND state = 0)
               OR EXISTS (SELECT FROM krarup.message WHERE tube = name AND receiver = client AND state = 0)));
END $$;

-- An owner's writes carry his number: what a deposed one had decided goes nowhere. Whoever takes over waits for a write that is under way.
CREATE FUNCTION krarup.still_owner(number bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM krarup.owner WHERE epoch = number FOR SHARE;
    IF NOT FOUND THEN
        RAISE 'another broker has taken the queues over' USING ERRCODE = 'KR001';
    END IF;
    RETURN true;
END $$;

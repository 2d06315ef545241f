-- By it, rows that are to be added up are found among those of all tubes of a day. When a row changed is not in it: one that counts on would get a new
-- entry in every index.
CREATE INDEX count_rests ON krarup.count (session) WHERE session <> 0;

-- As before, without reading all rows: those to be added up by the index, the others of some pages at a time.
CREATE OR REPLACE FUNCTION krarup.sum_up() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part bigint;
BEGIN
    IF EXISTS (SELECT FROM krarup.count WHERE tube = '' AND session = 0 AND changed > clock_timestamp() - interval '5 s')
       OR NOT pg_try_advisory_xact_lock(1802658162, 4) THEN
        RETURN;
    END IF;
    INSERT INTO krarup.count VALUES ('', 0, 0, 0, 0, 0, 0, 0)
    ON CONFLICT (tube, session) DO UPDATE SET changed = excluded.changed;
    -- One that is written just now is left as it is.
    WITH gone AS (
        DELETE FROM krarup.count
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM krarup.count WHERE session <> 0 AND changed < clock_timestamp() - interval '5 s'
            LIMIT 100000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    )
    INSERT INTO krarup.count AS sum
    SELECT tube, 0, sum(urgent), sum(ready), sum(reserved), sum(delayed), sum(buried), sum(put) FROM gone GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed;
    -- Tubes that are empty are looked for in another 1,024 pages every 20 s.
    part := extract(epoch FROM clock_timestamp())::bigint / 20
            % (1 + pg_relation_size('krarup.count') / current_setting('block_size')::bigint / 1024);
    WITH forgotten AS (
        DELETE FROM krarup.count
        WHERE ctid >= format('(%s,0)', part * 1024)::tid AND ctid < format('(%s,0)', (part + 1) * 1024)::tid
          AND session = 0 AND tube <> '' AND changed < clock_timestamp() - interval '1 day'
          AND (urgent, ready, reserved, delayed, buried) = (0, 0, 0, 0, 0)
        RETURNING put
    )
    UPDATE krarup.count AS rest SET put = rest.put + gone.put
    FROM (SELECT sum(put) AS put FROM forgotten) AS gone
    WHERE rest.tube = '' AND rest.session = 0 AND gone.put > 0;
END $$;

-- As before; a count that is full stays what it is.
CREATE OR REPLACE FUNCTION krarup.take(kind integer, names text[], client text, wanted bigint, taker bigint, most integer, pops boolean)
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
                reserves = LEAST(reserves, 2147483646) + 1
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

-- As before, for the same reason.
CREATE OR REPLACE FUNCTION krarup.move(kind integer, wanted bigint, taker bigint, new_priority bigint, new_delay integer, seconds bigint, OUT word smallint)
LANGUAGE plpgsql AS $$
DECLARE
    moved record;
BEGIN
    IF kind = 1 OR kind = 5 THEN
        UPDATE krarup.message
        SET state = CASE WHEN kind = 1 AND seconds > 0 THEN 1 ELSE 0 END, due = CASE WHEN kind = 1 THEN krarup.after(seconds) END,
            holder = NULL, priority = CASE WHEN kind = 1 THEN new_priority ELSE priority END,
            delay = CASE WHEN kind = 1 THEN new_delay ELSE delay END, releases = CASE WHEN kind = 1 THEN LEAST(releases, 2147483646) + 1 ELSE releases END
        WHERE id = wanted AND state = 3 AND holder = taker AND coalesce(due > clock_timestamp(), false)
        RETURNING tube, reserves INTO moved;
        word := CASE WHEN NOT FOUND THEN 1 WHEN krarup.give_up(wanted, moved.tube, moved.reserves) THEN 2 ELSE 0 END;
    ELSIF kind = 2 THEN
        UPDATE krarup.message
        SET state = 2, due = NULL, holder = NULL, priority = new_priority, buries = LEAST(buries, 2147483646) + 1, buried = nextval('krarup.buried_order')
        WHERE id = wanted AND state = 3 AND holder = taker AND coalesce(due > clock_timestamp(), false);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    ELSIF kind = 3 THEN
        UPDATE krarup.message SET due = clock_timestamp() + make_interval(secs => ttr)
        WHERE id = wanted AND state = 3 AND holder = taker AND coalesce(due > clock_timestamp(), false);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    ELSE
        UPDATE krarup.message SET state = 0, due = NULL, buried = NULL, kicks = LEAST(kicks, 2147483646) + 1 WHERE id = wanted AND state IN (1, 2);
        word := CASE WHEN FOUND THEN 0 ELSE 1 END;
    END IF;
END $$;

-- As before, for the same reason: the sweep calls it, too, and nothing comes back where that fails.
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
        SET state = 2, due = NULL, holder = NULL, buries = LEAST(buries, 2147483646) + 1, buried = nextval('krarup.buried_order') WHERE id = wanted;
    ELSE
        UPDATE krarup.message SET tube = bound.dead, state = 0, due = NULL, holder = NULL, reserves = 0,
            releases = CASE WHEN GREATEST(timeouts, releases, kicks) > 0 THEN releases ELSE 1 END
        WHERE id = wanted;
    END IF;
    RETURN true;
END $$;

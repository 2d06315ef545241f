-- The end of take_many.sql and take_from.sql: the first messages that they found are leased to those who wish for them.
), taken AS (
    UPDATE krarup.message_row AS message
    SET state = 3, due = clock_timestamp() + make_interval(secs => ttr), holder = wish.taker, buried = NULL, reserves = LEAST(reserves, 2147483646) + 1
    FROM first JOIN wish USING (tube, turn)
    WHERE message.id = first.id
    RETURNING wish.place, message.id, message.ttr, message.body, message.flags, message.tube, message.priority
), counted AS (
    INSERT INTO krarup.count AS sum
    SELECT tube, krarup.summand(), -count(*) FILTER (WHERE priority < 1024), -count(*), count(*), 0, 0, 0 FROM taken GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed
), done AS (
    INSERT INTO krarup.outcome SELECT $1, $2, array_agg(place), array_agg(id) FROM taken HAVING count(*) > 0
)
SELECT place, 0::smallint, id, ttr, body, flags, priority FROM taken

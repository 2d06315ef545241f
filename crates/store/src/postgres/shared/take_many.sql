-- As take.sql, where every request wants the first message that is for any client in one tube, leased: those that want the same tube have its first messages in the order in which they came.
WITH wish AS MATERIALIZED (
    SELECT tube, taker, place, row_number() OVER (PARTITION BY tube ORDER BY place) AS turn
    FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS wish (tube, taker, place)
), first AS MATERIALIZED (
    SELECT wanted.tube, next.id, row_number() OVER (PARTITION BY wanted.tube ORDER BY next.priority, next.id) AS turn
    FROM (SELECT tube, max(turn) AS many FROM wish GROUP BY tube) AS wanted, LATERAL (
        SELECT id, priority FROM krarup.message_row
        WHERE tube = wanted.tube AND receiver IS NULL AND state = 0
          AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = wanted.tube AND until > clock_timestamp())
        ORDER BY priority, id LIMIT wanted.many FOR UPDATE SKIP LOCKED
    ) AS next
), taken AS (
    UPDATE krarup.message_row AS message
    SET state = 3, due = clock_timestamp() + make_interval(secs => ttr), holder = wish.taker, buried = NULL, reserves = reserves + 1
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

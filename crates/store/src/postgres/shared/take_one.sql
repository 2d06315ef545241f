-- As take.sql, of the first message that is for any client in one tube, and leased.
WITH taken AS (
    UPDATE krarup.message
    SET state = 3, due = clock_timestamp() + make_interval(secs => ttr), holder = $4::bigint, buried = NULL, reserves = reserves + 1
    WHERE id = (
        SELECT id FROM krarup.message
        WHERE tube = $3::text AND receiver IS NULL AND state = 0
          AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $3 AND until > clock_timestamp())
        ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, ttr, body, flags, priority
), counted AS (
    INSERT INTO krarup.count AS sum
    SELECT $3, pg_backend_pid(), -(priority < 1024)::integer, -1, 1, 0, 0, 0 FROM taken
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed
), done AS (
    INSERT INTO krarup.outcome SELECT $1::bigint, $2::bigint, ARRAY[1::bigint], ARRAY[id] FROM taken
)
SELECT 1::bigint, 0::smallint, id, ttr, body, flags FROM taken

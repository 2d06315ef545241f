-- As take.sql, of the first message that is for any client in one tube, and leased.
WITH taken AS (
    UPDATE krarup.message_row
    SET state = 3, due = clock_timestamp() + make_interval(secs => ttr), holder = $4::bigint, buried = NULL, reserves = LEAST(reserves, 2147483646) + 1
    WHERE id = (
        SELECT id FROM krarup.message_row
        WHERE tube = $3::text AND receiver IS NULL AND state = 0
          AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $3 AND until > clock_timestamp())
        ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, ttr, body, flags, priority
), done AS (
    INSERT INTO krarup.outcome (broker, serial, id, tube, urgent, ready, reserved, delayed, buried, put)
    SELECT $1::bigint, $2::bigint, id, $3, -(priority < 1024)::integer, -1, 1, 0, 0, 0 FROM taken
)
SELECT 1::bigint, 0::smallint, id, ttr, body, flags, priority FROM taken

-- As take_one.sql, of a tube whose first messages are known to lie before a priority, or at a certain place or behind it, but for those that came back with the number they had.
WITH again AS MATERIALIZED (
    SELECT id, priority FROM krarup.message_row
    WHERE tube = $3::text AND state = 0 AND receiver IS NULL AND (reserves > 0 OR timeouts > 0 OR releases > 0 OR kicks > 0 OR delay <> 0)
      AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $3 AND until > clock_timestamp())
    ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE krarup.message_row
    SET state = 3, due = clock_timestamp() + make_interval(secs => ttr), holder = $4::bigint, buried = NULL, reserves = LEAST(reserves, 2147483646) + 1
    WHERE id = coalesce((
        SELECT again.id FROM again
        WHERE NOT EXISTS (SELECT FROM krarup.message_row AS other
                          WHERE other.tube = $3::text AND other.receiver IS NULL AND other.state = 0 AND other.priority < $5::bigint
                            AND (other.priority, other.id) < (again.priority, again.id))
          AND NOT EXISTS (SELECT FROM krarup.message_row AS other
                          WHERE other.tube = $3::text AND other.receiver IS NULL AND other.state = 0 AND (other.priority, other.id) >= ($5::bigint, $6::bigint)
                            AND (other.priority, other.id) < (again.priority, again.id))
    ), (
        SELECT id FROM krarup.message_row
        WHERE tube = $3::text AND receiver IS NULL AND state = 0 AND priority < $5::bigint
          AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $3 AND until > clock_timestamp())
        ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ), (
        SELECT id FROM krarup.message_row
        WHERE tube = $3::text AND receiver IS NULL AND state = 0 AND (priority, id) >= ($5::bigint, $6::bigint)
          AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $3 AND until > clock_timestamp())
        ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ), (
        SELECT id FROM again
    ))
    RETURNING id, ttr, body, flags, priority
), done AS (
    INSERT INTO krarup.outcome (broker, serial, id, tube, urgent, ready, reserved, delayed, buried, put)
    SELECT $1::bigint, $2::bigint, id, $3, -(priority < 1024)::integer, -1, 1, 0, 0, 0 FROM taken
)
SELECT 1::bigint, 0::smallint, id, ttr, body, flags, priority FROM taken

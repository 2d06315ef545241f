-- As finish.sql, of one message.
WITH gone AS (
    DELETE FROM krarup.message_row WHERE id = $3::bigint AND (state <> 3 OR holder = $4::bigint OR due <= clock_timestamp())
    RETURNING id, tube, state, priority
)
INSERT INTO krarup.outcome (broker, serial, id, tube, urgent, ready, reserved, delayed, buried, put)
SELECT $1::bigint, $2::bigint, id, tube, -(state = 0 AND priority < 1024)::integer, -(state = 0)::integer, -(state = 3)::integer, -(state = 1)::integer,
       -(state = 2)::integer, 0
FROM gone
RETURNING 1::bigint, 0::smallint, id, 0, NULL::bytea

-- As finish.sql, of one message.
WITH gone AS (
    DELETE FROM krarup.message WHERE id = $3::bigint AND (state <> 3 OR holder = $4::bigint OR due <= clock_timestamp())
    RETURNING id, tube, state, priority
), counted AS (
    INSERT INTO krarup.count AS sum
    SELECT tube, pg_backend_pid(), -(state = 0 AND priority < 1024)::integer, -(state = 0)::integer, -(state = 3)::integer, -(state = 1)::integer,
           -(state = 2)::integer, 0
    FROM gone
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed
)
INSERT INTO krarup.outcome SELECT $1::bigint, $2::bigint, ARRAY[1::bigint], ARRAY[id] FROM gone
RETURNING 1::bigint, 0::smallint, ids[1], 0, NULL::bytea

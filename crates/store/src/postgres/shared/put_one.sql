-- As put.sql, of one message: no lists are taken apart.
WITH new AS (
    INSERT INTO krarup.message
    SELECT nextval('krarup.message_id'), $3::text, CASE WHEN $7::bigint > 0 THEN 1 ELSE 0 END, $5::bigint, krarup.after($7), NULL, $6::integer, $8::integer,
           clock_timestamp(), $4::text, NULL, 0, 0, 0, 0, 0, NULL, $9::bytea, $10::bigint, krarup.after($11::bigint)
    RETURNING id, state
), counted AS (
    INSERT INTO krarup.count AS sum
    SELECT $3, pg_backend_pid(), (state = 0 AND $5 < 1024)::integer, (state = 0)::integer, 0, (state = 1)::integer, 0, 1 FROM new
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed
)
INSERT INTO krarup.outcome SELECT $1::bigint, $2::bigint, ARRAY[1::bigint], ARRAY[id] FROM new
RETURNING 1::bigint, 0::smallint, ids[1], 0, NULL::bytea

-- As finish.sql, of one message.
WITH gone AS (
    DELETE FROM krarup.message WHERE id = $3::bigint AND (state <> 3 OR holder = $4::bigint OR due <= clock_timestamp()) RETURNING id
)
INSERT INTO krarup.outcome SELECT $1::bigint, $2::bigint, ARRAY[1::bigint], ARRAY[id] FROM gone
RETURNING 1::bigint, 0::smallint, ids[1], 0, NULL::bytea

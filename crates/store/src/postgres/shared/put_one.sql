-- As put.sql, of one message: no lists are taken apart, and what it counts stands in the row that names the transaction.
WITH new AS (
    INSERT INTO krarup.message_row
    VALUES (nextval('krarup.message_id'), $3::text, CASE WHEN $7::bigint > 0 THEN 1 ELSE 0 END, $5::bigint, krarup.after($7), NULL, $6::integer, $8::integer,
            clock_timestamp(), $4::text, NULL, 0, 0, 0, 0, 0, NULL, $9::bytea, $10::bigint, krarup.after($11::bigint))
    RETURNING id, state
)
INSERT INTO krarup.outcome (broker, serial, id, tube, urgent, ready, reserved, delayed, buried, put)
SELECT $1::bigint, $2::bigint, id, $3, (state = 0 AND $5 < 1024)::integer, (state = 0)::integer, 0, (state = 1)::integer, 0, 1 FROM new
RETURNING 1::bigint, 0::smallint, id, 0, NULL::bytea

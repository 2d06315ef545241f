-- One batch: each message is in one of the three lists at most, so that their order does not matter.
WITH new AS (
    INSERT INTO krarup.message
        (id, tube, state, priority, due, buried, delay, ttr, created, sender, receiver,
         reserves, timeouts, releases, buries, kicks, body)
    SELECT id, tube, state, priority, due, NULL, delay, ttr, created, sender, receiver, 0, 0, 0, 0, 0, body
    FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::timestamptz[], $6::integer[], $7::integer[],
                $8::timestamptz[], $9::text[], $10::text[], $11::bytea[])
         AS new (id, tube, state, priority, due, delay, ttr, created, sender, receiver, body)
    WHERE (SELECT krarup.still_owner($13))
    -- A batch whose end was not heard of is written again.
    ON CONFLICT (id) DO NOTHING
)
DELETE FROM krarup.message WHERE id = ANY ($12::bigint[]) AND (SELECT krarup.still_owner($13))

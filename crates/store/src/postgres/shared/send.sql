-- The function's changes are counted by the table's triggers.
WITH done AS (
    INSERT INTO krarup.outcome VALUES ($1, $2)
)
SELECT place, sent.word, sent.id, 0, NULL::bytea
FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::bigint[], $9::integer[], $10::bigint[],
            $11::integer[], $12::bytea[], $14::bigint[], $15::bigint[])
     WITH ORDINALITY AS wish (tube, sender, receiver, key, strict, priority, delay, seconds, ttr, body, flags, lives, place),
     LATERAL krarup.send_item(CASE WHEN set_config('krarup.counts', 'no', true) = 'no' THEN tube END, sender, receiver, key, strict, priority, delay, seconds, ttr, body, $13,
                             flags, lives) AS sent

-- One batch: each message is in one of the three lists at most, so that their order does not matter.
WITH fence AS MATERIALIZED (
    SELECT krarup.still_owner($25, $28, $29) AS holds
), new AS (
    INSERT INTO krarup.message_row
        (id, tube, state, priority, due, buried, delay, ttr, created, sender, receiver,
         reserves, timeouts, releases, buries, kicks, body, flags, expires)
    SELECT id, tube, state, priority, due, NULL, delay, ttr, created, sender, receiver, 0, 0, 0, 0, 0, body, flags, expires
    FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::timestamptz[], $6::integer[], $7::integer[],
                $8::timestamptz[], $9::text[], $10::text[], $11::bytea[], $26::bigint[], $27::timestamptz[])
         AS new (id, tube, state, priority, due, delay, ttr, created, sender, receiver, body, flags, expires)
    WHERE (SELECT holds FROM fence)
    -- A batch whose end was not heard of is written again.
    ON CONFLICT (id) DO NOTHING
), gone AS (
    DELETE FROM krarup.message_row WHERE id = ANY ($12::bigint[]) AND (SELECT holds FROM fence)
)
UPDATE krarup.message_row AS message
SET tube = new.tube, state = new.state, priority = new.priority, due = new.due, buried = new.buried, delay = new.delay,
    reserves = new.reserves, timeouts = new.timeouts, releases = new.releases, buries = new.buries, kicks = new.kicks
FROM unnest($13::bigint[], $14::text[], $15::smallint[], $16::bigint[], $17::timestamptz[], $18::bigint[], $19::integer[],
            $20::integer[], $21::integer[], $22::integer[], $23::integer[], $24::integer[])
     AS new (id, tube, state, priority, due, buried, delay, reserves, timeouts, releases, buries, kicks)
WHERE message.id = new.id AND (SELECT holds FROM fence)

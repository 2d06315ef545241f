UPDATE krarup.message AS message
SET tube = new.tube, state = new.state, priority = new.priority, due = new.due, buried = new.buried, delay = new.delay,
    reserves = new.reserves, timeouts = new.timeouts, releases = new.releases, buries = new.buries, kicks = new.kicks
FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::integer[],
            $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::integer[])
     AS new (id, tube, state, priority, due, buried, delay, reserves, timeouts, releases, buries, kicks)
WHERE message.id = new.id

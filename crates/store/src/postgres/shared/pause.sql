-- A tube is one that holds a message, was created, or that a client here refers to.
INSERT INTO krarup.pause
SELECT $1, make_interval(secs => $2::bigint), clock_timestamp() + make_interval(secs => $2::bigint)
WHERE $3 OR EXISTS (SELECT FROM krarup.message WHERE tube = $1) OR EXISTS (SELECT FROM krarup.tube WHERE name = $1)
ON CONFLICT (tube) DO UPDATE SET length = excluded.length, until = excluded.until

-- As write.sql, of new messages that are ready at once and for any client, and of such that are gone. There are fewer lists to take apart, and no look for each new message whether it
-- is there already: then this fails.
WITH fence AS MATERIALIZED (
    SELECT krarup.still_owner($8, $9, $10) AS holds
), new AS (
    INSERT INTO krarup.message_row (id, tube, state, priority, delay, ttr, created, reserves, timeouts, releases, buries, kicks, body)
    SELECT id, tube, 0, priority, 0, ttr, created, 0, 0, 0, 0, 0, body
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::integer[], $5::timestamptz[], $6::bytea[])
         AS new (id, tube, priority, ttr, created, body)
    WHERE (SELECT holds FROM fence)
)
DELETE FROM krarup.message_row WHERE id = ANY ($7::bigint[]) AND (SELECT holds FROM fence)

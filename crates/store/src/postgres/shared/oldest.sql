-- For how long the oldest ready message of each tube has been there, of those that are for any client. From priority to priority, the most urgent 64 of each part, and not
-- from message to message, since among equally urgent ones the first is the oldest; from low-water marks on, and of those that came back with the number they had the first.
WITH RECURSIVE line AS (
    SELECT part.tube, part.below, first.priority, first.created, 1 AS looked
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS part (tube, priority, id, below), LATERAL (
        SELECT message.priority, message.created FROM krarup.message_row AS message
        WHERE message.tube = part.tube AND receiver IS NULL AND state = 0
          AND (message.priority, message.id) >= (part.priority, part.id) AND message.priority < part.below
        ORDER BY message.priority, message.id LIMIT 1
    ) AS first
    UNION ALL
    SELECT line.tube, line.below, first.priority, first.created, looked + 1
    FROM line, LATERAL (
        SELECT message.priority, message.created FROM krarup.message_row AS message
        WHERE message.tube = line.tube AND receiver IS NULL AND state = 0 AND message.priority > line.priority AND message.priority < line.below
        ORDER BY message.priority, message.id LIMIT 1
    ) AS first
    WHERE looked < 64
), again AS (
    SELECT wish.tube, first.created
    FROM unnest($5::text[]) AS wish (tube), LATERAL (
        SELECT message.created FROM krarup.message_row AS message
        WHERE message.tube = wish.tube AND state = 0 AND receiver IS NULL AND (reserves > 0 OR timeouts > 0 OR releases > 0 OR kicks > 0 OR delay <> 0)
        ORDER BY message.priority, message.id LIMIT 1
    ) AS first
)
SELECT tube, extract(epoch FROM clock_timestamp() - min(created))::float8
FROM (SELECT tube, created FROM line UNION ALL SELECT tube, created FROM again) AS firsts
GROUP BY tube

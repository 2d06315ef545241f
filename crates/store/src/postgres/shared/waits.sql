-- For which of those who wait something is ready, where the first messages of tubes are known to lie at certain places or behind; see take_from.sql. `OFFSET 0`:
-- without it PostgreSQL may read all such messages into a hash table, to look up there which tubes have some. Of the parts that is wanted, and `IN` is
-- always done so: there may be as many parts as clients wait, and each is looked into once.
SELECT wish.place::integer
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS wish (tube, client, place)
WHERE NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = wish.tube)
  AND (EXISTS (
        SELECT FROM krarup.message_row AS message
        WHERE message.tube = wish.tube AND state = 0 AND receiver IS NULL AND (reserves > 0 OR timeouts > 0 OR releases > 0 OR kicks > 0 OR delay <> 0)
        OFFSET 0)
    OR wish.tube IN (
        SELECT part.tube FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) AS part (tube, priority, id, below), LATERAL (
            SELECT FROM krarup.message_row AS message
            WHERE message.tube = part.tube AND receiver IS NULL AND state = 0
              AND (message.priority, message.id) >= (part.priority, part.id) AND message.priority < part.below
            LIMIT 1
        ) AS line)
    OR (wish.client IS NOT NULL
        AND EXISTS (SELECT FROM krarup.message_row AS message WHERE message.tube = wish.tube AND receiver = wish.client AND state = 0 OFFSET 0)))

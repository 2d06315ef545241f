-- As take_many.sql, of tubes whose first messages are known to lie at certain places or behind, but for those that came back with the number they had: each part of a tube goes from a place to the next priority
-- with a place of its own, the lowest first.
WITH wish AS MATERIALIZED (
    SELECT tube, taker, place, row_number() OVER (PARTITION BY tube ORDER BY place) AS turn
    FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS wish (tube, taker, place)
), part AS MATERIALIZED (
    SELECT * FROM unnest($5::text[], $6::bigint[], $7::bigint[], $8::bigint[]) AS part (tube, priority, id, below)
), first AS MATERIALIZED (
    SELECT wanted.tube, next.id, row_number() OVER (PARTITION BY wanted.tube ORDER BY next.priority, next.id) AS turn
    FROM (
        SELECT tube, max(turn) AS many FROM wish
        WHERE NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = wish.tube AND until > clock_timestamp()) GROUP BY tube
    ) AS wanted, LATERAL (
        SELECT * FROM (
            SELECT id, priority FROM krarup.message_row
            WHERE tube = wanted.tube AND state = 0 AND receiver IS NULL AND (reserves > 0 OR timeouts > 0 OR releases > 0 OR kicks > 0 OR delay <> 0)
            ORDER BY priority, id LIMIT wanted.many FOR UPDATE SKIP LOCKED
        ) AS again
        UNION
        SELECT * FROM (
            SELECT line.id, line.priority FROM part, LATERAL (
                SELECT message.id, message.priority FROM krarup.message_row AS message
                WHERE message.tube = wanted.tube AND receiver IS NULL AND state = 0
                  AND (message.priority, message.id) >= (part.priority, part.id) AND message.priority < part.below
                ORDER BY message.priority, message.id LIMIT wanted.many FOR UPDATE SKIP LOCKED
            ) AS line
            WHERE part.tube = wanted.tube LIMIT wanted.many
        ) AS others
        ORDER BY priority, id LIMIT wanted.many
    ) AS next

-- As take.sql, where every request wants the first message that is for any client in one tube, leased: those that want the same tube have its first messages in the order in which they came.
WITH wish AS MATERIALIZED (
    SELECT tube, taker, place, row_number() OVER (PARTITION BY tube ORDER BY place) AS turn
    FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS wish (tube, taker, place)
), first AS MATERIALIZED (
    SELECT wanted.tube, next.id, row_number() OVER (PARTITION BY wanted.tube ORDER BY next.priority, next.id) AS turn
    FROM (SELECT tube, max(turn) AS many FROM wish GROUP BY tube) AS wanted, LATERAL (
        SELECT id, priority FROM krarup.message_row
        WHERE tube = wanted.tube AND receiver IS NULL AND state = 0
          AND NOT EXISTS (SELECT FROM krarup.pause WHERE pause.tube = wanted.tube AND until > clock_timestamp())
        ORDER BY priority, id LIMIT wanted.many FOR UPDATE SKIP LOCKED
    ) AS next

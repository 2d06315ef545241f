-- The tubes of one shard that have messages, found without reading these: in each index the next name after the last.
WITH RECURSIVE
    ready (tube) AS (
        SELECT min(tube) FROM krarup.message WHERE state = 0 AND receiver IS NULL
        UNION ALL
        SELECT (SELECT min(next.tube) FROM krarup.message AS next WHERE state = 0 AND receiver IS NULL AND next.tube > ready.tube)
        FROM ready WHERE tube IS NOT NULL
    ), sent (receiver, tube) AS (
        (SELECT receiver, tube FROM krarup.message WHERE state = 0 AND receiver IS NOT NULL ORDER BY receiver, tube LIMIT 1)
        UNION ALL
        SELECT next.receiver, next.tube FROM sent CROSS JOIN LATERAL (
            SELECT receiver, tube FROM krarup.message AS other
            WHERE state = 0 AND receiver IS NOT NULL AND (other.receiver, other.tube) > (sent.receiver, sent.tube)
            ORDER BY receiver, tube LIMIT 1) AS next
    ), delayed (tube) AS (
        SELECT min(tube) FROM krarup.message WHERE state = 1
        UNION ALL
        SELECT (SELECT min(next.tube) FROM krarup.message AS next WHERE state = 1 AND next.tube > delayed.tube)
        FROM delayed WHERE tube IS NOT NULL
    ), aside (tube) AS (
        SELECT min(tube) FROM krarup.message WHERE state = 2
        UNION ALL
        SELECT (SELECT min(next.tube) FROM krarup.message AS next WHERE state = 2 AND next.tube > aside.tube)
        FROM aside WHERE tube IS NOT NULL
    ), held (tube) AS (
        SELECT min(tube) FROM krarup.message WHERE state = 3
        UNION ALL
        SELECT (SELECT min(next.tube) FROM krarup.message AS next WHERE state = 3 AND next.tube > held.tube)
        FROM held WHERE tube IS NOT NULL
    )
SELECT tube FROM (
    SELECT tube FROM ready UNION SELECT tube FROM sent UNION SELECT tube FROM delayed UNION SELECT tube FROM aside UNION SELECT tube FROM held
) AS found
WHERE tube IS NOT NULL AND krarup.shard_of(tube, $1) = $2

-- What an owner finds, in one pass over the table or the tubes of its shard: of each tube, receiver, sender and state how many messages there are, how many of them urgent, the last place of those set aside,
-- and the bytes that they would take in memory. What was held, or whose delay is over, is counted as ready, and told apart.
SELECT tube, receiver, sender, CASE WHEN late THEN 0::smallint ELSE state END, late,
       count(*), count(*) FILTER (WHERE priority < $1), coalesce(max(buried), -1),
       (count(*) * $2 + sum(octet_length(body)))::bigint
FROM (SELECT *, state = 3 OR (state = 1 AND due <= $3) AS late FROM krarup.message) AS message
GROUP BY tube, receiver, sender, state, late

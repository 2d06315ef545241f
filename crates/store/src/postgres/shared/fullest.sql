-- The tubes with the most messages that are ready, how many, and in how many tubes how many are ready.
SELECT tube, ready, count(*) OVER (), (sum(ready) OVER ())::bigint
FROM (SELECT tube, sum(ready)::bigint AS ready FROM krarup.counted GROUP BY tube) AS tubes
WHERE ready > 0
ORDER BY ready DESC, tube LIMIT $1

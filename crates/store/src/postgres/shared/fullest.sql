-- How many messages there are over all tubes, in how many tubes some are ready, and the tubes with the most of these.
SELECT (sum(urgent) OVER ())::bigint, (sum(ready) OVER ())::bigint, (sum(reserved) OVER ())::bigint, (sum(delayed) OVER ())::bigint,
       (sum(buried) OVER ())::bigint, (sum(put) OVER ())::bigint, count(*) FILTER (WHERE ready > 0) OVER (), tube, ready
FROM (
    SELECT tube, sum(urgent) AS urgent, sum(ready)::bigint AS ready, sum(reserved) AS reserved, sum(delayed) AS delayed, sum(buried) AS buried, sum(put) AS put
    FROM krarup.counted GROUP BY tube
) AS tubes
ORDER BY ready DESC, tube LIMIT $1

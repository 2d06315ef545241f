-- Over the tubes, not over the messages.
SELECT coalesce(sum(urgent), 0)::bigint, coalesce(sum(ready), 0)::bigint, coalesce(sum(reserved), 0)::bigint, coalesce(sum(delayed), 0)::bigint,
       coalesce(sum(buried), 0)::bigint, coalesce(sum(put), 0)::bigint, count(*) FILTER (WHERE ready + reserved + delayed + buried > 0)
FROM (
    SELECT sum(urgent) AS urgent, sum(ready) AS ready, sum(reserved) AS reserved, sum(delayed) AS delayed, sum(buried) AS buried, sum(put) AS put
    FROM krarup.counted GROUP BY tube
) AS tubes

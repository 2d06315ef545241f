SELECT coalesce(sum(urgent), 0)::bigint, coalesce(sum(ready), 0)::bigint, coalesce(sum(reserved), 0)::bigint, coalesce(sum(delayed), 0)::bigint,
       coalesce(sum(buried), 0)::bigint, coalesce(sum(put), 0)::bigint,
       EXISTS (SELECT FROM krarup.tube WHERE name = $1) OR EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $1),
       coalesce((SELECT extract(epoch FROM length) FROM krarup.pause WHERE pause.tube = $1), 0)::float8,
       coalesce((SELECT extract(epoch FROM until - clock_timestamp()) FROM krarup.pause WHERE pause.tube = $1), 0)::float8,
       coalesce((SELECT expires FROM krarup.tube WHERE name = $1), 0), coalesce((SELECT keeps FROM krarup.tube WHERE name = $1), 0)
FROM krarup.counted WHERE tube = $1

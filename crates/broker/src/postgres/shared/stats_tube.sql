SELECT count(*) FILTER (WHERE state = 0 AND priority < 1024), count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 3),
       count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2),
       EXISTS (SELECT FROM krarup.tube WHERE name = $1) OR EXISTS (SELECT FROM krarup.pause WHERE pause.tube = $1),
       coalesce((SELECT extract(epoch FROM length) FROM krarup.pause WHERE pause.tube = $1), 0)::float8,
       coalesce((SELECT extract(epoch FROM until - clock_timestamp()) FROM krarup.pause WHERE pause.tube = $1), 0)::float8,
       coalesce((SELECT expires FROM krarup.tube WHERE name = $1), 0), coalesce((SELECT keeps FROM krarup.tube WHERE name = $1), 0)
FROM krarup.message WHERE tube = $1

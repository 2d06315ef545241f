SELECT count(*) FILTER (WHERE state = 0 AND priority < 1024), count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 3),
       count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2), count(DISTINCT tube)
FROM krarup.message

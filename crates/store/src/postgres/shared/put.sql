WITH wish AS MATERIALIZED (
    SELECT nextval('krarup.message_id') AS id, wish.*
    FROM unnest($3::text[], $4::text[], $5::bigint[], $6::integer[], $7::bigint[], $8::integer[], $9::bytea[],
                $10::bigint[], $11::bigint[])
         WITH ORDINALITY AS wish (tube, sender, priority, delay, seconds, ttr, body, flags, lives, place)
), done AS (
    INSERT INTO krarup.outcome SELECT $1, $2, array_agg(place ORDER BY place), array_agg(id ORDER BY place) FROM wish
), new AS (
    INSERT INTO krarup.message_row
    SELECT id, tube, CASE WHEN seconds > 0 THEN 1 ELSE 0 END, priority,
           CASE WHEN seconds > 0 THEN clock_timestamp() + make_interval(secs => seconds) END, NULL, delay, ttr, clock_timestamp(),
           sender, NULL, 0, 0, 0, 0, 0, NULL, body,
           flags, CASE WHEN lives > 0 THEN clock_timestamp() + make_interval(secs => lives) END
    FROM wish
), counted AS (
    INSERT INTO krarup.count AS sum
    SELECT tube, krarup.summand(), count(*) FILTER (WHERE seconds <= 0 AND priority < 1024), count(*) FILTER (WHERE seconds <= 0), 0,
           count(*) FILTER (WHERE seconds > 0), 0, count(*)
    FROM wish GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed
)
SELECT place, 0::smallint, id, 0, NULL::bytea FROM wish

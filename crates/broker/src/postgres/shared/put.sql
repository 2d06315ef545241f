WITH wish AS MATERIALIZED (
    SELECT nextval('krarup.message_id') AS id, wish.*
    FROM unnest($3::text[], $4::text[], $5::bigint[], $6::integer[], $7::bigint[], $8::integer[], $9::bytea[],
                $10::bigint[], $11::bigint[])
         WITH ORDINALITY AS wish (tube, sender, priority, delay, seconds, ttr, body, flags, lives, place)
), done AS (
    INSERT INTO krarup.outcome SELECT $1, $2, array_agg(place ORDER BY place), array_agg(id ORDER BY place) FROM wish
), new AS (
    INSERT INTO krarup.message
    SELECT id, tube, CASE WHEN seconds > 0 THEN 1 ELSE 0 END, priority,
           CASE WHEN seconds > 0 THEN clock_timestamp() + make_interval(secs => seconds) END, NULL, delay, ttr, clock_timestamp(),
           sender, NULL, 0, 0, 0, 0, 0, NULL, body,
           flags, CASE WHEN lives > 0 THEN clock_timestamp() + make_interval(secs => lives) END
    FROM wish
)
SELECT place, 0::smallint, id, 0, NULL::bytea FROM wish

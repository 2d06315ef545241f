-- The function's changes are counted by the table's triggers.
WITH moved AS MATERIALIZED (
    SELECT place, krarup.move(CASE WHEN set_config('krarup.counts', 'no', true) = 'no' THEN kind END, wanted, taker, priority, delay, seconds) AS word, wanted
    FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::bigint[])
         WITH ORDINALITY AS wish (kind, wanted, taker, priority, delay, seconds, place)
), done AS (
    INSERT INTO krarup.outcome SELECT $1, $2 FROM moved WHERE word <> 1 LIMIT 1
)
SELECT place, word, wanted, 0, NULL::bytea FROM moved

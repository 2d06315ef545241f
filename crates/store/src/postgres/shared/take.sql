-- The function's changes are counted by the table's triggers.
WITH taken AS MATERIALIZED (
    SELECT place, taken.*
    FROM unnest($3::integer[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::integer[], $9::boolean[])
         WITH ORDINALITY AS wish (kind, names, client, wanted, taker, most, pops, place),
         LATERAL krarup.take(CASE WHEN set_config('krarup.counts', 'no', true) = 'no' THEN kind END, string_to_array(names, ' '), client, wanted, taker, most, pops) AS taken
), done AS (
    -- Where nothing was taken there is nothing to commit.
    INSERT INTO krarup.outcome SELECT $1, $2, array_agg(place), array_agg(id) FROM taken WHERE word = 0 HAVING count(*) > 0
)
SELECT place, word, id, coalesce(ttr, 0), body, coalesce(flags, 0),
       CASE word WHEN 0 THEN (SELECT tube FROM krarup.message_row AS message WHERE message.id = taken.id) END AS tube
FROM taken

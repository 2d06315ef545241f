-- Among several who delete the same message one has it.
WITH gone AS (
    DELETE FROM krarup.message USING unnest($3::bigint[], $4::bigint[]) WITH ORDINALITY AS wish (id, holder, place)
    WHERE message.id = wish.id AND (state <> 3 OR message.holder = wish.holder OR due <= clock_timestamp())
    RETURNING place, message.id
), done AS (
    INSERT INTO krarup.outcome SELECT $1, $2, array_agg(place), array_agg(id) FROM gone HAVING count(*) > 0
)
SELECT place, 0::smallint, id, 0, NULL::bytea FROM gone

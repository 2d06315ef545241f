-- Among several who delete the same message one has it.
WITH gone AS (
    DELETE FROM krarup.message_row AS message USING unnest($3::bigint[], $4::bigint[]) WITH ORDINALITY AS wish (id, holder, place)
    WHERE message.id = wish.id AND (state <> 3 OR message.holder = wish.holder OR due <= clock_timestamp())
    RETURNING place, message.id, tube, state, priority
), counted AS (
    INSERT INTO krarup.count AS sum
    SELECT tube, krarup.summand(), -count(*) FILTER (WHERE state = 0 AND priority < 1024), -count(*) FILTER (WHERE state = 0),
           -count(*) FILTER (WHERE state = 3), -count(*) FILTER (WHERE state = 1), -count(*) FILTER (WHERE state = 2), 0
    FROM gone GROUP BY tube
    ON CONFLICT (tube, session) DO UPDATE SET urgent = sum.urgent + excluded.urgent, ready = sum.ready + excluded.ready,
        reserved = sum.reserved + excluded.reserved, delayed = sum.delayed + excluded.delayed, buried = sum.buried + excluded.buried,
        put = sum.put + excluded.put, changed = excluded.changed
), done AS (
    INSERT INTO krarup.outcome SELECT $1, $2, array_agg(place), array_agg(id) FROM gone HAVING count(*) > 0
)
SELECT place, 0::smallint, id, 0, NULL::bytea FROM gone

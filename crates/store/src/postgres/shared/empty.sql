-- Messages of a tube go, so many of each state at most and none above this number; the table's triggers count them.
DELETE FROM krarup.message
WHERE (SELECT set_config('krarup.counts', 'no', true)) = 'no' AND id = ANY (
    ARRAY(SELECT id FROM krarup.message WHERE tube = $1 AND state = 0 AND receiver IS NULL AND id <= $2 ORDER BY priority, id LIMIT $3 FOR UPDATE)
    || ARRAY(SELECT id FROM krarup.message WHERE tube = $1 AND state = 1 AND id <= $2 ORDER BY due LIMIT $3 FOR UPDATE)
    || ARRAY(SELECT id FROM krarup.message WHERE tube = $1 AND state = 2 AND id <= $2 ORDER BY buried LIMIT $3 FOR UPDATE))

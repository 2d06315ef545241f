-- As empty.sql, those for one receiver, and those that are reserved. They are looked for among the others of all tubes, and not by the numbers of
-- all messages, hence `id + 0`; where there is no index of receivers, no message has one.
DELETE FROM krarup.message
WHERE (SELECT set_config('krarup.counts', 'no', true)) = 'no' AND id = ANY (
    ARRAY(SELECT id FROM krarup.message WHERE tube = $1 AND state = 0 AND receiver IS NOT NULL AND id + 0 <= $2
          AND to_regclass('krarup.ready_for_one') IS NOT NULL LIMIT $3 FOR UPDATE)
    || ARRAY(SELECT id FROM krarup.message WHERE tube = $1 AND state = 3 AND due IS NOT NULL AND id + 0 <= $2 LIMIT $3 FOR UPDATE))

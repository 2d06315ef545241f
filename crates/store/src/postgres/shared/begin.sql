-- What the database needs to decide for itself: an index for each line, and numbers above all that were given by an owner.
CREATE INDEX IF NOT EXISTS ready_for_all ON krarup.message (tube, priority, id) WHERE state = 0 AND receiver IS NULL;
CREATE INDEX IF NOT EXISTS ready_for_one ON krarup.message (receiver, tube, priority, id) WHERE state = 0 AND receiver IS NOT NULL;
-- One for each question: an index in which a receiver may be absent is in no query's order.
DROP INDEX IF EXISTS krarup.ready_by_sender;
CREATE INDEX IF NOT EXISTS sent_to_all ON krarup.message (sender, id) WHERE state = 0 AND receiver IS NULL AND sender IS NOT NULL;
CREATE INDEX IF NOT EXISTS sent_to_one ON krarup.message (sender, receiver, id) WHERE state = 0 AND receiver IS NOT NULL;
CREATE INDEX IF NOT EXISTS ending ON krarup.message (due) WHERE state = 3;
CREATE INDEX IF NOT EXISTS delayed ON krarup.message (due) WHERE state = 1;
CREATE INDEX IF NOT EXISTS delayed_in_tube ON krarup.message (tube, due) WHERE state = 1;
CREATE INDEX IF NOT EXISTS set_aside ON krarup.message (tube, buried) WHERE state = 2;
SELECT setval('krarup.message_id', greatest(
    (SELECT max(next_id) FROM krarup.owner), (SELECT last_value + is_called::int FROM krarup.message_id), (SELECT coalesce(max(id), 0) + 1 FROM krarup.message)), false);
SELECT setval('krarup.buried_order', greatest(
    (SELECT last_value + is_called::int FROM krarup.buried_order), (SELECT coalesce(max(buried), 0) + 1 FROM krarup.message)), false);
-- No broker owns a shard of them.
UPDATE krarup.layout SET shards = 0;
DELETE FROM krarup.key WHERE until <= clock_timestamp();
SELECT krarup.follow_tubes(true);
SELECT krarup.count_messages(true);

-- Earlier versions wrote a time to run beyond the column's range as a negative one, with which a lease is over at once.
UPDATE krarup.message_row SET ttr = 2147483647 WHERE ttr < 0;
-- What the database needs to decide for itself: an index for each line, and numbers above all that were given by an owner. Each index costs each put and each lease, whether they write into it or not.
CREATE INDEX IF NOT EXISTS ready_for_all ON krarup.message_row (tube, priority, id) WHERE state = 0 AND receiver IS NULL;
-- Those of them that came back with the number they had.
CREATE INDEX IF NOT EXISTS ready_again ON krarup.message_row (tube, priority, id)
WHERE state = 0 AND receiver IS NULL AND (reserves > 0 OR timeouts > 0 OR releases > 0 OR kicks > 0 OR delay <> 0);
-- Leases and delays, which alone are due at some time: a statement that has it used asks so of `due`.
CREATE INDEX IF NOT EXISTS leases_and_delays ON krarup.message_row (state, due) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS delayed_in_tube ON krarup.message_row (tube, due) WHERE state = 1;
CREATE INDEX IF NOT EXISTS set_aside ON krarup.message_row (tube, buried) WHERE state = 2;
DROP INDEX IF EXISTS krarup.ready_by_sender, krarup.ending, krarup.delayed, krarup.due;
SELECT krarup.follow_clients();
-- Where the clients are gone to which messages were sent, these are found when their tube is emptied.
DO $$ BEGIN
    IF EXISTS (SELECT FROM krarup.message_row WHERE receiver IS NOT NULL) THEN
        CREATE INDEX IF NOT EXISTS ready_for_one ON krarup.message_row (receiver, tube, priority, id) WHERE state = 0 AND receiver IS NOT NULL;
    END IF;
END $$;
SELECT setval('krarup.message_id', greatest(
    (SELECT max(next_id) FROM krarup.owner), (SELECT last_value + is_called::int FROM krarup.message_id), (SELECT coalesce(max(id), 0) + 1 FROM krarup.message)), false);
SELECT setval('krarup.buried_order', greatest(
    (SELECT last_value + is_called::int FROM krarup.buried_order), (SELECT coalesce(max(buried), 0) + 1 FROM krarup.message WHERE state = 2)), false);
-- No broker owns a shard of them.
UPDATE krarup.layout SET shards = 0;
DELETE FROM krarup.key WHERE until <= clock_timestamp();
SELECT krarup.follow_tubes(true);
SELECT krarup.count_messages(true);

-- An owner that does not hold all messages in memory reads the next of each line by these.
CREATE INDEX IF NOT EXISTS ready_for_all ON krarup.message_row (tube, priority, id) WHERE state = 0 AND receiver IS NULL;
CREATE INDEX IF NOT EXISTS ready_for_one ON krarup.message_row (receiver, tube, priority, id) WHERE state = 0 AND receiver IS NOT NULL;
CREATE INDEX IF NOT EXISTS sent_to_all ON krarup.message_row (sender, id) WHERE state = 0 AND receiver IS NULL AND sender IS NOT NULL;
CREATE INDEX IF NOT EXISTS sent_to_one ON krarup.message_row (sender, receiver, id) WHERE state = 0 AND receiver IS NOT NULL;
CREATE INDEX IF NOT EXISTS delayed_in_tube ON krarup.message_row (tube, due) WHERE state = 1;
CREATE INDEX IF NOT EXISTS set_aside ON krarup.message_row (tube, buried) WHERE state = 2;
CREATE INDEX IF NOT EXISTS held_in_tube ON krarup.message_row (tube) WHERE state = 3;

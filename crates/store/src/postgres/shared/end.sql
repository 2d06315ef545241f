-- An owner decides in memory: these indexes would only cost it. While a transaction of others that has read the messages is open, as a backup's is for
-- hours, they stay, until another owner begins. Autovacuum gives way after deadlock_timeout, a second.
SET LOCAL lock_timeout = '1500ms';
DROP INDEX IF EXISTS krarup.ready_for_all, krarup.ready_again, krarup.ready_for_one, krarup.ready_by_sender, krarup.sent_to_all, krarup.sent_to_one, krarup.ending, krarup.delayed, krarup.due,
    krarup.leases_and_delays, krarup.delayed_in_tube, krarup.set_aside, krarup.held_in_tube, krarup.expiring;

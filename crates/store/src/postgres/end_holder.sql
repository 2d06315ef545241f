-- Ends the sessions of others that hold the advisory lock of these two numbers.
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND classid = $1::int4::oid AND objid = $2::int4::oid AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

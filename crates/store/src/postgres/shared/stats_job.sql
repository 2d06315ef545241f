SELECT tube, state, priority, extract(epoch FROM clock_timestamp() - created)::float8, delay, ttr,
       coalesce(extract(epoch FROM due - clock_timestamp()), 0)::float8, reserves, timeouts, releases, buries, kicks, sender, receiver
FROM krarup.message WHERE id = $1

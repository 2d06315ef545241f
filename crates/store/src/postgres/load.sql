SELECT id, tube, state, priority, due, buried, delay, ttr, created, sender, receiver,
       reserves, timeouts, releases, buries, kicks, body, flags, expires
FROM krarup.message
ORDER BY id

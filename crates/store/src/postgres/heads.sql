-- The next messages of one line, as many as there may be and no more bytes than may come at once, but the first in any case. What the line is
-- ordered by, and what is in it, are filled in.
SELECT id, tube, state, priority, due, buried, delay, ttr, created, sender, receiver,
       reserves, timeouts, releases, buries, kicks, body, flags, expires, found
FROM (
    SELECT *, count(*) OVER () AS found, row_number() OVER (ORDER BY PLACE, id) AS place,
           sum(octet_length(body)) OVER (ORDER BY PLACE, id) AS bytes
    FROM (
        SELECT * FROM krarup.message
        WHERE tube = $1 AND LINE AND (PLACE, id) >= ($2, $3)
        ORDER BY PLACE, id LIMIT $4
    ) AS next
) AS measured
WHERE place = 1 OR bytes <= $5
ORDER BY PLACE, id

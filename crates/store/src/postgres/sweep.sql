-- The oldest messages of the outbox from a number on, as many as are taken in at once and no more bytes than may come at once, but the first in any case.
-- Which of them are an owner's is filled in.
SELECT number, tube, priority, delay, ttr, body, found
FROM (
    SELECT *, count(*) OVER () AS found, row_number() OVER (ORDER BY number) AS place,
           sum(octet_length(body)) OVER (ORDER BY number) AS bytes
    FROM (SELECT * FROM krarup.incoming WHERE number >= $3 AND OWN ORDER BY number LIMIT $2) AS next
) AS measured
WHERE place = 1 OR bytes <= $1
ORDER BY number

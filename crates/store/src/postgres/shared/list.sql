-- The tubes that hold something for everybody are looked up once for all who ask; from tube to tube, not from message to message.
WITH RECURSIVE everybody AS (
    (SELECT tube FROM krarup.message WHERE state = 0 AND receiver IS NULL ORDER BY tube LIMIT 1)
    UNION ALL
    SELECT (SELECT tube FROM krarup.message WHERE state = 0 AND receiver IS NULL AND tube > everybody.tube ORDER BY tube LIMIT 1)
    FROM everybody WHERE everybody.tube IS NOT NULL
)
SELECT place, ARRAY(
    SELECT tube FROM everybody WHERE tube IS NOT NULL
    UNION
    (WITH RECURSIVE own AS (
        (SELECT tube FROM krarup.message WHERE state = 0 AND receiver = client ORDER BY tube LIMIT 1)
        UNION ALL
        SELECT (SELECT tube FROM krarup.message WHERE state = 0 AND receiver = client AND tube > own.tube ORDER BY tube LIMIT 1)
        FROM own WHERE own.tube IS NOT NULL
    ) SELECT tube FROM own WHERE tube IS NOT NULL)
)
FROM unnest($1::text[]) WITH ORDINALITY AS wish (client, place)

-- Applications put what they have: bytes as they are, text and JSON as UTF-8, character by character. A literal without a type is text: no backslash in it means anything.
CREATE FUNCTION krarup.put(tube text, body text, priority bigint DEFAULT 1024, delay integer DEFAULT 0, ttr integer DEFAULT 120)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO krarup.incoming (tube, priority, delay, ttr, body) VALUES (tube, priority, delay, ttr, convert_to(body, 'UTF8'))
$$;
CREATE FUNCTION krarup.put(tube text, body json, priority bigint DEFAULT 1024, delay integer DEFAULT 0, ttr integer DEFAULT 120)
RETURNS void LANGUAGE sql AS $$
    SELECT krarup.put(tube, body::text, priority, delay, ttr)
$$;
CREATE FUNCTION krarup.put(tube text, body jsonb, priority bigint DEFAULT 1024, delay integer DEFAULT 0, ttr integer DEFAULT 120)
RETURNS void LANGUAGE sql AS $$
    SELECT krarup.put(tube, body::text, priority, delay, ttr)
$$;

-- The largest message that the broker takes, in bytes, which it writes here when it begins; none: no broker has said so yet.
ALTER TABLE krarup.layout ADD COLUMN largest bigint;

-- What no client could put, no application lays down, in whichever way it does. Who may insert need not be allowed to read the limit.
CREATE FUNCTION krarup.fits() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    bound bigint := (SELECT layout.largest FROM krarup.layout);
BEGIN
    IF octet_length(NEW.body) > bound THEN
        RAISE 'the message has % bytes, and the broker takes % at most', octet_length(NEW.body), bound
        USING ERRCODE = 'KR002', HINT = 'start krarup broker with a larger --max-message-size, or keep the body elsewhere and put its address';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fits BEFORE INSERT ON krarup.incoming FOR EACH ROW EXECUTE FUNCTION krarup.fits();

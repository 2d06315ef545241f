-- An owner writes in several sessions at once. Each statement of his that writes takes part in a lock until its commit, and then looks whether he
-- is still the owner; whoever takes over has that lock for himself while he becomes the owner. So what was begun before is there when he reads, and what
-- comes later fails. No row is locked: the owner's row would else be written for each batch.
CREATE OR REPLACE FUNCTION krarup.still_owner(number bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1802658162, 3);
    PERFORM FROM krarup.owner WHERE epoch = number;
    IF NOT FOUND THEN
        RAISE 'another broker has taken the queues over' USING ERRCODE = 'KR001';
    END IF;
    RETURN true;
END $$;

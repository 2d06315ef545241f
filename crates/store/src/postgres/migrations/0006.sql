-- Queues may be divided into shards, each with an owner of its own: one row for each.
ALTER TABLE krarup.owner DROP COLUMN one;
ALTER TABLE krarup.owner ADD COLUMN shard integer NOT NULL DEFAULT 0 CHECK (shard >= 0);
ALTER TABLE krarup.owner ADD PRIMARY KEY (shard);
-- where it is reached by memcached's protocol, and which member it is of those that share the shards
ALTER TABLE krarup.owner ADD COLUMN memcached text;
ALTER TABLE krarup.owner ADD COLUMN member bigint;

-- Into how many shards they are divided; 0 where nobody owns them. Who changes it holds a lock for himself that all others take part in.
CREATE TABLE krarup.layout (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    shards integer NOT NULL
);
INSERT INTO krarup.layout (shards) VALUES (1);

-- Which brokers share the shards, and when each was last heard of; one that is there holds a lock of its number.
CREATE TABLE krarup.member (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    renewed timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Which shard a tube is of: by the part of its name in the first parentheses that hold something, else by all of it.
CREATE FUNCTION krarup.shard_of(tube text, shards integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT (('x' || left(md5(coalesce(substring(tube from '\(([^)]+)\)'), tube)), 8))::bit(32)::bigint % shards)::integer
$$;

-- As before, of one shard.
DROP FUNCTION krarup.still_owner(bigint);
CREATE FUNCTION krarup.still_owner(number bigint, of_shard integer, fence integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1802658162, fence);
    PERFORM FROM krarup.owner WHERE epoch = number AND shard = of_shard;
    IF NOT FOUND THEN
        RAISE 'another broker has taken the queues over' USING ERRCODE = 'KR001';
    END IF;
    RETURN true;
END $$;

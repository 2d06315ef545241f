-- Queues as krarup broker keeps them. Nothing here is private: any message can be queried, and any application may lay down
-- messages of its own in its own transactions with krarup.put().

CREATE TABLE krarup.message (
    id       bigint PRIMARY KEY,
    tube     text COLLATE "C" NOT NULL,
    -- 0 ready or reserved by the owner, 1 delayed until `due`, 2 buried in the order of `buried`, 3 reserved until `due` (direct and batch mode)
    state    smallint NOT NULL CHECK (state BETWEEN 0 AND 3),
    priority bigint NOT NULL,
    due      timestamptz,
    buried   bigint,
    delay    integer NOT NULL,
    ttr      integer NOT NULL,
    created  timestamptz NOT NULL,
    sender   text COLLATE "C",
    receiver text COLLATE "C",
    reserves integer NOT NULL,
    timeouts integer NOT NULL,
    releases integer NOT NULL,
    buries   integer NOT NULL,
    kicks    integer NOT NULL,
    -- which connection holds it (direct and batch mode)
    holder   bigint,
    body     bytea NOT NULL
);
-- Messages come and go: their dead rows are cleared away early and without pauses.
ALTER TABLE krarup.message SET (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_vacuum_cost_delay = 0
);

-- Tubes that were created, or have a limit.
CREATE TABLE krarup.tube (
    name    text COLLATE "C" PRIMARY KEY,
    created boolean NOT NULL,
    most    integer NOT NULL,
    dead    text COLLATE "C"
);

-- Who may be sent messages.
CREATE TABLE krarup.client (
    name text COLLATE "C" PRIMARY KEY
);

-- Keys that make a second message none.
CREATE TABLE krarup.key (
    tube  text COLLATE "C" NOT NULL,
    key   text COLLATE "C" NOT NULL,
    id    bigint NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (tube, key)
);

-- What applications have laid down and the broker has not taken in yet.
CREATE TABLE krarup.incoming (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tube     text COLLATE "C" NOT NULL DEFAULT 'default'
             CHECK (tube ~ '^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$'),
    priority bigint NOT NULL DEFAULT 1024 CHECK (priority BETWEEN 0 AND 4294967295),
    delay    integer NOT NULL DEFAULT 0 CHECK (delay >= 0),
    ttr      integer NOT NULL DEFAULT 120 CHECK (ttr >= 1),
    body     bytea NOT NULL
);
ALTER TABLE krarup.incoming SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- For applications: a message that is in its queue within a second of the commit.
CREATE FUNCTION krarup.put(tube text, body bytea, priority bigint DEFAULT 1024, delay integer DEFAULT 0, ttr integer DEFAULT 120)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO krarup.incoming (tube, priority, delay, ttr, body) VALUES (tube, priority, delay, ttr, body)
$$;

-- Who owns the queues. There is one row.
CREATE TABLE krarup.owner (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- one more with each new owner
    epoch   bigint NOT NULL DEFAULT 0,
    -- where it can be reached, and the process of its connection, which another ends that takes over
    address text,
    process integer,
    renewed timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- ids from here on were never given
    next_id bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 10);
INSERT INTO krarup.owner DEFAULT VALUES;

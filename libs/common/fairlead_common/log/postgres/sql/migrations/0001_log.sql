-- The event log in tables: topics, their partitions, the entries, and who may append.

CREATE TABLE fairlead_log.identity (
    id text NOT NULL
);
INSERT INTO fairlead_log.identity VALUES (gen_random_uuid());

CREATE TABLE fairlead_log.topics (
    topic text PRIMARY KEY,
    partitions int NOT NULL,
    compacted boolean NOT NULL,
    retention_s bigint NOT NULL
);

-- One row per partition. An append locks its row until it commits: so positions are handed out in
-- the order in which they become visible, and a reader never overtakes an append.
CREATE TABLE fairlead_log.parts (
    part int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL REFERENCES fairlead_log.topics,
    partition int NOT NULL,
    compacted boolean NOT NULL,
    next bigint NOT NULL DEFAULT 0,        -- the position of the next record
    first bigint NOT NULL DEFAULT 0,       -- what lies below it is gone
    cleaned bigint NOT NULL DEFAULT 0,     -- no record is superseded by one that lies below it
    tombstones bigint NOT NULL DEFAULT 0,  -- tombstones below it have been seen long enough ...
    tombstones_ms bigint NOT NULL DEFAULT 0, -- ... when this time is long past
    UNIQUE (topic, partition)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 500);

CREATE TABLE fairlead_log.entries (
    part int NOT NULL,
    compacted boolean NOT NULL,
    position bigint NOT NULL,
    time_ms bigint NOT NULL,
    key text NOT NULL,
    value bytea,
    PRIMARY KEY (part, position)
);
-- Values are read whole; compressing them costs more than it saves.
ALTER TABLE fairlead_log.entries ALTER COLUMN value SET STORAGE EXTERNAL;
-- What compaction needs, and only where there is compaction.
CREATE INDEX entries_by_key ON fairlead_log.entries (part, key, position) WHERE compacted;
CREATE INDEX tombstones ON fairlead_log.entries (part, position) WHERE compacted AND value IS NULL;

CREATE TABLE fairlead_log.producers (
    name text PRIMARY KEY,
    epoch bigint NOT NULL
) WITH (fillfactor = 50);

-- Append records to partitions, all or none; `next` of each partition touched is returned.
-- Locks: the producer's row (so that its successor waits for this append), then the partitions in
-- order (so that no two appends wait for each other).
CREATE FUNCTION fairlead_log.append(
    p_producer text, p_epoch bigint, p_parts int[], p_keys text[], p_values bytea[]
) RETURNS TABLE (part int, next bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint;
BEGIN
    PERFORM FROM fairlead_log.producers
    WHERE name = p_producer AND epoch = p_epoch FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a newer producer % exists', p_producer USING ERRCODE = 'FLF01';
    END IF;
    PERFORM FROM fairlead_log.parts p
    WHERE p.part = ANY (p_parts) ORDER BY p.part FOR NO KEY UPDATE;
    now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT r.part, r.key, r.value,
               row_number() OVER (PARTITION BY r.part ORDER BY r.ordinal) AS number
        FROM unnest(p_parts, p_keys, p_values) WITH ORDINALITY AS r (part, key, value, ordinal)
    ), bumped AS (
        UPDATE fairlead_log.parts p SET next = p.next + c.records
        FROM (SELECT g.part, count(*) AS records FROM given g GROUP BY g.part) c
        WHERE p.part = c.part
        RETURNING p.part, p.compacted, p.next, c.records
    ), written AS (
        INSERT INTO fairlead_log.entries (part, compacted, position, time_ms, key, value)
        SELECT g.part, b.compacted, b.next - b.records + g.number - 1, now_ms, g.key, g.value
        FROM given g JOIN bumped b ON b.part = g.part
    )
    SELECT b.part, b.next FROM bumped b;
END $$;

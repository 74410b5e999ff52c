-- Records are stored in batches: a row for what one append adds to a partition, cut at a number of
-- records and bytes. A row and three entries of indexes for each record cost the server more than
-- the records themselves (docs/decisions/0113).

CREATE TABLE fairlead_log.batches (
    part int NOT NULL,
    first bigint NOT NULL,       -- the position of the first record; each has the next one
    next bigint NOT NULL,        -- the position after the last record
    time_ms bigint NOT NULL,
    live int NOT NULL,           -- records with a value that are not removed
    deletions int NOT NULL,      -- records without a value that are not removed
    keys text[] NOT NULL,        -- null: the record is removed
    values bytea[] NOT NULL,     -- null: the record has no value, or is removed
    PRIMARY KEY (part, next)
);
-- Values are read whole; compressing them costs more than it saves. ANALYZE would read the arrays of
-- its sample and count their elements, in hundreds of MB, for statistics that no plan uses.
ALTER TABLE fairlead_log.batches
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN keys SET STATISTICS 0,
    ALTER COLUMN values SET STORAGE EXTERNAL, ALTER COLUMN values SET STATISTICS 0;

INSERT INTO fairlead_log.batches (part, first, next, time_ms, live, deletions, keys, values)
SELECT part, position, position + 1, time_ms, (value IS NOT NULL)::int, (value IS NULL)::int,
       ARRAY[key], ARRAY[value]
FROM fairlead_log.entries;

DROP TABLE fairlead_log.entries;
DROP FUNCTION fairlead_log.append(text, bigint, int[], text[], bytea[]);

-- What an append adds to a partition. `following`: how many of its records come after it there.
CREATE TYPE fairlead_log.new_batch AS (
    part int, following int, deletions int, keys text[], values bytea[]
);

-- Append records to partitions, all or none; `next` of each partition touched is returned.
-- Locks: the producer's row (so that its successor waits for this append), then the partitions in
-- order (so that no two appends wait for each other).
CREATE FUNCTION fairlead_log.append(
    p_producer text, p_epoch bigint, p_batches fairlead_log.new_batch[]
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
    WHERE p.part IN (SELECT n.part FROM unnest(p_batches) n) ORDER BY p.part FOR NO KEY UPDATE;
    now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
    RETURN QUERY
    WITH bumped AS (
        UPDATE fairlead_log.parts p SET next = p.next + c.records
        FROM (
            SELECT n.part, sum(cardinality(n.keys)) AS records
            FROM unnest(p_batches) n GROUP BY n.part
        ) c
        WHERE p.part = c.part
        RETURNING p.part, p.next
    ), written AS (
        INSERT INTO fairlead_log.batches
            (part, first, next, time_ms, live, deletions, keys, values)
        SELECT n.part, b.next - n.following - cardinality(n.keys), b.next - n.following, now_ms,
               cardinality(n.keys) - n.deletions, n.deletions, n.keys, n.values
        FROM unnest(p_batches) n JOIN bumped b ON b.part = n.part
    )
    SELECT b.part, b.next FROM bumped b;
END $$;

-- The records of all topics, for people. The log itself reads batches.
CREATE VIEW fairlead_log.records AS
    SELECT p.topic, p.partition, b.first + r.number - 1 AS position, b.time_ms, r.key, r.value
    FROM fairlead_log.batches b
    JOIN fairlead_log.parts p ON p.part = b.part
    CROSS JOIN LATERAL unnest(b.keys, b.values) WITH ORDINALITY AS r (key, value, number)
    WHERE r.key IS NOT NULL;

-- An array with null at these places.
CREATE FUNCTION fairlead_log.without(given anyarray, numbers int[]) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    number int;
BEGIN
    FOREACH number IN ARRAY numbers LOOP
        given[number] := NULL;
    END LOOP;
    RETURN given;
END $$;

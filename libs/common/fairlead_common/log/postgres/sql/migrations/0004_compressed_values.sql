-- Long values are compressed by the process that appends them (docs/decisions/0126). The column gets
-- another name, so that processes of earlier versions fail instead of reading compressed values.
ALTER TABLE fairlead_log.batches RENAME COLUMN values TO stored_values;

-- The bytes of keys and values before compression, by which reads are limited. Null: unknown, because
-- an earlier version appended the batch, or values of it were removed.
ALTER TABLE fairlead_log.batches ADD COLUMN size int;
ALTER TYPE fairlead_log.new_batch RENAME ATTRIBUTE values TO stored_values;
ALTER TYPE fairlead_log.new_batch ADD ATTRIBUTE size int;

CREATE OR REPLACE FUNCTION fairlead_log.append(
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
            (part, first, next, time_ms, live, deletions, keys, stored_values, size)
        SELECT n.part, b.next - n.following - cardinality(n.keys), b.next - n.following, now_ms,
               cardinality(n.keys) - n.deletions, n.deletions, n.keys, n.stored_values, n.size
        FROM unnest(p_batches) n JOIN bumped b ON b.part = n.part
    )
    SELECT b.part, b.next FROM bumped b;
END $$;

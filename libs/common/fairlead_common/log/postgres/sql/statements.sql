-- The statements of the event log in Postgres.

-- name: identity
SELECT id FROM fairlead_log.identity;

-- name: topic
-- The partitions of a topic.
SELECT t.compacted, t.retention_s, p.part, p.partition, p.first, p.next
FROM fairlead_log.topics t JOIN fairlead_log.parts p ON p.topic = t.topic
WHERE t.topic = $1 ORDER BY p.partition;

-- name: create_topic
-- Create a topic with the retention $5, or set the retention of an existing one to $4 (null: do not
-- change it).
WITH made AS (
    INSERT INTO fairlead_log.topics AS t (topic, partitions, compacted, retention_s)
    VALUES ($1, $2, $3, $5)
    ON CONFLICT (topic) DO UPDATE SET retention_s = excluded.retention_s
    WHERE (t.partitions, t.compacted) = (excluded.partitions, excluded.compacted)
      AND t.retention_s <> $4
    RETURNING topic, partitions, compacted
)
INSERT INTO fairlead_log.parts (topic, partition, compacted)
SELECT topic, generate_series(0, partitions - 1), compacted FROM made
ON CONFLICT (topic, partition) DO NOTHING;

-- name: begin_producer
-- Fence the producers of a name. Waits for an append of theirs that is under way.
INSERT INTO fairlead_log.producers AS p (name, epoch) VALUES ($1, 1)
ON CONFLICT (name) DO UPDATE SET epoch = p.epoch + 1
RETURNING epoch;

-- name: append
SELECT part, next FROM fairlead_log.append($1, $2, $3);

-- name: read
-- The next batches of some partitions ($1) from their positions ($2): at most $3, until they have $4
-- bytes. Before them there is a row for each partition: `next` is its next position, `time_ms` its
-- first, `keys` its round of cleanup, and `stored_values` is not null if a tombstone was removed that
-- this reader, which began in round $5, has possibly missed. One statement, so that all of it is from
-- one snapshot. Bytes before compression count. Where they are unknown, those that are stored count,
-- which are found without reading the values.
WITH wanted AS MATERIALIZED (
    SELECT w.part, w.position, w.ordinal, p.first, p.next, p.round,
           CASE WHEN w.position < p.buried AND w.since < p.buried_round
                THEN ARRAY[]::bytea[] END AS missed
    FROM unnest($1::int[], $2::bigint[], $5::bigint[])
        WITH ORDINALITY AS w (part, position, since, ordinal)
    JOIN fairlead_log.parts p ON p.part = w.part
    ORDER BY w.ordinal
)
SELECT part, next, first AS time_ms, ARRAY[round::text] AS keys, missed AS stored_values
FROM wanted
UNION ALL
(
    SELECT part, next, time_ms, keys, stored_values
    FROM (
        SELECT e.*, sum(e.bytes) OVER (ROWS UNBOUNDED PRECEDING) - e.bytes AS bytes_before
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT b.part, b.next, b.time_ms, b.keys, b.stored_values,
                   coalesce(b.size, pg_column_size(b.keys) + pg_column_size(b.stored_values))
                       AS bytes
            FROM fairlead_log.batches b
            WHERE b.part = w.part AND b.next > w.position
            ORDER BY b.next LIMIT $3
        ) e
        LIMIT $3
    ) counted
    WHERE bytes_before < $4
);

-- name: skip_positions
-- Later records get positions from these ($2) on.
UPDATE fairlead_log.parts p SET next = greatest(p.next, n.position)
FROM unnest($1::int[], $2::bigint[]) AS n (part, position) WHERE p.part = n.part;

-- name: notify
SELECT pg_notify('fairlead_log', $1);

-- name: lock_cleanup
-- One process at a time removes expired records, until its session ends.
SELECT pg_try_advisory_lock($1, $2);

-- name: parts
-- All partitions, for the cleanup.
SELECT p.part, p.compacted, t.retention_s, p.next, p.first, p.cleaned, p.tombstones,
       p.tombstones_ms
FROM fairlead_log.parts p JOIN fairlead_log.topics t ON t.topic = p.topic ORDER BY p.part;

-- name: first_young
-- The position of the first record of a partition ($1) that is young enough ($2), among the $3
-- batches after $4. All records of a batch have the same age.
SELECT coalesce(min(first) FILTER (WHERE time_ms >= $2), max(next)) AS first,
       count(*) AS seen
FROM (
    SELECT first, next, time_ms FROM fairlead_log.batches
    WHERE part = $1 AND next > $4 ORDER BY next LIMIT $3
) oldest;

-- name: set_first
-- From now on readers below `first` get `PositionExpired`.
UPDATE fairlead_log.parts SET first = $2 WHERE part = $1 AND first < $2;

-- name: remove_expired
-- Remove at most $2 batches that are below `first`. Returns how many, and their records.
WITH expired AS (
    SELECT b.next FROM fairlead_log.batches b
    WHERE b.part = $1
      AND b.next <= (SELECT p.first FROM fairlead_log.parts p WHERE p.part = $1)
    ORDER BY b.next LIMIT $2
), removed AS (
    DELETE FROM fairlead_log.batches b USING expired
    WHERE b.part = $1 AND b.next = expired.next RETURNING b.live + b.deletions AS records
)
SELECT count(*) AS batches, coalesce(sum(records), 0)::bigint AS records FROM removed;

-- name: compact
-- Examine $3 batches of a compacted partition ($1) after $2, and remove the older values of their
-- keys, there and below. Returns where to continue, and how many records were removed. An older
-- tombstone is removed when its time has come, as any other. The values of a batch are written again
-- only when most of them are removed: their keys are what a reader goes by.
WITH examined AS MATERIALIZED (
    SELECT b.first, b.next, b.keys FROM fairlead_log.batches b
    WHERE b.part = $1 AND b.next > $2 ORDER BY b.next LIMIT $3
), newest AS MATERIALIZED (
    SELECT k.key, max(e.first + k.number) AS following
    FROM examined e CROSS JOIN LATERAL unnest(e.keys) WITH ORDINALITY AS k (key, number)
    WHERE k.key IS NOT NULL GROUP BY k.key
), older AS MATERIALIZED (
    SELECT b.next, r.number::int, r.key, b.first + r.number AS following
    FROM fairlead_log.batches b
    CROSS JOIN LATERAL unnest(b.keys, CASE WHEN b.deletions > 0 THEN b.stored_values END)
        WITH ORDINALITY AS r (key, value, number)
    WHERE b.part = $1 AND b.live > 0 AND b.next <= (SELECT max(next) FROM examined)
      AND (b.deletions = 0 OR r.value IS NOT NULL)
), superseded AS MATERIALIZED (
    SELECT o.next, array_agg(o.number) AS numbers
    FROM older o JOIN newest n ON n.key = o.key AND n.following > o.following
    GROUP BY o.next
), removed AS (
    DELETE FROM fairlead_log.batches b USING superseded s
    WHERE b.part = $1 AND b.next = s.next AND b.deletions = 0 AND b.live = cardinality(s.numbers)
), reduced AS (
    UPDATE fairlead_log.batches b
    SET live = b.live - cardinality(s.numbers),
        keys = fairlead_log.without(b.keys, s.numbers),
        stored_values = CASE WHEN 2 * (b.live - cardinality(s.numbers)) < cardinality(b.keys)
                             THEN fairlead_log.without(
                                 b.stored_values, s.numbers || array_positions(b.keys, NULL::text))
                             ELSE b.stored_values END,
        size = CASE WHEN 2 * (b.live - cardinality(s.numbers)) >= cardinality(b.keys)
                    THEN b.size END
    FROM superseded s
    WHERE b.part = $1 AND b.next = s.next
      AND NOT (b.deletions = 0 AND b.live = cardinality(s.numbers))
)
SELECT (SELECT max(next) FROM examined) AS cleaned, (SELECT count(*) FROM examined) AS seen,
       (SELECT coalesce(sum(cardinality(numbers)), 0)::bigint FROM superseded) AS removed;

-- name: set_cleaned
UPDATE fairlead_log.parts SET cleaned = $2 WHERE part = $1 AND cleaned < $2;

-- name: set_buried
-- From now on readers that possibly miss the tombstones to be removed get `PositionExpired`.
UPDATE fairlead_log.parts SET buried = tombstones, buried_round = round
WHERE part = $1 AND buried < tombstones;

-- name: remove_tombstones
-- Remove the tombstones of at most $3 batches of a partition ($1) up to $2, where no older record of
-- their keys is left. Returns how many batches that were, and their tombstones.
WITH expired AS MATERIALIZED (
    SELECT b.next, b.live, b.deletions FROM fairlead_log.batches b
    WHERE b.part = $1 AND b.deletions > 0 AND b.next <= $2
    ORDER BY b.next LIMIT $3
), removed AS (
    DELETE FROM fairlead_log.batches b USING expired e
    WHERE b.part = $1 AND b.next = e.next AND e.live = 0
), reduced AS (
    UPDATE fairlead_log.batches b
    SET deletions = 0,
        keys = (
            SELECT array_agg(CASE WHEN r.value IS NOT NULL THEN r.key END ORDER BY r.number)
            FROM unnest(b.keys, b.stored_values) WITH ORDINALITY AS r (key, value, number)
        )
    FROM expired e
    WHERE b.part = $1 AND b.next = e.next AND e.live > 0
)
SELECT count(*) AS batches, coalesce(sum(deletions), 0)::bigint AS records FROM expired;

-- name: set_tombstones
UPDATE fairlead_log.parts SET tombstones = cleaned, tombstones_ms = $2, round = round + 1
WHERE part = $1;

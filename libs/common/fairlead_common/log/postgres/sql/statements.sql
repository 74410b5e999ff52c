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
SELECT part, next FROM fairlead_log.append($1, $2, $3, $4, $5);

-- name: read
-- The next records of some partitions ($1) from their positions ($2): at most $3 records of at most
-- $4 bytes, but the first one whatever its size. Before the records there is a row for each
-- partition: `position` is its next position, `time_ms` its first, `key` its round of cleanup, and
-- `value` is not null if a tombstone was removed that this reader, which began in round $5, has
-- possibly missed. One statement, so that all of it is from one snapshot.
WITH wanted AS MATERIALIZED (
    SELECT w.part, w.position, w.ordinal, p.first, p.next, p.round,
           CASE WHEN w.position < p.buried AND w.since < p.buried_round THEN ''::bytea END AS missed
    FROM unnest($1::int[], $2::bigint[], $5::bigint[])
        WITH ORDINALITY AS w (part, position, since, ordinal)
    JOIN fairlead_log.parts p ON p.part = w.part
    ORDER BY w.ordinal
)
SELECT part, next AS position, first AS time_ms, round::text AS key, missed AS value
FROM wanted
UNION ALL
(
    SELECT part, position, time_ms, key, value
    FROM (
        SELECT e.*, sum(octet_length(e.key) + coalesce(octet_length(e.value), 0))
                        OVER (ROWS UNBOUNDED PRECEDING) AS bytes,
               row_number() OVER (ROWS UNBOUNDED PRECEDING) AS number
        FROM wanted w
        CROSS JOIN LATERAL (
            SELECT r.part, r.position, r.time_ms, r.key, r.value
            FROM fairlead_log.entries r
            WHERE r.part = w.part AND r.position >= w.position
            ORDER BY r.position LIMIT $3
        ) e
        LIMIT $3
    ) counted
    WHERE bytes <= $4 OR number = 1
);

-- name: skip_positions
-- Later records get positions from these ($2) on.
UPDATE fairlead_log.parts p SET next = greatest(p.next, n.position)
FROM unnest($1::int[], $2::bigint[]) AS n (part, position) WHERE p.part = n.part;

-- name: notify
SELECT pg_notify('fairlead_log', $1);

-- name: lock_cleanup
-- One process at a time removes expired records.
SELECT pg_try_advisory_lock($1, $2);

-- name: unlock_cleanup
SELECT pg_advisory_unlock($1, $2);

-- name: parts
-- All partitions, for the cleanup.
SELECT p.part, p.compacted, t.retention_s, p.next, p.first, p.cleaned, p.tombstones,
       p.tombstones_ms
FROM fairlead_log.parts p JOIN fairlead_log.topics t ON t.topic = p.topic ORDER BY p.part;

-- name: first_young
-- The position of the first record of a partition ($1) that is young enough ($2), among the $3
-- records from $4 on.
SELECT coalesce(min(position) FILTER (WHERE time_ms >= $2), max(position) + 1) AS first,
       count(*) AS seen
FROM (
    SELECT position, time_ms FROM fairlead_log.entries
    WHERE part = $1 AND position >= $4 ORDER BY position LIMIT $3
) oldest;

-- name: set_first
-- From now on readers below `first` get `PositionExpired`.
UPDATE fairlead_log.parts SET first = $2 WHERE part = $1 AND first < $2;

-- name: remove_expired
-- Remove at most $2 records that are below `first`.
WITH expired AS (
    SELECT e.position FROM fairlead_log.entries e
    WHERE e.part = $1
      AND e.position < (SELECT p.first FROM fairlead_log.parts p WHERE p.part = $1)
    ORDER BY e.position LIMIT $2
), removed AS (
    DELETE FROM fairlead_log.entries e USING expired
    WHERE e.part = $1 AND e.position = expired.position RETURNING 1
)
SELECT count(*) FROM removed;

-- name: compact
-- Examine $3 records of a compacted partition ($1) from $2 on, and remove all older records of their
-- keys, there and below. Returns where to continue and how many records were removed.
WITH examined AS MATERIALIZED (
    SELECT e.position, e.key FROM fairlead_log.entries e
    WHERE e.part = $1 AND e.position >= $2 ORDER BY e.position LIMIT $3
), newest AS (
    SELECT key, max(position) AS position FROM examined GROUP BY key
), removed AS (
    DELETE FROM fairlead_log.entries e USING newest n
    WHERE e.part = $1 AND e.compacted AND e.key = n.key AND e.position < n.position RETURNING 1
)
SELECT (SELECT max(position) + 1 FROM examined) AS cleaned, (SELECT count(*) FROM examined) AS seen,
       (SELECT count(*) FROM removed) AS removed;

-- name: set_cleaned
UPDATE fairlead_log.parts SET cleaned = $2 WHERE part = $1 AND cleaned < $2;

-- name: set_buried
-- From now on readers that possibly miss the tombstones to be removed get `PositionExpired`.
UPDATE fairlead_log.parts SET buried = tombstones, buried_round = round
WHERE part = $1 AND buried < tombstones;

-- name: remove_tombstones
-- Remove at most $3 tombstones of a partition ($1) below $2, where no older record of their keys is
-- left.
WITH expired AS (
    SELECT position FROM fairlead_log.entries
    WHERE part = $1 AND compacted AND value IS NULL AND position < $2
    ORDER BY position LIMIT $3
), removed AS (
    DELETE FROM fairlead_log.entries e USING expired
    WHERE e.part = $1 AND e.position = expired.position RETURNING 1
)
SELECT count(*) FROM removed;

-- name: set_tombstones
UPDATE fairlead_log.parts SET tombstones = cleaned, tombstones_ms = $2, round = round + 1
WHERE part = $1;

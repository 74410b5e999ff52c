-- name: read_view
-- The log this view belongs to and its positions; no row before the first checkpoint.
SELECT log_id, positions, format FROM fairlead_scheduler.view

-- name: begin_view
-- The first checkpoint's row.
INSERT INTO fairlead_scheduler.view (log_id, positions, format) VALUES ($1, $2, $3)

-- name: move_view
-- Compare and set: nobody else has moved the positions since this process read them.
UPDATE fairlead_scheduler.view SET positions = $2, buckets = $3 WHERE positions = $1

-- name: lock_view
-- Nobody else has moved the positions, and nobody moves them until this transaction has ended.
SELECT 1 FROM fairlead_scheduler.view WHERE positions = $1 FOR UPDATE

-- name: relocate_view
-- The checkpoint continues elsewhere, perhaps in another log; compare and set as `move_view`.
UPDATE fairlead_scheduler.view SET log_id = $2, positions = $3 WHERE positions = $1

-- name: read_buckets
-- What was in the token buckets at the saved positions, as JSON.
SELECT buckets FROM fairlead_scheduler.view

-- name: save_name
INSERT INTO fairlead_scheduler.names (kind, number, parts) VALUES ($1, $2, $3)
ON CONFLICT (kind, number) DO UPDATE SET parts = excluded.parts

-- name: drop_names
DELETE FROM fairlead_scheduler.names
WHERE (kind, number) IN (SELECT * FROM unnest($1::text[], $2::int[]))

-- name: read_names
SELECT kind, number, parts FROM fairlead_scheduler.names

-- name: copied_jobs
-- The temporary table that COPY fills. It exists as long as the connection.
CREATE TEMPORARY TABLE IF NOT EXISTS copied_jobs
    (LIKE fairlead_scheduler.jobs) ON COMMIT DELETE ROWS

-- name: merge_jobs
INSERT INTO fairlead_scheduler.jobs SELECT * FROM copied_jobs
ON CONFLICT (job_id) DO UPDATE SET record = excluded.record, rare = excluded.rare

-- name: copied_specs
CREATE TEMPORARY TABLE IF NOT EXISTS copied_specs
    (LIKE fairlead_scheduler.job_specs) ON COMMIT DELETE ROWS

-- name: merge_specs
-- Submissions are saved before the positions move past them, so some are here already after a kill;
-- another submission with the same id can only be left over from a part of the log that is lost.
INSERT INTO fairlead_scheduler.job_specs AS saved SELECT * FROM copied_specs
ON CONFLICT (job_id) DO UPDATE SET spec = excluded.spec WHERE saved.spec <> excluded.spec

-- name: save_group
INSERT INTO fairlead_scheduler.groups (group_id, state) VALUES ($1, $2)
ON CONFLICT (group_id) DO UPDATE SET state = excluded.state

-- name: drop_groups
DELETE FROM fairlead_scheduler.groups WHERE group_id = ANY ($1::text[])

-- name: read_groups
SELECT state FROM fairlead_scheduler.groups

-- name: save_array
INSERT INTO fairlead_scheduler.arrays (array_id, state) VALUES ($1, $2)
ON CONFLICT (array_id) DO UPDATE SET state = excluded.state

-- name: drop_arrays
DELETE FROM fairlead_scheduler.arrays WHERE array_id = ANY ($1::text[])

-- name: read_arrays
SELECT state FROM fairlead_scheduler.arrays

-- name: remove_jobs
DELETE FROM fairlead_scheduler.jobs WHERE job_id = ANY (string_to_array($1, ' '))

-- name: remove_specs
DELETE FROM fairlead_scheduler.job_specs WHERE job_id = ANY (string_to_array($1, ' '))

-- name: read_jobs
-- In any order: sorting a million rows takes Postgres longer than reading them.
SELECT job_id, record FROM fairlead_scheduler.jobs

-- name: export_snapshot
-- A second transaction that takes this snapshot, while the first is open, reads the same checkpoint.
SELECT pg_export_snapshot()

-- name: memory_for_rare
-- For this transaction: with the default of 4 MB `read_rare` writes what it groups to files.
SET LOCAL work_mem = '64MB'

-- name: read_rare
-- Of up to 4,096 jobs per row: their ids, one after another, and a JSON array.
SELECT
    convert_to(string_agg(job_id, ''), 'UTF8') AS ids,
    '['::bytea || string_agg(rare, ','::bytea) || ']'::bytea AS properties
FROM (
    SELECT job_id, rare, (row_number() OVER () - 1) / 4096 AS part
    FROM fairlead_scheduler.jobs
    WHERE rare IS NOT NULL
) AS found
GROUP BY part

-- name: read_specs
SELECT found.*
FROM unnest(string_to_array($1, ' ')) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, spec FROM fairlead_scheduler.job_specs WHERE job_id = wanted.id OFFSET 0
) found

-- name: find_ended
-- What is still known of jobs that ended: a repeated submission must find them. LATERAL with OFFSET
-- 0 makes one index look-up per id and week: for `= ANY` Postgres reads all weeks from end to end.
SELECT found.*
FROM unnest(string_to_array($1, ' ')) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, state, digest, at_ms FROM fairlead_scheduler.ended
    WHERE job_id = wanted.id OFFSET 0
) found

-- name: read_ended_ids
SELECT job_id FROM fairlead_scheduler.ended LIMIT $1

-- name: read_nodes
SELECT executor, name, number FROM fairlead_scheduler.nodes

-- name: save_nodes
INSERT INTO fairlead_scheduler.nodes (executor, name, number)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING

-- name: prune_nodes
DELETE FROM fairlead_scheduler.nodes
WHERE (executor, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))

-- name: ended_partitions
SELECT inhrelid::regclass::text AS name FROM pg_inherits
WHERE inhparent = 'fairlead_scheduler.ended'::regclass

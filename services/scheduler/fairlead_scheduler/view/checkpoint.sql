-- name: read_view
-- The log this view belongs to and its positions; no row before the first checkpoint.
SELECT log_id, positions FROM fairlead_scheduler.view

-- name: begin_view
-- The first checkpoint's row.
INSERT INTO fairlead_scheduler.view (log_id, positions) VALUES ($1, $2)

-- name: move_view
-- Compare and set: nobody else has moved the positions since this process read them.
UPDATE fairlead_scheduler.view SET positions = $2, buckets = $3 WHERE positions = $1

-- name: hold_view
-- No checkpoint is written until this transaction ends.
SELECT FROM fairlead_scheduler.view FOR UPDATE

-- name: read_buckets
-- What was in the token buckets at the saved positions, as JSON.
SELECT buckets FROM fairlead_scheduler.view

-- name: save_shapes
INSERT INTO fairlead_scheduler.shapes (key, shape, priority_class)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[]) ON CONFLICT DO NOTHING

-- name: prune_shapes
DELETE FROM fairlead_scheduler.shapes AS known
WHERE NOT EXISTS (SELECT FROM fairlead_scheduler.jobs WHERE shape = known.key)

-- name: kept_jobs
-- The temporary table that COPY fills, kept for the life of the connection.
CREATE TEMPORARY TABLE IF NOT EXISTS kept_jobs
    (LIKE fairlead_scheduler.jobs) ON COMMIT DELETE ROWS

-- name: merge_jobs
INSERT INTO fairlead_scheduler.jobs SELECT * FROM kept_jobs
ON CONFLICT (job_id) DO UPDATE SET
    state = excluded.state, run_state = excluded.run_state, flags = excluded.flags,
    shape = excluded.shape, executor = excluded.executor, node = excluded.node,
    run = excluded.run, retries = excluded.retries, priority = excluded.priority,
    leased_ms = excluded.leased_ms, running_ms = excluded.running_ms, value = excluded.value,
    rare = excluded.rare

-- name: kept_specs
CREATE TEMPORARY TABLE IF NOT EXISTS kept_specs
    (LIKE fairlead_scheduler.job_specs) ON COMMIT DELETE ROWS

-- name: merge_specs
INSERT INTO fairlead_scheduler.job_specs SELECT * FROM kept_specs ON CONFLICT DO NOTHING

-- name: remove_jobs
DELETE FROM fairlead_scheduler.jobs WHERE job_id = ANY ($1::text[])

-- name: remove_specs
DELETE FROM fairlead_scheduler.job_specs WHERE job_id = ANY ($1::text[])

-- name: read_jobs
SELECT * FROM fairlead_scheduler.jobs ORDER BY number, job_id

-- name: read_shapes
SELECT key, shape, priority_class FROM fairlead_scheduler.shapes

-- name: read_specs
SELECT found.*
FROM unnest($1::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, spec FROM fairlead_scheduler.job_specs WHERE job_id = wanted.id OFFSET 0
) found

-- name: find_ended
-- What is still known of jobs that ended: a repeated submission must find them. LATERAL with OFFSET
-- 0 makes one index look-up per id and week: for `= ANY` Postgres reads all weeks from end to end.
SELECT found.*
FROM unnest($1::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, state, digest, at_ms FROM fairlead_scheduler.ended
    WHERE job_id = wanted.id OFFSET 0
) found

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

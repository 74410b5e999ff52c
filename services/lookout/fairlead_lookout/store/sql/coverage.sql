-- Which part of the log the view has, and which part it lacks.

-- name: source
SELECT log FROM fairlead_lookout.source;

-- name: unrepaired
SELECT partition, from_position, to_position FROM fairlead_lookout.gaps
WHERE repaired_ms IS NULL ORDER BY partition, from_position;

-- name: add_gaps
INSERT INTO fairlead_lookout.gaps (partition, from_position, to_position, noted_ms)
SELECT n.partition, n.from_position, n.to_position, $4
FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS n (partition, from_position, to_position)
ON CONFLICT DO NOTHING;

-- name: close_gaps
-- A repair has decided what becomes of the lost events.
UPDATE fairlead_lookout.gaps SET repaired_ms = $1 WHERE repaired_ms IS NULL;

-- name: relocate_source
UPDATE fairlead_lookout.source SET log = $1;

-- name: relocate
-- Continue at these positions. A bulk request that was folded in part starts again.
UPDATE fairlead_lookout.progress p
SET position = n.position, within = NULL
FROM unnest($1::int[], $2::bigint[]) AS n (partition, position)
WHERE p.partition = n.partition AND p.position <> n.position;

-- name: delete_shares_progress
-- The log has fewer reports than were folded: they are read from the start again.
DELETE FROM fairlead_lookout.standing_progress WHERE partition = $1 AND position > $2;

-- name: has_scheduler
SELECT to_regclass('fairlead_scheduler.progress') IS NOT NULL;

-- name: scheduler_progress
-- The scheduler's SQL view of its checkpoint: its log, and the position it reads next.
SELECT log_id, positions FROM fairlead_scheduler.progress;

-- name: list_live_ids
-- Live jobs ($1: their states) after an id ($2), at most $3.
SELECT j.id AS job_id FROM fairlead_lookout.jobs j
WHERE j.id > $2 AND j.state = ANY($1::text[]) ORDER BY j.id LIMIT $3;

-- name: find_jobs
SELECT j.id AS job_id, j.queue, t.job_set, j.state, j.run, j.pool, j.priority, j.held, j.stopping,
       j.category, j.reason, j.exit_code, j.stop_reason, j.run_state, j.run_executor, j.run_node,
       j.run_pool, j.chunk, j.chunk_line,
       -- The lines of a chunk are read once.
       CASE WHEN row_number() OVER (PARTITION BY j.chunk) = 1 THEN (
           SELECT c.lines FROM fairlead_lookout.submissions c
           WHERE c.chunk = j.chunk AND c.week = j.week
       ) END AS lines
FROM fairlead_lookout.jobs j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
WHERE j.id = ANY($1::text[]);

-- name: find_known
-- Of these ids, the ones of jobs, groups and arrays that the view has.
SELECT id FROM fairlead_lookout.jobs WHERE id = ANY ($1::text[])
UNION ALL SELECT id FROM fairlead_lookout.groups WHERE id = ANY ($1::text[])
UNION ALL SELECT id FROM fairlead_lookout.arrays WHERE id = ANY ($1::text[]);

-- name: list_live_groups
-- Groups that have not ended, after an id ($1), at most $2.
SELECT id FROM fairlead_lookout.groups
WHERE id > $1 AND state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') ORDER BY id LIMIT $2;

-- name: find_groups
SELECT id, queue, job_set, client_id, digest, terms::text, labels::text, state, reason
FROM fairlead_lookout.groups WHERE id = ANY ($1::text[]);

-- name: find_members
-- The members of these groups, without the ones of earlier generations.
SELECT m.group_id, m.job_id FROM fairlead_lookout.group_members m
JOIN fairlead_lookout.groups g ON g.id = m.group_id
WHERE m.group_id = ANY ($1::text[])
    AND m.generation = coalesce((g.terms ->> 'generation')::int, 1)
ORDER BY m.group_id, m.job_id;

-- name: find_array_results
-- Arrays that have succeeded, or cannot any more.
SELECT id, state FROM fairlead_lookout.array_states
WHERE id = ANY ($1::text[]) AND state IN ('SUCCEEDED', 'FAILED');

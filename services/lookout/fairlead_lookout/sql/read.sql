-- Statements of the readers: API and pages.

-- name: set_by_key
SELECT number, queue, job_set, partition, jobs, live, first_ms, last_ms, position,
       last_position, last_item
FROM fairlead_lookout.job_sets WHERE queue = $1 AND job_set = $2 AND jobs > 0;

-- name: counts_of_sets
SELECT set_number, state, sum(jobs)::int AS jobs
FROM fairlead_lookout.counters WHERE set_number = ANY($1::int[]) AND jobs > 0
GROUP BY set_number, state;

-- name: job_sets
-- Newest first; `active` null means any.
SELECT number, queue, job_set, partition, jobs, live, first_ms, last_ms, position,
       last_position, last_item
FROM fairlead_lookout.job_sets
WHERE jobs > 0 AND ($1::text IS NULL OR queue = $1) AND ($2::boolean IS NULL OR active = $2)
  AND ($3::text IS NULL OR strpos(job_set, $3) > 0) AND ($4::int IS NULL OR number < $4)
ORDER BY number DESC LIMIT $5;

-- name: sets_with
-- Job sets that have jobs of these states and classes (empty: any), newest first.
SELECT s.number
FROM fairlead_lookout.job_sets s
WHERE s.jobs > 0 AND ($1::text IS NULL OR s.queue = $1) AND ($2::text IS NULL OR s.job_set = $2)
  AND ((cardinality($3::text[]) = 0 AND cardinality($4::text[]) = 0) OR EXISTS (
    SELECT FROM fairlead_lookout.counters c
    WHERE c.set_number = s.number AND c.jobs > 0
      AND (cardinality($3::text[]) = 0 OR c.state = ANY($3))
      AND (cardinality($4::text[]) = 0 OR c.class = ANY($4))))
ORDER BY s.number DESC LIMIT $5;

-- name: queues_with
-- The queues of such job sets.
SELECT DISTINCT s.queue
FROM fairlead_lookout.job_sets s
WHERE s.jobs > 0 AND ($1::text IS NULL OR s.queue = $1)
  AND ((cardinality($2::text[]) = 0 AND cardinality($3::text[]) = 0) OR EXISTS (
    SELECT FROM fairlead_lookout.counters c
    WHERE c.set_number = s.number AND c.jobs > 0
      AND (cardinality($2::text[]) = 0 OR c.state = ANY($2))
      AND (cardinality($3::text[]) = 0 OR c.class = ANY($3))))
ORDER BY s.queue LIMIT $4;

-- name: counts
-- Jobs by queue, job set, class and state, from the counters.
SELECT s.queue, s.job_set, c.class, c.state, c.jobs
FROM fairlead_lookout.counters c JOIN fairlead_lookout.job_sets s ON s.number = c.set_number
WHERE c.jobs > 0 AND ($1::text IS NULL OR s.queue = $1) AND ($2::text IS NULL OR s.job_set = $2)
  AND (cardinality($3::text[]) = 0 OR c.state = ANY($3))
  AND (cardinality($4::text[]) = 0 OR c.class = ANY($4));

-- name: totals
SELECT c.state, sum(c.jobs)::bigint AS jobs
FROM fairlead_lookout.counters c
WHERE c.jobs > 0 AND ($1::text IS NULL OR c.set_number IN (
    SELECT number FROM fairlead_lookout.job_sets WHERE queue = $1))
GROUP BY c.state;

-- name: queues
SELECT DISTINCT queue FROM fairlead_lookout.job_sets WHERE jobs > 0 ORDER BY queue LIMIT $1;

-- name: jobs_of_sets
-- A page of jobs of a few job sets, newest first: a bounded look into each set's index.
SELECT j.*, t.job_set, p.client_id, r.executor, r.node, r.pool AS run_pool
FROM (
    SELECT found.* FROM unnest($1::int[]) AS wanted (set_number)
    CROSS JOIN LATERAL (
        SELECT * FROM fairlead_lookout.jobs o
        WHERE o.set_number = wanted.set_number
          AND (cardinality($2::text[]) = 0 OR o.state = ANY($2))
          AND (cardinality($3::text[]) = 0 OR o.class = ANY($3))
          AND ($4::bigint IS NULL OR (o.number, o.id) < ($4, $5))
        ORDER BY o.number DESC, o.id DESC LIMIT $6
    ) found
    ORDER BY found.number DESC, found.id DESC LIMIT $6
) j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
JOIN fairlead_lookout.job_specs p ON p.job_id = j.id
LEFT JOIN fairlead_lookout.runs r ON r.job_id = j.id AND r.number = j.run
ORDER BY j.number DESC, j.id DESC;

-- name: jobs_of_queues
-- The same for whole queues.
SELECT j.*, t.job_set, p.client_id, r.executor, r.node, r.pool AS run_pool
FROM (
    SELECT found.* FROM unnest($1::text[]) AS wanted (queue)
    CROSS JOIN LATERAL (
        SELECT * FROM fairlead_lookout.jobs o
        WHERE o.queue = wanted.queue
          AND (cardinality($2::text[]) = 0 OR o.state = ANY($2))
          AND (cardinality($3::text[]) = 0 OR o.class = ANY($3))
          AND ($4::bigint IS NULL OR (o.number, o.id) < ($4, $5))
        ORDER BY o.number DESC, o.id DESC LIMIT $6
    ) found
    ORDER BY found.number DESC, found.id DESC LIMIT $6
) j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
JOIN fairlead_lookout.job_specs p ON p.job_id = j.id
LEFT JOIN fairlead_lookout.runs r ON r.job_id = j.id AND r.number = j.run
ORDER BY j.number DESC, j.id DESC;

-- name: failed_jobs_of_queues
-- The same when only failed or rejected ones are wanted: by an index of those.
SELECT j.*, t.job_set, p.client_id, r.executor, r.node, r.pool AS run_pool
FROM (
    SELECT found.* FROM unnest($1::text[]) AS wanted (queue)
    CROSS JOIN LATERAL (
        SELECT * FROM fairlead_lookout.jobs o
        WHERE o.queue = wanted.queue AND o.category IS NOT NULL
          AND (cardinality($2::text[]) = 0 OR o.state = ANY($2))
          AND (cardinality($3::text[]) = 0 OR o.class = ANY($3))
          AND ($4::bigint IS NULL OR (o.number, o.id) < ($4, $5))
        ORDER BY o.number DESC, o.id DESC LIMIT $6
    ) found
    ORDER BY found.number DESC, found.id DESC LIMIT $6
) j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
JOIN fairlead_lookout.job_specs p ON p.job_id = j.id
LEFT JOIN fairlead_lookout.runs r ON r.job_id = j.id AND r.number = j.run
ORDER BY j.number DESC, j.id DESC;

-- name: job
SELECT j.*, t.job_set, p.client_id, p.submitted, r.executor, r.node, r.pool AS run_pool
FROM fairlead_lookout.jobs j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
JOIN fairlead_lookout.job_specs p ON p.job_id = j.id
LEFT JOIN fairlead_lookout.runs r ON r.job_id = j.id AND r.number = j.run
WHERE j.id = $1;

-- name: runs_of_job
SELECT number, state, executor, node, pool, leased_ms, pending_ms, running_ms, ended_ms,
       exit_code, category, reason, cause
FROM fairlead_lookout.runs WHERE job_id = $1 ORDER BY number DESC LIMIT 1000;

-- name: states
SELECT id, state FROM fairlead_lookout.jobs WHERE id = ANY($1::text[]);

-- name: events_after
-- Chunks that end behind an id, in order.
SELECT last_position, last_item, lines
FROM fairlead_lookout.events
WHERE set_number = $1 AND (last_position, last_item) > ($2, $3)
ORDER BY last_position, last_item LIMIT $4;

-- name: dropped
SELECT position FROM fairlead_lookout.events_dropped WHERE partition = $1;

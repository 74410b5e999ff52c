-- What the fold reads and writes.

-- name: log_identity
-- The log of this view: the given one, if it has none yet.
INSERT INTO fairlead_lookout.source (log) VALUES ($1)
ON CONFLICT (one) DO UPDATE SET log = source.log
RETURNING log;

-- name: create_partitions
-- Partitions that were never folded start where the log starts.
INSERT INTO fairlead_lookout.progress (partition, position)
SELECT * FROM unnest($1::int[], $2::bigint[])
ON CONFLICT (partition) DO NOTHING;

-- name: positions
SELECT partition, position FROM fairlead_lookout.progress ORDER BY partition;

-- name: positions_of
SELECT partition, position FROM fairlead_lookout.progress WHERE partition = ANY($1::int[]);

-- name: bulk_progress
SELECT within FROM fairlead_lookout.progress WHERE partition = $1;

-- name: advance
-- Compare-and-set of positions; fewer rows than given mean another writer.
UPDATE fairlead_lookout.progress p
SET position = n.after, time_ms = greatest(p.time_ms, n.time_ms), within = n.within_after
FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
    AS n (partition, before, after, time_ms, within_before, within_after)
WHERE p.partition = n.partition AND p.position = n.before
  AND p.within IS NOT DISTINCT FROM n.within_before;

-- name: join_folders
-- A lock that marks this process as one that folds; released with its connection.
SELECT pg_try_advisory_lock($1, $2);

-- name: count_folders
-- How many processes fold, and the rank of this one among them.
SELECT count(*)::int AS folders,
       (count(*) FILTER (WHERE objid::bigint < $2::bigint))::int AS rank
FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND classid = $1::bigint::oid
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: try_lock
SELECT partition FROM unnest($2::int[]) AS wanted (partition)
WHERE pg_try_advisory_lock($1, partition);

-- name: unlock
SELECT pg_advisory_unlock($1, partition) FROM unnest($2::int[]) AS given (partition);

-- name: draw_set_numbers
-- Numbers of new job sets, which nothing else gets although their rows are inserted later.
SELECT nextval(pg_get_serial_sequence('fairlead_lookout.job_sets', 'number'))::int AS number
FROM generate_series(1, $1);

-- name: draw_session
-- A number of a session that folds, which no other session gets.
SELECT nextval('fairlead_lookout.fold_sessions');

-- name: create_sets
INSERT INTO fairlead_lookout.job_sets (number, queue, job_set, partition)
OVERRIDING SYSTEM VALUE
SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::int[]);

-- name: sets_by_key
SELECT s.number, s.queue, s.job_set, s.partition, s.jobs, s.live, s.first_ms, s.last_ms,
       s.position, s.last_position, s.last_item, s.failures, s.held, s.used, s.metered_ms,
       s.superseded
FROM fairlead_lookout.job_sets s
JOIN unnest($1::text[], $2::text[]) AS k (queue, job_set)
    ON s.queue = k.queue AND s.job_set = k.job_set;

-- name: counters
SELECT set_number, class, state, jobs
FROM fairlead_lookout.counters WHERE set_number = ANY($1::int[]);

-- name: jobs
-- Jobs with their newest runs, column by column in the order of the fields in `model.py`, of weeks
-- from $2 on. Here and below, LATERAL with OFFSET 0 forces one index look-up per id, whatever the planner assumes about
-- the size of the tables: for `= ANY` or a join it would scan tables of some million rows.
SELECT found.*
FROM unnest($1::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT j.id, j.set_number, j.class, j.number, j.submitted_ms, j.shape, j.state, j.priority,
           j.changed_ms, j.pool, j.after, j.held, j.start_after_ms, j.stopping, j.stop_cause,
           j.stop_reason, j.run, j.started_ms, j.ended_ms, j.category, j.exit_code, j.reason,
           j.superseded_by, j.is_task, j.week, j.submitted_by, j.user_requests,
           j.run_state, j.run_executor, j.run_node, j.run_pool, j.run_leased_ms, j.run_pending_ms,
           j.run_running_ms, j.run_ended_ms, j.run_exit_code, j.run_category, j.run_reason,
           j.run_cause, j.run_shape
    FROM fairlead_lookout.jobs j
    WHERE j.id = wanted.id AND j.week >= $2 OFFSET 0
) found;

-- name: labels
-- Of jobs in these weeks.
SELECT found.*
FROM unnest($1::text[], $2::int[]) AS wanted (id, week)
CROSS JOIN LATERAL (
    SELECT id, labels FROM fairlead_lookout.jobs
    WHERE id = wanted.id AND week = wanted.week AND labels IS NOT NULL OFFSET 0
) found;

-- name: set_names
SELECT number, queue, job_set FROM fairlead_lookout.job_sets WHERE number = ANY($1::int[]);

-- name: live_sets
-- Job sets of a partition ($1) and a queue ($2, or only $3) that have live jobs: at most $6, in
-- order, after a name ($4), or from it on if not $5.
SELECT number, job_set, live
FROM fairlead_lookout.job_sets
WHERE queue = $2 AND active AND partition = $1 AND ($3::text IS NULL OR job_set = $3)
  AND job_set >= $4 AND NOT (job_set = $4 AND $5::boolean)
ORDER BY job_set LIMIT $6;

-- name: candidates
-- Jobs of these job sets ($1, $2) in these states ($3) and classes ($4) that a filter can match: at
-- most $8 after a place ($5, $6, $7), by job set, oldest first.
SELECT s.job_set, o.number, o.id
FROM unnest($1::int[], $2::text[]) AS s (number, job_set)
CROSS JOIN LATERAL (
    SELECT f.number, f.id
    FROM unnest($3::text[]) AS w (state)
    CROSS JOIN LATERAL (
        SELECT j.number, j.id
        FROM fairlead_lookout.jobs j
        WHERE j.set_number = s.number AND j.state = w.state
          AND (cardinality($4::text[]) = 0 OR j.class = ANY($4))
          AND (j.number, j.id) > (
              CASE WHEN s.job_set = $5 THEN $6::bigint ELSE '-9223372036854775808' END, $7::text)
        ORDER BY j.number, j.id LIMIT $8
    ) f
    ORDER BY f.number, f.id LIMIT $8
) o
ORDER BY s.job_set COLLATE "C", o.number, o.id LIMIT $8;

-- name: older_runs
-- Of jobs in these weeks ($3).
SELECT found.*
FROM unnest($1::text[], $2::int[], $3::int[]) AS wanted (job_id, number, week)
CROSS JOIN LATERAL (
    SELECT r.job_id, r.number, r.state, r.executor, r.node, r.pool, r.leased_ms, r.pending_ms,
           r.running_ms, r.ended_ms, r.exit_code, r.category, r.reason, r.cause, r.shape
    FROM fairlead_lookout.older_runs r
    WHERE r.job_id = wanted.job_id AND r.number = wanted.number AND r.week = wanted.week OFFSET 0
) found;

-- name: write_sets
UPDATE fairlead_lookout.job_sets s
SET jobs = n.jobs, live = n.live, active = n.live > 0, first_ms = n.first_ms,
    last_ms = n.last_ms, position = n.position, last_position = n.last_position,
    last_item = n.last_item, failures = n.failures, held = n.held, used = n.used,
    metered_ms = n.metered_ms, superseded = n.superseded
FROM unnest($1::int[], $2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::int[], $9::text[], $10::text[], $11::text[], $12::bigint[],
            $13::int[])
    AS n (number, jobs, live, first_ms, last_ms, position, last_position, last_item, failures,
          held, used, metered_ms, superseded)
WHERE s.number = n.number;

-- name: write_counters
INSERT INTO fairlead_lookout.counters (set_number, class, state, jobs)
SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::int[])
ON CONFLICT (set_number, class, state) DO UPDATE SET jobs = excluded.jobs;

-- name: write_shapes
-- Shapes that are used on this day, in the order of their keys: several processes write them.
INSERT INTO fairlead_lookout.shapes (key, requests, used)
SELECT * FROM unnest($1::text[], $2::text[], $3::date[]) AS n (key, requests, used)
ORDER BY n.key
ON CONFLICT (key) DO UPDATE SET used = greatest(shapes.used, excluded.used);

-- name: shapes
SELECT key, requests FROM fairlead_lookout.shapes WHERE key = ANY($1::text[]);

-- name: add_queue_counts
-- Several processes add to these rows, in the order of their keys so that there is no deadlock.
INSERT INTO fairlead_lookout.queue_counts (queue, class, state, jobs)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    AS n (queue, class, state, jobs)
ORDER BY queue, class, state
ON CONFLICT (queue, class, state) DO UPDATE SET jobs = queue_counts.jobs + excluded.jobs;

-- name: delete_queue_counts
-- Counters of queues that are 0. Rows that a batch is changing are skipped, so that there is no
-- deadlock.
DELETE FROM fairlead_lookout.queue_counts q
USING (
    SELECT queue, class, state FROM fairlead_lookout.queue_counts
    WHERE jobs = 0 ORDER BY queue, class, state FOR UPDATE SKIP LOCKED
) old
WHERE q.queue = old.queue AND q.class = old.class AND q.state = old.state AND q.jobs = 0;

-- name: add_usage
INSERT INTO fairlead_lookout.usage (queue, pool, hour_ms, resource, used, lost)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::float8[], $6::float8[])
    AS n (queue, pool, hour_ms, resource, used, lost)
ORDER BY queue, hour_ms, pool, resource
ON CONFLICT (queue, hour_ms, pool, resource) DO UPDATE
SET used = usage.used + excluded.used, lost = usage.lost + excluded.lost;

-- name: add_user_usage
-- Of the first 100 users of a queue in an hour; what others use of a resource is added up under ''.
INSERT INTO fairlead_lookout.user_usage (queue, hour_ms, resource, submitted_by, used, lost)
SELECT queue, hour_ms, resource, listed_user, sum(used), sum(lost)
FROM (
    SELECT n.*, CASE WHEN known.is_known OR known.users + dense_rank() OVER (
                    PARTITION BY n.queue, n.hour_ms, n.resource ORDER BY n.submitted_by
                ) <= 100 THEN n.submitted_by ELSE '' END AS listed_user
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::float8[], $6::float8[])
        AS n (queue, hour_ms, resource, submitted_by, used, lost)
    CROSS JOIN LATERAL (
        SELECT count(*) AS users, coalesce(bool_or(u.submitted_by = n.submitted_by), false) AS is_known
        FROM fairlead_lookout.user_usage u
        WHERE u.queue = n.queue AND u.hour_ms = n.hour_ms AND u.resource = n.resource
    ) known
) listed
GROUP BY queue, hour_ms, resource, listed_user
ORDER BY queue, hour_ms, resource, listed_user
ON CONFLICT (queue, hour_ms, resource, submitted_by) DO UPDATE
SET used = user_usage.used + excluded.used, lost = user_usage.lost + excluded.lost;

-- name: add_preemptions
INSERT INTO fairlead_lookout.preemptions
    (time_ms, job_id, run, queue, cause, reason, for_job, requested_by)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[],
                     $7::text[], $8::text[])
ON CONFLICT (time_ms, job_id, run) DO NOTHING;

-- name: delete_preemptions
DELETE FROM fairlead_lookout.preemptions WHERE time_ms < $1;

-- name: create_temporary_tables
-- Changed rows are copied here before they are merged; one per connection.
CREATE TEMP TABLE IF NOT EXISTS job_changes (
    id text COLLATE "C", shape text COLLATE "C", state text COLLATE "C",
    stopping text COLLATE "C", stop_cause text COLLATE "C", stop_reason text, held boolean,
    priority int, run int, changed_ms bigint, started_ms bigint, ended_ms bigint,
    category text COLLATE "C", exit_code int, reason text, superseded_by text COLLATE "C",
    user_requests text, run_state text COLLATE "C", run_executor text COLLATE "C",
    run_node text COLLATE "C", run_pool text COLLATE "C", run_leased_ms bigint,
    run_pending_ms bigint, run_running_ms bigint, run_ended_ms bigint, run_exit_code int,
    run_category text COLLATE "C", run_reason text, run_cause text COLLATE "C",
    run_shape text COLLATE "C", week int
) ON COMMIT DELETE ROWS;

-- name: merge_jobs
-- Changes of jobs of one week, into its table.
UPDATE fairlead_lookout.jobs_{week} j
SET shape = c.shape, state = c.state, stopping = c.stopping, stop_cause = c.stop_cause,
    stop_reason = c.stop_reason, held = c.held, priority = c.priority, run = c.run,
    changed_ms = c.changed_ms, started_ms = c.started_ms, ended_ms = c.ended_ms,
    category = c.category, exit_code = c.exit_code, reason = c.reason,
    superseded_by = c.superseded_by, user_requests = c.user_requests, run_state = c.run_state,
    run_executor = c.run_executor, run_node = c.run_node, run_pool = c.run_pool,
    run_leased_ms = c.run_leased_ms, run_pending_ms = c.run_pending_ms,
    run_running_ms = c.run_running_ms, run_ended_ms = c.run_ended_ms,
    run_exit_code = c.run_exit_code, run_category = c.run_category, run_reason = c.run_reason,
    run_cause = c.run_cause, run_shape = c.run_shape
FROM job_changes c WHERE c.week = {week} AND j.id = c.id;

-- name: change_older_runs
UPDATE fairlead_lookout.older_runs r
SET state = n.state, pending_ms = n.pending_ms, running_ms = n.running_ms, ended_ms = n.ended_ms,
    exit_code = n.exit_code, category = n.category, reason = n.reason, cause = n.cause
FROM unnest($1::text[], $2::int[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
            $7::int[], $8::text[], $9::text[], $10::text[], $11::int[])
    AS n (job_id, number, state, pending_ms, running_ms, ended_ms, exit_code, category, reason,
          cause, week)
WHERE r.job_id = n.job_id AND r.number = n.number AND r.week = n.week;

-- name: create_week
SELECT fairlead_lookout.create_week($1);

-- name: record_dropped_of_queues
INSERT INTO fairlead_lookout.queue_events_dropped (queue, partition, position)
SELECT e.queue, e.partition, max(e.last_position)
FROM fairlead_lookout.events e
WHERE e.day = $1::date AND e.partition >= 0
GROUP BY e.queue, e.partition
ON CONFLICT (queue, partition) DO UPDATE
SET position = greatest(queue_events_dropped.position, excluded.position);

-- name: record_dropped
-- The table of a day is about to be dropped: no reader can continue from these positions.
INSERT INTO fairlead_lookout.events_dropped (partition, position)
SELECT e.partition, max(e.last_position)
FROM fairlead_lookout.events e
WHERE e.day = $1::date AND e.partition >= 0
GROUP BY e.partition
ON CONFLICT (partition) DO UPDATE
SET position = greatest(events_dropped.position, excluded.position);

-- name: expired_weeks
-- The weeks of these partitions that have expired or are expiring, and how far that is.
SELECT partition, expired_week, expiring_week, expiring_set FROM fairlead_lookout.progress
WHERE partition = ANY($1::int[]);

-- name: begin_expiry
UPDATE fairlead_lookout.progress SET expiring_week = $2, expiring_set = 0
WHERE partition = ANY($1::int[]);

-- name: advance_expiry
-- Jobs of job sets up to this number ($2) are no longer counted.
UPDATE fairlead_lookout.progress SET expiring_set = greatest(expiring_set, $2)
WHERE partition = ANY($1::int[]);

-- name: end_expiry
UPDATE fairlead_lookout.progress SET expired_week = expiring_week, expiring_week = NULL
WHERE partition = ANY($1::int[]);

-- name: old_sets
-- Job sets after number $1 that can have jobs that were submitted before $3.
SELECT number, queue, job_set, partition, jobs, live, first_ms, last_ms, position,
       last_position, last_item, failures, held, used, metered_ms, superseded
FROM fairlead_lookout.job_sets
WHERE number > $1 AND partition = ANY($2::int[]) AND first_ms < $3
ORDER BY number LIMIT $4;

-- name: unexpired_jobs
-- Jobs of these job sets in weeks after $2 up to $3 that have not ended, or ended at $4 or later: at
-- most $5.
SELECT id, week, ended_ms FROM fairlead_lookout.jobs
WHERE set_number = ANY($1::int[]) AND week > $2 AND week <= $3 AND coalesce(ended_ms, $4) >= $4
LIMIT $5;

-- name: copy_submissions
-- The chunks that have the submissions of these jobs, from their weeks ($2) to the weeks ($3) that
-- the jobs are about to be moved to. A chunk is copied as it is, with its other submissions: so its
-- number stays, and several jobs of it need one copy.
INSERT INTO fairlead_lookout.submissions (chunk, lines, week)
SELECT c.chunk, c.lines, wanted.week
FROM (
    SELECT DISTINCT j.chunk, n.week_before, n.week
    FROM unnest($1::text[], $2::int[], $3::int[]) AS n (id, week_before, week)
    JOIN fairlead_lookout.jobs j ON j.id = n.id AND j.week = n.week_before
) wanted
CROSS JOIN LATERAL (
    SELECT chunk, lines FROM fairlead_lookout.submissions
    WHERE chunk = wanted.chunk AND week = wanted.week_before OFFSET 0
) c
ON CONFLICT DO NOTHING;

-- name: move_jobs
-- From one week ($2) to another ($3).
UPDATE fairlead_lookout.jobs j SET week = n.week
FROM unnest($1::text[], $2::int[], $3::int[]) AS n (id, week_before, week)
WHERE j.id = n.id AND j.week = n.week_before;

-- name: move_older_runs
UPDATE fairlead_lookout.older_runs r SET week = n.week
FROM unnest($1::text[], $2::int[], $3::int[]) AS n (id, week_before, week)
WHERE r.job_id = n.id AND r.week = n.week_before;

-- name: expired_jobs
-- Jobs of these job sets in weeks after $2 up to $3, by what the counters count.
SELECT set_number, class, state, category, count(*)::int AS jobs,
       count(superseded_by)::int AS superseded
FROM fairlead_lookout.jobs
WHERE set_number = ANY($1::int[]) AND week > $2 AND week <= $3
GROUP BY set_number, class, state, category;

-- name: lower_counters
UPDATE fairlead_lookout.counters c SET jobs = c.jobs - n.jobs
FROM unnest($1::int[], $2::text[], $3::text[], $4::int[]) AS n (set_number, class, state, jobs)
WHERE c.set_number = n.set_number AND c.class = n.class AND c.state = n.state;

-- name: delete_counters
DELETE FROM fairlead_lookout.counters WHERE set_number = ANY($1::int[]);

-- name: delete_sets
DELETE FROM fairlead_lookout.job_sets WHERE number = ANY($1::int[]);

-- name: week_tables
-- The weeks that have tables and have expired in all partitions.
SELECT substr(c.relname, length('jobs_') + 1)::int AS week
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'fairlead_lookout.jobs'::regclass
  AND substr(c.relname, length('jobs_') + 1)::int <= (
      SELECT min(expired_week) FROM fairlead_lookout.progress
  )
ORDER BY week;

-- name: has_old_shapes
SELECT EXISTS (SELECT FROM fairlead_lookout.shapes WHERE used < $1);

-- name: touch_live_shapes
-- Shapes of live jobs (in the states $2) with a smaller number than $3 are used today ($4), although
-- these jobs have not changed since $1.
UPDATE fairlead_lookout.shapes s SET used = $4
WHERE s.used < $1 AND s.key IN (
    SELECT j.shape
    FROM (SELECT DISTINCT queue FROM fairlead_lookout.queue_counts WHERE jobs > 0) q
    CROSS JOIN unnest($2::text[]) AS w (state)
    JOIN fairlead_lookout.jobs j ON j.queue = q.queue AND j.state = w.state AND j.number < $3
);

-- name: delete_shapes
-- Shapes that no job has used since $1, at most $2.
DELETE FROM fairlead_lookout.shapes s
USING (
    SELECT key FROM fairlead_lookout.shapes WHERE used < $1
    ORDER BY used LIMIT $2 FOR UPDATE SKIP LOCKED
) old
WHERE s.key = old.key AND s.used < $1;

-- name: add_groups
INSERT INTO fairlead_lookout.groups
    (id, queue, job_set, client_id, digest, terms, labels, submitted_ms, changed_ms)
SELECT id, queue, job_set, client_id, digest, terms::jsonb, labels::jsonb, at_ms, at_ms
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::bigint[])
    AS n (id, queue, job_set, client_id, digest, terms, labels, at_ms)
ON CONFLICT (id) DO NOTHING;

-- name: add_members
INSERT INTO fairlead_lookout.group_members (job_id, group_id, role, number, generation)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[])
ON CONFLICT (job_id) DO NOTHING;

-- name: add_group_events
INSERT INTO fairlead_lookout.group_events (group_id, position, item, time_ms, type, roles, line)
SELECT group_id, position, item, time_ms, type, roles::jsonb, line
FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::text[], $6::text[], $7::text[])
    AS n (group_id, position, item, time_ms, type, roles, line)
ON CONFLICT (group_id, position, item) DO NOTHING;

-- name: change_groups
-- One row for each group; one that has ended stays as it is.
UPDATE fairlead_lookout.groups g
SET state = coalesce(n.state, g.state),
    terms = coalesce(n.terms::jsonb, g.terms),
    change = coalesce(n.change, g.change),
    reason = CASE WHEN n.change IS NULL THEN g.reason ELSE n.reason END,
    changed_by = CASE WHEN n.change IS NULL THEN g.changed_by ELSE n.by END,
    restarts = CASE WHEN n.is_recreated THEN 0 ELSE g.restarts END + n.restarts,
    changed_ms = greatest(g.changed_ms, n.changed_ms),
    started_ms = CASE WHEN n.state = 'RUNNING' THEN coalesce(g.started_ms, n.changed_ms)
                      ELSE g.started_ms END,
    ended_ms = CASE WHEN n.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN n.changed_ms END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[],
            $8::bigint[], $9::boolean[])
    AS n (id, state, terms, change, reason, by, restarts, changed_ms, is_recreated)
WHERE g.id = n.id AND g.state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED');

-- name: array_submitters
SELECT id, submitted_by FROM fairlead_lookout.arrays WHERE id = ANY ($1::text[]);

-- name: add_arrays
INSERT INTO fairlead_lookout.arrays
    (id, queue, job_set, class, client_id, digest, tasks, waiting, submitted, submitted_ms,
     submitted_by, listed, priority)
SELECT id, queue, job_set, class, client_id, digest, tasks, tasks, submitted, submitted_ms, by,
       listed, priority
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[],
            $8::text[], $9::bigint[], $10::text[], $11::text[], $12::int[])
    AS n (id, queue, job_set, class, client_id, digest, tasks, submitted, submitted_ms, by, listed,
          priority)
ON CONFLICT (id) DO NOTHING;

-- name: change_arrays
-- One row for each array.
UPDATE fairlead_lookout.arrays a
SET waiting = a.waiting - n.released - n.cancelled,
    cancelled = a.cancelled + n.cancelled,
    cancelled_ranges = a.cancelled_ranges + n.ranges,
    cancel_reason = CASE WHEN n.requested_ms IS NULL THEN a.cancel_reason ELSE n.reason END,
    cancelled_by = CASE WHEN n.requested_ms IS NULL THEN a.cancelled_by ELSE n.by END,
    cancelled_ms = coalesce(n.requested_ms, a.cancelled_ms),
    ended_ms = coalesce(a.ended_ms, n.ended_ms),
    priority = CASE WHEN a.ended_ms IS NULL THEN coalesce(n.priority, a.priority) ELSE a.priority END
FROM unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::bigint[], $6::text[], $7::text[],
            $8::bigint[], $9::int[])
    AS n (id, released, cancelled, ranges, requested_ms, reason, by, ended_ms, priority)
WHERE a.id = n.id;

-- name: change_array_priorities
-- Arrays of partition $1, queue $2 and job set $3 (null: all) that have not ended, of the classes $4
-- (empty: all) and with the labels $5 (null: any), get the priority $6. The first two characters of
-- an id are its partition, five bits each.
UPDATE fairlead_lookout.arrays
SET priority = $6
WHERE queue = $2 AND ($3::text IS NULL OR job_set = $3) AND ended_ms IS NULL
  AND left(id, 2) = substr('0123456789abcdefghjkmnpqrstvwxyz', $1::int / 32 + 1, 1)
                 || substr('0123456789abcdefghjkmnpqrstvwxyz', $1::int % 32 + 1, 1)
  AND (cardinality($4::text[]) = 0 OR class = ANY ($4))
  AND CASE WHEN $5::text IS NULL THEN true
           ELSE coalesce(coalesce(listed, submitted)::jsonb #> '{template,labels}' @> $5::jsonb, false)
      END;

-- name: add_cancelled_tasks
INSERT INTO fairlead_lookout.array_cancelled_tasks (array_id, chunk, bits)
SELECT array_id, chunk, bits::bit varying
FROM unnest($1::text[], $2::int[], $3::text[]) AS n (array_id, chunk, bits)
ON CONFLICT (array_id, chunk) DO UPDATE SET bits = array_cancelled_tasks.bits | excluded.bits;

-- name: add_array_counts
INSERT INTO fairlead_lookout.array_counts (array_id, state, tasks)
SELECT * FROM unnest($1::text[], $2::text[], $3::int[])
ON CONFLICT (array_id, state) DO UPDATE SET tasks = array_counts.tasks + excluded.tasks;

-- name: delete_arrays
-- Arrays of job sets ($1, $2) that ended before $3, with how many tasks never became jobs.
WITH old AS (
    DELETE FROM fairlead_lookout.arrays a
    USING unnest($1::text[], $2::text[]) AS k (queue, job_set)
    WHERE a.queue = k.queue AND a.job_set = k.job_set AND a.ended_ms < $3
    RETURNING a.id, a.queue, a.job_set, a.class, a.cancelled
), counts AS (
    DELETE FROM fairlead_lookout.array_counts c USING old WHERE c.array_id = old.id
), marks AS (
    DELETE FROM fairlead_lookout.array_cancelled_tasks c USING old WHERE c.array_id = old.id
)
SELECT queue, job_set, class, sum(cancelled)::int AS tasks FROM old
GROUP BY queue, job_set, class HAVING sum(cancelled) > 0;

-- name: delete_members
-- Members of groups of job sets ($1, $2) whose jobs are of weeks up to $3, and the groups that lose
-- their last member, with their events.
WITH members AS (
    DELETE FROM fairlead_lookout.group_members m
    USING unnest($1::text[], $2::text[]) AS k (queue, job_set), fairlead_lookout.groups g,
        fairlead_lookout.jobs j
    WHERE g.queue = k.queue AND g.job_set = k.job_set AND m.group_id = g.id
      AND j.id = m.job_id AND j.week <= $3
    RETURNING m.group_id, m.job_id
), ended AS (
    DELETE FROM fairlead_lookout.groups g USING (SELECT DISTINCT group_id FROM members) o
    WHERE g.id = o.group_id AND NOT EXISTS (
        SELECT FROM fairlead_lookout.group_members m
        WHERE m.group_id = g.id AND m.job_id NOT IN (SELECT job_id FROM members)
    ) RETURNING g.id
)
DELETE FROM fairlead_lookout.group_events e USING ended WHERE e.group_id = ended.id;

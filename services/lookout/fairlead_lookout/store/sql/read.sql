-- What the API and the pages read.
--
-- A list of jobs is merged from branches. A branch is the jobs of one queue (or job set) in one
-- state, newest first by an index. A limited number of jobs of each branch is visited. The newest
-- place at which a branch was cut off is the horizon; the next page continues after it. So every
-- page is complete up to its horizon and limited in its cost, whatever its filters match.
-- `{scope}`, `{down}` and the like are replaced in `job_lists.py`.

-- name: queues
SELECT DISTINCT queue FROM fairlead_lookout.queue_counts
WHERE jobs > 0 AND ($1::text[] IS NULL OR queue = ANY($1)) AND queue <> ALL($2::text[])
  AND ($3::text IS NULL OR queue = $3)
ORDER BY queue LIMIT $4;

-- name: branches_of_queues
-- The queues that have jobs in these states: how many, and how many of the wanted classes.
SELECT queue AS key, state, sum(jobs)::bigint AS jobs,
       (sum(jobs) FILTER (WHERE cardinality($6::text[]) = 0 OR class = ANY($6)))::bigint AS wanted
FROM fairlead_lookout.queue_counts
WHERE jobs > 0 AND ($1::text[] IS NULL OR queue = ANY($1)) AND queue <> ALL($2::text[])
  AND ($3::text IS NULL OR queue = $3) AND $4::text IS NULL
  AND (cardinality($5::text[]) = 0 OR state = ANY($5))
GROUP BY queue, state
HAVING bool_or(cardinality($6::text[]) = 0 OR class = ANY($6))
ORDER BY queue, state LIMIT $7;

-- name: branches_of_sets
-- The same for the name of a job set, in all queues that have it.
SELECT s.number AS key, c.state, sum(c.jobs)::bigint AS jobs,
       (sum(c.jobs) FILTER (WHERE cardinality($6::text[]) = 0 OR c.class = ANY($6)))::bigint
           AS wanted
FROM (
    SELECT DISTINCT queue FROM fairlead_lookout.queue_counts
    WHERE jobs > 0 AND ($1::text[] IS NULL OR queue = ANY($1)) AND queue <> ALL($2::text[])
      AND ($3::text IS NULL OR queue = $3)
) q
JOIN fairlead_lookout.job_sets s ON s.queue = q.queue AND s.job_set = $4::text
JOIN fairlead_lookout.counters c ON c.set_number = s.number
WHERE c.jobs > 0 AND (cardinality($5::text[]) = 0 OR c.state = ANY($5))
GROUP BY s.number, c.state
HAVING bool_or(cardinality($6::text[]) = 0 OR c.class = ANY($6))
ORDER BY s.number, c.state LIMIT $7;

-- name: visited
-- $1, $2: the branches; $3: the smallest number; $4: the time after which jobs were submitted;
-- $5, $6: the place after which to start; $7: the most branches (the newest ones); $8: the most jobs
-- of each.
WITH heads AS MATERIALIZED (
    SELECT w.key, w.state, w.most, head.number, head.id,
           row_number() OVER (ORDER BY head.number {down}, head.id {down}) AS rank
    FROM unnest($1::{keys}[], $2::text[], $8::int[]) AS w (key, state, most)
    CROSS JOIN LATERAL (
        SELECT o.number, o.id
        FROM fairlead_lookout.jobs o
        WHERE o.{scope} = w.key AND o.state = w.state AND o.number >= $3
          AND ($4::bigint IS NULL OR o.submitted_ms > $4)
          AND ($5::bigint IS NULL OR (o.number, o.id) {after} ($5, $6))
        ORDER BY o.number {down}, o.id {down} LIMIT 1
    ) head
    ORDER BY head.number {down}, head.id {down} LIMIT $7
),
visited AS MATERIALIZED (
    SELECT found.*, h.most
    FROM heads h
    CROSS JOIN LATERAL (
        SELECT {columns},
               row_number() OVER (ORDER BY o.number {down}, o.id {down}) AS rank
        FROM fairlead_lookout.jobs o
        WHERE o.{scope} = h.key AND o.state = h.state AND o.number >= $3
          AND ($4::bigint IS NULL OR o.submitted_ms > $4)
          AND ($5::bigint IS NULL OR (o.number, o.id) {after} ($5, $6))
        ORDER BY o.number {down}, o.id {down} LIMIT h.most
    ) found
),
horizon AS MATERIALIZED (
    SELECT number, id
    FROM (
        SELECT number, id FROM visited WHERE rank = most
        UNION ALL
        SELECT number, id FROM heads WHERE rank = $7
    ) cut
    ORDER BY number {down}, id {down} LIMIT 1
)

-- name: whole
-- The columns that filters, groups and orders need.
o.id, o.number, o.state, o.queue, o.set_number, o.class, o.category, o.labels, o.run_executor,
o.run_node, o.week, o.priority, o.changed_ms, o.started_ms, o.ended_ms, o.client_id, o.annotations

-- name: narrow_queue
-- The columns of the index of queues: filters and groups that need no others read no row.
o.id, o.number, o.state, o.queue, NULL::int AS set_number, NULL::text AS class,
NULL::text AS category, NULL::jsonb AS labels, NULL::text AS run_executor, NULL::text AS run_node,
o.week, NULL::int AS priority, NULL::bigint AS changed_ms, NULL::bigint AS started_ms,
NULL::bigint AS ended_ms, NULL::text AS client_id, NULL::jsonb AS annotations

-- name: narrow_set
-- The columns of the index of job sets.
o.id, o.number, o.state, NULL::text AS queue, o.set_number, NULL::text AS class,
NULL::text AS category, NULL::jsonb AS labels, NULL::text AS run_executor, NULL::text AS run_node,
o.week, NULL::int AS priority, NULL::bigint AS changed_ms, NULL::bigint AS started_ms,
NULL::bigint AS ended_ms, NULL::text AS client_id, NULL::jsonb AS annotations

-- name: compared
-- The jobs that match, and the horizon, of all branches. $1 to $6 as in `visited`; $7: the most jobs
-- of each branch; $8 to $14: the filter. The horizon is found in the index alone; then only jobs up to
-- it are read. Conditions on parameters alone are checked first, so tables that are not needed are not
-- read. `OR` before `IN` makes Postgres hash the subquery instead of joining it.
-- `{since}`: two lower bounds of one column would make Postgres read the index from the lower one.
WITH horizon AS MATERIALIZED (
    SELECT cut.number, cut.id
    FROM unnest($1::{keys}[], $2::text[], $7::int[]) AS b (key, state, most)
    CROSS JOIN LATERAL (
        SELECT o.number, o.id
        FROM fairlead_lookout.jobs o
        WHERE o.{scope} = b.key AND o.state = b.state AND o.number >= $3
          AND ($4::bigint IS NULL OR o.submitted_ms > $4)
          AND ($5::bigint IS NULL OR (o.number, o.id) {after} ($5, $6))
        ORDER BY o.number {down}, o.id {down} OFFSET b.most - 1 LIMIT 1
    ) cut
    ORDER BY cut.number {down}, cut.id {down} LIMIT 1
),
candidates AS MATERIALIZED (
    SELECT v.id, v.number, v.week, v.set_number, v.priority, v.changed_ms, v.started_ms, v.ended_ms,
           v.client_id
    FROM unnest($1::{keys}[], $2::text[]) AS b (key, state)
    CROSS JOIN LATERAL (
        SELECT {columns}
        FROM fairlead_lookout.jobs o
        WHERE o.{scope} = b.key AND o.state = b.state AND {since}
          AND ($4::bigint IS NULL OR o.submitted_ms > $4)
          AND ($5::bigint IS NULL OR (o.number, o.id) {after} ($5, $6))
          AND (o.number, o.id) {reached} (coalesce((SELECT number FROM horizon), {end_number}),
                                          coalesce((SELECT id FROM horizon), {end_id}))
        OFFSET 0
    ) v
    WHERE (cardinality($8::text[]) = 0 OR v.class = ANY($8))
      AND ($9::text IS NULL OR v.category = $9)
      AND ($10::text IS NULL OR v.run_executor = $10)
      AND ($11::text IS NULL OR v.run_node = $11)
      AND ($12::jsonb IS NULL OR v.labels @> $12)
      AND ($13::jsonb IS NULL OR v.annotations @> $13)
),
named_sets AS MATERIALIZED (
    SELECT number FROM fairlead_lookout.job_sets
    WHERE $14::text IS NOT NULL AND number = ANY(ARRAY(SELECT DISTINCT set_number FROM candidates))
      AND strpos(job_set, $14) > 0
),
matching AS MATERIALIZED (
    SELECT c.*
    FROM candidates c
    WHERE ($14::text IS NULL OR starts_with(c.id, $14) OR strpos(c.client_id, $14) > 0
           OR c.set_number IN (SELECT number FROM named_sets))
)

-- name: matching
-- Whether a visited job of groups matches the filter: $9 to $15.
(cardinality($9::text[]) = 0 OR v.class = ANY($9))
AND ($10::text IS NULL OR v.category = $10)
AND ($11::text IS NULL OR v.run_executor = $11)
AND ($12::text IS NULL OR v.run_node = $12)
AND ($13::jsonb IS NULL OR v.labels @> $13)
AND ($14::jsonb IS NULL OR v.annotations @> $14)
AND ($15::text IS NULL OR starts_with(v.id, $15) OR strpos(v.client_id, $15) > 0
     OR strpos(t.job_set, $15) > 0)

-- name: page
-- A page of a list without a filter. $9: the most jobs of a page.
{visited}
SELECT h.number AS horizon_number, h.id AS horizon_id, found.number, found.id, found.week
FROM (SELECT) one
LEFT JOIN horizon h ON true
LEFT JOIN LATERAL (
    SELECT v.number, v.id, v.week
    FROM visited v
    WHERE h.number IS NULL OR (v.number, v.id) {reached} (h.number, h.id)
    ORDER BY v.number {down}, v.id {down} LIMIT $9
) found ON true
ORDER BY found.number {down}, found.id {down};

-- name: compared_page
-- A page of a list with a filter, and how many jobs up to the horizon match. $15: the most jobs of a
-- page.
{compared}
SELECT h.number AS horizon_number, h.id AS horizon_id, counted.jobs,
       found.number, found.id, found.week
FROM (SELECT count(*) AS jobs FROM matching) counted
LEFT JOIN horizon h ON true
LEFT JOIN LATERAL (
    SELECT number, id, week FROM matching ORDER BY number {down}, id {down} LIMIT $15
) found ON true
ORDER BY found.number {down}, found.id {down};

-- name: job_row
-- A job `wanted` as lists show it, without its annotations, which can be long. `week`: its week, or
-- `j.week` if that is not known.
SELECT j.id, j.set_number, j.queue, j.class, j.pool, j.number, j.submitted_ms, j.start_after_ms,
       j.after, j.shape, j.state, j.stopping, j.stop_cause, j.stop_reason, j.held, j.priority, j.run,
       j.changed_ms, j.started_ms, j.ended_ms, j.category, j.exit_code, j.reason, j.superseded_by,
       j.is_task, j.submitted_by, j.labels, j.user_requests, j.run_state, j.run_executor, j.run_node,
       j.run_pool, j.run_leased_ms, j.run_pending_ms, j.run_running_ms, j.run_ended_ms,
       j.run_exit_code, j.run_category, j.run_reason, j.run_cause, j.run_shape, j.client_id, j.week,
       t.job_set
FROM fairlead_lookout.jobs j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
WHERE j.id = wanted.id AND j.week = {week} OFFSET 0

-- name: merged_page
-- A page of a few branches ($1, $2) without a filter, after a place ($3, $4): at most $5 jobs.
SELECT found.*
FROM (
    SELECT o.number, o.id, o.week
    FROM unnest($1::{keys}[], $2::text[]) AS w (key, state)
    CROSS JOIN LATERAL (
        SELECT o.number, o.id, o.week
        FROM fairlead_lookout.jobs o
        WHERE o.{scope} = w.key AND o.state = w.state
          AND ($3::bigint IS NULL OR (o.number, o.id) {after} ($3, $4))
        ORDER BY o.number {down}, o.id {down} LIMIT $5
    ) o
    ORDER BY o.number {down}, o.id {down} LIMIT $5
) wanted
CROSS JOIN LATERAL ({job_row}) found
ORDER BY found.number {down}, found.id {down};

-- name: sorted_page
-- By another column ($16), for lists so short that all jobs were visited; $17, $18: the place after
-- which the page starts. Jobs without that time count as the oldest.
{compared},
keyed AS (
    SELECT id, week, coalesce(CASE $16::text WHEN 'changed' THEN changed_ms
                                             WHEN 'started' THEN started_ms
                                             WHEN 'ended' THEN ended_ms
                                             WHEN 'priority' THEN priority END, 0) AS key
    FROM matching
)
SELECT EXISTS (SELECT FROM horizon) AS cut, found.key, found.id, found.week
FROM (SELECT) one
LEFT JOIN LATERAL (
    SELECT key, id, week FROM keyed
    WHERE ($17::bigint IS NULL OR (key, id) {after} ($17, $18))
    ORDER BY key {down}, id {down} LIMIT $15
) found ON true
ORDER BY found.key {down}, found.id {down};

-- name: count_compared
-- How many jobs up to the horizon match, and the horizon.
{compared}
SELECT h.number AS horizon_number, h.id AS horizon_id, counted.jobs
FROM (SELECT count(*) AS jobs FROM matching) counted
LEFT JOIN horizon h ON true;

-- name: group_visited
-- Jobs by the columns in $6 and the labels in $7 (up to three). Greatest first, $5 groups. $1 to $4
-- and $8 as in `visited`. Jobs are counted as they are read, without a list of them. `cut`: as many
-- jobs of a branch were visited as the limit allows, so there can be more.
WITH counted AS (
    SELECT b.branch, b.most,
           CASE WHEN 'queue' = ANY($6::text[]) THEN v.queue END AS queue,
           CASE WHEN 'jobSet' = ANY($6) THEN t.job_set END AS job_set,
           CASE WHEN 'state' = ANY($6) THEN v.state END AS state,
           CASE WHEN 'class' = ANY($6) THEN v.class END AS class,
           CASE WHEN 'cluster' = ANY($6) THEN v.run_executor END AS cluster,
           CASE WHEN 'node' = ANY($6) THEN v.run_node END AS node,
           CASE WHEN cardinality($7::text[]) > 0 THEN v.labels ->> ($7)[1] END AS label_1,
           CASE WHEN cardinality($7) > 1 THEN v.labels ->> ($7)[2] END AS label_2,
           CASE WHEN cardinality($7) > 2 THEN v.labels ->> ($7)[3] END AS label_3,
           count(*) AS visited, count(*) FILTER (WHERE {matching}) AS jobs
    FROM unnest($1::{keys}[], $2::text[], $8::int[]) WITH ORDINALITY AS b (key, state, most, branch)
    CROSS JOIN LATERAL (
        SELECT {columns}
        FROM fairlead_lookout.jobs o
        WHERE o.{scope} = b.key AND o.state = b.state AND o.number >= $3
          AND ($4::bigint IS NULL OR o.submitted_ms > $4)
        ORDER BY o.number {down}, o.id {down} LIMIT b.most
    ) v
    LEFT JOIN fairlead_lookout.job_sets t ON t.number = v.set_number
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
)
SELECT queue, job_set, state, class, cluster, node, label_1, label_2, label_3,
       sum(jobs)::bigint AS jobs, sum(sum(jobs)) OVER () AS total,
       EXISTS (SELECT FROM counted GROUP BY branch, most HAVING sum(visited) >= most) AS cut
FROM counted
GROUP BY queue, job_set, state, class, cluster, node, label_1, label_2, label_3
HAVING sum(jobs) > 0
ORDER BY jobs DESC, queue, job_set, state, class, cluster, node, label_1, label_2, label_3
LIMIT $5;

-- name: jobs_by_id
SELECT found.*
FROM unnest($1::text[]) AS wanted (id)
CROSS JOIN LATERAL ({job_row}) found;

-- name: queue_counts
-- Jobs by queue, class and state, from the counters by queue.
SELECT queue, class, state, jobs
FROM fairlead_lookout.queue_counts
WHERE jobs > 0 AND ($1::text[] IS NULL OR queue = ANY($1)) AND queue <> ALL($2::text[])
  AND ($3::text IS NULL OR queue = $3)
  AND (cardinality($4::text[]) = 0 OR state = ANY($4))
  AND (cardinality($5::text[]) = 0 OR class = ANY($5))
LIMIT $6;

-- name: set_counts
-- The same by job set, newest first: at most $7 counters are read.
SELECT found.*
FROM (
    SELECT DISTINCT queue FROM fairlead_lookout.queue_counts
    WHERE jobs > 0 AND ($1::text[] IS NULL OR queue = ANY($1)) AND queue <> ALL($2::text[])
      AND ($3::text IS NULL OR queue = $3)
) q
CROSS JOIN LATERAL (
    SELECT s.queue, s.job_set, c.class, c.state, c.jobs
    FROM fairlead_lookout.job_sets s
    JOIN fairlead_lookout.counters c ON c.set_number = s.number
    WHERE s.queue = q.queue AND ($6::text IS NULL OR s.job_set = $6) AND c.jobs > 0
      AND (cardinality($4::text[]) = 0 OR c.state = ANY($4))
      AND (cardinality($5::text[]) = 0 OR c.class = ANY($5))
    ORDER BY s.number DESC LIMIT $7
) found
LIMIT $7;

-- name: set_by_key
SELECT number, queue, job_set, partition, jobs, live, first_ms, last_ms, position,
       last_position, last_item, failures, held, used, metered_ms, superseded
FROM fairlead_lookout.job_sets WHERE queue = $1 AND job_set = $2 AND jobs > 0;

-- name: counts_of_sets
SELECT set_number, state, sum(jobs)::int AS jobs
FROM fairlead_lookout.counters WHERE set_number = ANY($1::int[]) AND jobs > 0
GROUP BY set_number, state;

-- name: newest_sets
-- The newest job sets of all queues; $3: where to start; $4: how many to examine.
WITH visited AS MATERIALIZED (
    SELECT number, queue, job_set, jobs, row_number() OVER (ORDER BY number DESC) AS rank
    FROM fairlead_lookout.job_sets
    WHERE $3::int IS NULL OR number < $3
    ORDER BY number DESC LIMIT $4
)
SELECT h.number AS horizon, s.*
FROM (SELECT max(number) FILTER (WHERE rank = $4) AS number FROM visited) h
LEFT JOIN LATERAL (
    SELECT s.*
    FROM visited v JOIN fairlead_lookout.job_sets s ON s.number = v.number
    WHERE v.jobs > 0 AND ($1::text[] IS NULL OR v.queue = ANY($1)) AND v.queue <> ALL($2::text[])
      AND ($5::text IS NULL OR strpos(v.job_set, $5) > 0)
    ORDER BY v.number DESC LIMIT $6
) s ON true
ORDER BY s.number DESC;

-- name: sets_of_queues
-- The newest job sets of some queues ($1), at most $4 of each examined; `active` null: any.
WITH visited AS MATERIALIZED (
    SELECT found.*
    FROM unnest($1::text[]) AS w (queue)
    CROSS JOIN LATERAL (
        SELECT o.number, o.job_set, o.jobs, row_number() OVER (ORDER BY o.number DESC) AS rank
        FROM fairlead_lookout.job_sets o
        WHERE o.queue = w.queue AND ($2::boolean IS NULL OR o.active = $2)
          AND ($3::int IS NULL OR o.number < $3)
        ORDER BY o.number DESC LIMIT $4
    ) found
)
SELECT h.number AS horizon, s.*
FROM (SELECT max(number) FILTER (WHERE rank = $4) AS number FROM visited) h
LEFT JOIN LATERAL (
    SELECT s.*
    FROM visited v JOIN fairlead_lookout.job_sets s ON s.number = v.number
    WHERE v.jobs > 0 AND (h.number IS NULL OR v.number >= h.number)
      AND ($5::text IS NULL OR strpos(v.job_set, $5) > 0)
    ORDER BY v.number DESC LIMIT $6
) s ON true
ORDER BY s.number DESC;

-- name: totals
SELECT state, sum(jobs)::bigint AS jobs
FROM fairlead_lookout.queue_counts
WHERE jobs > 0 AND ($1::text[] IS NULL OR queue = ANY($1)) AND queue <> ALL($2::text[])
  AND ($3::text IS NULL OR queue = $3)
GROUP BY state;

-- name: job
-- A job with its runs (JSON), newest first, in one statement and so of one moment. Why a live run is
-- being preempted is in the row of its job.
SELECT j.*, t.job_set, p.lines,
       (
           SELECT json_agg(a ORDER BY a.number DESC)
           FROM (
               SELECT r.number, r.state, r.executor, r.node, r.pool, r.leased_ms, r.pending_ms,
                      r.running_ms, r.ended_ms, r.exit_code, r.category,
                      coalesce(r.reason, CASE WHEN r.number = j.run THEN j.stop_reason END)
                          AS reason,
                      coalesce(r.cause, CASE WHEN r.number = j.run THEN j.stop_cause END) AS cause
               FROM fairlead_lookout.runs_of_jobs r
               WHERE r.job_id = $1 AND r.week = j.week ORDER BY r.number DESC LIMIT 1000
           ) a
       ) AS runs
FROM fairlead_lookout.jobs j
JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
JOIN fairlead_lookout.submissions p ON p.chunk = j.chunk AND p.week = j.week
WHERE j.id = $1;

-- name: preempted_runs
-- Jobs whose runs on the node of the newest run of $1 were there before it, are being preempted and
-- have not ended. Not those that a user asked to preempt: they were not preempted for another job.
SELECT j.id AS job_id, j.queue, j.stop_cause
FROM fairlead_lookout.jobs own
JOIN fairlead_lookout.jobs j
  ON j.run_executor = own.run_executor AND j.run_node = own.run_node
 AND j.state IN ('LEASED', 'PENDING', 'RUNNING') AND j.run_ended_ms IS NULL
 AND j.run_leased_ms <= own.run_leased_ms AND j.id <> own.id
WHERE own.id = $1 AND j.stopping = 'preempt' AND j.stop_cause <> 'request'
ORDER BY j.id;

-- name: states
-- Of jobs and arrays.
SELECT id, state FROM fairlead_lookout.jobs WHERE id = ANY($1::text[])
UNION ALL
SELECT id, state FROM fairlead_lookout.array_states WHERE id = ANY($1::text[]);

-- name: dependencies
-- Jobs and arrays.
SELECT id, state, client_id FROM fairlead_lookout.jobs WHERE id = ANY($1::text[])
UNION ALL
SELECT id, state, client_id FROM fairlead_lookout.array_states WHERE id = ANY($1::text[]);

-- name: labels_and_requests
SELECT j.id, j.labels, s.requests
FROM fairlead_lookout.jobs j
LEFT JOIN fairlead_lookout.shapes s ON s.key = j.shape
WHERE j.id = ANY($1::text[]);

-- name: submissions
-- What was submitted of each job, and what its newest run is given (a retry may give more). The lines
-- of a chunk are read once, and are in the first row of the chunk.
SELECT j.id, j.labels, s.requests, j.chunk, j.chunk_line,
       CASE WHEN row_number() OVER (PARTITION BY j.chunk) = 1 THEN (
           SELECT c.lines FROM fairlead_lookout.submissions c
           WHERE c.chunk = j.chunk AND c.week = j.week
       ) END AS lines
FROM fairlead_lookout.jobs j
LEFT JOIN fairlead_lookout.shapes s ON s.key = j.shape
WHERE j.id = ANY($1::text[]);

-- name: client_ids
-- Of jobs and arrays.
SELECT id, client_id FROM fairlead_lookout.jobs
WHERE id = ANY($1::text[]) AND client_id IS NOT NULL
UNION ALL
SELECT id, client_id FROM fairlead_lookout.arrays
WHERE id = ANY($1::text[]) AND client_id IS NOT NULL;

-- name: jobs_before
-- How many of the oldest queued jobs of a queue (at most $2 are examined) are ahead of a job with
-- this pool, class value, priority, number and id. $8, $9: the values of the classes.
SELECT count(*) AS examined,
       count(*) FILTER (
           WHERE o.pool = $3 AND NOT o.held AND o.id <> $7
             AND (-coalesce(v.value, 0), -o.priority, o.number, o.id) < (-$4::int, -$5::int, $6, $7)
       ) AS before
FROM (
    SELECT id, class, priority, number, pool, held
    FROM fairlead_lookout.jobs
    WHERE queue = $1 AND state = 'QUEUED' ORDER BY number, id LIMIT $2
) o
LEFT JOIN unnest($8::text[], $9::int[]) AS v (class, value) ON v.class = o.class;

-- name: runs_on
-- The live runs of a cluster, by node and shape.
SELECT node, shape, count(*) AS runs, (array_agg(job_id))[1:20] AS jobs
FROM (
    SELECT run_node AS node, run_shape AS shape, id AS job_id FROM fairlead_lookout.jobs
    WHERE run_executor = $1 AND state IN ('LEASED', 'PENDING', 'RUNNING')
      AND run_ended_ms IS NULL
    LIMIT $2
) live
GROUP BY node, shape;

-- name: shapes
SELECT key, requests FROM fairlead_lookout.shapes WHERE key = ANY($1::text[]);

-- name: events_after
-- Chunks that end after an id, in order: at most $4, and about $5 bytes.
SELECT last_position, last_item, lines
FROM (
    SELECT last_position, last_item, lines,
           sum(octet_length(lines)) OVER (ORDER BY last_position, last_item)
               - octet_length(lines) AS bytes_before
    FROM (
        SELECT last_position, last_item, lines
        FROM fairlead_lookout.events
        WHERE set_number = $1 AND (last_position, last_item) > ($2, $3)
        ORDER BY last_position, last_item LIMIT $4
    ) later
) summed
WHERE bytes_before < $5
ORDER BY last_position, last_item;

-- name: queue_events_after
-- Chunks of a queue after a place in each partition: those of one partition in the order in which
-- they were written, those of several partitions by time.
SELECT e.partition, e.last_position, e.set_number, e.last_item, e.time_ms, e.day
FROM unnest($2::int[], $3::bigint[], $4::int[], $5::int[])
    AS w (partition, position, set_number, item)
CROSS JOIN LATERAL (
    SELECT o.partition, o.last_position, o.set_number, o.last_item, o.time_ms, o.day
    FROM fairlead_lookout.events o
    WHERE o.queue = $1 AND o.partition = w.partition
      AND (o.last_position, o.set_number, o.last_item) > (w.position, w.set_number, w.item)
    ORDER BY o.last_position, o.set_number, o.last_item LIMIT $6
) e
ORDER BY e.time_ms, e.partition, e.last_position, e.set_number, e.last_item LIMIT $6;

-- name: chunk_lines
SELECT lines FROM fairlead_lookout.events
WHERE set_number = $1 AND last_position = $2 AND last_item = $3 AND day = $4;

-- name: dropped
SELECT position FROM fairlead_lookout.events_dropped WHERE partition = $1;

-- name: dropped_of_queue
SELECT partition, position FROM fairlead_lookout.queue_events_dropped WHERE queue = $1;

-- name: view_name
SELECT view FROM fairlead_lookout.source;

-- name: queues_of
SELECT id, queue FROM fairlead_lookout.jobs WHERE id = ANY($1::text[]);

-- name: rounds
SELECT report FROM fairlead_lookout.rounds WHERE pool = $1 ORDER BY at_ms DESC LIMIT $2;

-- name: preemptions_by_time
-- The newest preemptions of all queues but $2; $3, $4: between these times; $5 to $7: the place
-- after which to start; $8: how many. $1 is for `preemptions_of_queues`.
SELECT * FROM fairlead_lookout.preemptions
WHERE $1::text[] IS NULL AND queue <> ALL($2::text[]) AND time_ms >= $3 AND time_ms < $4
  AND ($5::bigint IS NULL OR (time_ms, job_id, run) < ($5, $6::text, $7::int))
ORDER BY time_ms DESC, job_id DESC, run DESC LIMIT $8

-- name: preemptions_of_queues
-- The same of the queues $1 but not $2: the newest of each queue are read.
SELECT found.*
FROM unnest($1::text[]) AS w (queue)
CROSS JOIN LATERAL (
    SELECT o.* FROM fairlead_lookout.preemptions o
    WHERE o.queue = w.queue AND o.queue <> ALL($2::text[])
      AND o.time_ms >= $3 AND o.time_ms < $4
      AND ($5::bigint IS NULL OR (o.time_ms, o.job_id, o.run) < ($5, $6::text, $7::int))
    ORDER BY o.time_ms DESC, o.job_id DESC, o.run DESC LIMIT $8
) found
ORDER BY found.time_ms DESC, found.job_id DESC, found.run DESC LIMIT $8

-- name: preemption_details
-- Preemptions with their job, its run, what that held, and the job for which it was preempted.
-- LATERAL with OFFSET 0 forces one look-up for each job, here and below: joined with the view of all
-- runs, Postgres would read all jobs.
SELECT p.*, j.state, t.job_set, j.client_id, r.executor, r.node, r.pool, r.leased_ms, r.ended_ms,
       h.requests, w.queue AS for_queue, w.client_id AS for_client_id
FROM ({chosen}) p
LEFT JOIN fairlead_lookout.jobs j ON j.id = p.job_id
LEFT JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
LEFT JOIN LATERAL (
    SELECT executor, node, pool, leased_ms, ended_ms, shape FROM fairlead_lookout.runs_of_jobs
    WHERE job_id = j.id AND number = p.run AND week = j.week OFFSET 0
) r ON true
LEFT JOIN fairlead_lookout.shapes h ON h.key = r.shape
LEFT JOIN fairlead_lookout.jobs w ON w.id = p.for_job
ORDER BY p.time_ms DESC, p.job_id DESC, p.run DESC;

-- name: groups
-- Groups, newest first, of queues in $1 (null: all) but those in $2; $3 queue, $4 job set, $5
-- client id, $6 states; after the group $7, $8 (time of submission, id).
SELECT * FROM (
    SELECT g.*, c.roles,
           CASE WHEN g.state = 'QUEUED' AND c.starting THEN 'STARTING' ELSE g.state END AS shown
    FROM fairlead_lookout.groups g
    CROSS JOIN LATERAL (SELECT * FROM fairlead_lookout.count_members(g.id, g.terms)) c
    WHERE ($1::text[] IS NULL OR g.queue = ANY ($1)) AND g.queue <> ALL ($2)
      AND ($3::text IS NULL OR g.queue = $3) AND ($4::text IS NULL OR g.job_set = $4)
      AND ($5::text IS NULL OR g.client_id = $5)
      AND ($6::text[] IS NULL OR g.state = ANY ($6)
           OR ('STARTING' = ANY ($6) AND g.state = 'QUEUED'))
      AND ($7::bigint IS NULL OR (g.submitted_ms, g.id) < ($7, $8::text))
    ORDER BY g.submitted_ms DESC, g.id DESC
) found
WHERE $6::text[] IS NULL OR shown = ANY ($6)
LIMIT $9;

-- name: has_groups_or_arrays
-- Whether a job set has groups or arrays.
SELECT EXISTS (SELECT FROM fairlead_lookout.groups WHERE queue = $1 AND job_set = $2)
    OR EXISTS (SELECT FROM fairlead_lookout.arrays WHERE queue = $1 AND job_set = $2) AS found;

-- name: ids_by_name
-- Ids of groups or arrays ({table}) of queues in $1 (null: all) but those in $2: that with the id $3
-- and, of the newest $4, those with $3 in their client id (in queue/jobSet/clientId if $3 has a
-- slash). Newest first, at most $5.
WITH newest AS (
    SELECT id, queue, job_set, client_id, submitted_ms FROM fairlead_lookout.{table}
    ORDER BY submitted_ms DESC, id DESC LIMIT $4
), found AS (
    SELECT id, queue, submitted_ms FROM newest
    WHERE strpos(
        CASE WHEN strpos($3, '/') > 0 THEN queue || '/' || job_set || '/' ELSE '' END || client_id,
        $3
    ) > 0
    UNION
    SELECT id, queue, submitted_ms FROM fairlead_lookout.{table} WHERE id = $3
)
SELECT id FROM found
WHERE ($1::text[] IS NULL OR queue = ANY ($1)) AND queue <> ALL ($2::text[])
ORDER BY submitted_ms DESC, id DESC LIMIT $5;

-- name: groups_by_id
SELECT g.*, c.roles,
       CASE WHEN g.state = 'QUEUED' AND c.starting THEN 'STARTING' ELSE g.state END AS shown
FROM fairlead_lookout.groups g
CROSS JOIN LATERAL (SELECT * FROM fairlead_lookout.count_members(g.id, g.terms)) c
WHERE g.id = ANY ($1::text[])
ORDER BY array_position($1::text[], g.id);

-- name: members
-- The newest member of each index of each role in the present generation of a group, with its newest
-- run, by role and index.
SELECT DISTINCT ON (m.role, m.number)
       m.role, m.number, m.generation, j.id, j.state, j.run, j.reason, j.started_ms, j.ended_ms,
       j.submitted_ms, j.pool, j.shape, j.held, j.start_after_ms, j.run_executor, j.run_node
FROM fairlead_lookout.groups g
JOIN fairlead_lookout.group_members m
    ON m.group_id = g.id AND m.generation = coalesce((g.terms ->> 'generation')::int, 1)
JOIN fairlead_lookout.jobs j ON j.id = m.job_id AND j.id = ANY (
    ARRAY(SELECT job_id FROM fairlead_lookout.group_members WHERE group_id = $1)
)
WHERE g.id = $1
ORDER BY m.role, m.number, j.number DESC
LIMIT $2;

-- name: count_member_jobs
-- How many jobs are or were members of a group.
SELECT count(*)::int AS jobs FROM fairlead_lookout.group_members WHERE group_id = $1;

-- name: group_events
-- Public events of a group after the one with the id $2, $3 (position, item).
SELECT position, item, line FROM fairlead_lookout.group_events
WHERE group_id = $1 AND (position, item) > ($2, $3) ORDER BY position, item LIMIT $4;

-- name: group_ended
SELECT ended_ms FROM fairlead_lookout.groups WHERE id = $1;

-- name: newest_group_events
SELECT position, item, time_ms, type, roles::text AS roles, line FROM fairlead_lookout.group_events
WHERE group_id = $1 ORDER BY position DESC, item DESC LIMIT $2;

-- name: running_members
-- How many members of each role ran after each change: of $4 spans of the time from $2 to $3 (ms),
-- the last number of each.
WITH moves AS (
    SELECT m.role, moved.time_ms, moved.step
    FROM fairlead_lookout.group_members m
    CROSS JOIN LATERAL (
        SELECT running_ms, ended_ms FROM fairlead_lookout.runs_of_jobs
        WHERE job_id = m.job_id OFFSET 0
    ) r
    CROSS JOIN LATERAL (VALUES (r.running_ms, 1), (r.ended_ms, -1)) AS moved (time_ms, step)
    WHERE m.group_id = $1 AND r.running_ms IS NOT NULL AND moved.time_ms IS NOT NULL
), counted AS (
    SELECT role, time_ms,
           (sum(sum(step)) OVER (PARTITION BY role ORDER BY time_ms))::int AS running
    FROM moves GROUP BY role, time_ms
)
SELECT DISTINCT ON (role, span) role, time_ms, running
FROM counted
CROSS JOIN LATERAL width_bucket(time_ms, $2::bigint, $3::bigint, $4::int) AS span
ORDER BY role, span, time_ms DESC;

-- name: member_runs
-- Of the runs of the members of a group that started, the $2 that changed last.
SELECT n.role, n.number, n.leased_ms, n.ended_ms, n.cause, n.reason, n.is_repeated,
       coalesce(before.state IN ('FAILED', 'LOST'), false) AS follows_failure
FROM (
    SELECT m.role, m.number, m.job_id, r.number AS run, j.week, r.leased_ms, r.ended_ms, r.cause,
           r.reason,
           r.state IN ('FAILED', 'LOST') AND (j.run > r.number OR j.state = 'QUEUED')
               AS is_repeated
    FROM fairlead_lookout.group_members m
    CROSS JOIN LATERAL (
        SELECT run, state, week FROM fairlead_lookout.jobs WHERE id = m.job_id OFFSET 0
    ) j
    CROSS JOIN LATERAL (
        SELECT number, state, leased_ms, ended_ms, cause, reason FROM fairlead_lookout.runs_of_jobs
        WHERE job_id = m.job_id AND week = j.week OFFSET 0
    ) r
    WHERE m.group_id = $1 AND r.state <> 'RETURNED'
    ORDER BY coalesce(r.ended_ms, r.leased_ms) DESC, m.role, m.number LIMIT $2
) n
LEFT JOIN LATERAL (
    SELECT state FROM fairlead_lookout.older_runs
    WHERE job_id = n.job_id AND number = n.run - 1 AND week = n.week OFFSET 0
) before ON true;

-- name: arrays
-- Arrays, newest first, of queues in $1 (null: all) but those in $2; $3 queue, $4 job set, $5 client
-- id, $6 only those with tasks that have not ended; after the array $7, $8 (time of submission, id).
SELECT a.id, a.queue, a.job_set, a.client_id, a.tasks, a.waiting, a.submitted_ms, a.submitted_by,
       a.ended_ms, a.cancelled_by, a.cancelled_ms, a.cancel_reason, a.priority,
       coalesce(a.listed, a.submitted) AS submitted, c.counts
FROM fairlead_lookout.arrays a
CROSS JOIN LATERAL (
    SELECT json_object_agg(state, tasks)::text AS counts
    FROM fairlead_lookout.array_counts WHERE array_id = a.id AND tasks > 0
) c
WHERE ($1::text[] IS NULL OR a.queue = ANY ($1)) AND a.queue <> ALL ($2)
  AND ($3::text IS NULL OR a.queue = $3) AND ($4::text IS NULL OR a.job_set = $4)
  AND ($5::text IS NULL OR a.client_id = $5)
  AND (NOT $6::boolean OR a.ended_ms IS NULL)
  AND ($7::bigint IS NULL OR (a.submitted_ms, a.id) < ($7, $8::text))
ORDER BY a.submitted_ms DESC, a.id DESC
LIMIT $9;

-- name: cancelled_task
-- A row if the task of array $1 with index $2 was cancelled before it became a job.
SELECT FROM fairlead_lookout.array_cancelled_tasks
WHERE array_id = $1 AND chunk = $2 / 65536 AND get_bit(bits, $2 % 65536) = 1;

-- name: cancelled_tasks
-- Which tasks of array $1 were cancelled before they became jobs, from chunk $2 of its indexes on.
SELECT chunk, bits FROM fairlead_lookout.array_cancelled_tasks
WHERE array_id = $1 AND chunk >= $2 ORDER BY chunk;

-- name: newest_task
-- The released task with the greatest index, with ids after $1 up to $2.
SELECT id, number, set_number FROM fairlead_lookout.jobs
WHERE id > $1 AND id <= $2 ORDER BY id DESC LIMIT 1;

-- name: released_tasks
-- Released tasks with ids after $1 up to $2: at most $3.
SELECT id FROM fairlead_lookout.jobs WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3;

-- name: tasks_in_state
-- Tasks whose ids begin with $5, in job set $1 and state $2, with numbers after $3 up to $4: at most
-- $6. Numbers of tasks ascend with their indexes, and are in the index of the jobs of a set.
SELECT id FROM fairlead_lookout.jobs
WHERE set_number = $1 AND state = $2 AND number > $3 AND number <= $4 AND starts_with(id, $5)
ORDER BY number, id LIMIT $6;

-- name: arrays_by_id
SELECT a.*, c.counts
FROM fairlead_lookout.arrays a
CROSS JOIN LATERAL (
    SELECT json_object_agg(state, tasks)::text AS counts
    FROM fairlead_lookout.array_counts WHERE array_id = a.id AND tasks > 0
) c
WHERE a.id = ANY ($1::text[])
ORDER BY array_position($1::text[], a.id);

-- name: next_version
SELECT nextval('fairlead_submit.versions');

-- name: insert_queue
-- Nothing is returned when there is a queue of that name; a deleted one is replaced.
INSERT INTO fairlead_submit.queues AS q (name, version, value) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE
SET version = excluded.version, value = excluded.value, deleted = false, changed_at = now()
WHERE q.deleted
RETURNING 1;

-- name: lock_queue
SELECT value FROM fairlead_submit.queues WHERE name = $1 AND NOT deleted FOR UPDATE;

-- name: update_queue
UPDATE fairlead_submit.queues
SET version = $2, value = $3, deleted = $4, changed_at = now() WHERE name = $1;

-- name: get_queue
SELECT value FROM fairlead_submit.queues WHERE name = $1 AND NOT deleted;

-- name: list_queues
SELECT value FROM fairlead_submit.queues
WHERE NOT deleted AND name > $1
AND ($3::text[] IS NULL OR name = ANY ($3)) AND name <> ALL ($4)
ORDER BY name LIMIT $2;

-- name: count_queues
SELECT count(*) FROM (
    SELECT 1 FROM fairlead_submit.queues
    WHERE NOT deleted AND ($2::text[] IS NULL OR name = ANY ($2)) AND name <> ALL ($3) LIMIT $1
) counted;

-- name: lock_cordon
-- Cordons of the same key are changed one after the other, also the first time.
SELECT pg_advisory_xact_lock($1, hashtext($2));

-- name: get_cordon
SELECT value FROM fairlead_submit.cordons WHERE key = $1;

-- name: put_cordon
INSERT INTO fairlead_submit.cordons (key, version, value) VALUES ($1, $2, $3)
ON CONFLICT (key) DO UPDATE
SET version = excluded.version, value = excluded.value, changed_at = now();

-- name: insert_outbox
-- The commit notifies the process that relays, on channel $3.
WITH inserted AS (
    INSERT INTO fairlead_submit.outbox (key, value) VALUES ($1, $2) RETURNING number
)
SELECT pg_notify($3, '') FROM inserted;

-- name: read_outbox
SELECT number, key, value FROM fairlead_submit.outbox ORDER BY number LIMIT $1;

-- name: delete_outbox
DELETE FROM fairlead_submit.outbox WHERE number = ANY ($1);

-- name: read_newest_outbox_number
SELECT max(number) FROM fairlead_submit.outbox WHERE key = $1;

-- name: has_outbox_rows
-- Whether a row of this key, up to a number, is not relayed yet.
SELECT EXISTS (SELECT FROM fairlead_submit.outbox WHERE key = $1 AND number <= $2);

-- name: delete_expired_queues
-- Queues that were deleted so long ago that every reader has folded the deletion.
DELETE FROM fairlead_submit.queues
WHERE deleted AND changed_at < now() - make_interval(secs => $1) RETURNING name;

-- name: insert_token
-- A token or a session. One with a parent ($11) expires no later than its parent.
INSERT INTO fairlead_submit.tokens
    (digest, name, roles, kind, expires_at, personal, groups, queues, label, made_by, parent,
     unique_name)
VALUES ($1, $2, $3, $4,
    least(now() + make_interval(secs => $5::double precision),
        (SELECT p.expires_at FROM fairlead_submit.tokens p WHERE p.number = $11)),
    $6, $7, $8, $9, $10, $11, $12)
RETURNING number, name, roles, kind, personal, queues, label, made_by, created_at, expires_at;

-- name: adopt_token
-- Insert a token ($1 digest, $2 name, $3 roles, $4 kind) into a database that has none of its kind.
INSERT INTO fairlead_submit.tokens (digest, name, roles, kind)
SELECT $1, $2, $3, $4
WHERE NOT EXISTS (SELECT FROM fairlead_submit.tokens WHERE kind = $4)
RETURNING true;

-- name: find_token_number
SELECT number FROM fairlead_submit.tokens WHERE digest = $1;

-- name: delete_expired_name
-- The name of a token that has expired can be used again.
DELETE FROM fairlead_submit.tokens WHERE unique_name = $1 AND expires_at <= now();

-- name: list_tokens
-- Those of a name or made by it, or (null) of all, after a number.
SELECT number, name, roles, kind, personal, queues, label, made_by, created_at, expires_at
FROM fairlead_submit.tokens
WHERE ($1::text IS NULL OR name = $1 OR made_by = $1)
    AND number > $2 AND (expires_at IS NULL OR expires_at > now())
ORDER BY number LIMIT $3;

-- name: revoke_token
-- Revoke a token ($1) if the caller is an admin ($2), if it is the token that the caller uses ($3)
-- or a session of that token, or a personal token of the caller ($4, null: not a person).
DELETE FROM fairlead_submit.tokens
WHERE number = $1
    AND ($2::boolean OR number = $3::bigint OR parent = $3 OR (personal AND name = $4::text))
RETURNING digest, name;

-- name: end_session
DELETE FROM fairlead_submit.tokens WHERE digest = $1 AND kind = $2;

-- name: delete_expired_tokens
DELETE FROM fairlead_submit.tokens WHERE expires_at < now() - interval '1 day';

-- name: delete_expired_links
DELETE FROM fairlead_submit.links WHERE expires_at < now();

-- name: insert_link
-- A link for a session of a person.
INSERT INTO fairlead_submit.links (digest, name, roles, expires_at, personal, groups, queues)
VALUES ($1, $2, $3, now() + make_interval(secs => $4::double precision), $5, $6, $7);

-- name: insert_link_of_token
-- A link for a session that may do what an API token may, and ends with it.
INSERT INTO fairlead_submit.links
    (digest, name, roles, expires_at, personal, groups, queues, parent)
SELECT $1, name, roles, now() + make_interval(secs => $3::double precision), personal, groups,
    queues, number
FROM fairlead_submit.tokens
WHERE number = $2 AND kind = 'token' AND (expires_at IS NULL OR expires_at > now())
RETURNING parent;

-- name: use_link
DELETE FROM fairlead_submit.links WHERE digest = $1 AND expires_at > now()
RETURNING name, roles, personal, groups, queues, parent;

-- name: known_jobs
-- What lookout's view knows of these jobs; it may lag behind the log. LATERAL with OFFSET 0 makes
-- one index look-up per id: for `= ANY` or a join Postgres reads whole tables of some millions.
SELECT known.*
FROM unnest($1::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, state, queue, job_set FROM fairlead_lookout.known_jobs
    WHERE job_id = wanted.id OFFSET 0
) known;

-- name: first_weeks
-- The first week in which lookout's view can have jobs of these job sets ($1, $2), of those that it
-- knows.
SELECT known.*
FROM unnest($1::text[], $2::text[]) AS wanted (queue, job_set)
CROSS JOIN LATERAL (
    SELECT queue, job_set, first_week FROM fairlead_lookout.known_job_sets
    WHERE queue = wanted.queue AND job_set = wanted.job_set OFFSET 0
) known;

-- name: known_digests
-- The digests of these jobs, of those that lookout's view knows in weeks from $2 on. A job is in one
-- week, so later ones are not searched (LIMIT).
SELECT known.*
FROM unnest($1::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, digest FROM fairlead_lookout.submitted_jobs
    WHERE job_id = wanted.id AND week >= $2 LIMIT 1
) known;

-- name: known_group_digests
-- The digests of these groups, of those that lookout's view knows.
SELECT group_id, digest FROM fairlead_lookout.known_groups WHERE group_id = ANY ($1);

-- name: known_array_digests
-- The digests of these arrays, of those that lookout's view knows.
SELECT array_id, digest FROM fairlead_lookout.known_arrays WHERE array_id = ANY ($1);

-- name: known_arrays
-- These arrays, of those that lookout's view knows.
SELECT array_id, queue, job_set, submitted, ended, cancelled_ranges, waiting, live
FROM fairlead_lookout.known_arrays WHERE array_id = ANY ($1);

-- name: cancelled_tasks
-- Which tasks of these arrays were cancelled before they became jobs.
SELECT array_id, chunk, bits FROM fairlead_lookout.known_cancelled_tasks
WHERE array_id = ANY ($1);

-- name: newest_task
-- The released task with the greatest index: of ids after $1 up to $2.
SELECT job_id FROM fairlead_lookout.known_jobs
WHERE job_id > $1 AND job_id <= $2 ORDER BY job_id DESC LIMIT 1;

-- name: live_tasks
-- Released tasks of queue $1 and job set $2 in states $3: those with ids after $4 up to $5.
SELECT job_id FROM fairlead_lookout.found_jobs
WHERE queue = $1 AND job_set = $2 AND state = ANY ($3) AND job_id > $4 AND job_id <= $5;

-- name: succeeded_arrays
-- Which of these arrays have ended with the success of all tasks, of those that lookout's view knows.
SELECT array_id FROM fairlead_lookout.known_arrays
WHERE array_id = ANY ($1) AND state = 'SUCCEEDED';

-- name: known_group
-- One group as lookout's view knows it.
SELECT group_id, queue, job_set, client_id, terms::text AS terms, state, labels::text AS labels,
       is_cancelling
FROM fairlead_lookout.known_groups WHERE group_id = $1;

-- name: known_members
-- All members that a group has had.
SELECT m.job_id, m.role, m.number, m.generation, j.state
FROM fairlead_lookout.known_members m JOIN fairlead_lookout.known_jobs j USING (job_id)
WHERE m.group_id = $1;

-- name: member_templates
-- The submission of the newest member of each role of a group.
SELECT newest.role, newest.chunk_line, s.lines
FROM (
    SELECT DISTINCT ON (role) role, chunk, chunk_line, week
    FROM fairlead_lookout.known_members WHERE group_id = $1
    ORDER BY role, generation DESC, number DESC, job_id
) newest
JOIN LATERAL (
    SELECT lines FROM fairlead_lookout.known_submissions
    WHERE chunk = newest.chunk AND week = newest.week OFFSET 0
) s ON true;

-- name: view_positions
-- The position of each partition that lookout reads next.
SELECT partition, position FROM fairlead_lookout.view_positions;

-- name: live_jobs
-- How many jobs of the queue lookout's view knows that have not ended.
SELECT coalesce(sum(jobs), 0)::bigint AS jobs FROM fairlead_lookout.live_jobs WHERE queue = $1;

-- name: live_by_queue
-- How many jobs of each queue have not ended; rows without a queue have the position of each
-- partition up to which the jobs are counted. One statement, so both are of one moment.
SELECT queue, jobs, NULL::integer AS partition, NULL::bigint AS position
FROM fairlead_lookout.live_jobs WHERE jobs > 0
UNION ALL SELECT NULL, NULL, partition, position FROM fairlead_lookout.view_positions;

-- name: live_bytes_by_queue
-- How large the events are that submitted those jobs.
SELECT queue, sum(submitted_bytes)::bigint AS bytes FROM fairlead_lookout.found_jobs
WHERE state IN ('QUEUED', 'LEASED', 'PENDING', 'RUNNING') GROUP BY queue;

-- name: count_by_counter
-- How many jobs of a queue, maybe of one job set, are in these states and classes.
SELECT coalesce(sum(jobs), 0)::bigint AS jobs FROM fairlead_lookout.counted_jobs
WHERE queue = $1 AND ($2::text IS NULL OR job_set = $2) AND state = ANY ($3)
AND (cardinality($4::text[]) = 0 OR class = ANY ($4));

-- name: count_found
-- The same for what no counter knows, up to a bound.
SELECT count(*) AS jobs FROM (
    SELECT 1 FROM fairlead_lookout.found_jobs
    WHERE queue = $1 AND ($2::text IS NULL OR job_set = $2) AND state = ANY ($3)
    AND (cardinality($4::text[]) = 0 OR class = ANY ($4))
    AND ($5::text IS NULL OR labels @> $5::jsonb)
    AND ($6::text IS NULL OR executor = $6) AND ($7::text IS NULL OR node = $7)
    LIMIT $8
) found;

-- name: sample_found
SELECT job_id, job_set, state FROM fairlead_lookout.found_jobs
WHERE queue = $1 AND ($2::text IS NULL OR job_set = $2) AND state = ANY ($3)
AND (cardinality($4::text[]) = 0 OR class = ANY ($4))
AND ($5::text IS NULL OR labels @> $5::jsonb)
AND ($6::text IS NULL OR executor = $6) AND ($7::text IS NULL OR node = $7)
ORDER BY number DESC LIMIT $8;

-- name: insert_action
-- Nothing is returned when there is an action of that id.
INSERT INTO fairlead_submit.actions
    (id, kind, queue, job_set, by_name, request, traceparent, digest, keeps_client_ids,
     memory_factor, total)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0)
ON CONFLICT (id) DO NOTHING RETURNING 1;

-- name: insert_found_items
-- What a filter finds now becomes the items of an action, oldest first, up to a bound. $10: only
-- those that failed, or were cancelled because another one did, and that no other job replaces.
INSERT INTO fairlead_submit.action_items (action, number, job_id, gang)
SELECT $9, row_number() OVER (ORDER BY number, job_id), job_id,
    job_set || E'\n' || gang
FROM (
    SELECT number, job_id, job_set, gang FROM fairlead_lookout.found_jobs
    WHERE queue = $1 AND ($2::text IS NULL OR job_set = $2) AND state = ANY ($3)
    AND (cardinality($4::text[]) = 0 OR class = ANY ($4))
    AND ($5::text IS NULL OR labels @> $5::jsonb)
    AND ($6::text IS NULL OR executor = $6) AND ($7::text IS NULL OR node = $7)
    AND (NOT $10::boolean OR superseded_by IS NULL AND (
        state <> 'CANCELLED'
        OR (starts_with(reason, 'job ') OR starts_with(reason, 'array '))
           AND reason LIKE '%, which it waits for, %'
    ))
    LIMIT $8
) found;

-- name: insert_named_items
-- The same for jobs by id.
INSERT INTO fairlead_submit.action_items (action, number, job_id, gang)
SELECT $1, row_number() OVER (ORDER BY number, job_id), job_id,
    job_set || E'\n' || gang
FROM unnest($2::text[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT job_id, job_set, number, gang FROM fairlead_lookout.found_jobs
    WHERE job_id = wanted.id OFFSET 0
) found;

-- name: set_total
UPDATE fairlead_submit.actions SET total = $2, ended = $2 = 0 WHERE id = $1;

-- name: find_action
SELECT * FROM fairlead_submit.actions WHERE id = $1;

-- name: lock_next_action
-- The oldest action that no process works on; its row is locked until the transaction ends.
SELECT * FROM fairlead_submit.actions WHERE NOT ended
ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: read_items
-- `chunk` is null for a job that lookout has deleted. Only jobs of this step are looked up: one by
-- one, whatever the statistics of these tables say, which may just have been filled. The lines of a
-- chunk are read once, and are in the first row of the chunk.
SELECT i.number, i.job_id, i.gang, f.chunk, f.chunk_line,
       CASE WHEN row_number() OVER (PARTITION BY f.chunk ORDER BY i.number) = 1 THEN (
           SELECT s.lines FROM fairlead_lookout.known_submissions s
           WHERE s.chunk = f.chunk AND s.week = f.week
       ) END AS lines
FROM (
    SELECT number, job_id, gang FROM fairlead_submit.action_items
    WHERE action = $1 AND number > $2 ORDER BY number LIMIT $3
) i
LEFT JOIN LATERAL (
    SELECT chunk, chunk_line, week FROM fairlead_lookout.found_jobs WHERE job_id = i.job_id LIMIT 1
) f ON true
ORDER BY i.number;

-- name: read_gang_sizes
-- `before`: the number of them in earlier steps.
SELECT gang, count(*)::int AS members, (count(*) FILTER (WHERE number <= $3))::int AS before
FROM fairlead_submit.action_items
WHERE action = $1 AND gang = ANY ($2) GROUP BY gang;

-- name: read_dependencies
-- Which of these jobs are items of the action, and what names the jobs in their places.
SELECT i.job_id, i.refused, f.client_id, f.annotations
FROM fairlead_submit.action_items i
LEFT JOIN LATERAL (
    SELECT client_id, annotations FROM fairlead_lookout.found_jobs WHERE job_id = i.job_id LIMIT 1
) f ON true
WHERE i.action = $1 AND i.job_id = ANY ($2);

-- name: refuse_items
UPDATE fairlead_submit.action_items SET refused = true WHERE action = $1 AND number = ANY ($2);

-- name: advance_action
UPDATE fairlead_submit.actions
SET done = $2, made = made + $3, positions = $4, refused = $5, ended = $2 >= total,
    changed_at = now()
WHERE id = $1;

-- name: delete_items
DELETE FROM fairlead_submit.action_items WHERE action = $1;

-- name: delete_expired_actions
DELETE FROM fairlead_submit.actions
WHERE ended AND changed_at < now() - make_interval(secs => $1);

-- name: read_configuration
-- All queues and cordons as they were put into the outbox.
SELECT value FROM fairlead_submit.queues UNION ALL SELECT value FROM fairlead_submit.cordons;

-- name: read_outbox_keys
SELECT DISTINCT key FROM fairlead_submit.outbox;

-- name: read_last_version
SELECT last_value FROM fairlead_submit.versions;

-- name: raise_versions
-- Versions to come are above $1.
SELECT setval('fairlead_submit.versions', greatest(last_value, $1)) FROM fairlead_submit.versions
WHERE $1 > 0;

-- name: restore_queue
INSERT INTO fairlead_submit.queues (name, version, value, deleted) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE
SET version = excluded.version, value = excluded.value, deleted = excluded.deleted,
    changed_at = now();

-- name: list_secrets
SELECT name, sealed::text AS sealed, changed_by, changed_at
FROM fairlead_submit.secrets WHERE queue = $1 ORDER BY name;

-- name: put_secret
-- Nothing is returned when the queue has as many as are allowed ($5).
INSERT INTO fairlead_submit.secrets AS s (queue, name, sealed, changed_by)
SELECT $1, $2, $3::text::jsonb, $4
WHERE (SELECT count(*) FROM fairlead_submit.secrets WHERE queue = $1 AND name <> $2) < $5
ON CONFLICT (queue, name) DO UPDATE
SET sealed = excluded.sealed, changed_by = excluded.changed_by, changed_at = now()
RETURNING 1;

-- name: delete_secret
DELETE FROM fairlead_submit.secrets WHERE queue = $1 AND name = $2 RETURNING 1;

-- name: delete_secrets
DELETE FROM fairlead_submit.secrets WHERE queue = $1;

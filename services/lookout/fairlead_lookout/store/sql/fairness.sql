-- Shares of queues over time, and resource-hours.

-- name: progress
SELECT partition, position FROM fairlead_lookout.standing_progress;

-- name: advance
-- Compare-and-set; no row means that another writer moved the position.
INSERT INTO fairlead_lookout.standing_progress (partition, position)
SELECT $1, $3
ON CONFLICT (partition) DO UPDATE SET position = excluded.position
WHERE standing_progress.position <= $2
RETURNING position;

-- name: current_shares
SELECT pool, queue, report, summed_ms FROM fairlead_lookout.standing_now;

-- name: add_shares
INSERT INTO fairlead_lookout.standing
    (width_ms, queue, start_ms, pool, ms, actual_share, fair_share, demand_share, queued, running)
SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::float8[],
                     $7::float8[], $8::float8[], $9::float8[], $10::float8[])
ON CONFLICT (width_ms, queue, start_ms, pool) DO UPDATE
SET ms = standing.ms + excluded.ms,
    actual_share = standing.actual_share + excluded.actual_share,
    fair_share = standing.fair_share + excluded.fair_share,
    demand_share = standing.demand_share + excluded.demand_share,
    queued = standing.queued + excluded.queued,
    running = standing.running + excluded.running;

-- name: set_current_shares
INSERT INTO fairlead_lookout.standing_now (pool, queue, report, summed_ms)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[])
ON CONFLICT (pool, queue) DO UPDATE SET report = excluded.report, summed_ms = excluded.summed_ms;

-- name: delete_current_shares
DELETE FROM fairlead_lookout.standing_now n
USING unnest($1::text[], $2::text[]) AS g (pool, queue)
WHERE n.pool = g.pool AND n.queue = g.queue;

-- name: add_rounds
INSERT INTO fairlead_lookout.rounds (pool, at_ms, report)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])
ON CONFLICT (pool, at_ms) DO NOTHING;

-- name: share_buckets
-- Of a queue, by time; $1: the width of the buckets.
SELECT queue, pool, start_ms, ms, actual_share, fair_share, demand_share, queued, running
FROM fairlead_lookout.standing
WHERE width_ms = $1 AND queue = $2 AND start_ms >= $3 AND start_ms < $4
ORDER BY start_ms, pool LIMIT $5;

-- name: share_buckets_of_pool
-- Of queues $3 of a pool $2, by time; $1: the width of the buckets.
SELECT queue, pool, start_ms, ms, actual_share, fair_share, demand_share, queued, running
FROM fairlead_lookout.standing
WHERE width_ms = $1 AND pool = $2 AND queue = ANY($3::text[]) AND start_ms >= $4 AND start_ms < $5
ORDER BY queue, start_ms LIMIT $6;

-- name: share_totals_of_pool
-- The same, added up.
SELECT queue, sum(ms)::bigint AS ms, sum(actual_share) AS actual_share,
       sum(fair_share) AS fair_share, sum(demand_share) AS demand_share, sum(queued) AS queued,
       sum(running) AS running
FROM fairlead_lookout.standing
WHERE width_ms = $1 AND pool = $2 AND queue = ANY($3::text[]) AND start_ms >= $4 AND start_ms < $5
GROUP BY queue;

-- name: current_shares_of_pool
SELECT report, summed_ms FROM fairlead_lookout.standing_now
WHERE pool = $1 AND queue = ANY($2::text[]);

-- name: current_shares_of_queue
SELECT pool, report, summed_ms FROM fairlead_lookout.standing_now WHERE queue = $1;

-- name: usage
SELECT pool, hour_ms, resource, used, lost
FROM fairlead_lookout.usage
WHERE queue = $1 AND hour_ms >= $2 AND hour_ms < $3
ORDER BY hour_ms, pool, resource LIMIT $4;

-- name: usage_of_pool
-- What queues $1 used of a pool $2 between two times.
SELECT queue, resource, sum(used) AS used, sum(lost) AS lost
FROM fairlead_lookout.usage
WHERE queue = ANY($1::text[]) AND pool = $2 AND hour_ms >= $3 AND hour_ms < $4
GROUP BY queue, resource;

-- name: user_usage
SELECT submitted_by, resource, sum(used) AS used, sum(lost) AS lost
FROM fairlead_lookout.user_usage
WHERE queue = $1 AND hour_ms >= $2 AND hour_ms < $3
GROUP BY submitted_by, resource;

-- name: job_sets_with_usage
-- The job sets of queues whose runs hold resources now, and up to when these were counted: at most
-- $2.
SELECT s.*
FROM unnest($1::text[]) AS w (queue)
CROSS JOIN LATERAL (
    SELECT number, queue, job_set, partition, jobs, live, first_ms, last_ms, position,
           last_position, last_item, failures, held, used, metered_ms, superseded
    FROM fairlead_lookout.job_sets
    WHERE queue = w.queue AND active AND held <> '{}' ORDER BY number DESC LIMIT $2
) s
LIMIT $2;

-- name: delete_shares
DELETE FROM fairlead_lookout.standing WHERE width_ms = $1 AND start_ms < $2;

-- name: delete_usage
DELETE FROM fairlead_lookout.usage WHERE hour_ms < $1;

-- name: delete_user_usage
DELETE FROM fairlead_lookout.user_usage WHERE hour_ms < $1;

-- name: delete_old_rounds
-- Of pools that no longer exist: existing pools have newer rounds.
DELETE FROM fairlead_lookout.rounds WHERE at_ms < $1;

-- name: delete_excess_rounds
-- All but the newest $1 rounds of each pool.
DELETE FROM fairlead_lookout.rounds r
USING (SELECT DISTINCT pool FROM fairlead_lookout.rounds) p
WHERE r.pool = p.pool AND r.at_ms < (
    SELECT coalesce(min(at_ms), 0) FROM (
        SELECT at_ms FROM fairlead_lookout.rounds n
        WHERE n.pool = p.pool ORDER BY at_ms DESC LIMIT $1) newest);

-- Webhooks, their deliveries, and from where these are made.

-- name: webhook
SELECT * FROM fairlead_webhooks.webhooks WHERE name = $1;

-- name: lock_webhook
SELECT * FROM fairlead_webhooks.webhooks WHERE name = $1 FOR UPDATE;

-- name: list_webhooks
-- Webhooks by name; with queues ($3 these, or all but $4) only webhooks of one of these queues.
SELECT * FROM fairlead_webhooks.webhooks
WHERE name > $1
  AND ($5::boolean OR (queue IS NOT NULL AND ($3::text[] IS NULL OR queue = ANY ($3))
                       AND queue <> ALL ($4::text[])))
ORDER BY name LIMIT $2;

-- name: all_webhooks
SELECT * FROM fairlead_webhooks.webhooks ORDER BY number;

-- name: lock_limits
-- Have no other transaction count webhooks until the end of this one.
SELECT pg_advisory_xact_lock($1, 0);

-- name: count_webhooks
-- Other webhooks than this one: all, and those of its queue.
SELECT count(*) AS everything, count(*) FILTER (WHERE queue = $2) AS of_queue
FROM fairlead_webhooks.webhooks WHERE name <> $1;

-- name: start_positions
-- Deliveries begin with the events to come, if no webhook needs earlier ones.
INSERT INTO fairlead_webhooks.positions (partition, position, item)
SELECT partition, position - 1, 2147483647 FROM fairlead_lookout.progress
WHERE NOT EXISTS (SELECT 1 FROM fairlead_webhooks.webhooks WHERE enabled)
ON CONFLICT (partition) DO UPDATE SET position = EXCLUDED.position, item = EXCLUDED.item;

-- name: insert_webhook
INSERT INTO fairlead_webhooks.webhooks
    (name, url, queue, filter, format, ordered, concurrency, headers, options, credentials, enabled,
     secrets, changed_ms, by, kind)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (name) DO NOTHING
RETURNING *;

-- name: update_webhook
-- If it is enabled again, it has missed what happened meanwhile, unless a backlog has the events.
UPDATE fairlead_webhooks.webhooks w
SET url = $2, queue = $3, filter = $4, format = $5, ordered = $6, concurrency = $7, headers = $8,
    options = $9, credentials = $10,
    disabled = CASE WHEN $11 OR enabled THEN NULL ELSE disabled END,
    failing_ms = CASE WHEN $11 AND NOT enabled THEN NULL ELSE failing_ms END,
    missed_from_ms = CASE
        WHEN enabled AND NOT $11 THEN coalesce(missed_from_ms, $14::bigint)
        WHEN $11 AND NOT enabled AND EXISTS (
            SELECT 1 FROM fairlead_webhooks.replays r
            WHERE r.webhook = w.number AND r.kind = 'BACKLOG' AND r.state = 'RUNNING'
        ) THEN NULL
        ELSE missed_from_ms
    END,
    missed_to_ms = CASE WHEN enabled AND $11 THEN missed_to_ms WHEN $11 THEN $12 END,
    enabled = $11, changed_ms = $12, by = $13, version = version + 1
WHERE name = $1
RETURNING *;

-- name: release_chains
-- A webhook that is not ordered any more sends what is pending in any order.
UPDATE fairlead_webhooks.deliveries SET chain = NULL
WHERE webhook = $1 AND state = 'PENDING' AND chain IS NOT NULL;

-- name: make_due
-- What waits for another attempt is sent at once: the webhook was corrected.
UPDATE fairlead_webhooks.deliveries SET due_ms = $2
WHERE webhook = $1 AND state = 'PENDING' AND due_ms > $2;

-- name: update_secrets
UPDATE fairlead_webhooks.webhooks
SET secrets = $2, changed_ms = $3, by = $4, version = version + 1
WHERE name = $1
RETURNING *;

-- name: delete_webhook
DELETE FROM fairlead_webhooks.webhooks WHERE number = $1;

-- name: write_health
UPDATE fairlead_webhooks.webhooks w
SET failing_ms = n.failing_ms, succeeded_ms = greatest(w.succeeded_ms, n.succeeded_ms)
FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS n (number, failing_ms, succeeded_ms)
WHERE w.number = n.number;

-- name: disable_webhook
UPDATE fairlead_webhooks.webhooks
SET enabled = false, disabled = $2, changed_ms = $3, version = version + 1,
    missed_from_ms = coalesce(missed_from_ms, $4), missed_to_ms = NULL
WHERE number = $1 AND enabled;

-- name: forget_replayed
-- What a webhook missed within a time that is replayed.
UPDATE fairlead_webhooks.webhooks SET missed_from_ms = NULL, missed_to_ms = NULL
WHERE number = $1 AND missed_from_ms >= $2 AND missed_to_ms <= $3;

-- name: forget_old_missed
UPDATE fairlead_webhooks.webhooks SET missed_from_ms = NULL, missed_to_ms = NULL
WHERE missed_to_ms < $1;

-- name: insert_test
INSERT INTO fairlead_webhooks.deliveries
    (day, webhook, message_id, type, event_ms, created_ms, state, due_ms, body, content_type)
VALUES ($1, $2, $3, $4, $5, $5, 'PENDING', 0, $6, $7)
RETURNING id;

-- name: delivery
SELECT * FROM fairlead_webhooks.deliveries WHERE webhook = $1 AND id = $2;

-- name: list_deliveries
-- The newest first, before an id; of one state, if $3 is given.
SELECT * FROM fairlead_webhooks.deliveries
WHERE webhook = $1 AND id < $2 AND ($3::text IS NULL OR state = $3)
ORDER BY id DESC LIMIT $4;

-- name: count_pending
-- How many deliveries wait, up to a bound.
SELECT number, (
    SELECT count(*) FROM (
        SELECT 1 FROM fairlead_webhooks.deliveries
        WHERE webhook = number AND state = 'PENDING' LIMIT $2
    ) counted
) AS pending
FROM unnest($1::int[]) AS wanted (number);

-- name: replay_delivery
-- Not what is being sent: that is due, as long as its result is not written.
UPDATE fairlead_webhooks.deliveries
SET state = 'PENDING', attempts = 0, due_ms = CASE WHEN type = 'test' THEN 0 ELSE $3::bigint END
WHERE webhook = $1 AND id = $2 AND (state <> 'PENDING' OR due_ms > $3)
RETURNING *;

-- name: replay_failed
-- Failed deliveries of events of a time become pending again, and those that wait for another attempt
-- due: at most $5 of each, the oldest first.
UPDATE fairlead_webhooks.deliveries d
SET state = 'PENDING', attempts = 0, due_ms = $4
FROM (
    (SELECT id, day FROM fairlead_webhooks.deliveries
     WHERE webhook = $1 AND state = 'FAILED' AND type <> 'test'
       AND event_ms >= $2 AND event_ms < $3
     ORDER BY id LIMIT $5)
    UNION ALL
    (SELECT id, day FROM fairlead_webhooks.deliveries
     WHERE webhook = $1 AND state = 'PENDING' AND due_ms > $4
       AND event_ms >= $2 AND event_ms < $3
     ORDER BY due_ms, id LIMIT $5)
) failed
WHERE d.id = failed.id AND d.day = failed.day;

-- name: insert_replay
INSERT INTO fairlead_webhooks.replays
    (webhook, kind, state, places, until, from_ms, to_ms, created_ms, changed_ms, by)
VALUES ($1, $2, 'RUNNING', $3, $4, $5, $6, $7, $7, $8)
ON CONFLICT (webhook, kind) WHERE state = 'RUNNING' DO NOTHING
RETURNING *;

-- name: list_replays
SELECT * FROM fairlead_webhooks.replays WHERE webhook = $1 ORDER BY number DESC LIMIT $2;

-- name: running_replays
SELECT * FROM fairlead_webhooks.replays WHERE state = 'RUNNING' ORDER BY number;

-- name: advance_replay
UPDATE fairlead_webhooks.replays
SET places = $2, state = $3, made = made + $4, changed_ms = $5
WHERE number = $1;

-- name: delete_old_replays
DELETE FROM fairlead_webhooks.replays WHERE state = 'DONE' AND changed_ms < $1;

-- name: read_log
SELECT log FROM fairlead_lookout.source;

-- name: read_source
SELECT log FROM fairlead_webhooks.source;

-- name: write_source
INSERT INTO fairlead_webhooks.source (log) VALUES ($1)
ON CONFLICT (one) DO UPDATE SET log = EXCLUDED.log;

-- name: read_progress
SELECT partition, position FROM fairlead_lookout.progress;

-- name: read_positions
SELECT partition, position, item FROM fairlead_webhooks.positions;

-- name: lock_positions
SELECT partition, position, item FROM fairlead_webhooks.positions ORDER BY partition FOR UPDATE;

-- name: write_positions
INSERT INTO fairlead_webhooks.positions (partition, position, item)
SELECT * FROM unnest($1::int[], $2::bigint[], $3::int[])
ON CONFLICT (partition) DO UPDATE SET position = EXCLUDED.position, item = EXCLUDED.item;

-- name: next_chunks
-- Chunks of public events after a place of each partition and before a position: at most $5 and
-- about $6 bytes of each partition, of the days $8 to $9; without lines if their queue is not in $7.
SELECT found.*
FROM unnest($1::int[], $2::bigint[], $3::int[], $4::bigint[])
    AS w (partition, position, item, until)
CROSS JOIN LATERAL (
    SELECT partition, last_position, last_item, queue,
           CASE WHEN $7::text[] IS NULL OR queue = ANY ($7) THEN lines END AS lines
    FROM (
        SELECT partition, last_position, last_item, queue, lines,
               sum(octet_length(lines)) OVER (ORDER BY last_position, last_item)
                   - octet_length(lines) AS bytes_before
        FROM (
            SELECT e.partition, e.last_position, e.last_item, e.queue, e.lines
            FROM fairlead_lookout.events e
            WHERE e.partition = w.partition AND (e.last_position, e.last_item) > (w.position, w.item)
              AND e.last_position < w.until AND e.day BETWEEN $8 AND $9
            ORDER BY e.last_position, e.last_item LIMIT $5
        ) later
    ) summed
    WHERE bytes_before < $6
) found
ORDER BY partition, last_position, last_item;

-- name: fetch_due
-- Deliveries that are due ($3), the longest due first: at most $2 of each webhook.
SELECT found.*, h.version
FROM unnest($1::int[], $2::int[], $3::bigint[]) AS w (number, wanted, due_ms)
JOIN fairlead_webhooks.webhooks h ON h.number = w.number
CROSS JOIN LATERAL (
    SELECT id, day, webhook, message_id, type, chain, created_ms, attempts, body, content_type
    FROM fairlead_webhooks.deliveries d
    WHERE d.webhook = w.number AND d.state = 'PENDING' AND d.due_ms <= w.due_ms
      AND d.chain IS NULL
    ORDER BY d.due_ms, d.id LIMIT w.wanted
) found;

-- name: fetch_due_in_order
-- The first delivery of each chain, if it is due ($3): at most $2 of each webhook.
SELECT found.*, h.version
FROM unnest($1::int[], $2::int[], $3::bigint[]) AS w (number, wanted, due_ms)
JOIN fairlead_webhooks.webhooks h ON h.number = w.number
CROSS JOIN LATERAL (
    SELECT id, day, webhook, message_id, type, chain, created_ms, attempts, body, content_type
    FROM (
        SELECT DISTINCT ON (chain) *
        FROM fairlead_webhooks.deliveries
        WHERE webhook = w.number AND state = 'PENDING' AND chain IS NOT NULL
        ORDER BY chain, id
    ) heads
    WHERE due_ms <= w.due_ms
    ORDER BY due_ms, id LIMIT w.wanted
) found;

-- name: write_results
UPDATE fairlead_webhooks.deliveries d
SET state = n.state, attempts = n.attempts, due_ms = n.due_ms, attempted_ms = n.attempted_ms,
    duration_ms = n.duration_ms, status = n.status, error = n.error
FROM unnest($1::bigint[], $2::date[], $3::text[], $4::int[], $5::bigint[], $6::bigint[], $7::int[],
            $8::int[], $9::text[])
    AS n (id, day, state, attempts, due_ms, attempted_ms, duration_ms, status, error)
WHERE d.id = n.id AND d.day = n.day AND d.state = 'PENDING';

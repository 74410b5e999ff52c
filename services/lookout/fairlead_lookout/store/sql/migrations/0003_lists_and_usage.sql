-- Lists that are bounded for every filter, counters by queue, resource-hours, shares over time.

-- Counters by queue: what a group-by on queues reads, and which lists have anything in them.
-- Several processes add to one row; each batch does so last and in order of the keys.
CREATE TABLE fairlead_lookout.queue_counts (
    queue text COLLATE "C" NOT NULL,
    class text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    jobs bigint NOT NULL,
    PRIMARY KEY (queue, class, state)
) WITH (fillfactor = 50);
INSERT INTO fairlead_lookout.queue_counts (queue, class, state, jobs)
SELECT s.queue, c.class, c.state, sum(c.jobs)
FROM fairlead_lookout.counters c JOIN fairlead_lookout.job_sets s ON s.number = c.set_number
GROUP BY s.queue, c.class, c.state;

CREATE OR REPLACE VIEW fairlead_lookout.live_jobs AS
    SELECT queue, sum(jobs)::bigint AS jobs
    FROM fairlead_lookout.queue_counts
    WHERE state IN ('QUEUED', 'LEASED', 'PENDING', 'RUNNING')
    GROUP BY queue;

-- A page is read from the newest job of each state that has any, so that a rare state costs no
-- more than a common one (docs/decisions/0017). No other column that changes is in an index.
DROP INDEX fairlead_lookout.jobs_of_set;
DROP INDEX fairlead_lookout.jobs_of_queue;
DROP INDEX fairlead_lookout.jobs_failed;
CREATE INDEX jobs_of_set ON fairlead_lookout.jobs (set_number, state, number, id);
CREATE INDEX jobs_of_queue ON fairlead_lookout.jobs (queue, state, number, id);

CREATE INDEX job_sets_of_queue ON fairlead_lookout.job_sets (queue, number);

-- What runs where: only runs that have not ended.
ALTER TABLE fairlead_lookout.runs ADD COLUMN shape text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX runs_live ON fairlead_lookout.runs (executor, node, job_id) WHERE ended_ms IS NULL;

ALTER TABLE fairlead_lookout.job_specs ADD COLUMN annotations jsonb;
UPDATE fairlead_lookout.job_specs
SET annotations = convert_from(submitted, 'UTF8')::jsonb -> 'annotations'
WHERE position('"annotations"'::bytea IN submitted) > 0;

-- What jobs of a shape ask for (JSON: resource -> amount in its fixed unit).
CREATE TABLE fairlead_lookout.shapes (
    key text COLLATE "C" PRIMARY KEY,
    requests text NOT NULL
);
INSERT INTO fairlead_lookout.shapes (key, requests)
SELECT DISTINCT ON (j.shape) j.shape,
       convert_from(s.submitted, 'UTF8')::jsonb -> 'shape' ->> 'requests'
FROM fairlead_lookout.jobs j JOIN fairlead_lookout.job_specs s ON s.job_id = j.id
ORDER BY j.shape, j.number;

-- Of a job set, JSON: failed jobs by category; what its runs hold now (pool -> resource ->
-- amount); what they have used up to `metered_ms` (resource -> amount x ms).
ALTER TABLE fairlead_lookout.job_sets
    ADD COLUMN failures text NOT NULL DEFAULT '{}',
    ADD COLUMN held text NOT NULL DEFAULT '{}',
    ADD COLUMN used text NOT NULL DEFAULT '{}',
    ADD COLUMN metered_ms bigint NOT NULL DEFAULT 0;

-- What the runs of a queue used in an hour (amount x ms), and what of that was lost because they
-- were preempted (told in the hour in which they ended).
CREATE TABLE fairlead_lookout.usage (
    queue text COLLATE "C" NOT NULL,
    pool text COLLATE "C" NOT NULL,
    hour_ms bigint NOT NULL,
    resource text COLLATE "C" NOT NULL,
    used double precision NOT NULL,
    lost double precision NOT NULL,
    PRIMARY KEY (queue, hour_ms, pool, resource)
) WITH (fillfactor = 50);

-- Shares over time: sums weighted with ms, by minute and by hour; divided by `ms` they are means.
CREATE TABLE fairlead_lookout.standing (
    pool text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    width_ms int NOT NULL,
    start_ms bigint NOT NULL,
    ms bigint NOT NULL,
    actual_share double precision NOT NULL,
    fair_share double precision NOT NULL,
    demand_share double precision NOT NULL,
    queued double precision NOT NULL,
    running double precision NOT NULL,
    PRIMARY KEY (width_ms, queue, start_ms, pool)
) WITH (fillfactor = 50);
-- What was last said of a queue in a pool (JSON), and up to when that is in the sums.
CREATE TABLE fairlead_lookout.standing_now (
    pool text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    report bytea NOT NULL,
    summed_ms bigint NOT NULL,
    PRIMARY KEY (pool, queue)
);
CREATE TABLE fairlead_lookout.standing_progress (
    partition int PRIMARY KEY,
    position bigint NOT NULL
);

-- Events of whole queues are read by partition, in the order in which batches wrote them.
ALTER TABLE fairlead_lookout.events
    ADD COLUMN partition int NOT NULL DEFAULT -1,
    ADD COLUMN queue text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN time_ms bigint NOT NULL DEFAULT 0;
UPDATE fairlead_lookout.events e
SET partition = s.partition, queue = s.queue, time_ms = extract(epoch FROM e.day)::bigint * 1000
FROM fairlead_lookout.job_sets s WHERE s.number = e.set_number;
CREATE INDEX events_of_queue ON fairlead_lookout.events
    (queue, partition, last_position, set_number, last_item);

-- A name of these tables, which a view that is built anew has not.
ALTER TABLE fairlead_lookout.source
    ADD COLUMN view text NOT NULL DEFAULT substr(md5(random()::text), 1, 8);

-- The last rounds of each pool (JSON).
CREATE TABLE fairlead_lookout.rounds (
    pool text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    report bytea NOT NULL,
    PRIMARY KEY (pool, at_ms)
);

-- As `events_dropped`, of the events of one queue.
CREATE TABLE fairlead_lookout.queue_events_dropped (
    queue text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (queue, partition)
);

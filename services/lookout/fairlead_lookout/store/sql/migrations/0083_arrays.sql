-- Arrays: equal jobs that were submitted by one event (`submitted`, JSON). `waiting`: tasks that are
-- no jobs yet; `cancelled`: tasks that were cancelled before they were, with their indexes.
CREATE TABLE fairlead_lookout.arrays (
    id text COLLATE "C" PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    job_set text COLLATE "C" NOT NULL,
    class text COLLATE "C" NOT NULL,
    client_id text COLLATE "C",
    digest text COLLATE "C" NOT NULL,
    tasks int NOT NULL,
    waiting int NOT NULL,
    cancelled int NOT NULL DEFAULT 0,
    cancelled_indexes text,
    cancel_reason text,
    cancelled_by text,
    submitted text NOT NULL,
    submitted_ms bigint NOT NULL,
    submitted_by text NOT NULL,
    ended_ms bigint
) WITH (fillfactor = 70);
CREATE INDEX arrays_by_time ON fairlead_lookout.arrays (submitted_ms, id);
CREATE INDEX arrays_of_queue ON fairlead_lookout.arrays (queue, job_set, submitted_ms, id);

-- All tasks of an array by state; the waiting ones are QUEUED.
CREATE TABLE fairlead_lookout.array_counts (
    array_id text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    tasks int NOT NULL,
    PRIMARY KEY (array_id, state)
) WITH (fillfactor = 70);

-- Whether an array counts the job as one of its tasks.
ALTER TABLE fairlead_lookout.jobs ADD COLUMN is_task boolean NOT NULL DEFAULT false;

-- For submit: arrays, as far as they are folded.
CREATE VIEW fairlead_lookout.known_arrays AS
    SELECT id AS array_id, queue, job_set, digest, submitted, ended_ms IS NOT NULL AS ended
    FROM fairlead_lookout.arrays;

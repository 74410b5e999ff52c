-- The view of lookout: a fold of the topic fairlead.jobs, written by the process that holds the
-- partition's lock. Times are the log's append times in ms (UTC).

-- Which log this view is a fold of; another one is refused.
CREATE TABLE fairlead_lookout.source (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    log text NOT NULL
);

-- The position to read next of each partition, moved by compare-and-set with every batch.
CREATE TABLE fairlead_lookout.progress (
    partition int PRIMARY KEY,
    position bigint NOT NULL,
    time_ms bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE fairlead_lookout.job_sets (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    job_set text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    jobs int NOT NULL DEFAULT 0,
    live int NOT NULL DEFAULT 0,
    active boolean NOT NULL DEFAULT false,
    first_ms bigint NOT NULL DEFAULT 0,
    last_ms bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL DEFAULT -1,
    last_position bigint NOT NULL DEFAULT -1,
    last_item int NOT NULL DEFAULT 0,
    UNIQUE (queue, job_set)
) WITH (fillfactor = 70);
CREATE INDEX job_sets_active ON fairlead_lookout.job_sets (number) WHERE active;

CREATE TABLE fairlead_lookout.counters (
    set_number int NOT NULL,
    class text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    jobs int NOT NULL,
    PRIMARY KEY (set_number, class, state)
) WITH (fillfactor = 50);

-- One narrow row per job. No index on anything that changes: updates stay within their page.
CREATE TABLE fairlead_lookout.jobs (
    id text COLLATE "C" PRIMARY KEY,
    set_number int NOT NULL,
    queue text COLLATE "C" NOT NULL,
    class text COLLATE "C" NOT NULL,
    pool text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    submitted_ms bigint NOT NULL,
    start_after_ms bigint,
    after text[],
    shape text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    stopping text COLLATE "C",
    held boolean NOT NULL,
    priority int NOT NULL,
    run int NOT NULL,
    changed_ms bigint NOT NULL,
    started_ms bigint,
    ended_ms bigint,
    category text COLLATE "C",
    exit_code int,
    reason text
) WITH (fillfactor = 70);
CREATE INDEX jobs_of_set ON fairlead_lookout.jobs (set_number, number, id);
CREATE INDEX jobs_of_queue ON fairlead_lookout.jobs (queue, number, id);
-- What failed is rare and looked for: only a job that fails ever gets a category.
CREATE INDEX jobs_failed ON fairlead_lookout.jobs (queue, number, id) WHERE category IS NOT NULL;

-- What a job's row does not need: the event that submitted it (JSON), its labels and digest.
CREATE TABLE fairlead_lookout.job_specs (
    job_id text COLLATE "C" PRIMARY KEY,
    digest text NOT NULL,
    client_id text COLLATE "C",
    labels jsonb,
    submitted bytea NOT NULL
);
ALTER TABLE fairlead_lookout.job_specs ALTER COLUMN submitted SET STORAGE MAIN;

CREATE TABLE fairlead_lookout.runs (
    job_id text COLLATE "C" NOT NULL,
    number int NOT NULL,
    state text COLLATE "C" NOT NULL,
    executor text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    pool text COLLATE "C" NOT NULL,
    leased_ms bigint NOT NULL,
    pending_ms bigint,
    running_ms bigint,
    ended_ms bigint,
    exit_code int,
    category text COLLATE "C",
    reason text,
    cause text COLLATE "C",
    PRIMARY KEY (job_id, number)
) WITH (fillfactor = 70);

-- The public events of a job set: NDJSON lines of one batch in one row, deflated when that helps,
-- under the id of the last of them. Days are dropped whole.
CREATE TABLE fairlead_lookout.events (
    set_number int NOT NULL,
    last_position bigint NOT NULL,
    last_item int NOT NULL,
    first_position bigint NOT NULL,
    first_item int NOT NULL,
    day date NOT NULL,
    lines bytea NOT NULL,
    PRIMARY KEY (set_number, last_position, last_item, day)
) PARTITION BY RANGE (day);
ALTER TABLE fairlead_lookout.events ALTER COLUMN lines SET STORAGE EXTERNAL;

-- Events up to this position of a partition may be gone, because their day was dropped.
CREATE TABLE fairlead_lookout.events_dropped (
    partition int PRIMARY KEY,
    position bigint NOT NULL
);

-- For submit: what is known of jobs.
CREATE VIEW fairlead_lookout.known_jobs AS
    SELECT j.id AS job_id, s.digest, j.state
    FROM fairlead_lookout.jobs j JOIN fairlead_lookout.job_specs s ON s.job_id = j.id;

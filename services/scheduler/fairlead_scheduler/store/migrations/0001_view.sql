-- The scheduler's checkpoint: live jobs, their specs, what is known of ended ones, log positions.

CREATE TABLE fairlead_scheduler.view (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    log_id text NOT NULL,
    -- position to read next of each partition of fairlead.jobs, in order
    positions bigint[] NOT NULL
);

CREATE TABLE fairlead_scheduler.shapes (
    key text PRIMARY KEY,
    shape bytea NOT NULL,
    priority_class text NOT NULL
);

CREATE TABLE fairlead_scheduler.jobs (
    job_id text PRIMARY KEY,
    digest text NOT NULL,
    state smallint NOT NULL,
    run_state smallint NOT NULL,
    flags smallint NOT NULL,
    pool text NOT NULL,
    queue text NOT NULL,
    job_set text NOT NULL,
    shape text NOT NULL,
    executor text,
    node text,
    run int NOT NULL,
    retries int NOT NULL,
    grace_s int NOT NULL,
    priority bigint NOT NULL,
    number bigint NOT NULL,
    submitted_ms bigint NOT NULL,
    leased_ms bigint NOT NULL,
    value bigint NOT NULL,
    start_after_ms bigint NOT NULL,
    queue_until_ms bigint NOT NULL,
    runtime_ms_max bigint NOT NULL,
    checkpoint_ms bigint NOT NULL,
    rare bytea
) WITH (fillfactor = 70);

CREATE TABLE fairlead_scheduler.job_specs (
    job_id text PRIMARY KEY,
    spec bytea NOT NULL
);
ALTER TABLE fairlead_scheduler.job_specs ALTER COLUMN spec SET STORAGE EXTERNAL;

CREATE TABLE fairlead_scheduler.ended (
    job_id text NOT NULL,
    state text NOT NULL,
    digest text NOT NULL,
    at_ms bigint NOT NULL
) PARTITION BY RANGE (at_ms);
CREATE INDEX ON fairlead_scheduler.ended (job_id);

CREATE TABLE fairlead_scheduler.nodes (
    executor text NOT NULL,
    name text NOT NULL,
    number bigint NOT NULL UNIQUE,
    PRIMARY KEY (executor, name)
);

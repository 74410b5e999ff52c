-- Jobs as records of one length, which load as columns (state/checkpoint/checkpoint_rows.py, format 1). What is saved so
-- far is converted.

CREATE TABLE fairlead_scheduler.names (
    -- 'pool' (name), 'job_set' (queue, name), 'shape' (canonical JSON, priority class) or
    -- 'node' (executor, name)
    kind text NOT NULL,
    -- what records of jobs hold instead
    number int NOT NULL,
    parts text[] NOT NULL,
    PRIMARY KEY (kind, number)
);

INSERT INTO fairlead_scheduler.names (kind, number, parts)
SELECT kind, row_number() OVER (PARTITION BY kind) - 1, parts
FROM (
    SELECT DISTINCT 'pool' AS kind, ARRAY[pool] AS parts FROM fairlead_scheduler.jobs
    UNION ALL
    SELECT DISTINCT 'job_set', ARRAY[queue, job_set] FROM fairlead_scheduler.jobs
    UNION ALL
    SELECT 'shape', ARRAY[convert_from(shape, 'UTF8'), priority_class]
    FROM fairlead_scheduler.shapes
    UNION ALL
    SELECT DISTINCT 'node', ARRAY[executor, node] FROM fairlead_scheduler.jobs
    WHERE executor IS NOT NULL
) AS found;

ANALYZE fairlead_scheduler.names;
-- the planner expects few rows of these joins, and would look through all names for each job
SET LOCAL enable_nestloop = off;

CREATE TABLE fairlead_scheduler.records WITH (fillfactor = 45) AS
SELECT
    jobs.job_id,
    int2send(state) || int2send(run_state) || int2send(flags)
    || int4send(pools.number) || int4send(job_sets.number) || int4send(shape_names.number)
    || int4send(coalesce(nodes.number, -1))
    || int4send(run) || int4send(retries) || int4send(grace_s)
    || int8send(priority) || int8send(jobs.number) || int8send(submitted_ms)
    || int8send(leased_ms) || int8send(running_ms) || int8send(value)
    || int8send(start_after_ms) || int8send(queue_until_ms)
    || int8send(runtime_ms_max) || int8send(checkpoint_ms)
    || substring(convert_to(digest, 'UTF8') || decode(repeat('00', 32), 'hex') FROM 1 FOR 32)
    AS record,
    rare
FROM fairlead_scheduler.jobs
JOIN fairlead_scheduler.names AS pools
    ON pools.kind = 'pool' AND pools.parts = ARRAY[jobs.pool]
JOIN fairlead_scheduler.names AS job_sets
    ON job_sets.kind = 'job_set' AND job_sets.parts = ARRAY[jobs.queue, jobs.job_set]
JOIN fairlead_scheduler.shapes ON shapes.key = jobs.shape
JOIN fairlead_scheduler.names AS shape_names
    ON shape_names.kind = 'shape'
    AND shape_names.parts = ARRAY[convert_from(shapes.shape, 'UTF8'), shapes.priority_class]
LEFT JOIN fairlead_scheduler.names AS nodes
    ON nodes.kind = 'node' AND nodes.parts = ARRAY[jobs.executor, jobs.node];

DROP TABLE fairlead_scheduler.jobs;
DROP TABLE fairlead_scheduler.shapes;
ALTER TABLE fairlead_scheduler.records RENAME TO jobs;
ALTER TABLE fairlead_scheduler.jobs ADD PRIMARY KEY (job_id);
ALTER TABLE fairlead_scheduler.jobs ALTER COLUMN record SET NOT NULL;

-- the number of the layout of records
ALTER TABLE fairlead_scheduler.view ADD COLUMN format smallint NOT NULL DEFAULT 1;

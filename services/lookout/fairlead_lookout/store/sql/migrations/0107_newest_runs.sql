-- The newest run of a job and its labels are in the row of the job, so lists, filters and groups by
-- cluster, node and label read no other table (docs/decisions/0117). Runs before the newest one have
-- rows in `older_runs`.

ALTER TABLE fairlead_lookout.jobs
    ADD COLUMN labels jsonb,
    ADD COLUMN run_state text COLLATE "C",
    ADD COLUMN run_executor text COLLATE "C",
    ADD COLUMN run_node text COLLATE "C",
    ADD COLUMN run_pool text COLLATE "C",
    ADD COLUMN run_leased_ms bigint,
    ADD COLUMN run_pending_ms bigint,
    ADD COLUMN run_running_ms bigint,
    ADD COLUMN run_ended_ms bigint,
    ADD COLUMN run_exit_code int,
    ADD COLUMN run_category text COLLATE "C",
    ADD COLUMN run_reason text,
    ADD COLUMN run_cause text COLLATE "C",
    ADD COLUMN run_shape text COLLATE "C";
DROP INDEX fairlead_lookout.jobs_of_set;
DROP INDEX fairlead_lookout.jobs_of_queue;

CREATE TABLE fairlead_lookout.older_runs (
    LIKE fairlead_lookout.runs INCLUDING DEFAULTS INCLUDING STORAGE
) PARTITION BY LIST (week);

-- As in migration 0096, with older runs in place of runs.
CREATE OR REPLACE FUNCTION fairlead_lookout.create_week(wanted int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('fairlead_lookout.jobs_%s', wanted)) IS NULL THEN
        EXECUTE format($ddl$
            CREATE TABLE fairlead_lookout.jobs_%1$s (
                LIKE fairlead_lookout.jobs INCLUDING ALL, PRIMARY KEY (id)
            ) WITH (fillfactor = 45);
            CREATE TABLE fairlead_lookout.job_specs_%1$s (
                LIKE fairlead_lookout.job_specs INCLUDING ALL,
                PRIMARY KEY (job_id) INCLUDE (digest, week)
            ) WITH (autovacuum_vacuum_insert_scale_factor = 0.02);
            ALTER TABLE fairlead_lookout.jobs
                ATTACH PARTITION fairlead_lookout.jobs_%1$s FOR VALUES IN (%1$s);
            ALTER TABLE fairlead_lookout.job_specs
                ATTACH PARTITION fairlead_lookout.job_specs_%1$s FOR VALUES IN (%1$s);
        $ddl$, wanted);
    END IF;
    IF to_regclass(format('fairlead_lookout.older_runs_%s', wanted)) IS NULL THEN
        EXECUTE format($ddl$
            CREATE TABLE fairlead_lookout.older_runs_%1$s (
                LIKE fairlead_lookout.older_runs INCLUDING ALL, PRIMARY KEY (job_id, number)
            );
            ALTER TABLE fairlead_lookout.older_runs
                ATTACH PARTITION fairlead_lookout.older_runs_%1$s FOR VALUES IN (%1$s);
        $ddl$, wanted);
    END IF;
END $$;

-- The jobs of each week, which takes about a minute for a million jobs. Most rows find a place on their
-- own page.
DO $$
DECLARE
    wanted int;
BEGIN
    FOR wanted IN SELECT substr(c.relname, length('runs_') + 1)::int
                  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                  WHERE i.inhparent = 'fairlead_lookout.runs'::regclass
    LOOP
        PERFORM fairlead_lookout.create_week(wanted);
        EXECUTE format($dml$
            UPDATE fairlead_lookout.jobs_%1$s j
            SET labels = n.labels, run_state = n.state, run_executor = n.executor,
                run_node = n.node, run_pool = n.pool, run_leased_ms = n.leased_ms,
                run_pending_ms = n.pending_ms, run_running_ms = n.running_ms,
                run_ended_ms = n.ended_ms, run_exit_code = n.exit_code,
                run_category = n.category, run_reason = n.reason, run_cause = n.cause,
                run_shape = n.shape
            FROM (
                SELECT k.id, s.labels, r.*
                FROM fairlead_lookout.jobs_%1$s k
                LEFT JOIN fairlead_lookout.job_specs_%1$s s ON s.job_id = k.id
                LEFT JOIN fairlead_lookout.runs_%1$s r ON r.job_id = k.id AND r.number = k.run
            ) n
            WHERE j.id = n.id AND (n.labels IS NOT NULL OR n.state IS NOT NULL);
            INSERT INTO fairlead_lookout.older_runs
            SELECT r.* FROM fairlead_lookout.runs r
            JOIN fairlead_lookout.jobs_%1$s j ON j.id = r.job_id
            WHERE r.week = %1$s AND r.number <> j.run;
        $dml$, wanted);
    END LOOP;
END $$;

CREATE INDEX jobs_of_set ON fairlead_lookout.jobs
    (set_number, state, number, id) INCLUDE (week);
CREATE INDEX jobs_of_queue ON fairlead_lookout.jobs
    (queue, state, number, id) INCLUDE (week);
-- What runs where. The end of a run is in no index, so it changes none.
CREATE INDEX jobs_with_run ON fairlead_lookout.jobs (run_executor, run_node, id)
    WHERE state IN ('LEASED', 'PENDING', 'RUNNING');

-- All runs of jobs.
CREATE VIEW fairlead_lookout.runs_of_jobs AS
    SELECT id AS job_id, run AS number, run_state AS state, run_executor AS executor,
           run_node AS node, run_pool AS pool, run_leased_ms AS leased_ms,
           run_pending_ms AS pending_ms, run_running_ms AS running_ms, run_ended_ms AS ended_ms,
           run_exit_code AS exit_code, run_category AS category, run_reason AS reason,
           run_cause AS cause, run_shape AS shape, week
    FROM fairlead_lookout.jobs WHERE run_state IS NOT NULL
    UNION ALL
    SELECT job_id, number, state, executor, node, pool, leased_ms, pending_ms, running_ms,
           ended_ms, exit_code, category, reason, cause, shape, week
    FROM fairlead_lookout.older_runs;

-- The same view, which reads runs and labels where they are now.
CREATE OR REPLACE VIEW fairlead_lookout.found_jobs AS
    SELECT j.id AS job_id, j.queue, t.job_set, j.class, j.state, j.number,
           (SELECT s.client_id FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS client_id,
           j.labels, j.run_executor AS executor, j.run_node AS node,
           (SELECT s.submitted FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS submitted,
           j.superseded_by, j.reason,
           (SELECT s.annotations FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS annotations
    FROM fairlead_lookout.jobs j
    LEFT JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;
DROP TABLE fairlead_lookout.runs;
ALTER TABLE fairlead_lookout.job_specs DROP COLUMN labels;

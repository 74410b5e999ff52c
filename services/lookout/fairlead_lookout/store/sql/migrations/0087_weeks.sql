-- Jobs, their submissions and their runs are kept in a table per week, which is dropped as a whole
-- (docs/decisions/0080). The three rows of a job have the same week: the one in which it was
-- submitted or, if it had not ended when that week expired, the one in which it ended. Weeks are
-- counted from the epoch. A job is in one week only, because the fold looks its id up in all weeks
-- before it inserts it.

-- The tables of before become those of the week of this migration. That reads each of them, and two
-- indexes are built again: an estimated three minutes for 20 million jobs.
DO $$
DECLARE
    this_week int := floor(extract(epoch FROM now()) / 604800);
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['jobs', 'job_specs', 'runs'] LOOP
        EXECUTE format($ddl$
            ALTER TABLE fairlead_lookout.%1$I ADD COLUMN week int NOT NULL DEFAULT %2$s;
            ALTER TABLE fairlead_lookout.%1$I ALTER COLUMN week DROP DEFAULT;
            ALTER TABLE fairlead_lookout.%1$I RENAME TO %3$I;
            CREATE TABLE fairlead_lookout.%1$I (
                LIKE fairlead_lookout.%3$I INCLUDING DEFAULTS INCLUDING STORAGE
            ) PARTITION BY LIST (week);
            ALTER TABLE fairlead_lookout.%1$I
                ATTACH PARTITION fairlead_lookout.%3$I FOR VALUES IN (%2$s);
        $ddl$, name, this_week, name || '_' || this_week);
    END LOOP;
END $$;
DROP INDEX fairlead_lookout.jobs_of_set;
DROP INDEX fairlead_lookout.jobs_of_queue;
DROP INDEX fairlead_lookout.runs_live;

-- These indexes are made on the table of every week. Those of lists say in which week the other rows
-- of a job are. Keys are not here, because those of a partitioned table would contain the week, which
-- makes them larger.
CREATE INDEX jobs_of_set ON fairlead_lookout.jobs
    (set_number, state, number, id) INCLUDE (week);
CREATE INDEX jobs_of_queue ON fairlead_lookout.jobs
    (queue, state, number, id) INCLUDE (week);
CREATE INDEX runs_live ON fairlead_lookout.runs (executor, node, job_id) WHERE ended_ms IS NULL;

-- Creates the tables of a week. They are attached, because that does not wait for readers of other
-- weeks. The settings of storage are those that migrations 0005 and 0006 explain.
CREATE FUNCTION fairlead_lookout.create_week(wanted int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('fairlead_lookout.jobs_%s', wanted)) IS NULL THEN
        EXECUTE format($ddl$
            CREATE TABLE fairlead_lookout.jobs_%1$s (
                LIKE fairlead_lookout.jobs INCLUDING ALL, PRIMARY KEY (id)
            ) WITH (fillfactor = 45);
            CREATE TABLE fairlead_lookout.job_specs_%1$s (
                LIKE fairlead_lookout.job_specs INCLUDING ALL,
                PRIMARY KEY (job_id) INCLUDE (digest)
            ) WITH (autovacuum_vacuum_insert_scale_factor = 0.02);
            CREATE TABLE fairlead_lookout.runs_%1$s (
                LIKE fairlead_lookout.runs INCLUDING ALL, PRIMARY KEY (job_id, number)
            ) WITH (fillfactor = 45);
            ALTER TABLE fairlead_lookout.jobs
                ATTACH PARTITION fairlead_lookout.jobs_%1$s FOR VALUES IN (%1$s);
            ALTER TABLE fairlead_lookout.job_specs
                ATTACH PARTITION fairlead_lookout.job_specs_%1$s FOR VALUES IN (%1$s);
            ALTER TABLE fairlead_lookout.runs
                ATTACH PARTITION fairlead_lookout.runs_%1$s FOR VALUES IN (%1$s);
        $ddl$, wanted);
    END IF;
END $$;

-- Jobs of a partition of the log in weeks up to `expired_week` are no longer counted, and the weeks
-- up to that of all partitions are dropped. Later weeks up to `expiring_week` are being taken out of
-- the counters: of job sets with numbers up to `expiring_set` they are. No job is added to them.
ALTER TABLE fairlead_lookout.progress
    ADD COLUMN expired_week int NOT NULL DEFAULT 0,
    ADD COLUMN expiring_week int,
    ADD COLUMN expiring_set int NOT NULL DEFAULT 0;

-- The same views of the new tables.
CREATE OR REPLACE VIEW fairlead_lookout.submitted_jobs AS
    SELECT job_id, digest FROM fairlead_lookout.job_specs;
-- Postgres before 16 does not leave out a join with a partitioned table of which no column is read;
-- it leaves out columns that are subqueries.
CREATE OR REPLACE VIEW fairlead_lookout.known_jobs AS
    SELECT j.id AS job_id,
           (SELECT s.digest FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS digest,
           j.state, j.queue, t.job_set
    FROM fairlead_lookout.jobs j
    JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;
CREATE OR REPLACE VIEW fairlead_lookout.found_jobs AS
    SELECT j.id AS job_id, j.queue, t.job_set, j.class, j.state, j.number,
           (SELECT s.client_id FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS client_id,
           (SELECT s.labels FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS labels,
           (SELECT r.executor FROM fairlead_lookout.runs r
            WHERE r.job_id = j.id AND r.number = j.run AND r.week = j.week) AS executor,
           (SELECT r.node FROM fairlead_lookout.runs r
            WHERE r.job_id = j.id AND r.number = j.run AND r.week = j.week) AS node,
           (SELECT s.submitted FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS submitted,
           j.superseded_by, j.reason,
           (SELECT s.annotations FROM fairlead_lookout.job_specs s
            WHERE s.job_id = j.id AND s.week = j.week) AS annotations
    FROM fairlead_lookout.jobs j
    LEFT JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;
CREATE OR REPLACE VIEW fairlead_lookout.known_members AS
    SELECT m.group_id, m.role, m.number, m.job_id, s.submitted, m.generation
    FROM fairlead_lookout.group_members m
    JOIN fairlead_lookout.job_specs s ON s.job_id = m.job_id;

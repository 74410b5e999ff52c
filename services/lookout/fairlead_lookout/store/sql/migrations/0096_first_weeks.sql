-- A job is in no week before that of the first job of its job set, so look-ups by id read only the
-- tables of later weeks (docs/decisions/0092).

-- As in migration 0087, but the keys of submissions have the week, so that digests are read from them
-- alone although weeks are compared. Existing tables keep their keys.
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

-- For submit: the digests of known jobs, and the first week in which a job set can have jobs.
CREATE OR REPLACE VIEW fairlead_lookout.submitted_jobs AS
    SELECT job_id, digest, week FROM fairlead_lookout.job_specs;
CREATE VIEW fairlead_lookout.known_job_sets AS
    SELECT queue, job_set, (first_ms / 604800000)::int AS first_week
    FROM fairlead_lookout.job_sets;

-- The events that submitted jobs are lines of chunks, and the row of a job has everything else that
-- was in `job_specs` (docs/decisions/0127).

-- The first number of a chunk is that of its session; chunks of this migration are of session 0.
CREATE SEQUENCE fairlead_lookout.fold_sessions;

ALTER TABLE fairlead_lookout.jobs
    -- The chunk in `submissions` of the same week, and the line in it, from 0.
    ADD COLUMN chunk bigint,
    ADD COLUMN chunk_line int,
    ADD COLUMN submitted_bytes int,
    ADD COLUMN digest text,
    ADD COLUMN client_id text COLLATE "C",
    ADD COLUMN annotations jsonb,
    -- The name of the gang.
    ADD COLUMN gang text COLLATE "C";

CREATE TABLE fairlead_lookout.submissions (
    chunk bigint NOT NULL,
    -- Newline-delimited JSON, compressed if it is long enough.
    lines bytea NOT NULL,
    week int NOT NULL
) PARTITION BY LIST (week);
ALTER TABLE fairlead_lookout.submissions ALTER COLUMN lines SET STORAGE EXTERNAL;

-- As in migration 0107, with chunks of submissions in place of a row per job.
CREATE OR REPLACE FUNCTION fairlead_lookout.create_week(wanted int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass(format('fairlead_lookout.jobs_%s', wanted)) IS NULL THEN
        EXECUTE format($ddl$
            CREATE TABLE fairlead_lookout.jobs_%1$s (
                LIKE fairlead_lookout.jobs INCLUDING ALL, PRIMARY KEY (id)
            ) WITH (fillfactor = 45);
            ALTER TABLE fairlead_lookout.jobs
                ATTACH PARTITION fairlead_lookout.jobs_%1$s FOR VALUES IN (%1$s);
        $ddl$, wanted);
    END IF;
    IF to_regclass(format('fairlead_lookout.submissions_%s', wanted)) IS NULL THEN
        EXECUTE format($ddl$
            CREATE TABLE fairlead_lookout.submissions_%1$s (
                LIKE fairlead_lookout.submissions INCLUDING ALL, PRIMARY KEY (chunk)
            );
            ALTER TABLE fairlead_lookout.submissions
                ATTACH PARTITION fairlead_lookout.submissions_%1$s FOR VALUES IN (%1$s);
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

-- Each submission that is stored becomes a chunk with one line. Most rows find a place on their own
-- page, as in migration 0107, so few entries of indexes are written.
CREATE TEMP SEQUENCE migrated_chunks;
DO $$
DECLARE
    wanted int;
BEGIN
    FOR wanted IN SELECT substr(c.relname, length('job_specs_') + 1)::int
                  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                  WHERE i.inhparent = 'fairlead_lookout.job_specs'::regclass
    LOOP
        PERFORM fairlead_lookout.create_week(wanted);
        EXECUTE format($dml$
            UPDATE fairlead_lookout.jobs_%1$s j
            SET chunk = s.chunk, chunk_line = 0, submitted_bytes = octet_length(s.submitted),
                digest = s.digest, client_id = s.client_id, annotations = s.annotations,
                gang = CASE WHEN position('"gang":'::bytea IN s.submitted) > 0
                    THEN convert_from(s.submitted, 'UTF8')::jsonb -> 'gang' ->> 'name' END
            FROM (
                SELECT nextval('migrated_chunks') AS chunk, o.*
                FROM fairlead_lookout.job_specs_%1$s o
            ) s
            WHERE s.job_id = j.id;
            INSERT INTO fairlead_lookout.submissions_%1$s (chunk, lines, week)
            SELECT j.chunk, s.submitted, %1$s
            FROM fairlead_lookout.jobs_%1$s j
            JOIN fairlead_lookout.job_specs_%1$s s ON s.job_id = j.id;
        $dml$, wanted);
    END LOOP;
END $$;
DROP SEQUENCE migrated_chunks;

-- The same views, without `job_specs`.
CREATE OR REPLACE VIEW fairlead_lookout.submitted_jobs AS
    SELECT id AS job_id, digest, week FROM fairlead_lookout.jobs;
CREATE OR REPLACE VIEW fairlead_lookout.known_jobs AS
    SELECT j.id AS job_id, j.digest, j.state, j.queue, t.job_set
    FROM fairlead_lookout.jobs j
    JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;

-- `submitted` is compressed in a chunk: these views say where it is and how many bytes it has.
CREATE VIEW fairlead_lookout.known_submissions AS
    SELECT chunk, lines, week FROM fairlead_lookout.submissions;
DROP VIEW fairlead_lookout.found_jobs;
CREATE VIEW fairlead_lookout.found_jobs AS
    SELECT j.id AS job_id, j.queue, t.job_set, j.class, j.state, j.number, j.client_id, j.labels,
           j.run_executor AS executor, j.run_node AS node, j.superseded_by, j.reason,
           j.annotations, j.gang, j.submitted_bytes, j.chunk, j.chunk_line, j.week
    FROM fairlead_lookout.jobs j
    LEFT JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;
DROP VIEW fairlead_lookout.known_members;
CREATE VIEW fairlead_lookout.known_members AS
    SELECT m.group_id, m.role, m.number, m.job_id, m.generation, j.chunk, j.chunk_line, j.week
    FROM fairlead_lookout.group_members m
    JOIN fairlead_lookout.jobs j ON j.id = m.job_id;
DROP TABLE fairlead_lookout.job_specs;

-- Jobs in whose place another one was submitted to the same job set (`resubmit --failed`), and how
-- many of each job set there are. New columns with a constant default: no row is written.
ALTER TABLE fairlead_lookout.jobs ADD COLUMN superseded_by text COLLATE "C";
ALTER TABLE fairlead_lookout.job_sets ADD COLUMN superseded int NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW fairlead_lookout.found_jobs AS
    SELECT j.id AS job_id, j.queue, t.job_set, j.class, j.state, j.number, s.client_id, s.labels,
           r.executor, r.node, s.submitted, j.superseded_by, j.reason, s.annotations
    FROM fairlead_lookout.jobs j
    LEFT JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
    LEFT JOIN fairlead_lookout.job_specs s ON s.job_id = j.id
    LEFT JOIN fairlead_lookout.runs r ON r.job_id = j.id AND r.number = j.run;

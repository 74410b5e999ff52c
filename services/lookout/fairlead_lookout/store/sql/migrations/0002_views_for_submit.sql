-- What submit may know of jobs, as far as this view has folded them. Columns only grow.

CREATE OR REPLACE VIEW fairlead_lookout.known_jobs AS
    SELECT j.id AS job_id, s.digest, j.state, j.queue, t.job_set
    FROM fairlead_lookout.jobs j
    JOIN fairlead_lookout.job_specs s ON s.job_id = j.id
    JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;

-- Jobs that have not ended, by queue: from the counters.
DROP INDEX fairlead_lookout.job_sets_active;
CREATE INDEX job_sets_active ON fairlead_lookout.job_sets (queue, number) WHERE active;
CREATE VIEW fairlead_lookout.live_jobs AS
    SELECT queue, sum(live)::bigint AS jobs
    FROM fairlead_lookout.job_sets WHERE active GROUP BY queue;

-- Jobs by what the counters know: never by counting rows.
CREATE VIEW fairlead_lookout.counted_jobs AS
    SELECT s.queue, s.job_set, c.class, c.state, c.jobs
    FROM fairlead_lookout.counters c JOIN fairlead_lookout.job_sets s ON s.number = c.set_number
    WHERE c.jobs > 0;

-- Jobs with all that a filter may ask for; `executor` and `node` are those of the newest run,
-- `submitted` is the event that submitted it (JSON). Ask with a queue and a LIMIT, by `number`.
CREATE VIEW fairlead_lookout.found_jobs AS
    SELECT j.id AS job_id, j.queue, t.job_set, j.class, j.state, j.number, s.client_id, s.labels,
           r.executor, r.node, s.submitted
    FROM fairlead_lookout.jobs j
    LEFT JOIN fairlead_lookout.job_sets t ON t.number = j.set_number
    LEFT JOIN fairlead_lookout.job_specs s ON s.job_id = j.id
    LEFT JOIN fairlead_lookout.runs r ON r.job_id = j.id AND r.number = j.run;

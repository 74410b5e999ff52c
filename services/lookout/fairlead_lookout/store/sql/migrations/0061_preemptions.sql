-- Runs that were asked to stop: when, why, by whom, and for which job. One row for each.
CREATE TABLE fairlead_lookout.preemptions (
    time_ms bigint NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    run int NOT NULL,
    queue text COLLATE "C" NOT NULL,
    cause text COLLATE "C" NOT NULL,
    reason text,
    for_job text COLLATE "C",
    requested_by text,
    PRIMARY KEY (time_ms, job_id, run)
);
CREATE INDEX preemptions_of_queue ON fairlead_lookout.preemptions (queue, time_ms, job_id, run);

-- Those of the past: the job for which a run was preempted was not recorded.
INSERT INTO fairlead_lookout.preemptions (time_ms, job_id, run, queue, cause, reason)
SELECT r.ended_ms, r.job_id, r.number, j.queue, r.cause, r.reason
FROM fairlead_lookout.runs r JOIN fairlead_lookout.jobs j ON j.id = r.job_id
WHERE r.cause IS NOT NULL AND r.ended_ms IS NOT NULL
UNION ALL
SELECT changed_ms, id, run, queue, stop_cause, stop_reason
FROM fairlead_lookout.jobs WHERE stopping = 'preempt' AND stop_cause IS NOT NULL;

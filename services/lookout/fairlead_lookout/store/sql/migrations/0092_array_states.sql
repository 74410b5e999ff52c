-- The states of arrays, for what waits for them: FAILED as soon as a task has not succeeded. `live`: the
-- tasks that have not ended.
CREATE VIEW fairlead_lookout.array_states AS
    SELECT a.id, a.client_id,
           CASE WHEN c.failed THEN 'FAILED'
                WHEN a.ended_ms IS NOT NULL THEN 'SUCCEEDED'
                WHEN c.started THEN 'RUNNING'
                ELSE 'QUEUED' END AS state,
           c.live
    FROM fairlead_lookout.arrays a
    CROSS JOIN LATERAL (
        SELECT coalesce(
                   bool_or(state IN ('FAILED', 'CANCELLED', 'PREEMPTED', 'REJECTED')), false
               ) AS failed,
               coalesce(bool_or(state <> 'QUEUED'), false) AS started,
               coalesce(
                   sum(tasks) FILTER (WHERE state IN ('QUEUED', 'LEASED', 'PENDING', 'RUNNING')), 0
               )::int AS live
        FROM fairlead_lookout.array_counts WHERE array_id = a.id AND tasks > 0
    ) c;

-- For submit: arrays, and which of their tasks were cancelled before they became jobs.
CREATE OR REPLACE VIEW fairlead_lookout.known_arrays AS
    SELECT a.id AS array_id, a.queue, a.job_set, a.digest, a.submitted,
           a.ended_ms IS NOT NULL AS ended, a.cancelled_ranges, s.state, a.waiting, s.live
    FROM fairlead_lookout.arrays a JOIN fairlead_lookout.array_states s ON s.id = a.id;
CREATE VIEW fairlead_lookout.known_cancelled_tasks AS
    SELECT array_id, chunk, bits FROM fairlead_lookout.array_cancelled_tasks;

-- Arrays of the checkpoint: template, tasks that are not released, requests, as JSON
-- (state/jobs/task_arrays.py).

CREATE TABLE fairlead_scheduler.arrays (
    array_id text PRIMARY KEY,
    state bytea NOT NULL
) WITH (fillfactor = 70);

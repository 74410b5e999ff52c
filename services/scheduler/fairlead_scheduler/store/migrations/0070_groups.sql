-- Groups of the checkpoint: terms, phase and ended members, as JSON (state/jobs/groups.py).

CREATE TABLE fairlead_scheduler.groups (
    group_id text PRIMARY KEY,
    state bytea NOT NULL
) WITH (fillfactor = 70);

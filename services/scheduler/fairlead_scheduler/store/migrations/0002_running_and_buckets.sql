-- When runs started, for maximum run times; token buckets, so that a new leader fills none.

ALTER TABLE fairlead_scheduler.jobs ADD COLUMN running_ms bigint NOT NULL DEFAULT 0;

ALTER TABLE fairlead_scheduler.view ADD COLUMN buckets bytea NOT NULL DEFAULT '{}';

-- By what an action multiplies the memory of the jobs that it submits again.
ALTER TABLE fairlead_submit.actions ADD COLUMN memory_factor double precision NOT NULL DEFAULT 1;

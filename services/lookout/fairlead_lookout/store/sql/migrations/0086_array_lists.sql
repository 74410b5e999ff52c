-- What lists show of the event that submitted an array: without the pod spec and other large fields.
-- Null: an array of before; `submitted` is shown.
ALTER TABLE fairlead_lookout.arrays ADD COLUMN listed text;

-- For submit: into how many ranges cancellations have divided the array at most.
CREATE OR REPLACE VIEW fairlead_lookout.known_arrays AS
    SELECT id AS array_id, queue, job_set, digest, submitted, ended_ms IS NOT NULL AS ended,
           coalesce(
               1 + length(cancelled_indexes) - length(replace(cancelled_indexes, ',', '')), 0
           ) AS cancelled_ranges
    FROM fairlead_lookout.arrays;

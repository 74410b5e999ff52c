-- The priority of the waiting tasks of an array: as submitted, or of the latest request to change it.
-- Requests before this migration are not applied to it; `fairlead repair` folds them again.
ALTER TABLE fairlead_lookout.arrays ADD COLUMN priority int NOT NULL DEFAULT 0;
UPDATE fairlead_lookout.arrays
SET priority = coalesce((submitted::jsonb #>> '{template,priority}')::int, 0);

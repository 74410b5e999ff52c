-- When somebody last requested to cancel tasks of the array; null if nobody did, or before this.
ALTER TABLE fairlead_lookout.arrays ADD COLUMN cancelled_ms bigint;

-- Deliveries of webhooks are made from all events of a partition, in the order of their ids. Rows
-- are inserted a batch at a time, so this costs one entry per batch and job set.
CREATE INDEX events_of_partition ON fairlead_lookout.events (partition, last_position, last_item);

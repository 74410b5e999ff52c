-- The events that a webhook missed while it was disabled, until they are replayed: from when, and to
-- when (NULL: it is still disabled).
ALTER TABLE fairlead_webhooks.webhooks
    ADD COLUMN missed_from_ms bigint,
    ADD COLUMN missed_to_ms bigint;

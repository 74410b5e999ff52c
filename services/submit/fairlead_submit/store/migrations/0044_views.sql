-- What other services are permitted to read. They name these views, never the tables.

-- API tokens and sessions that are valid now, by digest.
CREATE VIEW fairlead_submit.valid_tokens AS
    SELECT digest, number, kind, name, roles, personal, groups, queues
    FROM fairlead_submit.tokens
    WHERE expires_at IS NULL OR expires_at > now();

-- Queues that have permissions, deleted ones included while their rows are retained.
CREATE VIEW fairlead_submit.restricted_queues AS
    SELECT name, value FROM fairlead_submit.queues WHERE restricted;

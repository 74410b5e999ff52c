-- Webhooks: configuration, which no log repeats. Times are in ms since 1970 (UTC).
CREATE TABLE fairlead_webhooks.webhooks (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    version bigint NOT NULL DEFAULT 1,
    url text NOT NULL,
    -- The queue of the filter; NULL: all queues.
    queue text COLLATE "C",
    filter text NOT NULL,
    format text NOT NULL,
    ordered boolean NOT NULL,
    concurrency int NOT NULL,
    -- JSON: header -> encrypted value.
    headers text NOT NULL,
    -- JSON: encrypted secrets, the newest first.
    secrets text NOT NULL,
    enabled boolean NOT NULL,
    disabled text,
    failing_ms bigint,
    succeeded_ms bigint,
    changed_ms bigint NOT NULL,
    by text NOT NULL
);

-- Which log the positions belong to; with another one they start again.
CREATE TABLE fairlead_webhooks.source (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    log text NOT NULL
);

-- Up to which public event deliveries were made, of each partition of the view of lookout.
CREATE TABLE fairlead_webhooks.positions (
    partition int PRIMARY KEY,
    position bigint NOT NULL,
    item int NOT NULL
) WITH (fillfactor = 50);

-- Deliveries of one webhook that are made from earlier events: a replay that somebody requested, or
-- the backlog of a webhook that had too many pending deliveries. JSON: partition -> [position, item].
CREATE TABLE fairlead_webhooks.replays (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook int NOT NULL REFERENCES fairlead_webhooks.webhooks (number) ON DELETE CASCADE,
    kind text NOT NULL,
    state text NOT NULL,
    places text NOT NULL,
    until text,
    from_ms bigint,
    to_ms bigint,
    made bigint NOT NULL DEFAULT 0,
    created_ms bigint NOT NULL,
    changed_ms bigint NOT NULL,
    by text NOT NULL
);
CREATE INDEX replays_of_webhook ON fairlead_webhooks.replays (webhook, number);
CREATE UNIQUE INDEX running_replays ON fairlead_webhooks.replays (webhook, kind)
    WHERE state = 'RUNNING';

-- Deliveries, a table per day, which is dropped whole. `chain`: of ordered webhooks, what is
-- delivered in order; `due_ms` 0: a test, which is sent although its webhook is disabled.
CREATE SEQUENCE fairlead_webhooks.delivery_ids;
CREATE TABLE fairlead_webhooks.deliveries (
    id bigint NOT NULL DEFAULT nextval('fairlead_webhooks.delivery_ids'),
    day date NOT NULL,
    webhook int NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    queue text COLLATE "C",
    job_set text COLLATE "C",
    job_id text COLLATE "C",
    chain text COLLATE "C",
    event_ms bigint NOT NULL,
    created_ms bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    due_ms bigint NOT NULL,
    attempted_ms bigint,
    duration_ms int,
    status int,
    error text,
    body text NOT NULL,
    content_type text NOT NULL,
    PRIMARY KEY (id, day)
) PARTITION BY RANGE (day);
CREATE INDEX deliveries_of_webhook ON fairlead_webhooks.deliveries (webhook, id);
CREATE INDEX deliveries_due ON fairlead_webhooks.deliveries (webhook, due_ms, id)
    WHERE state = 'PENDING';
CREATE INDEX deliveries_in_order ON fairlead_webhooks.deliveries (webhook, chain, id)
    WHERE state = 'PENDING' AND chain IS NOT NULL;
CREATE INDEX deliveries_failed ON fairlead_webhooks.deliveries (webhook, id)
    WHERE state = 'FAILED';

-- Operators' marks on executors and nodes, and actions that take their time.

CREATE TABLE fairlead_submit.cordons (
    key text COLLATE "C" PRIMARY KEY,            -- as in the log: cordon/executor, cordon/executor/node
    version bigint NOT NULL,
    value bytea NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- What submits again is fixed when it is asked for: its jobs are `action_items`, by number.
-- Who works on an action holds its row's lock; `done` is the number of the last item dealt with.
CREATE TABLE fairlead_submit.actions (
    id text COLLATE "C" PRIMARY KEY,
    kind text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    job_set text COLLATE "C" NOT NULL,
    by_name text NOT NULL,
    request text NOT NULL,
    traceparent text NOT NULL,
    digest text NOT NULL,                        -- of what was asked, to know a repeat
    total int NOT NULL,
    done int NOT NULL DEFAULT 0,
    made int NOT NULL DEFAULT 0,
    positions jsonb NOT NULL DEFAULT '{}',
    refused jsonb NOT NULL DEFAULT '[]',
    ended boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX actions_open ON fairlead_submit.actions (created_at) WHERE NOT ended;

CREATE TABLE fairlead_submit.action_items (
    action text COLLATE "C" NOT NULL,
    number int NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    gang text COLLATE "C",                       -- job set and name of its gang, if it is in one
    refused boolean NOT NULL DEFAULT false,
    PRIMARY KEY (action, number)
);
CREATE INDEX action_items_by_job ON fairlead_submit.action_items (action, job_id);
CREATE INDEX action_items_by_gang ON fairlead_submit.action_items (action, gang)
    WHERE gang IS NOT NULL;

-- What people configured (queues), who may call (tokens, sign-in links), and what is still to be
-- told to the log (outbox).

-- Versions grow over all queues, so that a name that is used again goes on above its old versions.
CREATE SEQUENCE fairlead_submit.versions;

CREATE TABLE fairlead_submit.queues (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    value bytea NOT NULL,                        -- as it goes to the log: JSON
    deleted boolean NOT NULL DEFAULT false,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- Every process reads these; only digests are kept.
CREATE TABLE fairlead_submit.tokens (
    digest bytea PRIMARY KEY,
    name text NOT NULL,
    roles text[] NOT NULL,
    kind text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz
);

-- Links that sign a browser in, once.
CREATE TABLE fairlead_submit.links (
    digest bytea PRIMARY KEY,
    name text NOT NULL,
    roles text[] NOT NULL,
    expires_at timestamptz NOT NULL
);

-- Written with the change itself; the relay appends each row to the log and removes it.
CREATE TABLE fairlead_submit.outbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text NOT NULL,
    value bytea                                  -- null: the key is no more
);

-- Secrets of queues. `sealed` holds key -> value, encrypted with a key that is not in this database.
CREATE TABLE fairlead_submit.secrets (
    queue text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    sealed jsonb NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, name)
);

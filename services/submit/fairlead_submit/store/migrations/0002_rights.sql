-- Who may do what: queues that have permissions are found at once, tokens have a scope and a maker.

-- The value leaves out what is empty, so whoever has permissions says the word; one that says it
-- for another reason (a label) is read and found to have none.
ALTER TABLE fairlead_submit.queues ADD COLUMN restricted boolean NOT NULL
    GENERATED ALWAYS AS (position('"permissions":'::bytea IN value) > 0) STORED;
CREATE INDEX queues_restricted ON fairlead_submit.queues (name) WHERE restricted;

-- `roles` are given by the token itself; of a personal one they are the most that it may have of
-- what its maker has. `queues` null: in every queue.
ALTER TABLE fairlead_submit.tokens
    ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    ADD COLUMN personal boolean NOT NULL DEFAULT false,
    ADD COLUMN groups text[] NOT NULL DEFAULT '{}',
    ADD COLUMN queues text[],
    ADD COLUMN label text NOT NULL DEFAULT '',
    ADD COLUMN made_by text NOT NULL DEFAULT '';
CREATE INDEX tokens_of ON fairlead_submit.tokens (name, number);

ALTER TABLE fairlead_submit.links
    ADD COLUMN personal boolean NOT NULL DEFAULT false,
    ADD COLUMN groups text[] NOT NULL DEFAULT '{}',
    ADD COLUMN queues text[];

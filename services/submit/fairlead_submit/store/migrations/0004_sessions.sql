-- A browser session, and a link that makes one, ends with the API token that it was made with.
ALTER TABLE fairlead_submit.tokens
    ADD COLUMN parent bigint REFERENCES fairlead_submit.tokens (number) ON DELETE CASCADE;
CREATE INDEX tokens_by_parent ON fairlead_submit.tokens (parent) WHERE parent IS NOT NULL;

ALTER TABLE fairlead_submit.links
    ADD COLUMN parent bigint REFERENCES fairlead_submit.tokens (number) ON DELETE CASCADE;
CREATE INDEX links_by_parent ON fairlead_submit.links (parent) WHERE parent IS NOT NULL;

-- Sessions made before have no parent to end with: their owners sign in again.
DELETE FROM fairlead_submit.tokens WHERE kind = 'session';
DELETE FROM fairlead_submit.links;

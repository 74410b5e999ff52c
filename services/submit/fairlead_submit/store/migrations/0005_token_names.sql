-- What an API token is called among those of its maker; tokens of older versions have no such name.
ALTER TABLE fairlead_submit.tokens ADD COLUMN unique_name text;
CREATE UNIQUE INDEX tokens_by_unique_name ON fairlead_submit.tokens (unique_name);

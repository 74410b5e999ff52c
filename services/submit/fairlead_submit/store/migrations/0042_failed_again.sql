-- Whether the new jobs of an action keep the client ids of the old ones, with a number.
ALTER TABLE fairlead_submit.actions ADD COLUMN keeps_client_ids boolean NOT NULL DEFAULT false;

-- Digests by job id, from an index alone: each request with client ids asks for thousands of them,
-- and almost all of these ids are new. Rebuilding the key of 20 million jobs takes about a minute.
ALTER TABLE fairlead_lookout.job_specs DROP CONSTRAINT job_specs_pkey;
ALTER TABLE fairlead_lookout.job_specs ADD PRIMARY KEY (job_id) INCLUDE (digest);
-- An index answers alone only for pages that were vacuumed. Rows here are inserted, read and
-- deleted, never changed, so a vacuum reads new pages only.
ALTER TABLE fairlead_lookout.job_specs SET (autovacuum_vacuum_insert_scale_factor = 0.02);

-- For submit: the digest of what the client sent, of every job that is known.
CREATE VIEW fairlead_lookout.submitted_jobs AS
    SELECT job_id, digest FROM fairlead_lookout.job_specs;

-- As before, but who does not ask for digests does not read the specs.
CREATE OR REPLACE VIEW fairlead_lookout.known_jobs AS
    SELECT j.id AS job_id, s.digest, j.state, j.queue, t.job_set
    FROM fairlead_lookout.jobs j
    LEFT JOIN fairlead_lookout.job_specs s ON s.job_id = j.id
    JOIN fairlead_lookout.job_sets t ON t.number = j.set_number;

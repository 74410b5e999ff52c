-- The generation of members: a group whose templates change is re-created with new members, and
-- only members of its own generation (in its terms) are counted.
ALTER TABLE fairlead_lookout.group_members ADD COLUMN generation int NOT NULL DEFAULT 1;

-- The public events of groups: their id (position, item), their type, their JSON and, for events
-- that changed the number of members, the roles with minima and maxima (JSON).
CREATE TABLE fairlead_lookout.group_events (
    group_id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    item int NOT NULL,
    time_ms bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    roles jsonb,
    line text NOT NULL,
    PRIMARY KEY (group_id, position, item)
);

-- For submit: new columns, which a view can only have last.
CREATE OR REPLACE VIEW fairlead_lookout.known_groups AS
    SELECT id AS group_id, queue, job_set, client_id, digest, terms, state, labels
    FROM fairlead_lookout.groups;
CREATE OR REPLACE VIEW fairlead_lookout.known_members AS
    SELECT m.group_id, m.role, m.number, m.job_id, s.submitted, m.generation
    FROM fairlead_lookout.group_members m
    JOIN fairlead_lookout.job_specs s ON s.job_id = m.job_id;

CREATE OR REPLACE FUNCTION fairlead_lookout.count_members(wanted text, terms jsonb)
RETURNS TABLE (roles text, starting boolean) LANGUAGE sql STABLE AS $$
    SELECT jsonb_agg(jsonb_build_object(
               'name', r.role ->> 'name', 'min', r.role -> 'min', 'max', r.role -> 'max',
               'queued', c.queued, 'pending', c.pending, 'running', c.running,
               'succeeded', c.succeeded, 'failed', c.failed, 'stopped', c.stopped
           ) ORDER BY r.place)::text,
           bool_and(c.pending + c.running + c.succeeded >= (r.role ->> 'min')::int)
    FROM jsonb_array_elements(terms -> 'roles') WITH ORDINALITY AS r (role, place)
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE j.state = 'QUEUED') AS queued,
               count(*) FILTER (WHERE j.state IN ('LEASED', 'PENDING')) AS pending,
               count(*) FILTER (WHERE j.state = 'RUNNING') AS running,
               count(*) FILTER (WHERE j.state = 'SUCCEEDED') AS succeeded,
               count(*) FILTER (WHERE j.state = 'FAILED') AS failed,
               count(*) FILTER (WHERE j.state IN ('CANCELLED', 'PREEMPTED', 'REJECTED')) AS stopped
        FROM fairlead_lookout.group_members m
        JOIN fairlead_lookout.jobs j ON j.id = m.job_id
        WHERE m.group_id = wanted AND m.role = r.role ->> 'name'
          AND m.generation = coalesce((terms ->> 'generation')::int, 1)
    ) c
$$;

-- Groups: distributed jobs of several roles. `terms` are those of the events GroupSubmitted and
-- GroupChanged; `change` is the last public event about the group, with its reason and its author.
CREATE TABLE fairlead_lookout.groups (
    id text COLLATE "C" PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    job_set text COLLATE "C" NOT NULL,
    client_id text COLLATE "C",
    digest text COLLATE "C" NOT NULL,
    terms jsonb NOT NULL,
    labels jsonb NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'QUEUED',
    change text COLLATE "C" NOT NULL DEFAULT 'groupSubmitted',
    reason text,
    changed_by text,
    restarts int NOT NULL DEFAULT 0,
    submitted_ms bigint NOT NULL,
    changed_ms bigint NOT NULL,
    started_ms bigint,
    ended_ms bigint
);
CREATE INDEX groups_by_time ON fairlead_lookout.groups (submitted_ms, id);
CREATE INDEX groups_of_queue ON fairlead_lookout.groups (queue, job_set, submitted_ms, id);

-- Jobs that are members of groups. `number` is the index within the role.
CREATE TABLE fairlead_lookout.group_members (
    job_id text COLLATE "C" PRIMARY KEY,
    group_id text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    number int NOT NULL
);
CREATE INDEX members_of_group ON fairlead_lookout.group_members (group_id, role, number);

-- For submit: groups and their members, as far as they are folded. `submitted` is the event that
-- submitted the member (JSON).
CREATE VIEW fairlead_lookout.known_groups AS
    SELECT id AS group_id, queue, job_set, client_id, digest, terms, state
    FROM fairlead_lookout.groups;
CREATE VIEW fairlead_lookout.known_members AS
    SELECT m.group_id, m.role, m.number, m.job_id, s.submitted
    FROM fairlead_lookout.group_members m
    JOIN fairlead_lookout.job_specs s ON s.job_id = m.job_id;

-- The roles of a group with their members by state (JSON), and whether each role has its minimum of
-- members that have a run or have succeeded.
CREATE FUNCTION fairlead_lookout.count_members(wanted text, terms jsonb)
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
    ) c
$$;

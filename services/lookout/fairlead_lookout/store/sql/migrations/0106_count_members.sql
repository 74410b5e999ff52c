-- Members are looked up together: one search of the index of each week for all of them. As a join,
-- 10,000 members were 10,000 searches in each week, or all jobs were read.
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
        FROM fairlead_lookout.jobs j
        WHERE j.id = ANY (ARRAY(
            SELECT m.job_id FROM fairlead_lookout.group_members m
            WHERE m.group_id = wanted AND m.role = r.role ->> 'name'
              AND m.generation = coalesce((terms ->> 'generation')::int, 1)
        ))
    ) c
$$;

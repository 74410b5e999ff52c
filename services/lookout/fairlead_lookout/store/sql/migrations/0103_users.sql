-- Who submitted each job, what users requested for it (JSON, the newest ones), and what the jobs of
-- each user used (docs/decisions/0111). What is not known of the past has an empty name.
ALTER TABLE fairlead_lookout.jobs
    ADD COLUMN submitted_by text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN user_requests text;

-- As `usage`, of all pools. The user '' is all that are not recorded by name.
CREATE TABLE fairlead_lookout.user_usage (
    queue text COLLATE "C" NOT NULL,
    hour_ms bigint NOT NULL,
    resource text COLLATE "C" NOT NULL,
    submitted_by text COLLATE "C" NOT NULL,
    used double precision NOT NULL,
    lost double precision NOT NULL,
    PRIMARY KEY (queue, hour_ms, resource, submitted_by)
) WITH (fillfactor = 50);

-- What runs hold now is recorded by pool and user, before by pool. What jobs of before hold has an
-- empty name as well.
UPDATE fairlead_lookout.job_sets s
SET held = (
    SELECT jsonb_object_agg(pool, jsonb_build_object('', amounts))::text
    FROM jsonb_each(s.held::jsonb) AS h (pool, amounts)
)
WHERE held <> '{}';

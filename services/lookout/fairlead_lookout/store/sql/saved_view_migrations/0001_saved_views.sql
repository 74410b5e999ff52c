-- Saved views of the page of jobs, which no log repeats. Times are in ms since 1970 (UTC).
CREATE TABLE fairlead_saved_views.saved_views (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Who sees it; NULL: all users.
    owner text COLLATE "C",
    name text NOT NULL,
    address text NOT NULL,
    by text NOT NULL,
    created_ms bigint NOT NULL
);
CREATE UNIQUE INDEX saved_views_by_name
    ON fairlead_saved_views.saved_views (owner, name) NULLS NOT DISTINCT;

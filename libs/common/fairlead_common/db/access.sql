-- What every service reads of submit's views; see access_views.py.

-- name: find_token
-- The valid token or session with this digest.
SELECT number, kind, name, roles, personal, groups, queues
FROM fairlead_submit.valid_tokens WHERE digest = $1;

-- name: read_restricted_queues
-- All queues that have permissions.
SELECT name, value FROM fairlead_submit.restricted_queues;

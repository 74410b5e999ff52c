-- Statements of sessions that hold advisory locks; see lock_session.py.

-- name: suitability
-- What a session that holds locks relies on: that Postgres applies its time-outs, and that the
-- process that serves it is the one that the connection was opened to.
SELECT current_setting('idle_session_timeout') AS idle_session_timeout,
       pg_backend_pid() AS pid;

-- name: try_number
SELECT pg_try_advisory_lock($1::bigint);

-- name: try_pair
SELECT pg_try_advisory_lock($1::int, $2::int);

-- name: release_number
SELECT pg_advisory_unlock($1::bigint);

-- name: release_pair
SELECT pg_advisory_unlock($1::int, $2::int);

-- name: confirm
SELECT 1;

-- name: end_silent_holders
-- End the sessions that hold a lock of class $1, key $2 (any if null) and form $3 and have waited
-- for their client for longer than $4. An idle session ends by its own time-out; this ends those
-- that are in the middle of a statement (COPY), where that time-out does not apply.
SELECT pg_terminate_backend(a.pid)
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.wait_event_type = 'Client'
  AND greatest(a.query_start, a.state_change) < clock_timestamp() - $4::interval
  AND a.pid IN (
      SELECT l.pid FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = $1::bigint::oid AND l.objsubid = $3::smallint
        AND ($2::bigint IS NULL OR l.objid = $2::bigint::oid)
  );

-- name: end_silent_transactions
-- End the sessions of this application name ($1) that are in a transaction and have waited for
-- their client for longer than $2: a predecessor that is frozen must not keep rows locked.
SELECT pg_terminate_backend(a.pid)
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.application_name = $1 AND a.wait_event_type = 'Client'
  AND a.datname = current_database() AND a.usename = current_user AND a.xact_start IS NOT NULL
  AND greatest(a.query_start, a.state_change) < clock_timestamp() - $2::interval;

-- name: day_tables
-- The names of the tables of a partitioned table.
SELECT c.relname AS name
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = $1::text::regclass;

-- name: lock_tables
-- Until the end of the transaction, no other process creates or drops such tables.
SELECT pg_advisory_xact_lock($1, 0);

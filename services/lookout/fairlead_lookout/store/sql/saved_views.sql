-- Saved views of pages.

-- name: list_views
-- Those of a user and those of all users, by name.
SELECT * FROM fairlead_saved_views.saved_views
WHERE owner = $1 OR owner IS NULL
ORDER BY name, number;

-- name: lock_views
-- Until the end of the transaction nobody else adds one, so that their number is exact.
LOCK TABLE fairlead_saved_views.saved_views IN SHARE ROW EXCLUSIVE MODE;

-- name: count_views
SELECT count(*) FROM fairlead_saved_views.saved_views WHERE owner IS NOT DISTINCT FROM $1;

-- name: insert_view
INSERT INTO fairlead_saved_views.saved_views (owner, name, address, by, created_ms)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING
RETURNING *;

-- name: find_view
SELECT * FROM fairlead_saved_views.saved_views
WHERE number = $1 AND (owner = $2 OR owner IS NULL);

-- name: rename_view
-- No row: there is another view of this owner with the name.
UPDATE fairlead_saved_views.saved_views v SET name = $2
WHERE v.number = $1 AND NOT EXISTS (
    SELECT FROM fairlead_saved_views.saved_views o
    WHERE o.owner IS NOT DISTINCT FROM v.owner AND o.name = $2 AND o.number <> v.number)
RETURNING *;

-- name: delete_view
DELETE FROM fairlead_saved_views.saved_views WHERE number = $1;

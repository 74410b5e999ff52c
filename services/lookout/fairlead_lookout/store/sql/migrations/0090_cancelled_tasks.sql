-- Which tasks of arrays were cancelled before they became jobs: a bit for each index, in chunks of
-- 65,536, however many requests cancelled them.
CREATE TABLE fairlead_lookout.array_cancelled_tasks (
    array_id text COLLATE "C" NOT NULL,
    chunk int NOT NULL,
    bits bit varying(65536) NOT NULL,
    PRIMARY KEY (array_id, chunk)
);

INSERT INTO fairlead_lookout.array_cancelled_tasks (array_id, chunk, bits)
WITH ranges AS (
    SELECT a.id, regexp_match(r.text, '^([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?$') AS parts
    FROM fairlead_lookout.arrays a,
         unnest(string_to_array(a.cancelled_indexes, ',')) AS r (text)
), indexes AS (
    SELECT DISTINCT r.id, g.index
    FROM ranges r,
         generate_series(
             r.parts[1]::int, coalesce(r.parts[2], r.parts[1])::int, coalesce(r.parts[3], '1')::int
         ) AS g (index)
), chunks AS (
    SELECT DISTINCT id, index / 65536 AS chunk FROM indexes
)
SELECT c.id, c.chunk,
       string_agg(CASE WHEN i.index IS NULL THEN '0' ELSE '1' END, '' ORDER BY b.bit)
           ::bit varying(65536)
FROM chunks c
CROSS JOIN generate_series(0, 65535) AS b (bit)
LEFT JOIN indexes i ON i.id = c.id AND i.index = c.chunk * 65536 + b.bit
GROUP BY c.id, c.chunk;

-- As how many ranges they were named: submit limits into how many an array is divided.
ALTER TABLE fairlead_lookout.arrays ADD COLUMN cancelled_ranges int NOT NULL DEFAULT 0;
UPDATE fairlead_lookout.arrays
SET cancelled_ranges = 1 + length(cancelled_indexes) - length(replace(cancelled_indexes, ',', ''))
WHERE cancelled_indexes IS NOT NULL;
CREATE OR REPLACE VIEW fairlead_lookout.known_arrays AS
    SELECT id AS array_id, queue, job_set, digest, submitted, ended_ms IS NOT NULL AS ended,
           cancelled_ranges
    FROM fairlead_lookout.arrays;
ALTER TABLE fairlead_lookout.arrays DROP COLUMN cancelled_indexes;

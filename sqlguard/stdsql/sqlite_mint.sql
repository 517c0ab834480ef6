-- Raises the mark to the highest of: the mark plus one (the floor plus one if there is no
-- mark), the floor, and the clock in units of 10 µs since 1970. ?1 resource, ?2 holder.
-- SQLite's clock has milliseconds. The statement takes the write lock before it reads the
-- mark or the clock. If no number is left, no row is changed.
INSERT INTO fencepost_marks (resource, number, holder)
SELECT ?1, number, ?2
FROM (
  SELECT max(coalesce(m.number, f.number) + 1, f.number,
             CAST(strftime('%s', 'now') AS INTEGER) * 100000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 100) AS number
  FROM fencepost_floor f LEFT JOIN fencepost_marks m ON m.resource = ?1
)
WHERE number <= 999999999999999
ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder

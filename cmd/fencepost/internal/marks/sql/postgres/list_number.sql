-- Marks by number, and the server's clock as a number. No index has the numbers: the server reads and sorts all marks.
-- $1 prefix of the resource, $2 the limit, $3 the lowest numbers first.
SELECT m.resource, m.number, m.holder, "fencepost".number_at(clock_timestamp())
  FROM "fencepost".marks m
 WHERE starts_with(m.resource, $1)
 ORDER BY CASE WHEN $3 THEN m.number ELSE -m.number END, m.resource
 LIMIT $2

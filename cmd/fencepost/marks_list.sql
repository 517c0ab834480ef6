-- Marks and the server's clock as a number. $1 prefix of the resource, $2 how many at most, $3 the lowest numbers first.
-- The last column is how many there are.
SELECT m.resource, m.number, m.holder, "fencepost".number_at(clock_timestamp()), count(*) OVER ()
  FROM "fencepost".marks m
 WHERE starts_with(m.resource, $1)
 ORDER BY CASE WHEN $3 THEN m.number ELSE -m.number END, m.resource
 LIMIT $2

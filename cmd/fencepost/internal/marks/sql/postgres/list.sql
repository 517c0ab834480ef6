-- Marks by resource, in the order of the primary key, and the server's clock as a number. $1 the resource to begin at: a
-- prefix, or with $2 the last one that was listed. $3 the limit.
SELECT m.resource, m.number, m.holder, "fencepost".number_at(clock_timestamp())
  FROM "fencepost".marks m
 WHERE m.resource >= $1 AND (m.resource > $1 OR NOT $2)
 ORDER BY m.resource
 LIMIT $3

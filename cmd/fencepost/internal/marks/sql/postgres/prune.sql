-- What a prune would delete. $1 age in units of 10 µs. Returns the cutoff, the floor, the number of marks below the cutoff,
-- and the number of marks.
SELECT c.cutoff, f.number, count(*) FILTER (WHERE m.number < c.cutoff), count(m.number)
  FROM (SELECT "fencepost".number_at(clock_timestamp()) - $1::bigint AS cutoff) c
 CROSS JOIN "fencepost".floor f
  LEFT JOIN "fencepost".marks m ON true
 GROUP BY c.cutoff, f.number

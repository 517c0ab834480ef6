-- What there is to prune. $1 how long before the clock, in units of 10 µs. The cutoff, the floor, how many marks are
-- below the cutoff, and how many there are.
SELECT c.cutoff, f.number, count(*) FILTER (WHERE m.number < c.cutoff), count(m.number)
  FROM (SELECT "fencepost".number_at(clock_timestamp()) - $1::bigint AS cutoff) c
 CROSS JOIN "fencepost".floor f
  LEFT JOIN "fencepost".marks m ON true
 GROUP BY c.cutoff, f.number

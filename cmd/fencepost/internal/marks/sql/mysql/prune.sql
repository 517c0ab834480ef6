-- What a prune would delete. {1} age in units of 10 µs. Returns the cutoff, the floor, the number of marks below the cutoff,
-- and the number of marks.
SELECT c.cutoff, f.number, COUNT(CASE WHEN m.number < c.cutoff THEN 1 END), COUNT(m.number)
  FROM (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10 - {1} AS cutoff) c
 CROSS JOIN fencepost_floor f
  LEFT JOIN fencepost_marks m ON TRUE
 GROUP BY c.cutoff, f.number

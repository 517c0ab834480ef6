-- Marks by number, and the server's clock as a number. No index has the numbers: the server reads and sorts all marks.
-- {1} prefix of the resource, {2} the limit, {3} the lowest numbers first.
SELECT m.resource, m.number, m.holder, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10
  FROM fencepost_marks m
 WHERE LEFT(m.resource, OCTET_LENGTH({1})) = {1}
 ORDER BY CASE WHEN {3} THEN m.number ELSE -m.number END, m.resource
 LIMIT {2}

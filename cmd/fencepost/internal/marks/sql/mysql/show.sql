-- The floor, the server's clock as a number, and the mark of resource {1}, NULL if it has none.
SELECT f.number, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10, m.number, m.holder
  FROM fencepost_floor f LEFT JOIN fencepost_marks m ON m.resource = {1}

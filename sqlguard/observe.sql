-- Arguments as of admit.sql. One row: the mark that would have refused, or NULL for admitted.
SELECT mark.number, mark.holder
  FROM (SELECT 1) AS always LEFT JOIN "fencepost".observe($1, $2, $3, $4::integer) AS mark ON true

-- $1 to $4 as of postgres_admit.sql. One row: the mark that would have refused, NULL for admitted, or 0 where older writers
-- kept it from judging.
SELECT mark.number, mark.holder
  FROM (SELECT 1) AS always LEFT JOIN "fencepost".observe($1, $2, $3, $4::integer) AS mark ON true

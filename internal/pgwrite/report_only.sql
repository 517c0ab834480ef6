-- Arguments: see admit.sql. Returns one row: the mark that would have refused, or NULL
-- for admitted.
SELECT mark.number, mark.holder
  FROM (SELECT 1) AS always LEFT JOIN "fencepost".report_only($1, $2, $3, $4::integer) AS mark ON true
   FOR UPDATE

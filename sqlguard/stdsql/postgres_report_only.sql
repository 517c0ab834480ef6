-- $1 to $4: see postgres_admit.sql. Returns one row: the mark that would have refused,
-- NULL for admitted, or 0 if older writers prevented the comparison. The last column is
-- the one of postgres_admit.sql.
SELECT mark.number, mark.holder, pg_catalog.current_setting('fencepost.engine', true)
  FROM (SELECT 1) AS always LEFT JOIN "fencepost".report_only($1, $2, $3, $4::integer) AS mark ON true
   FOR UPDATE

-- $1 the key as text, $2 resource, $3 number, $4 holder. One row: key and mark of the row, and the mark of the resource, or
-- the floor, that refuses the token, which is asked for where the row does not refuse it. What is not there is NULL. And
-- whether the table has rules, or triggers that may pass a row over and write something in its place: asked where neither
-- refuses the token.
SELECT t."key"::pg_catalog.text, t."number"::bigint, t."holder"::pg_catalog.text, mark.number, mark.holder,
       CASE WHEN /* admits */
            THEN EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = t.tableoid AND c.relhasrules)
              OR EXISTS (SELECT FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid = t.tableoid AND NOT g.tgisinternal
                            AND g.tgtype::integer & 3 = 3 AND g.tgname::pg_catalog.text <> 'zz_fencepost_row')
            ELSE false
       END
  FROM (SELECT 1) AS always
  LEFT JOIN "table" AS t ON t."key" = $1
  LEFT JOIN LATERAL "fencepost".refusing(CASE WHEN t."key" IS NULL OR /* admits */ THEN $2::pg_catalog.text END, $3, $4) AS mark ON true

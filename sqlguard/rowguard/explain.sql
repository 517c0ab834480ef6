-- $1 the key as text, $2 resource, $3 number, $4 holder. Returns one row: the key and the
-- mark of the row; the mark of the resource, or the floor, if it refuses the token (read
-- only if the row's mark does not refuse it); and whether the table has rules, or
-- triggers that may write something in the row's place (read only if neither mark refuses
-- it). Missing values are NULL. Raises an error if the key's type cannot name a resource.
SELECT t."key"::pg_catalog.text, t."number"::bigint, t."holder"::pg_catalog.text, mark.number, mark.holder,
       CASE WHEN /* admits */
            THEN EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = t.tableoid AND c.relhasrules)
              OR EXISTS (SELECT FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid = t.tableoid AND NOT g.tgisinternal
                            AND g.tgtype::integer & 3 = 3 AND g.tgname::pg_catalog.text <> 'zz_fencepost_row')
            ELSE false
       END,
       "fencepost".check_key('"table"', '"key"') IS NULL
  FROM (SELECT 1) AS always
  LEFT JOIN "table" AS t ON t."key" = $1
  LEFT JOIN LATERAL "fencepost".refusing_mark(CASE WHEN t."key" IS NULL OR /* admits */ THEN $2::pg_catalog.text END, $3, $4) AS mark ON true

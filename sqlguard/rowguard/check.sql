-- Arguments: see delete.sql. Raises an error if the row exists and its mark differs from the
-- token's, or if the table writes the key differently, also if there is no row.
SELECT "fencepost".check_row('"table"', '"key"', t."key"::pg_catalog.text, $2, t."number"::bigint, t."holder"::pg_catalog.text, $3, $4)
  FROM (SELECT 1) AS always
  LEFT JOIN "table" AS t ON t."key" = $1

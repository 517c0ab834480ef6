-- Arguments: see delete.sql. Raises an error if the row exists and its mark, or its key,
-- differs from the token's.
SELECT "fencepost".check_row(pg_catalog.pg_typeof(t."key"), t."key"::pg_catalog.text, $2, t."number"::bigint, t."holder"::pg_catalog.text, $3, $4)
  FROM "table" AS t WHERE t."key" = $1

-- $1 and $2 the key as text. Returns the row's mark and locks the row, so that the mark
-- stays the same until the transaction ends.
SELECT t."number"::bigint, t."holder"::pg_catalog.text
  FROM "table" AS t WHERE t."key" = $1 AND t."key"::pg_catalog.text COLLATE "C" = $2
   FOR NO KEY UPDATE

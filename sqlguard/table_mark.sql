-- $1 and $2 the key as text. The row's mark, which stays what it is until the transaction ends.
SELECT t."number"::bigint, t."holder"::pg_catalog.text
  FROM "table" AS t WHERE t."key" = $1 AND t."key"::pg_catalog.text COLLATE "C" = $2
   FOR NO KEY UPDATE

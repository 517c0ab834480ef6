-- Like insert.sql, and like update.sql if the row exists.
INSERT INTO "table" AS t ("key", "number", "holder"/* names */)
VALUES ($1, $3::bigint, $4::pg_catalog.text/* values */)
ON CONFLICT ("key") DO UPDATE SET /* excluded *//* mark */
 WHERE /* own */
RETURNING "fencepost".check_row('"table"', '"key"', t."key"::pg_catalog.text, $2, /* got */, $3, $4)

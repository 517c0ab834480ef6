-- As table_insert.sql, and as table_update.sql where the row is there.
INSERT INTO "table" AS t ("key", "number", "holder"/* names */)
VALUES ($1, $3::bigint, $4::pg_catalog.text/* values */)
ON CONFLICT ("key") DO UPDATE SET /* excluded *//* mark */
 WHERE /* own */
RETURNING "fencepost".check_row(pg_catalog.pg_typeof(t."key"), t."key"::pg_catalog.text, $2, /* got */, $3, $4)

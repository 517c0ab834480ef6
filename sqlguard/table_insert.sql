-- Arguments as of table_update.sql. A key that the table writes differently is an error, and so is a row that has not got
-- the mark; no row is inserted then.
INSERT INTO "table" AS t ("key", "number", "holder"/* names */)
VALUES ($1, $3::bigint, $4::pg_catalog.text/* values */)
RETURNING "fencepost".check_row(pg_catalog.pg_typeof(t."key"), t."key"::pg_catalog.text, $2, /* got */, $3, $4)

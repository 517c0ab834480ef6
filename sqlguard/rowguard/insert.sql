-- Arguments: see update.sql. If the table writes the key differently, or the new row does
-- not have the mark, an error is raised and no row is inserted.
INSERT INTO "table" AS t ("key", "number", "holder"/* names */)
VALUES ($1, $3::bigint, $4::pg_catalog.text/* values */)
RETURNING "fencepost".check_row('"table"', '"key"', t."key"::pg_catalog.text, $2, /* got */, $3, $4)

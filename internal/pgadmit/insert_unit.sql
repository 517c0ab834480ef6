-- Inserts the unit $2 of resource $1, with the fingerprint $3, to be kept for $4 (milliseconds with the unit).
SELECT pg_catalog.encode("fencepost".insert_unit($1, $2, $3::bytea, $4::text::interval), 'hex')
   FOR UPDATE

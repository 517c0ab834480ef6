-- Finds the unit $2 of resource $1, with the fingerprint $3.
SELECT "fencepost".find_unit($1, $2, $3::bytea)
   FOR UPDATE

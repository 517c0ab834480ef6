-- $1 resource, $2 number or NULL.
SELECT "fencepost".reset($1, $2)

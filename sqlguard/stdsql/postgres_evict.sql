-- $1 resource, $2 number below which its mark must be
SELECT "fencepost".evict($1, $2)

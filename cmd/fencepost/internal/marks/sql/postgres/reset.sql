-- Lowers the mark of resource $1 to number $2, or to the clock if $2 is NULL.
SELECT "fencepost".reset($1, $2)

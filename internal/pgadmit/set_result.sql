-- Sets the result $3 of the unit $2 of resource $1.
SELECT "fencepost".set_result($1, $2, $3::bytea)
   FOR UPDATE

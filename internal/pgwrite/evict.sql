-- $1 resource, $2 number. Ends the sessions of writers with a lower number.
SELECT "fencepost".evict($1, $2)
   FOR UPDATE

-- $1 resource, $2 holder, $3 like $4 of admit.sql.
SELECT "fencepost".mint($1, $2, $3::integer)
   FOR UPDATE

-- $1 is the name of a transaction.
SELECT "fencepost".end_transaction($1)
   FOR UPDATE

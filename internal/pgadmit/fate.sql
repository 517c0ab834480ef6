-- $1 is the name of a transaction.
SELECT "fencepost".transaction_fate($1)
   FOR UPDATE

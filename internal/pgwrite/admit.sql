-- $1 resource, $2 number, $3 holder, $4 how long a raise waits for older writers, in
-- milliseconds: 0 for no limit, below 0 for no raise (ZF004). FOR UPDATE locks nothing,
-- here and in the other files. It keeps a pooler that splits reads from writes from
-- sending the statement to a standby.
SELECT "fencepost".admit($1, $2, $3, $4::integer)
   FOR UPDATE

-- $1 resource, $2 number, $3 holder, $4 how long a raise waits for older writers, in milliseconds: 0 for ever, below 0 for
-- no raise at all (ZF004)
SELECT "fencepost".admit($1, $2, $3, $4::integer)

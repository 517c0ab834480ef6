-- $1 resource, $2 number, $3 holder, $4 how long a raise waits for older writers, in
-- milliseconds: 0 for no limit, below 0 for no raise (ZF004). $5 how long the transaction
-- may then be idle, in milliseconds, or less if the session's own setting is shorter; 0
-- keeps the session's setting. The last column is NULL or empty in a session that was not
-- checked: see postgres.go. FOR UPDATE locks nothing, here and in the other files. It
-- keeps a pooler that splits reads from writes from sending the statement to a standby.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       pg_catalog.set_config('idle_in_transaction_session_timeout',
         CASE WHEN $5::integer > 0 AND (pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
                OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $5::integer * interval '1 millisecond')
              THEN $5::integer::text
              ELSE pg_catalog.current_setting('idle_in_transaction_session_timeout')
         END, true),
       pg_catalog.current_setting('fencepost.engine', true)
   FOR UPDATE

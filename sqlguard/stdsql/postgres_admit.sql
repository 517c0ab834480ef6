-- $1 resource, $2 number, $3 holder, $4 how long a raise waits for older writers, in milliseconds: 0 for ever, below 0 for
-- no raise at all (ZF004). The transaction may then be idle for $5 milliseconds at most, or less where the session says so;
-- 0 leaves it to the session.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       pg_catalog.set_config('idle_in_transaction_session_timeout',
         CASE WHEN $5::integer > 0 AND (pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
                OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $5::integer * interval '1 millisecond')
              THEN $5::integer::text
              ELSE pg_catalog.current_setting('idle_in_transaction_session_timeout')
         END, true)

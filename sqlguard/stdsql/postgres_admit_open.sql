-- Like postgres_admit.sql, for a transaction of the guard's own that stays open. The
-- second column is the transaction's name, for a COMMIT whose reply is lost.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       pg_catalog.concat_ws(' ', pg_catalog.pg_current_xact_id(), pg_catalog.pg_backend_pid(),
         CASE WHEN pg_catalog.starts_with(pg_catalog.current_setting('fencepost.incarnation', true), pg_catalog.concat("fencepost".lock_key(''), '/'))
              THEN pg_catalog.current_setting('fencepost.incarnation', true)
              ELSE "fencepost".session_incarnation()
         END),
       pg_catalog.set_config('idle_in_transaction_session_timeout',
         CASE WHEN $5::integer > 0 AND (pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
                OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $5::integer * interval '1 millisecond')
              THEN $5::integer::text
              ELSE pg_catalog.current_setting('idle_in_transaction_session_timeout')
         END, true)
   FOR UPDATE

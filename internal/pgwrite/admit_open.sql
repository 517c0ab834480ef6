-- Like admit.sql, for a transaction that stays open. It may be idle for $5 (milliseconds
-- with the unit, or NULL for no limit), or less if the session's own setting is shorter.
-- The second column is the transaction's name, for a COMMIT whose reply is lost.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       pg_catalog.concat_ws(' ', pg_catalog.pg_current_xact_id(), pg_catalog.pg_backend_pid(),
         CASE WHEN pg_catalog.starts_with(pg_catalog.current_setting('fencepost.incarnation', true), pg_catalog.concat("fencepost".lock_key(''), '/'))
              THEN pg_catalog.current_setting('fencepost.incarnation', true)
              ELSE "fencepost".session_incarnation()
         END),
       CASE WHEN $5::text IS NOT NULL
             AND (pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
              OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $5::text::interval)
            THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $5::text, true)
       END
   FOR UPDATE

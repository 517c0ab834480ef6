-- Like admit.sql. The transaction may then be idle for $5 (milliseconds with the unit),
-- or less if the session's own setting is shorter.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       CASE WHEN pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
              OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $5::text::interval
            THEN pg_catalog.set_config('idle_in_transaction_session_timeout', $5::text, true)
       END
   FOR UPDATE

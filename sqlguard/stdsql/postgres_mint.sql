-- $1 resource, $2 holder, $3 how long to wait for older writers, in milliseconds, 0 for
-- no limit. $4 like $5 of postgres_admit.sql, whose last column this has too.
SELECT "fencepost".mint($1, $2, $3::integer),
       pg_catalog.set_config('idle_in_transaction_session_timeout',
         CASE WHEN $4::integer > 0 AND (pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
                OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $4::integer * interval '1 millisecond')
              THEN $4::integer::text
              ELSE pg_catalog.current_setting('idle_in_transaction_session_timeout')
         END, true),
       pg_catalog.current_setting('fencepost.engine', true)
   FOR UPDATE

-- Like postgres_admit.sql. The commit then waits for the disk, and for the standbys if
-- the session's synchronous_commit requires it.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN pg_catalog.set_config('synchronous_commit', 'on', true)
       END,
       -- An earlier write of the mark may have been committed asynchronously. Only a
       -- transaction that has written waits for the log.
       CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NULL
            THEN pg_catalog.pg_logical_emit_message(true, 'fencepost', ''::pg_catalog.text)
       END,
       pg_catalog.set_config('idle_in_transaction_session_timeout',
         CASE WHEN $5::integer > 0 AND (pg_catalog.current_setting('idle_in_transaction_session_timeout') = '0'
                OR pg_catalog.current_setting('idle_in_transaction_session_timeout')::interval > $5::integer * interval '1 millisecond')
              THEN $5::integer::text
              ELSE pg_catalog.current_setting('idle_in_transaction_session_timeout')
         END, true)
   FOR UPDATE

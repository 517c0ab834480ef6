-- Makes the commit of this transaction wait for everything that it could see: for the
-- disk, and for the standbys if the server has synchronous ones. The client gets every
-- WARNING: PostgreSQL answers a wait that was cancelled with one, and with success.
SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN pg_catalog.set_config('synchronous_commit', 'on', true)
       END,
       CASE WHEN pg_catalog.current_setting('client_min_messages') = 'error'
            THEN pg_catalog.set_config('client_min_messages', 'warning', true)
       END,
       -- Only a transaction that has written waits.
       pg_catalog.pg_logical_emit_message(true, 'fencepost', ''::pg_catalog.text)
   FOR UPDATE

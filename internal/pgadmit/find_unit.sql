-- Finds the unit $2 of resource $1, with the fingerprint $3. Its commit waits as that of confirm.sql.
SELECT pg_catalog.encode("fencepost".find_unit($1, $2, $3::bytea), 'hex'),
       CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN pg_catalog.set_config('synchronous_commit', 'on', true)
       END,
       pg_catalog.pg_logical_emit_message(true, 'fencepost', ''::pg_catalog.text)
   FOR UPDATE

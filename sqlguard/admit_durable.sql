-- As admit.sql. The commit then waits for the disk, and as remote_apply for the standbys where the session says so.
SELECT "fencepost".admit($1, $2, $3, $4::integer),
       CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN pg_catalog.set_config('synchronous_commit', 'on', true)
       END

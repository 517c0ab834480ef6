-- The sessions that hold the lock of resource $1 or wait for it. Writers under the mark share the lock; raising the mark takes
-- it exclusively. pg_locks shows a 64-bit key as two halves, with objsubid 1. A prepared transaction (pg_prepared_xacts) keeps
-- its locks without a process.
SELECT coalesce(l.pid, 0), CASE l.mode WHEN 'ShareLock' THEN 'shared' ELSE 'exclusive' END, l.granted,
       coalesce(a.usename::text, ''), coalesce(a.application_name, ''),
       CASE WHEN l.pid IS NULL THEN 'prepared' ELSE coalesce(a.state, '') END, a.xact_start
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid,
       {schema}.lock_key($1) k
 WHERE l.locktype = 'advisory' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND l.classid = ((k >> 32) & 4294967295)::oid AND l.objid = (k & 4294967295)::oid AND l.objsubid = 1
 ORDER BY l.granted DESC, a.xact_start NULLS LAST, l.pid

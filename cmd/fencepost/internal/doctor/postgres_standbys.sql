-- Who follows physically: all of them, those that commits wait for, those of which this role may not see the state; and the
-- names. Logical ones have a logical slot.
SELECT current_setting('synchronous_standby_names'),
       count(*),
       count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
       count(*) FILTER (WHERE sync_state IS NULL),
       coalesce(string_agg(concat_ws(' ', nullif(application_name, ''), sync_state), ', ' ORDER BY application_name), '')
  FROM pg_stat_replication r
 WHERE NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')

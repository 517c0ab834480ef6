SELECT l.resource, l.number, CASE WHEN l.held THEN l.holder ELSE '' END AS holder,
       CASE WHEN l.held THEN (extract(epoch FROM least(l.expires_at, l.clock + interval '290 years') - l.clock) * 1000000)::bigint * 1000 ELSE 0 END AS remaining,
       (SELECT json_agg(w.holder ORDER BY w.ticket, w.holder) FROM {schema}.waiters w WHERE w.resource = l.resource) AS waiters
  FROM (SELECT *, statement_timestamp() AS clock, holder <> '' AND expires_at > statement_timestamp() AS held FROM {schema}.leases) l

SELECT granted, coalesce(number, 0), coalesce(holder, ''),
       coalesce(extract(epoch FROM ttl) * 1000000, 0)::bigint
  FROM {schema}.advisory_acquire($1, $2, $3::integer, $4::integer)

SELECT granted, coalesce(number, 0), coalesce(holder, ''),
       coalesce(extract(epoch FROM remaining) * 1000000, 0)::bigint,
       coalesce(extract(epoch FROM waited) * 1000000, 0)::bigint
  FROM {schema}.acquire($1, $2, $3::bigint * interval '1 microsecond')

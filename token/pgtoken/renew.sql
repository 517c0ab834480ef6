SELECT renewed, coalesce(extract(epoch FROM waited) * 1000000, 0)::bigint
  FROM {schema}.renew($1, $2, $3::bigint * interval '1 microsecond')

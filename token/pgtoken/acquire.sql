SELECT {schema}.try_acquire($1, $2, $3::bigint * interval '1 microsecond', $4)

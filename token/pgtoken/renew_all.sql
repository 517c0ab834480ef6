SELECT {schema}.renew_all($1::text[], $2::text[], $3::bigint[])

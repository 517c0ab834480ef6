SELECT {schema}.advisory_renew($1, $2, $3::integer)::integer::bigint

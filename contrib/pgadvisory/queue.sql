SELECT {schema}.advisory_prepare($1, $2, $3::integer, $4::integer)

SELECT {schema}.advisory_queue($1, $2, $3::integer, $4::integer)

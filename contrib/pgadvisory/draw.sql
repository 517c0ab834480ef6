SELECT {schema}.advisory_draw($1, $2, $3::integer)

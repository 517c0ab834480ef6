SELECT {schema}.advisory_raise($1, $2)

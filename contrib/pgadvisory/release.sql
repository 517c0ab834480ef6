SELECT {schema}.advisory_release($1, $2)

SELECT {schema}.advisory_recover($1, $2)

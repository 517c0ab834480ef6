SELECT {schema}.recover($1, $2)

SELECT {schema}.leave($1, $2)

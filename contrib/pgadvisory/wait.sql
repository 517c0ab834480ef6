SELECT {schema}.advisory_wait($1, $2, $3::integer)

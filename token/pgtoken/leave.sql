SELECT {schema}.leave_queue($1, $2)

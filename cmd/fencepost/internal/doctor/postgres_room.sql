-- How many connections there may be, not counting those kept for superusers, and how many there are.
SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
       (SELECT count(*) FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend')

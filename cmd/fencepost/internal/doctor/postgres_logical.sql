-- The publications and the subscriptions that have tables of schema $1.
SELECT (SELECT coalesce(string_agg(DISTINCT pubname, ', '), '') FROM pg_publication_tables WHERE schemaname = $1),
       (SELECT coalesce(string_agg(DISTINCT c.relname, ', '), '')
          FROM pg_subscription_rel r JOIN pg_class c ON c.oid = r.srrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = $1)

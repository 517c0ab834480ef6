-- Whether autovacuum runs, and the tables of schema $1 that it passes over.
SELECT current_setting('autovacuum'), current_setting('track_counts'),
       (SELECT coalesce(string_agg(c.relname, ', ' ORDER BY c.relname), '')
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = $1 AND EXISTS (SELECT FROM unnest(c.reloptions) o WHERE lower(o) IN ('autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0', 'autovacuum_enabled=no')))

-- Returns one row: whether the schema "fencepost" exists, whether this role may use it,
-- whether it has version(), whether this role may execute that, whether it may read Up's
-- version table, and the role's name. It reads catalogs only.
SELECT n.oid IS NOT NULL,
       coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false),
       v.oid IS NOT NULL,
       coalesce(pg_catalog.has_function_privilege(v.oid, 'EXECUTE'), false),
       coalesce(pg_catalog.has_table_privilege(t.oid, 'SELECT'), false),
       pg_catalog.quote_ident(current_user)
  FROM (SELECT 1) AS always
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = 'fencepost'
  LEFT JOIN pg_catalog.pg_proc v ON v.pronamespace = n.oid AND v.proname = 'version' AND v.pronargs = 0
  LEFT JOIN pg_catalog.pg_class t ON t.relnamespace = n.oid AND t.relname = 'fencepost_migrations' AND t.relkind = 'r'

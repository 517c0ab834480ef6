-- What the role lacks, as GRANTs on one line, empty where it lacks nothing. $1 the schema's name, $2 the tables to be read,
-- $3 the functions to be executed, as in 'prune(bigint, integer)'. What is not there is not missing here.
SELECT coalesce(string_agg(g.text, '; ' ORDER BY g.part, g.text), '')
  FROM pg_namespace n,
       LATERAL (SELECT 1, format('GRANT USAGE ON SCHEMA %I TO %I', n.nspname, current_user)
                 WHERE NOT has_schema_privilege(n.oid, 'USAGE')
                UNION ALL
                SELECT 2, format('GRANT SELECT ON %I.%I TO %I', n.nspname, c.relname, current_user)
                  FROM pg_class c
                 WHERE c.relnamespace = n.oid AND c.relname = ANY ($2::text[]) AND NOT has_table_privilege(c.oid, 'SELECT')
                UNION ALL
                SELECT 3, format('GRANT EXECUTE ON FUNCTION %I.%s TO %I', n.nspname, f.name, current_user)
                  FROM pg_proc p, unnest($3::text[]) f (name)
                 WHERE p.pronamespace = n.oid AND p.proname || '(' || oidvectortypes(p.proargtypes) || ')' = f.name
                   AND NOT has_function_privilege(p.oid, 'EXECUTE')) g (part, text)
 WHERE n.nspname = $1

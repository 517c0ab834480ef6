-- What is wrong in the schema "fencepost", one sentence a row with its cure, and whether something is missing, as it is
-- wherever the schema is older than the program. It reads catalogs only, so that it works for a role that has nothing but
-- USAGE.
WITH space AS (
  SELECT oid, pg_catalog.quote_ident(nspname) AS name FROM pg_catalog.pg_namespace WHERE nspname = 'fencepost'
), called (signature) AS (  -- with the application's role, by the library or by a function that runs as its caller
  VALUES ('acquire(text, text, interval)'), ('admit(text, bigint, text, integer)'),
         ('advisory_acquire(text, text, integer, integer)'), ('advisory_draw(text, text, integer)'), ('advisory_queue(text, text, integer, integer)'),
         ('advisory_raise(text, bigint)'), ('advisory_release(text, text)'), ('advisory_renew(text, text, integer)'),
         ('advisory_wait(text, text, integer)'), ('ask(text, text, interval, boolean, bigint, bigint, interval)'),
         ('check_row(regtype, text, text, bigint, text, bigint, text)'), ('evict(text, bigint)'), ('leave(text, text)'), ('lock_key(text)'),
         ('mark_number(text)'), ('mint(text, text, integer)'), ('observe(text, bigint, text, integer)'),
         ('raise(text, bigint)'), ('refusing(text, bigint, text)'), ('release(text, text)'), ('renew(text, text, interval)'),
         ('renew_all(text[], text[], bigint[])'), ('version()')
), functions AS (
  SELECT space.name || '.' || signature AS name, p.oid
    FROM space CROSS JOIN called
    LEFT JOIN pg_catalog.pg_proc p ON p.pronamespace = space.oid
     AND p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' = signature
), reserved AS (
  SELECT space.name || '.' || p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' AS name
    FROM space JOIN pg_catalog.pg_proc p ON p.pronamespace = space.oid
   WHERE p.proname IN ('prune', 'reset')
     AND EXISTS (SELECT FROM pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a WHERE a.grantee = 0)
), kept (relation, kind) AS (
  VALUES ('marks', 'TABLE'), ('floor', 'TABLE'), ('leases', 'TABLE'), ('waiters', 'TABLE'), ('advisory', 'TABLE'), ('numbers', 'SEQUENCE')
), relations AS (
  SELECT kind, pg_catalog.lower(kind) || ' ' || space.name || '.' || relation AS what,
         'ALTER ' || kind || ' ' || space.name || '.' || relation AS alter, space.name || '.' || relation AS name, c.oid, c.relpersistence, c.relowner
    FROM space CROSS JOIN kept
    LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = space.oid AND c.relname = relation
     AND c.relkind = CASE kind WHEN 'TABLE' THEN 'r' ELSE 'S' END
), sequences AS (
  SELECT * FROM relations r JOIN pg_catalog.pg_sequence s ON s.seqrelid = r.oid
), findings (part, missing, finding) AS (
  SELECT 1, true, what || ' is not there: restore it from a backup; a new one, as fencepost migrate print makes it, has forgotten what was refused'
    FROM relations WHERE oid IS NULL
  UNION ALL
  SELECT 2, false, what || ' is UNLOGGED, so a crash empties it: ' || alter || ' SET LOGGED'
    FROM relations WHERE relpersistence <> 'p'
  UNION ALL
  SELECT 3, false, what || ' has CACHE ' || seqcache || ', so each session draws from a block of its own, and numbers fall: ' || alter || ' CACHE 1'
    FROM sequences WHERE seqcache <> 1
  UNION ALL
  SELECT 3, false, what || ' has CYCLE, so it begins again: ' || alter || ' NO CYCLE'
    FROM sequences WHERE seqcycle
  UNION ALL
  SELECT 3, false, what || ' has INCREMENT ' || seqincrement || ': ' || alter || ' INCREMENT 1'
    FROM sequences WHERE seqincrement <> 1
  UNION ALL
  SELECT 3, false, what || ' has MAXVALUE ' || seqmax || ', and numbers have fifteen digits: ' || alter || ' MAXVALUE 999999999999999'
    FROM sequences WHERE seqmax <> 999999999999999
  UNION ALL
  SELECT 4, true, 'function ' || name || ' is not there: make it again, as fencepost migrate print does'
    FROM functions WHERE oid IS NULL
  UNION ALL
  SELECT 4, false, pg_catalog.format('role %I may not execute function %s: GRANT EXECUTE ON FUNCTION %s TO %I', current_user, name, name, current_user)
    FROM functions WHERE NOT pg_catalog.has_function_privilege(oid, 'EXECUTE')
  UNION ALL  -- as a restore without privileges leaves it
  SELECT 5, false, 'everybody may execute function ' || name || ', which is not for writers: REVOKE EXECUTE ON FUNCTION ' || name || ' FROM PUBLIC'
    FROM reserved
  UNION ALL  -- an owner may too, as everybody is in development: that is no grant
  SELECT 6, false, pg_catalog.format('role %I was granted the right to change %s past the functions: REVOKE ALL ON %s FROM %I, PUBLIC', current_user, what, name, current_user)
    FROM relations WHERE pg_catalog.has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE') AND NOT pg_catalog.pg_has_role(relowner, 'USAGE')
)
SELECT missing, finding FROM findings ORDER BY part, finding

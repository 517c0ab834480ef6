-- Returns one row for each defect of the schema "fencepost": a sentence with its remedy, and whether an object is missing,
-- which is expected if the schema is older than the program. It reads only catalogs, so a role with USAGE alone can run it.
WITH space AS (
  SELECT oid, pg_catalog.quote_ident(nspname) AS name FROM pg_catalog.pg_namespace WHERE nspname = 'fencepost'
), called (signature) AS (  -- called with the application's role: by the library, or by a function that runs as its caller
  VALUES ('acquire(text, text, interval)'), ('admit(text, bigint, text, integer)'),
         ('check_key(regclass, name)'), ('check_row(regclass, name, text, text, bigint, text, bigint, text)'),
         ('end_transaction(text)'), ('evict(text, bigint)'),
         ('find_unit(text, text, bytea)'), ('incarnation()'), ('insert_unit(text, text, bytea, interval)'),
         ('leave_queue(text, text)'), ('lock_key(text)'), ('mark_number(text)'), ('mint(text, text, integer)'),
         ('recover(text, bigint)'), ('refusing_mark(text, bigint, text)'), ('release(text, text)'),
         ('renew(text, text, interval)'), ('renew_all(text[], text[], bigint[])'),
         ('report_only(text, bigint, text, integer)'), ('session_incarnation()'),
         ('set_result(text, text, bytea)'), ('text_problem(oid, integer, oid)'), ('transaction_fate(text)'),
         ('try_acquire(text, text, interval, boolean, bigint, bigint, interval)'), ('version()')
), functions AS (
  SELECT space.name || '.' || signature AS name, p.oid
    FROM space CROSS JOIN called
    LEFT JOIN pg_catalog.pg_proc p ON p.pronamespace = space.oid
     AND p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' = signature
), bodies AS (  -- by name: no two functions have one name. The program puts the sums of its own bodies here
  SELECT key AS function, value AS sum FROM pg_catalog.json_each_text('{}')
), reserved AS (
  SELECT space.name || '.' || p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ')' AS name
    FROM space JOIN pg_catalog.pg_proc p ON p.pronamespace = space.oid
   WHERE p.proname IN ('prune', 'prune_units', 'reset')
     AND EXISTS (SELECT FROM pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a WHERE a.grantee = 0)
), kept (relation, kind) AS (
  VALUES ('marks', 'TABLE'), ('floor', 'TABLE'), ('leases', 'TABLE'), ('waiters', 'TABLE'), ('units', 'TABLE'),
         ('incarnation', 'TABLE'), ('numbers', 'SEQUENCE')
), relations AS (
  SELECT kind, pg_catalog.lower(kind) || ' ' || space.name || '.' || relation AS what,
         'ALTER ' || kind || ' ' || space.name || '.' || relation AS alter, space.name || '.' || relation AS name, c.oid, c.relpersistence, c.relowner
    FROM space CROSS JOIN kept
    LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = space.oid AND c.relname = relation
     AND c.relkind = CASE kind WHEN 'TABLE' THEN 'r' ELSE 'S' END
), sequences AS (
  SELECT * FROM relations r JOIN pg_catalog.pg_sequence s ON s.seqrelid = r.oid
), findings (part, missing, finding) AS (
  SELECT 1, true, what || ' is not there: restore it from a backup; a new one, from fencepost migrate print, is empty, so '
      || CASE WHEN name LIKE '%.units' THEN 'units of Once that are repeated are applied again' ELSE 'stale tokens are admitted' END
    FROM relations WHERE oid IS NULL AND name NOT LIKE '%.incarnation'
  UNION ALL
  SELECT 1, true, what || ' is not there: create it again, from fencepost migrate print'
    FROM relations WHERE oid IS NULL AND name LIKE '%.incarnation'
  UNION ALL
  SELECT 2, false, what || ' is UNLOGGED, so a crash empties it: ' || alter || ' SET LOGGED'
    FROM relations WHERE relpersistence <> 'p' AND name NOT LIKE '%.incarnation'
  UNION ALL
  SELECT 2, false, what || ' is not UNLOGGED, so no lost COMMIT is settled: ' || alter || ' SET UNLOGGED'
    FROM relations WHERE relpersistence <> 'u' AND name LIKE '%.incarnation'
  UNION ALL
  SELECT 3, false, what || ' has CACHE ' || seqcache || ', so each session draws from a block of its own, and numbers fall: ' || alter || ' CACHE 1'
    FROM sequences WHERE seqcache <> 1
  UNION ALL
  SELECT 3, false, what || ' has CYCLE, so its numbers start again: ' || alter || ' NO CYCLE'
    FROM sequences WHERE seqcycle
  UNION ALL
  SELECT 3, false, what || ' has INCREMENT ' || seqincrement || ': ' || alter || ' INCREMENT 1'
    FROM sequences WHERE seqincrement <> 1
  UNION ALL
  SELECT 3, false, what || ' has MAXVALUE ' || seqmax || ', and numbers have fifteen digits: ' || alter || ' MAXVALUE 999999999999999'
    FROM sequences WHERE seqmax <> 999999999999999
  UNION ALL
  SELECT 4, true, 'function ' || name || ' is not there: create it again, from fencepost migrate print'
    FROM functions WHERE oid IS NULL
  UNION ALL
  SELECT 4, false, pg_catalog.format('role %I may not execute function %s: GRANT EXECUTE ON FUNCTION %s TO %I', current_user, name, name, current_user)
    FROM functions WHERE NOT pg_catalog.has_function_privilege(oid, 'EXECUTE')
  UNION ALL  -- migrations that were rewritten in place, or a function that was changed by hand
  SELECT 4, false, 'function ' || space.name || '.' || p.proname || '(' || pg_catalog.oidvectortypes(p.proargtypes) || ') is another than this program''s: '
      || 'replace it with that of fencepost migrate print, as CREATE OR REPLACE FUNCTION'
    FROM space JOIN pg_catalog.pg_proc p ON p.pronamespace = space.oid JOIN bodies ON bodies.function = p.proname
   WHERE pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.replace(p.prosrc, E'\r', ''), 'UTF8')), 'hex') <> bodies.sum
  UNION ALL  -- the state after a restore without privileges
  SELECT 5, false, 'PUBLIC may execute function ' || name || ', which is not for writers: REVOKE EXECUTE ON FUNCTION ' || name || ' FROM PUBLIC'
    FROM reserved
  UNION ALL  -- an owner has the right without a grant, as in development
  SELECT 6, false, pg_catalog.format('role %I was granted the right to change %s without the functions: REVOKE ALL ON %s FROM %I, PUBLIC', current_user, what, name, current_user)
    FROM relations WHERE pg_catalog.has_table_privilege(oid, 'INSERT, UPDATE, DELETE, TRUNCATE') AND NOT pg_catalog.pg_has_role(relowner, 'USAGE')
)
SELECT missing, finding FROM findings ORDER BY part, finding

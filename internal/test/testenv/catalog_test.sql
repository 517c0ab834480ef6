-- One line for each catalog entry of a schema, with its name replaced and without ids of
-- its own.
WITH mine AS (SELECT oid, nspname, nspacl, nspowner FROM pg_namespace WHERE nspname = $1), said AS (
  SELECT 'schema', ''::text, concat_ws(' ', nspacl, nspowner::regrole::text) FROM mine
  UNION ALL
  SELECT 'relation', relname, concat_ws(' ', relkind, relpersistence, reloptions, relacl, relowner::regrole, relrowsecurity)
    FROM pg_class JOIN mine ON relnamespace = mine.oid WHERE relkind <> 'c'
  UNION ALL
  SELECT 'column', relname || '.' || attname, concat_ws(' ', attnum, format_type(atttypid, atttypmod), attcollation::regcollation,
         attnotnull, attidentity, attacl, attstorage, pg_get_expr(adbin, adrelid))
    FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN mine ON relnamespace = mine.oid
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attnum > 0
  UNION ALL
  SELECT 'index', indexrelid::regclass::text, pg_get_indexdef(indexrelid)
    FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN mine ON relnamespace = mine.oid
  UNION ALL
  SELECT 'constraint', conname, concat_ws(' ', conrelid::regclass, contypid::regtype, pg_get_constraintdef(c.oid))
    FROM pg_constraint c JOIN mine ON connamespace = mine.oid
  UNION ALL
  SELECT 'type', typname, concat_ws(' ', typtype, format_type(typbasetype, typtypmod), typcollation::regcollation, typnotnull, typdefault, typacl)
    FROM pg_type JOIN mine ON typnamespace = mine.oid WHERE typtype IN ('d', 'e', 'c')
  UNION ALL
  SELECT 'sequence', seqrelid::regclass::text, concat_ws(' ', seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle)
    FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid JOIN mine ON relnamespace = mine.oid
  UNION ALL
  SELECT 'function', p.oid::regprocedure::text, concat_ws(' ', pg_get_functiondef(p.oid), proacl, proowner::regrole)
    FROM pg_proc p JOIN mine ON pronamespace = mine.oid
  UNION ALL
  SELECT 'trigger', tgname, pg_get_triggerdef(t.oid)
    FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid JOIN mine ON relnamespace = mine.oid WHERE NOT tgisinternal
  UNION ALL
  SELECT 'comment', classoid::regclass::text, description FROM pg_description
   WHERE objoid IN (SELECT oid FROM mine UNION SELECT c.oid FROM pg_class c JOIN mine ON relnamespace = mine.oid
                    UNION SELECT p.oid FROM pg_proc p JOIN mine ON pronamespace = mine.oid)
)
SELECT replace(concat_ws(' | ', kind, name, text), $1, 'SCHEMA') FROM said AS s (kind, name, text) ORDER BY 1

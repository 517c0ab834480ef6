-- Protected tables. A trigger refuses (SQLSTATE ZF003) every INSERT, UPDATE and DELETE of a row if this transaction was not
-- admitted for the row's resource, and every TRUNCATE. It catches code without the guard. It does not stop an attacker:
-- the admissions are in the setting fencepost.admitted, which any session can set.
--
--   SELECT fencepost.protect('accounts', $$'account/' || id$$, 'report-only')   warns, refuses nothing
--   SELECT fencepost.protect('accounts', $$'account/' || id$$)                  refuses from now on
--   SELECT * FROM fencepost.protected()                                         lists protected tables and their gaps
--   SELECT fencepost.bypass('accounts', 'JIRA-7: wrong currency')               lifts it until this transaction ends
--   SELECT fencepost.unprotect('accounts')                                      removes it
--
-- They run with the rights of the caller, who must own the table, and have CREATE on its schema and USAGE on this one.
-- Writers need no additional rights.
--
-- * A foreign key's cascade is a write: if the child table is protected, deleting a parent row needs an admission for the
--   child's resource.
-- * Appliers of logical replication, and sessions with session_replication_role = replica, are not refused, because ordinary
--   triggers do not fire for them. ALTER TABLE … ENABLE ALWAYS TRIGGER zz_fencepost_row makes it refuse them as well.
-- * pg_dump includes the triggers and creates them after the data. Restoring only data into a protected table needs
--   --disable-triggers.
-- * A partition has the row trigger as soon as it is attached. It gets the TRUNCATE trigger from the next protect; until
--   then protected() reports the gap. Children of INHERITS are separate tables.
-- * After a column in the expression was renamed, every write fails until the next protect. DROP TABLE leaves the trigger's
--   function behind: call unprotect first.
-- * An INSERT is checked before its ON CONFLICT. An UPDATE or DELETE that finds no row is not checked.
-- * The trigger searches the list of admissions for each row: if a transaction writes n rows under n resources, its time
--   grows with the square of n.

-- +goose Up

-- Lists the triggers that protect made, for all Fencepost schemas in this database. config is the first line of the
-- trigger's function: protect's schema, mode and resource expression.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".protect_triggers()
RETURNS TABLE (tab regclass, name text, inherited boolean, enabled "char", func oid, config json) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $fencepost$
  SELECT t.tgrelid::regclass, t.tgname::text, t.tgparentid <> 0, t.tgenabled, p.oid,
         substring(p.prosrc FROM E'^\n-- fencepost: ([^\n]*)')::json
    FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
   WHERE t.tgname IN ('zz_fencepost_row', 'zz_fencepost_truncate') AND p.prosrc ~ E'^\n-- fencepost: '
$fencepost$;
-- +goose StatementEnd

-- Raises an error if tab is no permanent table, the caller does not own it, another Fencepost schema protects it, or, unless
-- verb is bypass, it is a partition of a protected table.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".protect_check(tab regclass, verb text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  c pg_catalog.pg_class;
  home pg_catalog.text;
BEGIN
  SELECT * INTO c FROM pg_class x WHERE x.oid = tab;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('fencepost: %s: there is no such table', verb);
  ELSIF c.relkind NOT IN ('r', 'p') OR c.relpersistence = 't' THEN
    RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('fencepost: %s: %s is no permanent table', verb, tab);
  ELSIF NOT pg_has_role(c.relowner, 'USAGE') THEN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('fencepost: %s: must be owner of table %s', verb, tab);
  END IF;
  SELECT t.config ->> 'schema' INTO home FROM "fencepost".protect_triggers() t
   WHERE t.tab = protect_check.tab AND t.config ->> 'schema' <> 'fencepost';
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('fencepost: %s: %s is protected by schema %I', verb, tab, home);
  END IF;
  IF verb <> 'bypass' AND EXISTS (SELECT FROM "fencepost".protect_triggers() t WHERE t.tab = protect_check.tab AND t.inherited) THEN
    RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('fencepost: %s: %s is a partition', verb, tab),
      HINT = 'Its protection is that of the table it is a partition of: name that.';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Returns NULL if each value of the type has one text in every session, and equal values have the same. Otherwise one row
-- has several names, each name has a mark of its own, and writers under two of them do not exclude each other. modifier and
-- coll are the type's modifier and collation, as in pg_attribute; 0 leaves either unchecked.
--
-- * The text of a date depends on DateStyle, that of a float on extra_float_digits, that of a bytea on bytea_output, although
--   their output functions may be IMMUTABLE. Arrays and ranges have the texts of their elements.
-- * 1.0 = 1.00 in a numeric without a scale, and 'a' = 'a ' in a bpchar without a length. A nondeterministic collation, and
--   the type citext, also treat several texts as one value.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".text_problem(kind oid, modifier integer, coll oid) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  base pg_catalog.oid := kind;
  class pg_catalog."char";
BEGIN
  WHILE base <> ALL ('{smallint,integer,bigint,oid,numeric,text,varchar,bpchar,name,uuid,boolean,inet,cidr,macaddr,macaddr8,bit,varbit}'::regtype[]) LOOP
    SELECT t.typtype, t.typbasetype, t.typtypmod INTO class, base, modifier FROM pg_type t WHERE t.oid = base;
    IF class = 'e' THEN
      RETURN NULL;
    END IF;
    EXIT WHEN class IS DISTINCT FROM 'd'; -- base is 0, or NULL
  END LOOP;
  IF coalesce(base, 0) = 0 OR modifier = -1 AND base IN ('numeric'::regtype, 'bpchar'::regtype) THEN
    RETURN format('a value of type %s may have several texts; integers, numeric(p,s), text, varchar, char(n), uuid, boolean, enums, '
                  'network addresses and bit strings have one', format_type(kind, NULL));
  END IF;
  IF coll <> 0 THEN
    RETURN (SELECT format('collation %s treats several texts as one value; a deterministic collation does not', coll::regcollation)
              FROM pg_collation c WHERE c.oid = coll AND NOT c.collisdeterministic);
  END IF;
  RETURN NULL;
END
$fencepost$;
-- +goose StatementEnd

-- Returns the resource expression with the record's name before each column, and the schema before every name outside
-- pg_catalog. So it means the same under every search_path, and a column's name is not taken for a variable. PostgreSQL
-- itself parses and prints the expression, as part of a view that is dropped again; the view's WHERE refuses aggregates.
--
-- A row must have one name. So the expression may only have columns, constants, casts, operators, functions, CASE, coalesce,
-- nullif, greatest, NULL tests, AND, OR, NOT and COLLATE, all of types that have one text. What it calls must be IMMUTABLE.
-- That alone would not do: a cast of a date to text calls no function, and quote_ident is IMMUTABLE but depends on a setting.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".protect_expression(tab regclass, resource text, record text) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  view pg_catalog.text := 'fencepost_' || replace(gen_random_uuid()::pg_catalog.text, '-', '');
  made pg_catalog.regclass;
  printed pg_catalog.text;
  problem pg_catalog.text;
  tree pg_catalog.text;
BEGIN
  SELECT format('%I.%I', n.nspname, view) INTO printed FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tab;
  EXECUTE format(E'CREATE VIEW %s AS SELECT (%s\n) AS %I FROM %s AS %I CROSS JOIN (SELECT) AS %I WHERE (%s\n) IS NOT NULL',
                 printed, resource, view, tab, record, view, resource);
  made := printed::pg_catalog.regclass;
  SELECT format('its type is %s, not text: cast it', format_type(a.atttypid, NULL)) INTO problem
    FROM pg_attribute a WHERE a.attrelid = made AND a.atttypid <> 'text'::regtype;
  IF NOT FOUND THEN
    SELECT format('column %I is not there yet when the trigger runs: write what generates it instead', a.attname) INTO problem
      FROM pg_rewrite w
      JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = tab
      JOIN pg_attribute a ON a.attrelid = tab AND a.attnum = d.refobjsubid AND a.attgenerated <> ''
     WHERE w.ev_class = made;
  END IF;
  IF problem IS NULL THEN
    -- The parsed expression: the first of the targets, whose name is the view's. Texts of the caller's are numbers in it.
    SELECT substring(w.ev_action::pg_catalog.text FROM ':targetList \(\{TARGETENTRY :expr (.*) :resno 1 :resname ' || view) INTO STRICT tree
      FROM pg_rewrite w WHERE w.ev_class = made;
    SELECT coalesce(min(p.what), CASE WHEN tree IS NULL THEN 'this version of PostgreSQL prints it in an unknown form' END) INTO problem FROM (
      SELECT CASE n.label[1] WHEN 'SUBLINK' THEN 'a subquery may give a row several names'
                             WHEN 'SQLVALUEFUNCTION' THEN 'a value of the session or of the time gives a row several names'
                             ELSE format('%s is not allowed in it', lower(n.label[1])) END
        FROM regexp_matches(tree, '\{([A-Z_]+)', 'g') AS n (label)
       WHERE n.label[1] !~ '^(VAR|CONST|FUNCEXPR|OPEXPR|DISTINCTEXPR|NULLIFEXPR|BOOLEXPR|NULLTEST|BOOLEANTEST|RELABELTYPE|COERCEVIAIO|COERCETODOMAIN|'
                          'CASETESTEXPR|CASEWHEN|WHEN|(CASE|COALESCE|COLLATE|MINMAX)(EXPR)?)$'
      UNION ALL
      -- unknown is the type of a quoted constant in the arguments of concat.
      SELECT "fencepost".text_problem(n.kind[1]::oid, 0, 0)
        FROM regexp_matches(tree, ' :(?:vartype|consttype|funcresulttype|opresulttype|resulttype|typeId|casetype|coalescetype|minmaxtype) ([0-9]+)', 'g') AS n (kind)
       WHERE n.kind[1]::oid <> 'unknown'::regtype
      UNION ALL
      SELECT "fencepost".text_problem(a.atttypid, a.atttypmod, a.attcollation)
        FROM pg_rewrite w
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = tab
        JOIN pg_attribute a ON a.attrelid = tab AND a.attnum = d.refobjsubid
       WHERE w.ev_class = made
      UNION ALL
      -- pg_depend omits PostgreSQL's own functions. || and concat are STABLE because they convert values of any type to text.
      SELECT format('%s may give a row several names; an IMMUTABLE function does not', f.oid::regprocedure)
        FROM regexp_matches(tree, ' :(?:funcid|opfuncid) ([0-9]+)', 'g') AS n (id) JOIN pg_proc f ON f.oid = n.id[1]::oid
       WHERE f.provolatile <> 'i' AND (f.pronamespace <> 'pg_catalog'::regnamespace OR f.proname NOT IN ('textanycat', 'anytextcat', 'concat', 'concat_ws'))
          OR f.oid = 'quote_ident(text)'::regprocedure -- depends on quote_all_identifiers
    ) AS p (what);
  END IF;
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = problem;
  END IF;
  problem := pg_get_viewdef(made);
  EXECUTE 'DROP VIEW ' || printed;
  RETURN substr(problem, length(' SELECT ') + 1, strpos(problem, ' AS ' || view) - length(' SELECT ') - 1);
EXCEPTION WHEN OTHERS THEN
  RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = format('fencepost: protect: resource expression of table %s: %s', tab, replace(SQLERRM, view, 'resource')),
    DETAIL = format('The expression: %s', resource),
    HINT = 'An SQL expression of type text over the table''s columns, by their bare names; functions and types that are not PostgreSQL''s own with their schema.';
END
$fencepost$;
-- +goose StatementEnd

-- Protects tab. resource is an SQL expression of type text over a row's columns; its value is the row's resource. If the
-- value is NULL the write is refused; if the expression raises an error, the write fails with it in either mode. An
-- expression that may give a row several names is refused (protect_expression). What is not detected is a function of your
-- own that is declared IMMUTABLE and is not. Functions that the expression calls run with search_path = pg_catalog, pg_temp,
-- so they must write other names with their schema.
--
-- mode is 'enforce', or 'report-only': a WARNING in the server's log, once for each transaction and table. Start with
-- 'report-only'. 'enforce' is the default, so that leaving out the mode, for example in a call that changes the expression,
-- does not stop the protection.
--
-- A second call replaces resource and mode, and blocks only writers of partitions that are new. The first call waits for all
-- transactions that write the table, and new writers queue behind it: at most wait milliseconds for the table and for each
-- of its partitions. After that it raises 55P03 and nothing has changed: call again when the long transaction is over. 0
-- waits without a limit; a shorter lock_timeout of the session stays in force.
--
-- The trigger's function is made in the table's schema and needs nothing of this schema, so that a dump of the table alone
-- is complete. It sets its search_path: names in pg_catalog are printed without their schema, and a || for (text, bigint) in
-- the writer's path would be preferred to PostgreSQL's own. That costs a row one microsecond of four. The triggers have no
-- WHEN clause, because it would be compiled for each statement. Their names sort last, so that they see the row as other
-- triggers left it.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".protect(tab regclass, resource text, mode text DEFAULT 'enforce', wait integer DEFAULT 2000) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $fencepost$
DECLARE
  admitted CONSTANT pg_catalog.text := $$(pg_catalog.strpos(pg_catalog.current_setting('fencepost.admitted', true) COLLATE "C", %L || ((%s) COLLATE "C") || %L) > 0)$$;
  c pg_catalog.pg_class;
  home pg_catalog.text;
  made pg_catalog.text;
  old_resource pg_catalog.text;
  new_resource pg_catalog.text;
  n integer := 1;
  missing pg_catalog.regclass;
  usual pg_catalog.text := current_setting('lock_timeout');
BEGIN
  IF mode IN ('enforce', 'report-only') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('fencepost: protect: mode %L is neither enforce nor report-only', mode);
  ELSIF coalesce(resource, '') !~ '[^[:space:]]' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: protect: no resource expression';
  END IF;
  PERFORM "fencepost".protect_check(tab, 'protect');
  SELECT * INTO c FROM pg_class x WHERE x.oid = tab;
  SELECT x.nspname INTO home FROM pg_namespace x WHERE x.oid = c.relnamespace;
  IF NOT has_schema_privilege(c.relnamespace, 'CREATE') THEN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('fencepost: protect: no CREATE on schema %I, where the trigger''s function belongs', home);
  END IF;
  IF wait > 0 AND (usual = '0' OR wait * interval '1 millisecond' < usual::interval) THEN
    PERFORM set_config('lock_timeout', wait::pg_catalog.text, true);
  END IF;
  -- One protect at a time for each table.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', tab);
  old_resource := "fencepost".protect_expression(tab, resource, 'fencepost_old');
  new_resource := "fencepost".protect_expression(tab, resource, 'fencepost_new');

  -- A detached partition still has the TRUNCATE trigger, and so the function, of the table it was part of.
  SELECT t.func::regprocedure::text INTO made FROM "fencepost".protect_triggers() t
   WHERE t.tab = protect.tab AND NOT EXISTS (SELECT FROM "fencepost".protect_triggers() o
                                              WHERE o.func = t.func AND o.name = 'zz_fencepost_row' AND o.tab <> protect.tab AND NOT o.inherited)
   LIMIT 1;
  IF NOT FOUND THEN
    -- A name is cut to 63 bytes, and may then be that of another table's function. A function that protect made and that no
    -- trigger uses any more may be replaced.
    made := ('fencepost_' || c.relname)::name;
    WHILE EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = c.relnamespace AND p.proname = made::name
                     AND (p.prosrc !~ E'^\n-- fencepost: ' OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgfoid = p.oid))) LOOP
      n := n + 1;
      made := ('fencepost_' || n || '_' || c.relname)::name;
    END LOOP;
    made := format('%I.%I()', home, made);
  END IF;

  EXECUTE format('CREATE OR REPLACE FUNCTION %s RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS %L', made, format($body$
-- fencepost: %1$s
#variable_conflict use_column
DECLARE
  fencepost_old ALIAS FOR OLD;
  fencepost_new ALIAS FOR NEW;
  resource pg_catalog.text;
  tab pg_catalog.text;
  reported pg_catalog.text;
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF %2$s THEN RETURN NEW; END IF;
    resource := %3$s;
  ELSIF TG_OP = 'UPDATE' THEN
    IF %4$s AND (((%3$s) COLLATE "C") = ((%5$s) COLLATE "C") OR %2$s) THEN RETURN NEW; END IF;
    resource := CASE WHEN %4$s THEN %3$s ELSE %5$s END;
  ELSIF TG_OP = 'DELETE' THEN
    IF %4$s THEN RETURN OLD; END IF;
    resource := %5$s;
  END IF;
  IF (pg_catalog.strpos(pg_catalog.current_setting('fencepost.bypassed', true), E'\n' || TG_RELID || E'\n') > 0) IS NOT TRUE THEN
    tab := pg_catalog.format('%%I.%%I', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    IF %6$L = 'enforce' THEN
      RAISE EXCEPTION USING ERRCODE = 'ZF003', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
        MESSAGE = pg_catalog.format('fencepost: unguarded %%s of protected table %%s', TG_OP, tab),
        DETAIL = CASE WHEN TG_OP = 'TRUNCATE' THEN pg_catalog.format('Table %%s: a TRUNCATE has no resource.', tab)
                      WHEN resource IS NULL THEN pg_catalog.format('Table %%s: the row''s resource is NULL.', tab)
                      ELSE pg_catalog.format('Table %%s, resource %%s: this transaction was not admitted for it, by schema %%s.', tab, resource, %7$L) END,
        HINT = CASE WHEN TG_OP = 'TRUNCATE' THEN 'Delete the rows, each under its token; or ask for a bypass by name.'
                    WHEN resource IS NULL THEN 'Give the row what its resource is made of.'
                    ELSE pg_catalog.format('Write through sqlguard: Update, On or Join for resource %%s (a rowguard.Table wants Protected).', resource) END;
    END IF;
    reported := coalesce(nullif(pg_catalog.current_setting('fencepost.reported', true), ''), E'\n');
    IF pg_catalog.strpos(reported, E'\n' || TG_RELID || E'\n') = 0 THEN
      PERFORM pg_catalog.set_config('fencepost.reported', reported || TG_RELID || E'\n', true);
      RAISE WARNING USING ERRCODE = 'ZF003', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
        MESSAGE = pg_catalog.format('fencepost: unguarded %%s of protected table %%s, report-only', TG_OP, tab),
        DETAIL = pg_catalog.format('Table %%s, resource %%s, role %%s: the first of this transaction.', tab, coalesce(resource, 'NULL'), session_user);
    END IF;
  END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NEW;
END
$body$,
    json_build_object('schema', 'fencepost'::text, 'mode', mode, 'resource', resource),
    format(admitted, E'\n' || 'fencepost' || '/', new_resource, E'\n'), new_resource,
    format(admitted, E'\n' || 'fencepost' || '/', old_resource, E'\n'), old_resource,
    mode, 'fencepost'::text));

  IF NOT EXISTS (SELECT FROM "fencepost".protect_triggers() t WHERE t.tab = protect.tab AND t.name = 'zz_fencepost_row') THEN
    IF pg_get_userbyid(c.relowner) <> current_user THEN
      EXECUTE format('ALTER FUNCTION %s OWNER TO %I', made, pg_get_userbyid(c.relowner));
    END IF;
    EXECUTE format('CREATE TRIGGER zz_fencepost_row BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION %s', tab, made);
  END IF;
  FOR missing IN
    SELECT x.oid FROM pg_class x
     WHERE x.oid IN (SELECT protect.tab::oid UNION SELECT p.relid FROM pg_partition_tree(protect.tab) p) AND x.relkind IN ('r', 'p')
       AND NOT EXISTS (SELECT FROM "fencepost".protect_triggers() t
                        WHERE t.tab = x.oid AND t.name = 'zz_fencepost_truncate' AND t.func = made::regprocedure)
  LOOP
    IF EXISTS (SELECT FROM "fencepost".protect_triggers() t WHERE t.tab = missing AND t.name = 'zz_fencepost_truncate') THEN
      EXECUTE format('DROP TRIGGER zz_fencepost_truncate ON %s', missing);
    END IF;
    EXECUTE format('CREATE TRIGGER zz_fencepost_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s', missing, made);
  END LOOP;
  PERFORM set_config('lock_timeout', usual, true);
END
$fencepost$;
-- +goose StatementEnd

-- Removes the protection of tab, and returns whether there was any. It waits for all transactions that read or write the
-- table, and new ones queue behind it: at most wait milliseconds, as in protect.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".unprotect(tab regclass, wait integer DEFAULT 2000) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  made pg_catalog.regprocedure;
  whole boolean;
  t record;
  usual pg_catalog.text := current_setting('lock_timeout');
BEGIN
  PERFORM "fencepost".protect_check(tab, 'unprotect');
  -- A detached partition still has its TRUNCATE trigger, and shares the function.
  SELECT x.func, x.name = 'zz_fencepost_row' INTO made, whole FROM "fencepost".protect_triggers() x
   WHERE x.tab = unprotect.tab ORDER BY x.name LIMIT 1;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF wait > 0 AND (usual = '0' OR wait * interval '1 millisecond' < usual::interval) THEN
    PERFORM set_config('lock_timeout', wait::pg_catalog.text, true);
  END IF;
  FOR t IN SELECT x.tab, x.name FROM "fencepost".protect_triggers() x
            WHERE x.func = made AND NOT x.inherited AND (whole OR x.tab = unprotect.tab)
            -- A table before its partitions, in the order in which writers lock them.
            ORDER BY x.name, x.tab
  LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', t.name, t.tab);
  END LOOP;
  IF NOT EXISTS (SELECT FROM pg_trigger x WHERE x.tgfoid = made) THEN
    EXECUTE format('DROP FUNCTION %s', made);
  END IF;
  PERFORM set_config('lock_timeout', usual, true);
  RETURN true;
END
$fencepost$;
-- +goose StatementEnd

-- For maintenance: until this (sub)transaction ends, writes to tab and its present partitions are not refused. reason must
-- not be blank. The role, the table and the reason are written to the server's log.
--
-- Call it after BEGIN: without one, the bypass ends with this statement. A WARNING (25P01) reports that if it can be
-- detected, as in psql. If the client sends parameters separately, the statement looks as if it came after a BEGIN.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".bypass(tab regclass, reason text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  context pg_catalog.text;
BEGIN
  IF coalesce(reason, '') !~ '[^[:space:]]' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: bypass: a reason is required';
  END IF;
  PERFORM "fencepost".protect_check(tab, 'bypass');
  IF NOT EXISTS (SELECT FROM "fencepost".protect_triggers() t WHERE t.tab = bypass.tab) THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('fencepost: bypass: %s is not protected', tab);
  END IF;
  -- True if the transaction began with this statement, no function runs it, and it is the only one in its message.
  GET DIAGNOSTICS context = PG_CONTEXT;
  IF now() = statement_timestamp() AND strpos(context, E'\n') = 0 AND current_query() !~ ';[[:space:]]*[^[:space:]]' THEN
    RAISE WARNING USING ERRCODE = 'no_active_sql_transaction', MESSAGE = format('fencepost: bypass: that of %s ends with this statement', tab),
      HINT = 'Call it in a transaction: BEGIN first.';
  END IF;
  RAISE LOG 'fencepost: % bypasses the protection of table %: %', session_user, tab, reason;
  PERFORM set_config('fencepost.bypassed', coalesce(nullif(current_setting('fencepost.bypassed', true), ''), E'\n')
                       || string_agg(x.relid || E'\n', ''), true)
     FROM (SELECT tab::oid AS relid UNION SELECT p.relid FROM pg_partition_tree(tab) p) x;
END
$fencepost$;
-- +goose StatementEnd

-- Lists the tables that this schema protects. incomplete has one sentence for each gap in a table's protection.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".protected()
RETURNS TABLE (tab regclass, resource text, mode text, incomplete text[]) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $fencepost$
  WITH ours AS (
    SELECT * FROM "fencepost".protect_triggers() t WHERE t.config ->> 'schema' = 'fencepost'
  ), named AS (
    SELECT DISTINCT ON (o.tab) o.* FROM ours o
     WHERE NOT o.inherited
       AND NOT EXISTS (SELECT FROM pg_partition_ancestors(o.tab) a JOIN ours p ON p.tab = a.relid AND p.func = o.func WHERE a.relid <> o.tab)
     ORDER BY o.tab, o.name
  )
  SELECT n.tab, n.config ->> 'resource', n.config ->> 'mode', ARRAY(
           WITH tree AS (SELECT n.tab AS tab UNION SELECT p.relid FROM pg_partition_tree(n.tab) p)
           SELECT format('%s: trigger %s is missing', x.tab, k.name)
             FROM tree x CROSS JOIN (VALUES ('zz_fencepost_row'), ('zz_fencepost_truncate')) AS k (name)
            WHERE NOT EXISTS (SELECT FROM ours o WHERE o.tab = x.tab AND o.name = k.name AND o.func = n.func)
           UNION ALL
           SELECT format('%s: trigger %s is %s', x.tab, o.name, CASE o.enabled WHEN 'D' THEN 'disabled' ELSE 'for replicas only' END)
             FROM tree x JOIN ours o ON o.tab = x.tab AND o.func = n.func WHERE o.enabled IN ('D', 'R')
           UNION ALL
           SELECT format('%s: trigger %I runs after zz_fencepost_row and may change the row', x.tab, t.tgname)
             FROM tree x JOIN pg_trigger t ON t.tgrelid = x.tab
            -- For each row, BEFORE, INSERT or UPDATE.
            WHERE t.tgtype & 3 = 3 AND t.tgtype & 20 <> 0 AND t.tgenabled <> 'D' AND t.tgname::text COLLATE "C" > 'zz_fencepost_row'
           UNION ALL
           SELECT format('%s: inherits from %s and is not protected', i.inhrelid::regclass, x.tab)
             FROM tree x JOIN pg_inherits i ON i.inhparent = x.tab JOIN pg_class c ON c.oid = i.inhrelid
            WHERE NOT c.relispartition AND NOT EXISTS (SELECT FROM ours o WHERE o.tab = i.inhrelid AND o.name = 'zz_fencepost_row')
           ORDER BY 1)
    FROM named n ORDER BY n.tab::text COLLATE "C"
$fencepost$;
-- +goose StatementEnd

-- +goose Down

-- If admit were gone, a protected table would refuse every write. So Down fails until the tables' owners called unprotect.
-- +goose StatementBegin
DO $fencepost$
DECLARE
  tables pg_catalog.text := (SELECT pg_catalog.string_agg(p.tab::pg_catalog.text, ', ') FROM "fencepost".protected() p);
BEGIN
  IF tables IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = 'fencepost: tables are still protected: ' || tables,
      HINT = 'Call unprotect for each of them first.';
  END IF;
  DROP FUNCTION "fencepost".protected();
  DROP FUNCTION "fencepost".bypass(regclass, text);
  DROP FUNCTION "fencepost".unprotect(regclass, integer);
  DROP FUNCTION "fencepost".protect(regclass, text, text, integer);
  DROP FUNCTION "fencepost".protect_expression(regclass, text, text);
  DROP FUNCTION "fencepost".text_problem(oid, integer, oid);
  DROP FUNCTION "fencepost".protect_check(regclass, text);
  DROP FUNCTION "fencepost".protect_triggers();
END
$fencepost$;
-- +goose StatementEnd

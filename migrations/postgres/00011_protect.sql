-- +goose Up

-- Protected tables: a trigger refuses (SQLSTATE ZF003) every INSERT, UPDATE and DELETE of a row whose resource this
-- transaction was not admitted for, and every TRUNCATE. So nobody can forget the guard: it protects from forgetting, and
-- not from enemies. What was admitted stands in the setting fencepost.admitted, and whoever sets that by hand is let in.
--
--   SELECT fencepost.protect('accounts', $$'account/' || id$$, 'observe')   reports with a WARNING, refuses nothing
--   SELECT fencepost.protect('accounts', $$'account/' || id$$)              refuses from now on
--   SELECT * FROM fencepost.protected()                                     what is protected, and where it has holes
--   SELECT fencepost.bypass('accounts', 'JIRA-7: wrong currency')           not for the rest of this transaction
--   SELECT fencepost.unprotect('accounts')
--
-- They run with the rights of the caller, who owns the table, has CREATE on its schema, and USAGE on this one. Who writes
-- needs no right more than before.
--
-- * A cascade of a foreign key writes too: where the child is protected, deleting the parent takes an admission for the
--   child's resource.
-- * Appliers of logical replication, and sessions with session_replication_role = replica, are not refused, as no
--   ordinary trigger fires for them. ALTER TABLE … ENABLE ALWAYS TRIGGER zz_fencepost_row has them refused as well.
-- * pg_dump takes the triggers along and makes them again after the data. A restore of data alone into a protected table
--   needs --disable-triggers.
-- * A partition has the trigger for rows from when it is attached; the one for TRUNCATE it has after the next protect, and
--   until then protected() says so. Children of INHERITS are tables of their own.
-- * After a column of the expression was renamed, every write fails until the next protect. DROP TABLE leaves the trigger's
--   function behind: unprotect first.
-- * An INSERT is judged before its ON CONFLICT is, and an UPDATE or DELETE that finds no row is not judged.
-- * The trigger looks through what was admitted for each row: a transaction that writes as many rows under as many
--   resources takes a time that grows with their square.

-- The triggers of ours, of all schemas of this database. config is the first line of their function, what protect was
-- told: its own schema, mode, resource.
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

-- Ends with an error where tab is no table, the caller does not own it, or it is protected already in another way.
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

-- Returns the expression over the columns of tab with the record's name before each of them, and with the schema before
-- all that is not in pg_catalog: then it means the same whatever the writer's search_path, and no column's name is taken
-- for something else. A view does the work, which parses and prints such an expression. Its WHERE refuses aggregates.
-- What the expression calls, by itself or in a subquery, must not be VOLATILE, or a row would change its name.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".protect_expression(tab regclass, resource text, record text) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  view pg_catalog.text := 'fencepost_' || replace(gen_random_uuid()::pg_catalog.text, '-', '');
  made pg_catalog.regclass;
  printed pg_catalog.text;
  problem pg_catalog.text;
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
    -- Dependencies leave out what is PostgreSQL's own; the parsed view names all.
    SELECT format('%s is volatile: only what is declared IMMUTABLE or STABLE gives a row one name', p.oid::regprocedure) INTO problem
      FROM pg_rewrite w CROSS JOIN regexp_matches(w.ev_action::pg_catalog.text, ' :(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') AS f (ids)
      JOIN pg_proc p ON p.oid = f.ids[1]::oid
     WHERE w.ev_class = made AND p.provolatile = 'v';
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

-- Protects tab: resource is an SQL expression over a row's columns, of type text, whose value is the name of the row's
-- resource. Where it is NULL the write is refused, and where it raises an error, that refuses it, in either mode. A
-- row must keep its name: volatile functions are refused; but now(), current_setting and the text of a timestamp, which
-- depend on the session, are not found out. Functions that it calls run with search_path = pg_catalog, pg_temp, and name
-- what is elsewhere with its schema.
--
-- mode is 'observe' for a WARNING in the server's log, once for each transaction and table, or 'enforce'. Begin with
-- 'observe'. Who leaves it out, when the expression changes for example, gets 'enforce', so that nobody opens a table by
-- leaving something out.
--
-- Called again it replaces both, which locks no writer out but those of a partition that is new. The first time waits for
-- all who write the table now, and all who come to write meanwhile queue behind it: for wait milliseconds at most, for the
-- table and for each of its partitions. Then the error is 55P03 and nothing has changed: call again when the long
-- transaction is over. 0 waits for ever; a shorter lock_timeout of the session stands.
--
-- The function is made beside the table and needs nothing of this schema, so that a dump of the table alone is whole. It
-- sets its search_path: the names of what is in pg_catalog are printed bare, and a || of (text, bigint) anywhere in the
-- writer's path would be preferred to PostgreSQL's own. That was a microsecond of the four that a row cost.
-- No WHEN clauses: they are compiled for each statement. The triggers' names sort last, so that they see what others
-- made of the row.
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
  IF mode IN ('enforce', 'observe') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('fencepost: protect: mode %L is neither enforce nor observe', mode);
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
  -- One at a time for each table.
  EXECUTE format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', tab);
  old_resource := "fencepost".protect_expression(tab, resource, 'fencepost_old');
  new_resource := "fencepost".protect_expression(tab, resource, 'fencepost_new');

  -- What was detached from a protected table still has that one's trigger for TRUNCATE.
  SELECT t.func::regprocedure::text INTO made FROM "fencepost".protect_triggers() t
   WHERE t.tab = protect.tab AND NOT EXISTS (SELECT FROM "fencepost".protect_triggers() o
                                              WHERE o.func = t.func AND o.name = 'zz_fencepost_row' AND o.tab <> protect.tab AND NOT o.inherited)
   LIMIT 1;
  IF NOT FOUND THEN
    -- As a name it is cut to 63 bytes, which may make it another table's. One of ours that has lost its table is free.
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
                    ELSE pg_catalog.format('Write through sqlguard: Update, On or Join for resource %%s (a sqlguard.Table wants Protected).', resource) END;
    END IF;
    reported := coalesce(nullif(pg_catalog.current_setting('fencepost.reported', true), ''), E'\n');
    IF pg_catalog.strpos(reported, E'\n' || TG_RELID || E'\n') = 0 THEN
      PERFORM pg_catalog.set_config('fencepost.reported', reported || TG_RELID || E'\n', true);
      RAISE WARNING USING ERRCODE = 'ZF003', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
        MESSAGE = pg_catalog.format('fencepost: unguarded %%s of protected table %%s, observed', TG_OP, tab),
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

-- Takes the protection off, and reports whether there was any. Nothing of it stays. It waits for all who read or write the
-- table now, and everybody who comes meanwhile queues behind it: for wait milliseconds at most, as protect does.
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
  -- What was detached from a protected table has its trigger for TRUNCATE still, and shares the function.
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
            -- A table before its partitions, as writers do.
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

-- For maintenance: until this (sub)transaction ends, nothing is refused on tab and the partitions it has now. reason must
-- say why. Who, what and why stand in the server's log.
--
-- It needs BEGIN: a transaction of its own is over before the next statement. A WARNING (25P01) says so where that can be
-- told, as in psql; with parameters sent apart from the statement it looks as if there had been a BEGIN.
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
  -- The transaction began with this statement, which no function makes and which is the only one of its packet.
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

-- What is protected by this schema, and by which sentences it is incomplete: empty is good.
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

-- A protected table would refuse everything once nobody can be admitted. Its owner, not this file, takes that off.
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
  DROP FUNCTION "fencepost".protect_check(regclass, text);
  DROP FUNCTION "fencepost".protect_triggers();
END
$fencepost$;
-- +goose StatementEnd

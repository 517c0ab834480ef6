-- Rows that carry their own mark, in two columns of their table (rowguard.Table): adding the columns, and the checks of a
-- guarded write to such a row.

-- +goose Up

-- Adds the two columns of a mark to table tab. Both have constant defaults, so no row is rewritten (manual: ALTER TABLE,
-- Notes). But ALTER TABLE locks the table exclusively for a moment, and other transactions queue behind it. So it waits at
-- most wait milliseconds and then raises 55P03: call again when the long transaction is over. 0 waits without a limit; a
-- shorter lock_timeout of the session stays in force.
--
-- Existing columns are left as they are; if both exist, nothing is locked. If one has another type, the error is 42804 and
-- nothing has changed. Do not index the columns, or no update of a row is heap-only any more. It runs with the caller's
-- rights, who must own the table.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".add_mark_columns(tab regclass, number name DEFAULT 'last_token', holder name DEFAULT 'last_holder',
                                             wait integer DEFAULT 2000) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  usual pg_catalog.text := current_setting('lock_timeout');
  wrong pg_catalog.text;
BEGIN
  IF 2 > (SELECT count(*) FROM pg_attribute a
           WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped AND a.attname IN (number, holder)) THEN
    IF wait > 0 AND (usual = '0' OR wait * interval '1 millisecond' < usual::interval) THEN
      PERFORM set_config('lock_timeout', wait::pg_catalog.text, true);
    END IF;
    EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS %I bigint NOT NULL DEFAULT 0,'
                             ' ADD COLUMN IF NOT EXISTS %I pg_catalog.text COLLATE pg_catalog."C" NOT NULL DEFAULT %L',
                   tab, number, holder, '');
    PERFORM set_config('lock_timeout', usual, true);
  END IF;
  SELECT string_agg(format('%I is %s, not %s', w.name, format_type(a.atttypid, a.atttypmod), w.type), ', ') INTO wrong
    FROM (VALUES (number, 'bigint'), (holder, 'text')) AS w (name, type)
    JOIN pg_attribute a ON a.attrelid = tab AND a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped
   WHERE format_type(a.atttypid, NULL) <> w.type;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('fencepost: table %s has a column of that name already: %s', tab, wrong),
      HINT = 'Give the columns of the mark other names.';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Returns the mark of resource r, or the floor if it has no mark, if it refuses token (t, h). Returns no row if the token is
-- not refused, or r is NULL. It takes no lock and raises no mark, so its answer may be outdated at once: use it to explain a
-- refusal, not to admit.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".refusing_mark(r text, t bigint, h text) RETURNS TABLE (number bigint, holder text) LANGUAGE plpgsql STABLE STRICT
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  RETURN QUERY
    SELECT coalesce(m.number, f.number), coalesce(m.holder, '')
      FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = r
     WHERE (CASE WHEN m.number IS NULL THEN t >= f.number ELSE t > m.number OR t = m.number AND h = m.holder END) IS NOT TRUE;
END
$fencepost$;
-- +goose StatementEnd

-- Raises 42804 if column key of table or view tab cannot name a resource: see text_problem.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".check_key(tab regclass, key name) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  problem pg_catalog.text;
BEGIN
  SELECT "fencepost".text_problem(a.atttypid, a.atttypmod, a.attcollation) INTO problem
    FROM pg_attribute a WHERE a.attrelid = tab AND a.attname = key AND a.attnum > 0;
  IF NOT FOUND THEN
    problem := 'a system column names no row';
  END IF;
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('fencepost: column %I of %s is no key: %s', key, tab, problem),
      HINT = 'Use a unique column of another type, or add one.';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Checks the row of tab that token (t, h) has written. k is the text of the row's key, wanted is the key in the token's
-- resource, and (n, o) is the row's mark. If k is NULL there is no row, and only the key is checked. It runs with the
-- caller's rights and reads only the catalog. It raises
--
-- * 42804 as check_key does.
-- * 22023 if k, or the text that a new row would have, is not the same as wanted. Some types accept several texts for one
--   value, as '042' and '42': one row would be fenced under two names.
-- * ZF001 or ZF002, as admit does, if the mark is another token's. It has the key in place of the resource, and no second
--   line in DETAIL.
-- * 55000 if the mark is older than the token: a trigger, a rule or a policy kept the row from taking the mark, and older
--   tokens could go on writing the row.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".check_row(tab regclass, key name, k text, wanted text, n bigint, o text, t bigint, h text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  missing boolean := k IS NULL;
BEGIN
  PERFORM "fencepost".check_key(tab, key);
  IF missing THEN
    EXECUTE (SELECT format('SELECT CAST($1 AS %s)::pg_catalog.text', format_type(a.atttypid, a.atttypmod))
               FROM pg_attribute a WHERE a.attrelid = tab AND a.attname = key) INTO k USING wanted;
  END IF;
  IF k COLLATE "C" IS DISTINCT FROM wanted COLLATE "C" THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('fencepost: the key %L is %L in the table', wanted, k),
      HINT = 'Name the resource as the table writes the key.';
  END IF;
  IF missing OR n = t AND o COLLATE "C" = h COLLATE "C" THEN
    RETURN;
  END IF;
  IF (n >= t) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('fencepost: the row of key %L has not taken the mark', k),
      HINT = 'A trigger, a rule or a row security policy of the table keeps the columns of the mark as they are.';
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = CASE WHEN n = t THEN 'ZF002' ELSE 'ZF001' END,
    MESSAGE = CASE WHEN n = t THEN format('fencepost: a token of the row of key %L collides: %s has the same number, #%s', k, o, n)
                   ELSE format('fencepost: stale token of the row of key %L: overtaken by #%s of %s', k, n, o) END,
    DETAIL = concat(n, ' ', o);
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".check_row(regclass, name, text, text, bigint, text, bigint, text);
  DROP FUNCTION "fencepost".check_key(regclass, name);
  DROP FUNCTION "fencepost".refusing_mark(text, bigint, text);
  DROP FUNCTION "fencepost".add_mark_columns(regclass, name, name, integer);
END
$fencepost$;
-- +goose StatementEnd

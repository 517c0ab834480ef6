-- +goose Up

-- Gives table tab the two columns of a mark of its own, for rows that are fenced by themselves. Both have constant
-- defaults, so no row is written (manual: ALTER TABLE, Notes); but the table is locked against everybody for a moment,
-- and whoever comes after waits behind us. So we wait for wait milliseconds at most, then the error is 55P03: call again
-- when the long transaction is over. 0 waits for ever; a shorter lock_timeout of the session stands.
--
-- Columns that are there already stay as they are, and nothing is locked where both are. One of another type is an error
-- (42804), and then nothing has changed. Both belong in no index, or no update of a row is heap-only any more.
-- It runs with the caller's own rights: the table's owner calls it.
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

-- The mark of resource r, or the floor where it has none, that refuses token (t, h); no row where nothing does, or r is
-- NULL. It takes no lock and raises nothing, so it may be over at once: for explaining, not for admitting.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".refusing(r text, t bigint, h text) RETURNS TABLE (number bigint, holder text) LANGUAGE plpgsql STABLE STRICT
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  RETURN QUERY
    SELECT coalesce(m.number, f.number), coalesce(m.holder, '')
      FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = r
     WHERE (CASE WHEN m.number IS NULL THEN t >= f.number ELSE t > m.number OR t = m.number AND h = m.holder END) IS NOT TRUE;
END
$fencepost$;
-- +goose StatementEnd

-- Raises unless the row that token (t, h) has written is the one that was asked for, and its mark (n, o) is the token's:
-- ZF001 or ZF002, as admit does, where it is another's, and 55000 where it is older: then a trigger, a rule or a policy has
-- kept the row from getting the mark, and older tokens would go on writing it.
--
-- Some types take several texts for one value, '042' and '42': a row that went by both would be fenced under two names, so
-- a key k that is not the very text that was wanted is an error (22023). Where the text depends on the session, as that of
-- a date does on DateStyle, one row has as many names as there are settings: no such type is a key (42804).
-- It runs with the caller's own rights and reads nothing but the type.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".check_row(kind regtype, k text, wanted text, n bigint, o text, t bigint, h text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  IF EXISTS (SELECT FROM pg_type p
              WHERE p.oid = kind AND (p.typcategory IN ('D', 'T')
                 OR coalesce(nullif(p.typbasetype, 0), p.oid) IN ('bytea'::regtype, 'real'::regtype, 'double precision'::regtype, 'money'::regtype))) THEN
    RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch', MESSAGE = format('fencepost: a key of type %s has another text in another session', kind),
      HINT = 'Integers, text, uuid, numeric and enums can name a resource.';
  END IF;
  IF k COLLATE "C" IS DISTINCT FROM wanted COLLATE "C" THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('fencepost: the key %L is %L in the table', wanted, k),
      HINT = 'Name the resource as the table writes the key.';
  END IF;
  IF n = t AND o COLLATE "C" = h COLLATE "C" THEN
    RETURN;
  END IF;
  IF (n >= t) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('fencepost: the row of key %L has not taken the mark', k),
      HINT = 'A trigger, a rule or a row security policy of the table keeps the columns of the mark as they are.';
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = CASE WHEN n = t THEN 'ZF002' ELSE 'ZF001' END,
    MESSAGE = CASE WHEN n = t THEN 'fencepost: collision' ELSE 'fencepost: stale token' END,
    DETAIL = concat(n, ' ', o);
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".check_row(regtype, text, text, bigint, text, bigint, text);
  DROP FUNCTION "fencepost".refusing(text, bigint, text);
  DROP FUNCTION "fencepost".add_mark_columns(regclass, name, name, integer);
END
$fencepost$;
-- +goose StatementEnd

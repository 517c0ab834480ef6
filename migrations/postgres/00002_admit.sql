-- +goose Up

-- A resource that this transaction was admitted for is remembered in the setting fencepost.admitted until the
-- (sub)transaction ends, one line "schema/resource" each: protected tables ask for it. It is appended once, or ten
-- thousand admissions of one transaction would copy ten thousand lines each.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".remember(r text) RETURNS text LANGUAGE sql AS $fencepost$
  SELECT CASE WHEN pg_catalog.strpos(coalesce(pg_catalog.current_setting('fencepost.admitted', true), '') COLLATE "C",
                                     E'\n' || 'fencepost' || '/' || r || E'\n') = 0
         THEN pg_catalog.set_config('fencepost.admitted',
                coalesce(nullif(pg_catalog.current_setting('fencepost.admitted', true), ''), E'\n')
                  || 'fencepost' || '/' || r || E'\n', true)
         END
$fencepost$;
-- +goose StatementEnd

-- Waits for everybody who is admitted for the resource, in turn, for at most bound milliseconds if bound is above 0
-- (then SQLSTATE 55P03). A limit that the session has already is never made longer, and stands again afterwards.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_alone(r text, bound integer) RETURNS void LANGUAGE plpgsql AS $fencepost$
DECLARE
  usual pg_catalog.text := current_setting('lock_timeout');
BEGIN
  IF bound > 0 AND (usual = '0' OR bound * interval '1 millisecond' < usual::interval) THEN
    PERFORM set_config('lock_timeout', bound::pg_catalog.text, true);
    PERFORM pg_advisory_xact_lock("fencepost".lock_key(r));
    PERFORM set_config('lock_timeout', usual, true);
  ELSE
    PERFORM pg_advisory_xact_lock("fencepost".lock_key(r));
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Whoever raises a mark, or finds another one than its own.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".admit_slow(r text, t bigint, h text, bound integer) RETURNS void LANGUAGE plpgsql AS $fencepost$
DECLARE
  n bigint;
  o pg_catalog.text;
BEGIN
  SELECT m.number, m.holder INTO n, o FROM "fencepost".marks m WHERE m.resource = r;
  IF n IS NULL OR n < t THEN
    -- A fixed snapshot is older than the wait below: what the older writers commit while we wait would not be read.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: claim before the snapshot',
        HINT = 'Admit the token in a READ COMMITTED transaction of its own first.';
    END IF;
    -- While a long transaction keeps its raise to itself, its writer looks to others like one of the older token.
    IF bound < 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: claim first',
        HINT = 'Admit the token in a transaction of its own first.';
    END IF;
    PERFORM "fencepost".lock_alone(r, bound);
    -- Somebody may have raised it further while we waited: then nothing is written, and the mark read again refuses.
    INSERT INTO "fencepost".marks AS m (resource, number, holder) VALUES (r, t, h)
      ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder WHERE m.number < excluded.number;
    SELECT m.number, m.holder INTO n, o FROM "fencepost".marks m WHERE m.resource = r;
  ELSIF n = t AND o = h THEN
    PERFORM pg_advisory_xact_lock_shared("fencepost".lock_key(r));
    -- The lock waited for a raise, so read again. READ COMMITTED: the newest row. Fixed snapshot: locking the row
    -- answers 40001 where it was raised since; nothing less tells.
    SELECT m.number, m.holder INTO n, o FROM "fencepost".marks m WHERE m.resource = r FOR SHARE;
  END IF;
  IF n IS DISTINCT FROM t OR o IS DISTINCT FROM h THEN
    RAISE EXCEPTION USING
      ERRCODE = CASE WHEN n = t THEN 'ZF002' ELSE 'ZF001' END,
      MESSAGE = CASE WHEN n = t THEN 'fencepost: collision' ELSE 'fencepost: stale token' END,
      DETAIL = n || ' ' || o;
  END IF;
  PERFORM "fencepost".remember(r);
END
$fencepost$;
-- +goose StatementEnd

-- Admits token (t, h) for resource r until the (sub)transaction ends, or raises ZF001 stale, ZF002 collision (DETAIL:
-- number and holder of the mark) or ZF004. Where it must raise the mark, bound limits the wait for older writers; below 0
-- it does not raise at all, and ZF004 says so.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".admit(r text, t bigint, h text, bound integer DEFAULT 0) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  -- The mark is our own already: hold it in place together with our peers.
  PERFORM pg_advisory_xact_lock_shared("fencepost".lock_key(r))
     FROM "fencepost".marks m WHERE m.resource = r AND m.number = t AND m.holder = h;
  IF FOUND THEN
    -- It may have been raised between the read and the lock. Nobody can raise it now, so read again; under READ
    -- COMMITTED this statement has a snapshot of its own. A fixed snapshot would show the old row: the slow way.
    PERFORM "fencepost".remember(r)
       FROM "fencepost".marks m WHERE m.resource = r AND m.number = t AND m.holder = h
        AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM "fencepost".admit_slow(r, t, h, bound);
END
$fencepost$;
-- +goose StatementEnd

-- Only the functions that run as the owner call these.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".admit_slow(text, bigint, text, integer),
  "fencepost".lock_alone(text, integer),
  "fencepost".remember(text)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".admit(text, bigint, text, integer);
  DROP FUNCTION "fencepost".admit_slow(text, bigint, text, integer);
  DROP FUNCTION "fencepost".lock_alone(text, integer);
  DROP FUNCTION "fencepost".remember(text);
END
$fencepost$;
-- +goose StatementEnd

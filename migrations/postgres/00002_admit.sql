-- +goose Up

-- admit is part of every guarded write, and SET search_path would make it a sixth more expensive: PostgreSQL looks up the
-- schemas of the path when the function begins, and again for the statement behind it. So admit, and what it calls where
-- it does not go the slow way, name every function, operator, type and collation with its schema, and leave out what looks
-- up an operator by itself (IN, NULLIF, IS DISTINCT FROM, CASE x WHEN): no search_path puts the caller's own in their place.

-- A resource that this transaction was admitted for is remembered in the setting fencepost.admitted until the
-- (sub)transaction ends, one line "schema/resource" each: protected tables ask for it. It is appended once, or ten
-- thousand admissions of one transaction would copy ten thousand lines each.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".remember(r text) RETURNS text LANGUAGE sql AS $fencepost$
  SELECT CASE WHEN pg_catalog.strpos(coalesce(pg_catalog.current_setting('fencepost.admitted', true), '') COLLATE pg_catalog."C",
                E'\n' OPERATOR(pg_catalog.||) 'fencepost' OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) r OPERATOR(pg_catalog.||) E'\n')
              OPERATOR(pg_catalog.=) 0
         THEN pg_catalog.set_config('fencepost.admitted',
                pg_catalog.rtrim(coalesce(pg_catalog.current_setting('fencepost.admitted', true), ''), E'\n')
                  OPERATOR(pg_catalog.||) E'\n' OPERATOR(pg_catalog.||) 'fencepost' OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) r
                  OPERATOR(pg_catalog.||) E'\n', true)
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

-- Tells everybody, until the (sub)transaction ends, that this session raises the mark of r to n, which nobody can read
-- before the commit: evict asks for it. It is a shared lock that nobody waits for, whose key has 14 bits of the resource's
-- before the 50 of the number.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_number(r text, n bigint) RETURNS boolean LANGUAGE sql AS $fencepost$
  SELECT pg_catalog.pg_try_advisory_xact_lock_shared(
    (("fencepost".lock_key(r) OPERATOR(pg_catalog.&) 16383) OPERATOR(pg_catalog.<<) 50) OPERATOR(pg_catalog.|) n)
$fencepost$;
-- +goose StatementEnd

-- Raises what a token with number t is told by a mark (n, o): ZF002 where the numbers are equal, else ZF001. It returns
-- nothing; the type lets it stand in the place of remember.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".refuse(t bigint, n bigint, o text) RETURNS text LANGUAGE plpgsql AS $fencepost$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = CASE WHEN n OPERATOR(pg_catalog.=) t THEN 'ZF002' ELSE 'ZF001' END,
    MESSAGE = CASE WHEN n OPERATOR(pg_catalog.=) t THEN 'fencepost: collision' ELSE 'fencepost: stale token' END,
    DETAIL = pg_catalog.concat(n, ' ', o);
END
$fencepost$;
-- +goose StatementEnd

-- Whoever raises a mark, or finds another one than its own.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".admit_slow(r text, t bigint, h text, bound integer) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  n bigint;           -- the mark's number, or the floor's where there is no mark
  o pg_catalog.text;  -- the mark's holder, or NULL
BEGIN
  SELECT coalesce(m.number, f.number), m.holder INTO n, o FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = r;
  IF n < t OR o IS NULL AND (t > 0 AND t < n) IS NOT TRUE THEN
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
    PERFORM "fencepost".lock_number(r, t);
    PERFORM "fencepost".lock_alone(r, bound);
    -- Somebody may have raised it further while we waited, or even pruned it then: nothing is written, and what is read
    -- again refuses. Whoever prunes has the lock too, so this snapshot shows the mark, or the floor that was raised over it.
    INSERT INTO "fencepost".marks AS m (resource, number, holder)
      SELECT r, t, h FROM "fencepost".floor f
       WHERE (t > 0 AND t < f.number) IS NOT TRUE OR EXISTS (SELECT FROM "fencepost".marks x WHERE x.resource = r)
      ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder WHERE m.number < excluded.number;
    SELECT coalesce(m.number, f.number), m.holder INTO n, o FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = r;
  ELSIF n = t AND o = h THEN
    PERFORM pg_advisory_xact_lock_shared("fencepost".lock_key(r));
    -- The lock waited for a raise, so read again. READ COMMITTED: the newest row. Fixed snapshot: locking the row
    -- answers 40001 where it was raised since; nothing less tells.
    SELECT m.number, m.holder INTO n, o FROM "fencepost".marks m WHERE m.resource = r FOR SHARE;
    IF NOT FOUND THEN
      n := "fencepost".mark_number(r);  -- pruned meanwhile: the floor's
    END IF;
  END IF;
  IF n IS DISTINCT FROM t OR o IS DISTINCT FROM h THEN
    PERFORM "fencepost".refuse(t, coalesce(n, 0), o);
  END IF;
  PERFORM "fencepost".remember(r);
END
$fencepost$;
-- +goose StatementEnd

-- Admits token (t, h) for resource r until the (sub)transaction ends, or raises ZF001 stale, ZF002 collision (DETAIL:
-- number and holder of the mark, or number and space of the floor) or ZF004. Where it must raise the mark, bound limits
-- the wait for older writers; below 0 it does not raise at all, and ZF004 says so.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".admit(r text, t bigint, h text, bound integer DEFAULT 0) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER AS $fencepost$
BEGIN
  -- Whoever raises no mark may lock first and look then: nobody raises it from here on, and under READ COMMITTED the look
  -- is a statement with a snapshot of its own. Whoever may have to raise it must not, since two who share the lock and
  -- both want it alone would wait for each other. Nor does anybody wait here for a look: who raises may take long, and
  -- the stale need no lock to be refused. (CASE, because AND promises no order.)
  IF (CASE WHEN bound OPERATOR(pg_catalog.<) 0
            AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) ANY (ARRAY['read committed', 'read uncommitted'])
           THEN pg_catalog.pg_try_advisory_xact_lock_shared("fencepost".lock_key(r)) END) THEN
    PERFORM CASE WHEN m.number OPERATOR(pg_catalog.=) t AND m.holder OPERATOR(pg_catalog.=) h
                 THEN "fencepost".remember(r) ELSE "fencepost".refuse(t, m.number, m.holder) END
       FROM "fencepost".marks m WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.>=) t;
    IF FOUND THEN
      RETURN;
    END IF;
  ELSE
    -- The mark is our own already: hold it in place together with our peers.
    PERFORM pg_catalog.pg_advisory_xact_lock_shared("fencepost".lock_key(r))
       FROM "fencepost".marks m
      WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.=) t AND m.holder OPERATOR(pg_catalog.=) h;
    IF FOUND THEN
      -- It may have been raised between the read and the lock. Nobody can raise it now, so read again, in a statement of
      -- its own. A fixed snapshot would show the old row: the slow way.
      PERFORM "fencepost".remember(r)
         FROM "fencepost".marks m
        WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.=) t AND m.holder OPERATOR(pg_catalog.=) h
          AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) ANY (ARRAY['read committed', 'read uncommitted']);
      IF FOUND THEN
        RETURN;
      END IF;
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
  "fencepost".lock_number(text, bigint),
  "fencepost".refuse(bigint, bigint, text),
  "fencepost".remember(text)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".admit(text, bigint, text, integer);
  DROP FUNCTION "fencepost".admit_slow(text, bigint, text, integer);
  DROP FUNCTION "fencepost".lock_number(text, bigint);
  DROP FUNCTION "fencepost".refuse(bigint, bigint, text);
  DROP FUNCTION "fencepost".lock_alone(text, integer);
  DROP FUNCTION "fencepost".remember(text);
END
$fencepost$;
-- +goose StatementEnd

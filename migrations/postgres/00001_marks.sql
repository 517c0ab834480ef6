-- Marks: the highest token admitted for each resource, the floor for resources without a mark, and the functions that
-- read and raise them: admit, report_only and evict.
--
-- Rights. The application's role needs USAGE on this schema and nothing else. A schema grants nothing to PUBLIC, so
-- PUBLIC's EXECUTE on the functions has no effect without USAGE. The functions that write run as their owner, so only the
-- owner needs rights on the tables, and no other role can lower or delete a mark. A role with USAGE may admit any number:
-- grant it only to roles that may write the fenced data.
--
-- Types. PL/pgSQL resolves the types in DECLARE once per session, with the search_path of the session's first caller. So
-- every type is written with its schema, except those that are part of SQL's grammar.

-- +goose Up

-- Not CREATE SCHEMA IF NOT EXISTS: that needs the right to create schemas even if this one exists.
-- +goose StatementBegin
DO $fencepost$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'fencepost') THEN
    CREATE SCHEMA "fencepost";
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Domains, because a domain is checked when a value is assigned. A table's CHECK is read from the catalog and prepared
-- again by each UPDATE, whatever it changes: that was a quarter of the cost of raising a mark.
-- +goose StatementBegin
CREATE DOMAIN "fencepost".name AS text COLLATE "C"
  CHECK (octet_length(VALUE) BETWEEN 1 AND 200 AND VALUE !~ '[[:cntrl:]]');
-- +goose StatementEnd
-- +goose StatementBegin
CREATE DOMAIN "fencepost".number AS bigint
  CHECK (VALUE BETWEEN 1 AND 999999999999999);
-- +goose StatementEnd

-- The highest token admitted for each resource. Never UNLOGGED: if a mark is lost, stale tokens are admitted again. Only
-- prune deletes rows, after it has raised the floor; only reset lowers a number. Names are compared byte by byte. Half of
-- each page is left free, so that a raise stays on its page and does not change the index.
-- +goose StatementBegin
CREATE TABLE "fencepost".marks (
  resource "fencepost".name PRIMARY KEY,
  number "fencepost".number NOT NULL,
  holder "fencepost".name NOT NULL
) WITH (fillfactor = 50);
-- +goose StatementEnd

-- The mark of every resource that has none of its own: a token below the floor is stale, a token at or above it is
-- admitted. Every pruned mark was below the floor. The table has one row, whose number never falls. If the row is missing,
-- every token of a resource without a mark is stale.
-- +goose StatementBegin
CREATE TABLE "fencepost".floor (
  one boolean PRIMARY KEY DEFAULT true
    CHECK (one),
  number bigint NOT NULL DEFAULT 0
    CHECK (number BETWEEN 0 AND 999999999999999)
);
-- +goose StatementEnd
INSERT INTO "fencepost".floor DEFAULT VALUES;

-- Returns the key of a resource's advisory lock. Writers under the mark's own token take it shared; a transaction that
-- raises the mark takes it exclusive. The schema is part of the key, so that two schemas in one database do not block each
-- other.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_key(r text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $fencepost$
  SELECT pg_catalog.hashtextextended(('fencepost' OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) r) COLLATE pg_catalog."C", 9651)
$fencepost$;
-- +goose StatementEnd

-- Returns the number of a resource's mark, or of the floor if it has no mark.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".mark_number(r text) RETURNS bigint LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
  SELECT coalesce((SELECT m.number FROM "fencepost".marks m WHERE m.resource = r), (SELECT f.number FROM "fencepost".floor f));
$fencepost$;
-- +goose StatementEnd

-- admit is part of every guarded write, and SET search_path would make it a sixth more expensive: PostgreSQL looks up the
-- schemas of the path when the function starts, and again for the statement after it. So admit, and the functions on its
-- fast path, write every function, operator, type and collation with its schema, and avoid constructs that look up an
-- operator implicitly (IN, NULLIF, IS DISTINCT FROM, CASE x WHEN). Then no search_path can substitute the caller's objects.

-- Records in the setting fencepost.admitted, until the (sub)transaction ends, that this transaction was admitted for r: one
-- line "schema/resource" each. The triggers of protected tables read it. A resource is appended once only: otherwise ten
-- thousand admissions in one transaction would each copy ten thousand lines.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".record_admission(r text) RETURNS text LANGUAGE sql AS $fencepost$
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

-- Takes the resource's lock exclusive: waits for all transactions admitted for it. If bound is above 0, it waits at most
-- bound milliseconds and then raises SQLSTATE 55P03. A shorter lock_timeout of the session stays in force, and the session's
-- value is restored afterwards.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_exclusive(r text, bound integer) RETURNS void LANGUAGE plpgsql AS $fencepost$
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

-- Publishes, until the (sub)transaction ends, that this session is raising the mark of r to n, which no other session can
-- read before the commit. evict reads it from pg_locks. It is a shared advisory lock that never blocks; its key is 14 bits
-- of the resource's key followed by the 50 bits of the number.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_number(r text, n bigint) RETURNS boolean LANGUAGE sql AS $fencepost$
  SELECT pg_catalog.pg_try_advisory_xact_lock_shared(
    (("fencepost".lock_key(r) OPERATOR(pg_catalog.&) 16383) OPERATOR(pg_catalog.<<) 50) OPERATOR(pg_catalog.|) n)
$fencepost$;
-- +goose StatementEnd

-- Raises the refusal of a token of r with number t by a mark (n, o): ZF002 if the numbers are equal, otherwise ZF001. DETAIL
-- is for programs (docs/run.md): the number, a space and the holder, which is empty for the floor; a line feed, which no
-- name contains; and r. It never returns; the return type lets one CASE call either this or record_admission.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".refuse(r text, t bigint, n bigint, o text) RETURNS text LANGUAGE plpgsql AS $fencepost$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = CASE WHEN n OPERATOR(pg_catalog.=) t THEN 'ZF002' ELSE 'ZF001' END,
    MESSAGE = CASE WHEN n OPERATOR(pg_catalog.=) t THEN pg_catalog.concat('fencepost: a token of ', r, ' collides: ', o, ' has the same number, #', n)
                   WHEN o IS NULL THEN pg_catalog.concat('fencepost: stale token of ', r, ': below the floor, #', n)
                   ELSE pg_catalog.concat('fencepost: stale token of ', r, ': overtaken by #', n, ' of ', o) END,
    DETAIL = pg_catalog.concat(n, ' ', o, E'\n', r);
END
$fencepost$;
-- +goose StatementEnd

-- admit if the mark must be raised or is another token's.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".admit_slow(r text, t bigint, h text, bound integer) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  n bigint;           -- the mark's number, or the floor's if there is no mark
  o pg_catalog.text;  -- the mark's holder, or NULL
BEGIN
  SELECT coalesce(m.number, f.number), m.holder INTO n, o FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = r;
  IF n < t OR o IS NULL AND (t > 0 AND t < n) IS NOT TRUE THEN
    -- A fixed snapshot is older than the wait below: it would not show what the older writers commit during the wait.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: claim before the snapshot',
        HINT = 'Admit the token in a READ COMMITTED transaction of its own first.';
    END IF;
    -- Until it commits, a raise is invisible: other sessions would take its writer for one of the older token.
    IF bound < 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: claim first',
        HINT = 'Admit the token in a transaction of its own first.';
    END IF;
    PERFORM "fencepost".lock_number(r, t);
    PERFORM "fencepost".lock_exclusive(r, bound);
    -- During the wait another session may have raised the mark further, or pruned it. Then nothing is written here, and
    -- the second read refuses. prune takes this lock too, so this snapshot shows the mark, or the floor raised above it.
    INSERT INTO "fencepost".marks AS m (resource, number, holder)
      SELECT r, t, h FROM "fencepost".floor f
       WHERE (t > 0 AND t < f.number) IS NOT TRUE OR EXISTS (SELECT FROM "fencepost".marks x WHERE x.resource = r)
      ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder WHERE m.number < excluded.number;
    SELECT coalesce(m.number, f.number), m.holder INTO n, o FROM "fencepost".floor f LEFT JOIN "fencepost".marks m ON m.resource = r;
  ELSIF n = t AND o = h THEN
    PERFORM pg_advisory_xact_lock_shared("fencepost".lock_key(r));
    -- The lock waited for a raise, so read again. READ COMMITTED returns the newest row. In a fixed snapshot, locking the
    -- row raises 40001 if the mark was raised since; no weaker read detects that.
    SELECT m.number, m.holder INTO n, o FROM "fencepost".marks m WHERE m.resource = r FOR SHARE;
    IF NOT FOUND THEN
      n := "fencepost".mark_number(r);  -- pruned since: use the floor
    END IF;
  END IF;
  IF n IS DISTINCT FROM t OR o IS DISTINCT FROM h THEN
    PERFORM "fencepost".refuse(r, t, coalesce(n, 0), o);
  END IF;
  PERFORM "fencepost".record_admission(r);
END
$fencepost$;
-- +goose StatementEnd

-- Admits token (t, h) for resource r until the (sub)transaction ends. Raises ZF001 (stale) or ZF002 (collision) if the token
-- is refused: see refuse. If the mark must be raised, bound limits the wait for older writers, as in lock_exclusive; if bound
-- is below 0, the mark is not raised and the error is ZF004. Raises 25006 on a standby: a pooler that splits reads from writes
-- may send an admission, which is a SELECT, to one.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".admit(r text, t bigint, h text, bound integer DEFAULT 0) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER AS $fencepost$
BEGIN
  -- First, because a standby's marks are old, and its locks do not exclude writers on the primary.
  IF pg_catalog.pg_is_in_recovery() THEN
    RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = 'fencepost: this is a standby',
      HINT = 'An admission must run where the write runs: have the pooler send every function of this schema to the primary.';
  END IF;
  -- A caller that raises no mark (bound below 0) may lock first and read second: the mark cannot be raised after the lock,
  -- and under READ COMMITTED the read has a snapshot of its own. A caller that may have to raise the mark must not lock
  -- first: two callers that share the lock and both want it exclusive would deadlock. The lock is only tried: a raise may
  -- take long, and a stale token can be refused without the lock. (CASE, because AND does not guarantee an order.)
  IF (CASE WHEN bound OPERATOR(pg_catalog.<) 0
            AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) ANY (ARRAY['read committed', 'read uncommitted'])
           THEN pg_catalog.pg_try_advisory_xact_lock_shared("fencepost".lock_key(r)) END) THEN
    PERFORM CASE WHEN m.number OPERATOR(pg_catalog.=) t AND m.holder OPERATOR(pg_catalog.=) h
                 THEN "fencepost".record_admission(r) ELSE "fencepost".refuse(r, t, m.number, m.holder) END
       FROM "fencepost".marks m WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.>=) t;
    IF FOUND THEN
      RETURN;
    END IF;
  ELSE
    -- If the mark is already this token's, share the lock, so that the mark cannot be raised.
    PERFORM pg_catalog.pg_advisory_xact_lock_shared("fencepost".lock_key(r))
       FROM "fencepost".marks m
      WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.=) t AND m.holder OPERATOR(pg_catalog.=) h;
    IF FOUND THEN
      -- The mark may have been raised between the read and the lock. It cannot be raised now, so read again, in another
      -- statement. A fixed snapshot would show the old row: use admit_slow.
      PERFORM "fencepost".record_admission(r)
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

-- Like admit, but returns a refusal (ZF001, ZF002) as a row with the mark that refused, and then holds no lock. Returns no
-- row if the token is admitted, (0, '') if the wait exceeded bound (55P03), and (0, 'standby') on a standby, which cannot
-- decide.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".report_only(r text, t bigint, h text, bound integer DEFAULT 0)
RETURNS TABLE (number bigint, holder text) LANGUAGE plpgsql AS $fencepost$
DECLARE
  mark pg_catalog.text;
BEGIN
  IF pg_catalog.pg_is_in_recovery() THEN
    number := 0;
    holder := 'standby';
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM "fencepost".admit(r, t, h, bound);
EXCEPTION
WHEN SQLSTATE 'ZF001' OR SQLSTATE 'ZF002' THEN
  GET STACKED DIAGNOSTICS mark = PG_EXCEPTION_DETAIL;
  mark := pg_catalog.split_part(mark, E'\n', 1);
  number := pg_catalog.split_part(mark, ' ', 1);
  holder := pg_catalog.substr(mark, pg_catalog.length(number::pg_catalog.text) + 2);
  RETURN NEXT;
WHEN lock_not_available THEN
  number := 0;
  holder := '';
  RETURN NEXT;
END
$fencepost$;
-- +goose StatementEnd

-- Terminates the sessions that hold the lock of resource r for a token below t, and returns their number: the last resort
-- of a successor whose bound has passed. No timeout of the server limits a holder that is paused inside COPY, or that does
-- not read its result. Claim again afterwards.
--
-- Which sessions are older:
--
-- * A session that shares the lock was admitted under the committed mark. The mark could not be raised while the lock was
--   shared, so if it is still below t after the sessions were listed, they are older.
-- * A session that has the lock exclusive is raising the mark in a transaction that is still open, to the highest number it
--   published: see lock_number. One key in 16384 collides with another resource's; that can only make the number higher, and
--   then the session is not terminated. Nor is a session that has not published a number yet.
--
-- Call it under READ COMMITTED: a fixed snapshot may show a mark that was raised since. A session that has released the
-- lock before it is terminated, and may have started another transaction, gets an error that says nothing was applied, and
-- runs again. So does a session that was about to be refused: it holds the lock while it reads the mark.
--
-- A session that waits for a synchronous standby is left alone: its COMMIT is in the log, and ended it would become visible
-- without the standby, and be lost if that is promoted. Its resource is free as soon as the standby, or the server's settings,
-- let it go; the caller's own commit waits for the same.
--
-- It runs with the caller's rights: a role may terminate its own sessions; others need pg_signal_backend, and
-- pg_read_all_stats to see what they wait for. Raises 42501 without either.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".evict(r text, t bigint) RETURNS integer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  k bigint := "fencepost".lock_key(r);
  older integer[];
  seen integer[];
  busy boolean;
BEGIN
  LOOP
    -- pg_locks shows a 64-bit key as two halves with objsubid 1.
    WITH held AS (
      SELECT l.pid, l.mode, l.classid::bigint << 32 | l.objid::bigint AS key
        FROM pg_locks l
       WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    ), raising AS (
      SELECT h.pid, max(h.key & (1::bigint << 50) - 1) AS number
        FROM held h WHERE h.mode = 'ShareLock' AND h.key <> k AND h.key >> 50 & 16383 = k & 16383
       GROUP BY h.pid
    )
    SELECT array_agg(s.pid) INTO older
      FROM (SELECT h.pid FROM held h WHERE h.key = k GROUP BY h.pid
            HAVING every(h.mode = 'ShareLock') OR (SELECT n.number < t FROM raising n WHERE n.pid = h.pid)) s;
    -- Another statement, which sees what was committed since.
    IF older IS NULL OR ("fencepost".mark_number(r) < t) IS NOT TRUE THEN
      RETURN 0;
    END IF;
    IF EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = ANY (older) AND a.backend_type IS NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'fencepost: this role may not see whether an older writer waits for a standby',
        HINT = format('GRANT pg_read_all_stats, pg_signal_backend TO %I', current_user);
    END IF;
    SELECT array_agg(a.pid), bool_or(a.state = 'active' AND a.wait_event_type IS DISTINCT FROM 'Client') INTO older, busy
      FROM pg_stat_activity a
     WHERE a.pid = ANY (older) AND a.wait_event IS DISTINCT FROM 'SyncRep';
    EXIT WHEN seen IS NOT NULL OR busy IS NOT TRUE;
    -- A signal or a timer wakes a session that waits for a standby, and until it runs and waits again no wait is shown. So a
    -- session that is neither idle nor waiting for its client is looked at twice.
    seen := older;
    PERFORM pg_sleep(0.1), pg_stat_clear_snapshot();
  END LOOP;
  RETURN (SELECT count(*) FILTER (WHERE pg_terminate_backend(p)) FROM unnest(older) p WHERE seen IS NULL OR p = ANY (seen));
END
$fencepost$;
-- +goose StatementEnd

-- Called only by functions that run as the owner.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".admit_slow(text, bigint, text, integer),
  "fencepost".lock_exclusive(text, integer),
  "fencepost".lock_number(text, bigint),
  "fencepost".refuse(text, bigint, bigint, text),
  "fencepost".record_admission(text)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down

-- The schema stays: its rights are the administrator's work, and goose's own table may live in it.
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".evict(text, bigint);
  DROP FUNCTION "fencepost".report_only(text, bigint, text, integer);
  DROP FUNCTION "fencepost".admit(text, bigint, text, integer);
  DROP FUNCTION "fencepost".admit_slow(text, bigint, text, integer);
  DROP FUNCTION "fencepost".refuse(text, bigint, bigint, text);
  DROP FUNCTION "fencepost".lock_number(text, bigint);
  DROP FUNCTION "fencepost".lock_exclusive(text, integer);
  DROP FUNCTION "fencepost".record_admission(text);
  DROP FUNCTION "fencepost".mark_number(text);
  DROP FUNCTION "fencepost".lock_key(text);
  DROP TABLE "fencepost".floor;
  DROP TABLE "fencepost".marks;
  DROP DOMAIN "fencepost".number;
  DROP DOMAIN "fencepost".name;
END
$fencepost$;
-- +goose StatementEnd

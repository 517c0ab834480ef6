-- Leases: one row per resource for the issuer pgtoken, and the functions that acquire, renew and release them. The queue of
-- waiters is in the next file; the functions here call it if a resource is held or has waiters.

-- +goose Up

-- A lease that was never granted has number 0; a lease that was released has holder ''.
-- +goose StatementBegin
CREATE DOMAIN "fencepost".last_number AS bigint
  CHECK (VALUE BETWEEN 0 AND 999999999999999);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE DOMAIN "fencepost".last_holder AS text COLLATE "C"
  CHECK (octet_length(VALUE) <= 200 AND VALUE !~ '[[:cntrl:]]');
-- +goose StatementEnd

-- The lease of each resource. A row stays after its lease ended (released: holder '', expires_at -infinity), because the
-- next number must exceed its number. queued is true if the resource may have waiters: a waiter locks this row to enter or
-- leave the queue, so the row alone shows a release whether it must read the queue.
-- +goose StatementBegin
CREATE TABLE "fencepost".leases (
  resource "fencepost".name PRIMARY KEY,
  number "fencepost".last_number NOT NULL,
  holder "fencepost".last_holder NOT NULL,
  expires_at timestamptz NOT NULL,
  queued boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
-- +goose StatementEnd

-- One sequence for all resources. With CACHE above 1 each session would draw from a block of its own, and numbers would
-- fall; with CYCLE they would start again. Never setval it: numbers drawn since it was read would be drawn again.
-- +goose StatementBegin
CREATE SEQUENCE "fencepost".numbers AS bigint MINVALUE 1 MAXVALUE 999999999999999 CACHE 1 NO CYCLE;
-- +goose StatementEnd

-- Raises ZF004. Called in a transaction with a fixed snapshot: these functions wait for a lock and must see what was
-- committed during the wait.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".refuse_snapshot() RETURNS void LANGUAGE plpgsql AS $fencepost$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: a lease needs READ COMMITTED',
    HINT = 'Call it in a READ COMMITTED transaction of its own.';
END
$fencepost$;
-- +goose StatementEnd

-- Raises the mark of r to (n, h), together with the grant of the lease. It does not wait: an admitted writer, for example a
-- stale holder in an open transaction, would keep the lease's row locked meanwhile. Returns the mark's number, which is above n if
-- the mark was at or above n already, or 0 if the mark was not raised. A mark a day or more above n, in numbers, is forged,
-- and is not raised: the new number would be too far ahead as well.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".claim(r text, h text, n bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  raised bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock("fencepost".lock_key(r)) THEN
    RETURN 0;
  END IF;
  UPDATE "fencepost".marks m SET number = greatest(n, m.number + 1), holder = h
   WHERE m.resource = r AND m.number < n + 24 * 60 * 60 * 100000::bigint RETURNING m.number INTO raised;
  IF NOT FOUND THEN
    INSERT INTO "fencepost".marks VALUES (r, n, h) ON CONFLICT DO NOTHING RETURNING number INTO raised;
    IF NOT FOUND THEN
      RETURN 0;
    END IF;
  END IF;
  PERFORM "fencepost".lock_number(r, raised);
  RETURN raised;
END
$fencepost$;
-- +goose StatementEnd

-- Returns a time in microseconds since 1970, as the functions return it to clients.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".micros(at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $fencepost$
  SELECT (pg_catalog.date_part('epoch', at) OPERATOR(pg_catalog.*) 1000000::pg_catalog.float8)::bigint
$fencepost$;
-- +goose StatementEnd

-- Grants resource r to holder h for ttl at a number above last. The caller has locked the lease's row: numbers drawn before
-- that would not be in the order of the leases. more is true if the resource has other waiters. Returns the reply described
-- at try_acquire.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".grant_lease(r text, h text, ttl interval, last bigint, claims boolean, more boolean) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  clock pg_catalog.timestamptz := clock_timestamp();  -- not now(), which is the transaction's start
  n bigint := greatest(nextval($numbers$"fencepost".numbers$numbers$), "fencepost".next_number(last));
  claimed bigint := 0;
BEGIN
  IF claims THEN
    claimed := "fencepost".claim(r, h, n);
    n := greatest(n, claimed);
  END IF;
  UPDATE "fencepost".leases l SET number = n, holder = h, expires_at = clock + ttl, queued = more WHERE l.resource = r;
  RETURN concat_ws(' ', n, sign(claimed), "fencepost".micros(clock), "fencepost".micros(clock) - "fencepost".micros(statement_timestamp()));
END
$fencepost$;
-- +goose StatementEnd

-- Locks and returns the row of a resource's lease, and inserts it if there is none.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_lease(r text) RETURNS "fencepost".leases LANGUAGE plpgsql AS $fencepost$
DECLARE
  lease "fencepost".leases;
BEGIN
  LOOP
    SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO "fencepost".leases VALUES (r, 0, '', '-infinity') ON CONFLICT DO NOTHING;
  END LOOP;
  RETURN lease;
END
$fencepost$;
-- +goose StatementEnd

-- Acquires resource r for holder h, the id of this one acquisition, for ttl. If claims, it also raises the mark: see claim.
-- Call it in a transaction of its own: the lease's row stays locked until the commit.
--
-- A caller that waits passes channel: the key of an advisory lock that the session of its notifications holds (see waiters),
-- or 0 if it polls, at intervals below idle_timeout. It passes the ticket from an earlier reply, so that it keeps its
-- place if the queue was lost. The reply is one line of text: a row of several columns costs a tenth of the whole call.
--
--   number, claimed (0 or 1), clock, waited       granted. waited is how long the server took to lock the row: the lease
--                                                 lasts at least until ttl + waited after the client's request. The
--                                                 fast path returns only the number, or the number and 1
--   0, remaining, clock, ticket, holder           refused. ticket is 0 for a caller that does not wait
--
-- Times are in microseconds. In the common case the resource is free without waiters, and one UPDATE suffices. On that path
-- every name is written with its schema: see admit.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".try_acquire(r text, h text, ttl interval, claims boolean,
  channel bigint DEFAULT NULL, ticket bigint DEFAULT NULL, idle_timeout interval DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $fencepost$
DECLARE
  clock pg_catalog.timestamptz := pg_catalog.clock_timestamp();  -- not now(), which is the transaction's start
  n bigint;
  claimed bigint;
  durable pg_catalog.text;
BEGIN
  IF (h OPERATOR(pg_catalog.<>) '' AND ttl OPERATOR(pg_catalog.>) interval '0') IS NOT TRUE THEN
    RETURN "fencepost".try_acquire_slow(r, h, ttl, claims, channel, ticket, idle_timeout);  -- raises the error
  END IF;
  IF pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY (ARRAY['off', 'local', 'remote_write']) THEN
    durable := pg_catalog.set_config('synchronous_commit', 'on', true);  -- as commit_durably
  END IF;
  -- The new row is computed before the wait for the row's lock. If the row was changed during the wait, the new row is
  -- computed again; if it was only locked, it is not.
  UPDATE "fencepost".leases l SET holder = h, expires_at = clock OPERATOR(pg_catalog.+) ttl,
         number = greatest(pg_catalog.nextval($numbers$"fencepost".numbers$numbers$), l.number OPERATOR(pg_catalog.+) 1,
           "fencepost".micros(clock) OPERATOR(pg_catalog./) 10, (SELECT f.number FROM "fencepost".floor f))
   WHERE l.resource OPERATOR(pg_catalog.=) r AND (l.holder OPERATOR(pg_catalog.=) '' OR l.expires_at OPERATOR(pg_catalog.<=) clock)
     AND NOT l.queued AND l.number OPERATOR(pg_catalog.<) 999999999999999
  RETURNING l.number INTO n;
  IF NOT FOUND THEN
    RETURN "fencepost".try_acquire_slow(r, h, ttl, claims, channel, ticket, idle_timeout);
  END IF;
  -- So after a wait the grant is made again, with the row locked: the number may be below one that was drawn since, and the
  -- lease may have ended already.
  IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) clock OPERATOR(pg_catalog.>) interval '1 millisecond' THEN
    RETURN "fencepost".grant_lease(r, h, ttl, n, claims, false);
  END IF;
  IF NOT claims THEN
    RETURN n::pg_catalog.text;
  END IF;
  -- The common case of claim: the mark exists and its lock is free. If the mark was raised since this statement began, the
  -- row is read again.
  UPDATE "fencepost".marks m SET holder = h, number = greatest(n, m.number OPERATOR(pg_catalog.+) 1)
   WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.<) (n OPERATOR(pg_catalog.+) 8640000000)
     AND pg_catalog.pg_try_advisory_xact_lock("fencepost".lock_key(r))
  RETURNING CASE WHEN "fencepost".lock_number(r, m.number) THEN m.number ELSE m.number END INTO claimed;
  IF NOT FOUND THEN
    claimed := "fencepost".claim(r, h, n);
  END IF;
  IF claimed OPERATOR(pg_catalog.>) n THEN
    UPDATE "fencepost".leases l SET number = claimed WHERE l.resource OPERATOR(pg_catalog.=) r;
  END IF;
  RETURN CASE WHEN claimed OPERATOR(pg_catalog.>) 0 THEN claimed::pg_catalog.text OPERATOR(pg_catalog.||) ' 1' ELSE n::pg_catalog.text END;
END
$fencepost$;
-- +goose StatementEnd

-- try_acquire with columns, for use by hand: acquires resource r for holder h for ttl, or returns its holder and how much
-- longer the lease lasts. It does not wait. If h has the lease already, it returns the same number with the full ttl; if its
-- lease has ended, a new number. waited is how long the server took to lock the row: the lease lasts at least until ttl +
-- waited after the client's request.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".acquire(r text, h text, ttl interval,
  OUT granted boolean, OUT number bigint, OUT holder text, OUT remaining interval, OUT waited interval)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  answer pg_catalog.text[] := string_to_array("fencepost".try_acquire(r, h, ttl, false), ' ');
BEGIN
  granted := answer[1] <> '0';
  IF granted THEN
    number := answer[1];
    holder := h;
    waited := coalesce(answer[4], '0')::bigint * interval '1 microsecond';
  ELSE
    holder := array_to_string(answer[5:], ' ');
    remaining := answer[2]::bigint * interval '1 microsecond';
    waited := interval '0';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Extends the lease of holder h on resource r to ttl from now, if h still has it. It never acquires: a lease that has ended
-- is not renewed, even if the resource is free. waited is as in acquire.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".renew(r text, h text, ttl interval, OUT renewed boolean, OUT waited interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  ends pg_catalog.timestamptz;
  clock pg_catalog.timestamptz;
BEGIN
  IF (r <> '' AND h <> '' AND ttl > interval '0') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: renew needs a resource, a holder, and a ttl above 0';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  PERFORM "fencepost".commit_durably();
  -- Lock first, read the clock second. A single UPDATE would read the clock before it waits for the row, and not again if
  -- the row was only locked: it would renew a lease that ended during the wait, until a time in the past.
  SELECT l.expires_at INTO ends FROM "fencepost".leases l WHERE l.resource = r AND l.holder = h FOR NO KEY UPDATE;
  clock := clock_timestamp();
  waited := greatest(clock - statement_timestamp(), interval '0');
  renewed := coalesce(ends > clock, false);
  IF renewed THEN
    UPDATE "fencepost".leases l SET expires_at = clock + ttl WHERE l.resource = r;
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Renews many leases. The first element of the result is waited, in microseconds, as in acquire. Then one element for each
-- lease: 1 renewed, 0 lost, -1 another session has the row locked. It does not wait for a locked row: that would delay the
-- other leases, and two callers that renew the same leases could deadlock.
--
-- From a session's sixth call on, PostgreSQL plans without the arguments and assumes that every array is short. So no
-- statement searches an array for each row, or joins two arrays in a way that may become a nested loop.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".renew_all(resources text[], holders text[], ttls bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  locked pg_catalog.text[];
  locked_holders pg_catalog.text[];
  locked_ttls bigint[];
  clock pg_catalog.timestamptz;
  renewed pg_catalog.text[];
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  PERFORM "fencepost".commit_durably();
  -- Lock first, read the clock second: see renew.
  SELECT array_agg(x.r), array_agg(x.h), array_agg(x.ttl) INTO locked, locked_holders, locked_ttls
    FROM (SELECT a.r, a.h, a.ttl FROM "fencepost".leases l
            JOIN unnest(resources, holders, ttls) a (r, h, ttl) ON l.resource = a.r AND l.holder = a.h
             FOR NO KEY UPDATE OF l SKIP LOCKED) x;
  clock := clock_timestamp();
  WITH done AS (
    UPDATE "fencepost".leases l SET expires_at = clock + a.ttl * interval '1 microsecond'
      FROM unnest(locked, locked_holders, locked_ttls) a (r, h, ttl)
     WHERE l.resource = a.r AND l.holder = a.h AND l.expires_at > clock
    RETURNING l.resource
  ) SELECT array_agg(d.resource) INTO renewed FROM done d;
  -- A row that was locked and not renewed has ended. Every d is an a: FULL JOIN, because it is never a nested loop.
  -- PostgreSQL 13 has no array_prepend(bigint, integer[]).
  RETURN array_prepend("fencepost".micros(clock) - "fencepost".micros(statement_timestamp()),
    (SELECT array_agg(CASE WHEN (l.holder = a.h AND l.expires_at > clock) IS NOT TRUE THEN 0::bigint WHEN d.r IS NOT NULL THEN 1 ELSE -1 END ORDER BY a.i)
       FROM unnest(resources, holders) WITH ORDINALITY a (r, h, i) FULL JOIN unnest(renewed) d (r) ON d.r = a.r
       LEFT JOIN "fencepost".leases l ON l.resource = a.r));
END
$fencepost$;
-- +goose StatementEnd

-- Releases resource r if holder h still has it, and returns whether it did. The row keeps its number. If the resource has
-- waiters, the first one in the queue is granted the lease in the same transaction, at a new number. Call it in a transaction
-- of its own.
--
-- Without waiters the commit is asynchronous, unless the transaction has already written something: if a crash undoes the
-- release, the lease expires instead. In a longer transaction, what is written after the release would not be durable
-- either.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".release(r text, h text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $fencepost$
DECLARE
  async_commit pg_catalog.text := CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NULL
                                THEN pg_catalog.set_config('synchronous_commit', 'off', true) END;
BEGIN
  UPDATE "fencepost".leases l SET holder = '', expires_at = '-infinity'
   WHERE l.resource OPERATOR(pg_catalog.=) r AND l.holder OPERATOR(pg_catalog.=) h
     AND l.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp() AND NOT l.queued;
  IF FOUND THEN
    RETURN true;
  END IF;
  RETURN "fencepost".release_slow(r, h);
END
$fencepost$;
-- +goose StatementEnd

-- For a server that lost data: makes every later number of resource r greater than n, a number that a guard has seen.
-- Returns 'recovered'; 'remembered' if the row has n or more, so nothing was lost and nothing changes; 'too_far_ahead' if n
-- is more than a day above the clock, as no issuer's number is. The sequence stays as it is: see numbers.
--
-- The row gets n + 1, which was never granted: a holder that repeats its request cannot get a number that a guard has seen.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".recover(r text, n bigint) RETURNS text LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  lease "fencepost".leases;
BEGIN
  IF (r <> '' AND n > 0) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: recover needs a resource and a number above 0';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  PERFORM "fencepost".commit_durably();
  lease := "fencepost".lock_lease(r);
  IF lease.number >= n THEN
    RETURN 'remembered';
  END IF;
  IF n > "fencepost".number_at(clock_timestamp()) + 24 * 60 * 60 * 100000::bigint THEN
    RETURN 'too_far_ahead';
  END IF;
  UPDATE "fencepost".leases l SET number = n + 1 WHERE l.resource = r;
  RETURN 'recovered';
END
$fencepost$;
-- +goose StatementEnd

-- Called only by functions that run as the owner.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".lock_lease(text),
  "fencepost".grant_lease(text, text, interval, bigint, boolean, boolean),
  "fencepost".claim(text, text, bigint),
  "fencepost".refuse_snapshot()
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".recover(text, bigint);
  DROP FUNCTION "fencepost".release(text, text);
  DROP FUNCTION "fencepost".renew_all(text[], text[], bigint[]);
  DROP FUNCTION "fencepost".renew(text, text, interval);
  DROP FUNCTION "fencepost".acquire(text, text, interval);
  DROP FUNCTION "fencepost".try_acquire(text, text, interval, boolean, bigint, bigint, interval);
  DROP FUNCTION "fencepost".lock_lease(text);
  DROP FUNCTION "fencepost".grant_lease(text, text, interval, bigint, boolean, boolean);
  DROP FUNCTION "fencepost".micros(timestamptz);
  DROP FUNCTION "fencepost".claim(text, text, bigint);
  DROP FUNCTION "fencepost".refuse_snapshot();
  DROP SEQUENCE "fencepost".numbers;
  DROP TABLE "fencepost".leases;
  DROP DOMAIN "fencepost".last_holder;
  DROP DOMAIN "fencepost".last_number;
END
$fencepost$;
-- +goose StatementEnd

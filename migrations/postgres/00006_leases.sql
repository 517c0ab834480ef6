-- +goose Up

-- The number of a lease that was never granted is 0, and the holder of one that has been given back is ''.
-- +goose StatementBegin
CREATE DOMAIN "fencepost".last_number AS bigint
  CHECK (VALUE BETWEEN 0 AND 999999999999999);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE DOMAIN "fencepost".last_holder AS text COLLATE "C"
  CHECK (octet_length(VALUE) <= 200 AND VALUE !~ '[[:cntrl:]]');
-- +goose StatementEnd

-- Who has which resource until when. A row stays when its lease ends (holder '', expires_at -infinity), since its number
-- is what the next one must exceed. queued says that somebody may wait for it: whoever enters the line or leaves it has the
-- row locked, so that a release knows from the row alone whether it must look.
-- +goose StatementBegin
CREATE TABLE "fencepost".leases (
  resource "fencepost".name PRIMARY KEY,
  number "fencepost".last_number NOT NULL,
  holder "fencepost".last_holder NOT NULL,
  expires_at timestamptz NOT NULL,
  queued boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
-- +goose StatementEnd

-- One sequence for all resources. CACHE above 1 gives each session a block of its own, and numbers that fall; CYCLE
-- starts again. Never setval it: numbers drawn in the meantime come a second time.
-- +goose StatementBegin
CREATE SEQUENCE "fencepost".numbers AS bigint MINVALUE 1 MAXVALUE 999999999999999 CACHE 1 NO CYCLE;
-- +goose StatementEnd

-- Raises ZF004 in a transaction that sees what was when it began: these functions look again after they have waited.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".refuse_snapshot() RETURNS void LANGUAGE plpgsql AS $fencepost$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: a lease needs READ COMMITTED',
    HINT = 'Call it in a READ COMMITTED transaction of its own.';
END
$fencepost$;
-- +goose StatementEnd

-- Raises the mark of r to (n, h), whose lease the caller grants, if it can without waiting: somebody who is admitted, a zombie
-- in an open transaction say, would keep the lease locked for as long. It returns the mark's number, which is above n where
-- the mark was at n already, or 0 where it cannot be raised. A mark a day or more above n, in numbers, is forged: one
-- above it would be poison too.
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

-- The clock in microseconds, as clients are told it.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".micros(at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $fencepost$
  SELECT (pg_catalog.date_part('epoch', at) OPERATOR(pg_catalog.*) 1000000::pg_catalog.float8)::bigint
$fencepost$;
-- +goose StatementEnd

-- Grants resource r to holder h for ttl at a number above last, for whoever has the row of the lease locked: drawn before
-- the decision, numbers would not come in the order of the leases. more says whether others wait. For what it returns see ask.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".give(r text, h text, ttl interval, last bigint, claims boolean, more boolean) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  clock pg_catalog.timestamptz := clock_timestamp();  -- now() stands still while a transaction is open, and so would every lease
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

-- Locks the row of a resource's lease, and makes it where there is none.
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

-- Only the functions that run as the owner call these.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".lock_lease(text),
  "fencepost".give(text, text, interval, bigint, boolean, boolean),
  "fencepost".claim(text, text, bigint),
  "fencepost".refuse_snapshot()
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".lock_lease(text);
  DROP FUNCTION "fencepost".give(text, text, interval, bigint, boolean, boolean);
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

-- Mint: new token numbers. next_number is what every issuer in this schema draws from; mint is for a writer that holds a
-- lock of another system and needs a token for it.

-- +goose Up

-- Makes this transaction's commit durable, whatever the session's synchronous_commit is: a number that it issues must not
-- be issued again after a crash.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".commit_durably() RETURNS void LANGUAGE plpgsql AS $fencepost$
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Returns the token number that stands for a time: units of 10 µs since 1970.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".number_at(at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $fencepost$
  SELECT pg_catalog.floor(extract(epoch FROM at) * 100000)::bigint
$fencepost$;
-- +goose StatementEnd

-- Returns the lowest number that may be issued for a resource whose last number was last. It is at or above the clock, so
-- that numbers of different issuers compare, and keep rising after an issuer lost its data. It is at or above the floor,
-- which another server's clock may have raised. Raises ZF005 if the number needs more than fifteen digits.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".next_number(last bigint) RETURNS bigint LANGUAGE plpgsql AS $fencepost$
DECLARE
  n bigint := greatest(last + 1, "fencepost".number_at(clock_timestamp()), (SELECT f.number FROM "fencepost".floor f));
BEGIN
  IF n > 999999999999999 THEN
    RAISE EXCEPTION USING ERRCODE = 'ZF005', MESSAGE = 'fencepost: numbers exhausted';
  END IF;
  RETURN n;
END
$fencepost$;
-- +goose StatementEnd

-- Raises the mark of r to a new number with holder h, and returns the number: the writer that minted last is the only one
-- that is admitted. The number is above the mark, or above the floor if there is no mark. The call is also an admission.
-- Data that was read before the call may be older than the last write. bound is that of lock_exclusive.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".mint(r text, h text, bound integer DEFAULT 0) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  n bigint;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = 'ZF004', MESSAGE = 'fencepost: claim before the snapshot',
      HINT = 'Mint in a READ COMMITTED transaction of its own first.';
  END IF;
  PERFORM "fencepost".commit_durably();
  PERFORM "fencepost".lock_exclusive(r, bound);
  -- The lock keeps other sessions from raising the mark, so the number read here is still current when it is written.
  n := "fencepost".next_number("fencepost".mark_number(r));
  PERFORM "fencepost".lock_number(r, n);
  INSERT INTO "fencepost".marks AS m (resource, number, holder) VALUES (r, n, h)
    ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder WHERE m.number < excluded.number;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'fencepost: the mark was raised without its lock';
  END IF;
  PERFORM "fencepost".record_admission(r);
  RETURN n;
END
$fencepost$;
-- +goose StatementEnd

-- Called only by functions that run as the owner.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".commit_durably(),
  "fencepost".next_number(bigint)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".mint(text, text, integer);
  DROP FUNCTION "fencepost".next_number(bigint);
  DROP FUNCTION "fencepost".number_at(timestamptz);
  DROP FUNCTION "fencepost".commit_durably();
END
$fencepost$;
-- +goose StatementEnd

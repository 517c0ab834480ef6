-- +goose Up

-- Makes this transaction's commit durable, whatever the session says: what it hands out must not be handed out again
-- after a crash.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".commit_durably() RETURNS void LANGUAGE plpgsql AS $fencepost$
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- The number that stands for a time: units of 10 µs since 1970.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".number_at(at timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $fencepost$
  SELECT pg_catalog.floor(extract(epoch FROM at) * 100000)::bigint
$fencepost$;
-- +goose StatementEnd

-- The least number to hand out for a resource whose last one is given, at or above the clock: numbers of all issuers
-- compare, and go on rising where memory was lost. Not below the floor either, which another server's clock may have
-- raised. ZF005 where fifteen digits do not suffice.
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

-- Makes a number above the mark, or above the floor where there is none, and raises the mark to it, for people who have a
-- lock already: whoever mints last is the writer from then on. It counts as an admission. What was read before it may be
-- older than the last write.
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
  PERFORM "fencepost".lock_alone(r, bound);
  -- Nobody else raises the mark from here on, so what the next statement reads is still true when it writes.
  n := "fencepost".next_number("fencepost".mark_number(r));
  PERFORM "fencepost".lock_number(r, n);
  INSERT INTO "fencepost".marks AS m (resource, number, holder) VALUES (r, n, h)
    ON CONFLICT (resource) DO UPDATE SET number = excluded.number, holder = excluded.holder WHERE m.number < excluded.number;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'fencepost: the mark was raised without its lock';
  END IF;
  PERFORM "fencepost".remember(r);
  RETURN n;
END
$fencepost$;
-- +goose StatementEnd

-- Only the functions that run as the owner call these.
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

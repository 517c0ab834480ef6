-- +goose Up

-- Makes the lease of holder h on resource r last for ttl from now, if h still has it. It never acquires, not even what is
-- free; a lease that has ended is not renewed though nobody took it. waited as in acquire.
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
  -- Lock first, look at the clock then. An UPDATE alone looks before it waits for the row, and not again where the row
  -- was only locked: it would renew what ended meanwhile, until a time that is past.
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

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".renew(text, text, interval);
-- +goose StatementEnd

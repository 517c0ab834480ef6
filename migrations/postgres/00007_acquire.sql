-- +goose Up

-- Acquires resource r for holder h (the id of this one acquisition) for ttl, or says who has it and for how much longer.
-- Asked again by the holder who has it, it returns the same number and the full ttl; a holder whose lease has ended
-- gets a new number. waited is how long the server took to get at the lease, which therefore lasts at least until
-- ttl + waited after the client asked. Made for a transaction of its own: the lease stays locked until the commit.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".acquire(r text, h text, ttl interval,
  OUT granted boolean, OUT number bigint, OUT holder text, OUT remaining interval, OUT waited interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  lease "fencepost".leases;
  clock pg_catalog.timestamptz := clock_timestamp();  -- now() stands still while a transaction is open, and so would every lease
BEGIN
  IF (r <> '' AND h <> '' AND ttl > interval '0') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: acquire needs a resource, a holder, and a ttl above 0';
  END IF;
  -- Without a lock first: a refusal then writes nothing, and waiters who poll neither queue nor flush the log.
  SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r;
  IF (lease.holder NOT IN ('', h) AND lease.expires_at > clock) IS NOT TRUE THEN
    PERFORM "fencepost".commit_durably();
    lease := "fencepost".lock_lease(r);
    clock := clock_timestamp();  -- again: the row may have been waited for, longer than ttl even
  END IF;
  waited := greatest(clock - statement_timestamp(), interval '0');
  granted := lease.holder IN ('', h) OR lease.expires_at <= clock;
  IF NOT granted THEN
    holder := lease.holder;
    remaining := lease.expires_at - clock;
    RETURN;
  END IF;
  holder := h;
  number := lease.number;
  IF lease.holder <> h OR lease.expires_at <= clock THEN
    number := "fencepost".draw_number(lease.number);
  END IF;
  UPDATE "fencepost".leases l SET number = acquire.number, holder = h, expires_at = clock + ttl WHERE l.resource = r;
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".acquire(text, text, interval);
-- +goose StatementEnd

-- +goose Up

-- Makes every number that is granted for resource r from now on greater than n, which a guard has seen and this server has
-- forgotten. It says 'raised'; 'lost' where it remembers n or more, and nothing was forgotten; 'poisoned' where n is more than a day
-- above the clock, as no issuer's number is. The sequence stays as it is: setval repeats what was drawn in the meantime.
--
-- The row's number is a grant's that never was, so that a holder who asks again gets none that others have seen.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".raise(r text, n bigint) RETURNS text LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  lease "fencepost".leases;
BEGIN
  IF (r <> '' AND n > 0) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: raise needs a resource and a number above 0';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  PERFORM "fencepost".commit_durably();
  lease := "fencepost".lock_lease(r);
  IF lease.number >= n THEN
    RETURN 'lost';
  END IF;
  IF n > "fencepost".number_at(clock_timestamp()) + 24 * 60 * 60 * 100000::bigint THEN
    RETURN 'poisoned';
  END IF;
  UPDATE "fencepost".leases l SET number = n + 1 WHERE l.resource = r;
  RETURN 'raised';
END
$fencepost$;
-- +goose StatementEnd

-- renew for many: for each of them 1 where it was renewed, 0 where it was lost, and -1 where somebody else has the row
-- locked, which is not waited for: it would keep the others waiting, and two who renew the same ones from each other's. Before
-- them stands waited, in microseconds, as in acquire.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".renew_all(resources text[], holders text[], ttls bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  locked pg_catalog.text[];
  clock pg_catalog.timestamptz;
  renewed pg_catalog.text[];
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  PERFORM "fencepost".commit_durably();
  -- Lock first, look at the clock then: see renew.
  SELECT array_agg(x.resource) INTO locked
    FROM (SELECT l.resource FROM "fencepost".leases l JOIN unnest(resources, holders) a (r, h) ON l.resource = a.r AND l.holder = a.h
             FOR NO KEY UPDATE OF l SKIP LOCKED) x;
  clock := clock_timestamp();
  WITH done AS (
    UPDATE "fencepost".leases l SET expires_at = clock + a.ttl * interval '1 microsecond'
      FROM unnest(resources, holders, ttls) a (r, h, ttl)
     WHERE l.resource = a.r AND l.holder = a.h AND l.resource = ANY (locked) AND l.expires_at > clock
    RETURNING l.resource
  ) SELECT array_agg(d.resource) INTO renewed FROM done d;
  RETURN array_prepend("fencepost".micros(clock) - "fencepost".micros(statement_timestamp()),
    (SELECT array_agg(CASE WHEN a.r = ANY (renewed) AND l.holder = a.h THEN 1
                           WHEN a.r = ANY (locked) OR (l.holder = a.h AND l.expires_at > clock) IS NOT TRUE THEN 0 ELSE -1 END ORDER BY a.i)
       FROM unnest(resources, holders) WITH ORDINALITY a (r, h, i) LEFT JOIN "fencepost".leases l ON l.resource = a.r));
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".renew_all(text[], text[], bigint[]);
  DROP FUNCTION "fencepost".raise(text, bigint);
END
$fencepost$;
-- +goose StatementEnd

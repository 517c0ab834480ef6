-- Prune: deletes old marks and leases. Only the owner may call it. Another role needs USAGE on the schema and a grant:
--
--   GRANT EXECUTE ON FUNCTION fencepost.prune(bigint, integer) TO janitor;

-- +goose Up

-- Deletes up to most rows (1 to 1000) whose number is below cutoff: marks, and the rows of free leases, once no mark is left
-- to delete. It raises the floor to cutoff, and returns the number of deleted rows. Call it until it returns 0, each time in a
-- short transaction of its own: writers of the pruned resources wait for its commit.
--
--   SELECT fencepost.prune(fencepost.number_at(now() - interval '30 days'));
--
-- After that the floor decides about a resource whose mark was deleted, as about one that never had a mark: every token
-- below cutoff is stale, also one that was never admitted and whose lease is still valid, and one of a lock that is not a
-- lease of this schema, such as a key in Redis or an advisory lock of a session. So cutoff must be before the oldest such
-- lock that is still held, and before the slowest issuer's clock. Prune only numbers that are clocks, as those of every
-- Fencepost issuer: a plain counter is below every floor that is a time.
--
-- prune keeps marks of resources that a session is writing to or waiting for, and marks of resources whose lease in this
-- schema is still valid and older than cutoff.
--
-- An issuer whose row was deleted mints its next number at or above the floor, which was raised in the same commit, and so
-- above the deleted number, whatever its clock is: see next_number.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".prune(cutoff bigint, most integer DEFAULT 1000) RETURNS integer LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  r pg_catalog.text := '';
  gone integer := 0;
  names pg_catalog.text[];
BEGIN
  IF (cutoff <= "fencepost".number_at(clock_timestamp())) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: prune needs a cutoff that is not above the clock',
      HINT = 'A floor above the clock refuses every new token of a resource without a mark.';
  END IF;
  -- Each resource occupies an entry in the server's lock table until the commit.
  IF (most BETWEEN 1 AND 1000) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: prune takes 1 to 1000 rows at a time';
  END IF;
  UPDATE "fencepost".floor f SET number = cutoff WHERE f.number < cutoff;
  -- The search may read the whole table, so it comes before the locks: a writer of a pruned resource waits for the deletion of
  -- most rows, and for no search. A lease that has ended never becomes valid again under the same number, so that check needs
  -- no lock.
  LOOP
    names := ARRAY(
      SELECT m.resource FROM "fencepost".marks m
       WHERE m.resource > r AND m.number < cutoff
         AND NOT EXISTS (SELECT FROM "fencepost".leases l
                          WHERE l.resource = m.resource AND l.number < cutoff AND l.expires_at > clock_timestamp())
       ORDER BY m.resource LIMIT most);
    EXIT WHEN names = '{}';
    FOREACH r IN ARRAY names LOOP
      -- Without the lock: 1. admit_slow of a stale token sees the mark, so the floor does not refuse the token; 2. its INSERT
      -- finds the mark being deleted, and waits; 3. this transaction commits, the mark is gone, and the INSERT succeeds.
      CONTINUE WHEN NOT pg_try_advisory_xact_lock("fencepost".lock_key(r));
      DELETE FROM "fencepost".marks m WHERE m.resource = r AND m.number < cutoff;
      IF FOUND THEN
        gone := gone + 1;
      END IF;
    END LOOP;
    IF gone > 0 THEN
      RETURN gone;
    END IF;
  END LOOP;
  -- FOR UPDATE reads the newest row: a lease that was granted since this statement began is kept. A try_acquire that finds
  -- its row deleted waits for this commit, inserts a new row, and reads the floor after that.
  FOR r IN SELECT l.resource FROM "fencepost".leases l
            WHERE l.number < cutoff AND NOT l.queued AND (l.holder = '' OR l.expires_at <= clock_timestamp())
            LIMIT most FOR UPDATE SKIP LOCKED LOOP
    DELETE FROM "fencepost".leases l WHERE l.resource = r;
    gone := gone + 1;
  END LOOP;
  RETURN gone;
END
$fencepost$;
-- +goose StatementEnd

-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION "fencepost".prune(bigint, integer) FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".prune(bigint, integer);
END
$fencepost$;
-- +goose StatementEnd

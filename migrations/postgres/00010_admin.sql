-- Administration: prune, reset, and the version of the schema. Only the owner may call prune and reset. Another role needs
-- USAGE on the schema and a grant:
--
--   GRANT EXECUTE ON FUNCTION fencepost.prune(bigint, integer) TO janitor;
--   GRANT EXECUTE ON FUNCTION fencepost.reset(text, bigint) TO operator;
--
-- The command "fencepost marks" also reads the tables: GRANT SELECT ON fencepost.marks, fencepost.floor; and pg_read_all_stats
-- to see what the sessions of other roles do.

-- +goose Up

-- Deletes up to most rows (1 to 1000) whose number is below cutoff: marks, and the rows of free resources in the tables of
-- this schema's issuers, once no mark is left to delete. It raises the floor to cutoff, and returns the number of deleted rows.
-- Call it until it returns 0, each time in a short transaction of its own: writers of the pruned resources wait for its commit.
--
--   SELECT fencepost.prune(fencepost.number_at(now() - interval '30 days'));
--
-- After that the floor decides about a resource whose mark was deleted, as about one that never had a mark: every token
-- below cutoff is stale, also one that was never admitted and whose lease is still valid, and one of an issuer elsewhere,
-- such as Redis, whose leases are not in this schema. So cutoff must be before the oldest lease that is still valid, and
-- before the slowest issuer's clock. Prune only numbers that are clocks, as those of every Fencepost issuer: a plain counter
-- is below every floor that is a time.
--
-- prune keeps marks of resources that a session is writing to or waiting for; marks of resources whose lease in this schema
-- is still valid and older than cutoff; and marks of resources whose advisory lock of this schema a session holds.
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
  held bigint[];  -- the keys of the session locks that are held, as advisory_key returns them
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
  -- pg_locks shows a key of two integers with objsubid 2. A session that takes its lock after this draws a number at or above
  -- the clock, which the floor admits.
  held := ARRAY(
    SELECT l.classid::bigint << 32 | l.objid::bigint FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
  -- The search may read the whole table, so it comes before the locks: a writer of a pruned resource waits for the deletion of
  -- most rows, and for no search. NOT IN of a query is hashed; that of an array is a linear search for each row. A lease that
  -- has ended never becomes valid again under the same number, so that check needs no lock.
  LOOP
    names := ARRAY(
      SELECT m.resource FROM "fencepost".marks m
       WHERE m.resource > r AND m.number < cutoff AND "fencepost".advisory_key(m.resource) NOT IN (SELECT k FROM unnest(held) k)
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
            LIMIT most - gone FOR UPDATE SKIP LOCKED LOOP
    DELETE FROM "fencepost".leases l WHERE l.resource = r;
    gone := gone + 1;
  END LOOP;
  -- The lock is not on this row, which only has the number, but held by the session.
  FOR r IN SELECT a.resource FROM "fencepost".advisory a
            WHERE a.number < cutoff AND "fencepost".advisory_key(a.resource) NOT IN (SELECT k FROM unnest(held) k)
            LIMIT most - gone FOR UPDATE SKIP LOCKED LOOP
    DELETE FROM "fencepost".advisory a WHERE a.resource = r;
    gone := gone + 1;
  END LOOP;
  RETURN gone;
END
$fencepost$;
-- +goose StatementEnd

-- The last resort for a mark that is so high that no issuer ever reaches it, as a forged token leaves it. Lowers the mark of
-- r to number n, with a holder "reset/role/random" that no token has, and returns n. If n is NULL it is the server's clock,
-- and a mark that is not above the clock is not changed. Tokens that were issued before are still refused; the next
-- acquisition is admitted. It waits for all transactions that are admitted for r, limited by lock_timeout.
--
-- The mark's value before the forged token is lost. So if an issuer's clock is ahead of this server's, n must be above every
-- number that it has issued. n is between the floor and a day after the clock. The old mark is written to the server's log.
--
-- A row with its own mark (last_token and last_holder) keeps it. If the forged token has written the row too, every write of
-- it is still refused. The table's owner lowers that mark, with a bypass if the table is protected:
--
--   SELECT fencepost.bypass('accounts', 'a forged token');
--   UPDATE accounts SET last_token = fencepost.number_at(now()), last_holder = 'reset' WHERE id = 42;
-- +goose StatementBegin
CREATE FUNCTION "fencepost".reset(r text, n bigint DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  mark "fencepost".marks;
  clock bigint;
  fresh bigint;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_state', MESSAGE = 'fencepost: reset needs READ COMMITTED: it reads after it has waited';
  END IF;
  PERFORM "fencepost".commit_durably();
  PERFORM "fencepost".lock_exclusive(r, 0);
  SELECT m.* INTO mark FROM "fencepost".marks m WHERE m.resource = r;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'no_data_found', MESSAGE = 'fencepost: nothing to reset: the resource has no mark';
  END IF;
  clock := "fencepost".number_at(clock_timestamp());  -- after the wait
  fresh := coalesce(n, "fencepost".next_number(0));
  IF n IS NULL AND mark.number <= clock THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'fencepost: nothing to reset: the mark is not above the clock',
      DETAIL = mark.number || ' ' || mark.holder;
  END IF;
  IF NOT EXISTS (SELECT FROM "fencepost".floor f WHERE fresh BETWEEN f.number AND clock + 24 * 60 * 60 * 100000::bigint) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = 'fencepost: reset takes a number that is not below the floor, and at most a day above the clock';
  END IF;
  UPDATE "fencepost".marks m SET number = fresh,
         holder = concat_ws('/', 'reset', regexp_replace(session_user, '[[:cntrl:]]', '?', 'g'), gen_random_uuid())
   WHERE m.resource = r;
  RAISE LOG 'fencepost: % has reset the mark of % from % of % to %',
    quote_ident(session_user), quote_literal(r), mark.number, quote_literal(mark.holder), fresh;
  RETURN fresh;
END
$fencepost$;
-- +goose StatementEnd

-- Returns the number of the newest of these files. A program compares it at its start with the number that it was built with;
-- the version table of goose would need a grant. Each later file replaces this function.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".version() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE AS $fencepost$
  SELECT 10
$fencepost$;
-- +goose StatementEnd

-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".prune(bigint, integer),
  "fencepost".reset(text, bigint)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".version();
  DROP FUNCTION "fencepost".reset(text, bigint);
  DROP FUNCTION "fencepost".prune(bigint, integer);
END
$fencepost$;
-- +goose StatementEnd

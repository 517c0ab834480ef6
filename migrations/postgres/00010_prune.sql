-- +goose Up

-- What only the owner may do, and whoever is granted EXECUTE on the one function beside USAGE on the schema:
--
--   GRANT EXECUTE ON FUNCTION fencepost.prune(bigint, integer) TO janitor;
--   GRANT EXECUTE ON FUNCTION fencepost.reset(text, bigint) TO operator;
--
-- The command "fencepost marks" reads too: GRANT SELECT ON fencepost.marks, fencepost.floor, and pg_read_all_stats to see
-- what the sessions of other roles do.

-- Deletes up to most marks (1 to 1000) whose number is below cutoff, raises the floor to cutoff, and returns how many
-- went. Call it until it returns 0, each time in a transaction of its own, which it must end soon: writers of the
-- resources that it has pruned wait for it.
--
--   SELECT fencepost.prune(fencepost.number_at(now() - interval '30 days'));
--
-- A resource whose mark went is judged by the floor, like one that never had a mark: every token below cutoff is stale
-- from then on, also one whose lease lives and that was never admitted. So choose a time before the oldest lease that
-- still lives, and before what the slowest issuer's clock says. It is for numbers that are clocks, as every issuer of
-- Fencepost makes them: counters of your own are all below a floor that is a time.
--
-- Left are marks of resources that somebody writes to just now, or waits for, and of those whose lease in this schema
-- lives and is older than cutoff.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".prune(cutoff bigint, most integer DEFAULT 1000) RETURNS integer LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  r pg_catalog.text;
  gone integer := 0;
BEGIN
  IF (cutoff <= "fencepost".number_at(clock_timestamp())) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: prune needs a cutoff that is not above the clock',
      HINT = 'A floor above the clock refuses every new token of a resource without a mark.';
  END IF;
  -- Each resource takes a place in the server's table of locks until the commit.
  IF (most BETWEEN 1 AND 1000) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: prune takes 1 to 1000 marks at a time';
  END IF;
  UPDATE "fencepost".floor f SET number = cutoff WHERE f.number < cutoff;
  FOR r IN SELECT m.resource FROM "fencepost".marks m WHERE m.number < cutoff LOOP
    -- A lease that has ended never lives again under the same number, so this needs no lock.
    CONTINUE WHEN EXISTS (SELECT FROM "fencepost".leases l
                           WHERE l.resource = r AND l.number < cutoff AND l.expires_at > clock_timestamp());
    -- Without the lock: 1. a stale token sees the mark, which is above it, and so is not judged by the floor; 2. its
    -- INSERT finds the mark being deleted, and waits; 3. we commit, there is no mark any more, and it is inserted.
    CONTINUE WHEN NOT pg_try_advisory_xact_lock("fencepost".lock_key(r));
    DELETE FROM "fencepost".marks m WHERE m.resource = r AND m.number < cutoff;
    IF FOUND THEN
      gone := gone + 1;
      EXIT WHEN gone = most;
    END IF;
  END LOOP;
  RETURN gone;
END
$fencepost$;
-- +goose StatementEnd

-- The last resort for a poisoned mark, one so high that no issuer ever gets there, as a forged token leaves it: lowers
-- the mark of r to number n, from a holder "reset/role/random" that no token has, and returns it. Without n it is the
-- server's clock, and a mark that is not above the clock is not touched. What was issued before is refused as it was,
-- the next acquisition is admitted. Waits for everybody who is admitted for r, for as long as lock_timeout says.
--
-- It forgets what the mark was before it was poisoned. Where an issuer's clock is ahead of this server's, n must be
-- above every number that it has given; n is between the floor and a day after the clock. The old mark is written to
-- the server's log.
--
-- A row that carries a mark of its own (last_token and last_holder) keeps it, and where the forged token has written it
-- too, every write of it is refused still. Its owner lowers it, behind a bypass where the table is protected:
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
  PERFORM "fencepost".lock_alone(r, 0);
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
  DROP FUNCTION "fencepost".reset(text, bigint);
  DROP FUNCTION "fencepost".prune(bigint, integer);
END
$fencepost$;
-- +goose StatementEnd

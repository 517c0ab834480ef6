-- Administration: reset, and the version of the schema. Only the owner may call reset. Another role needs USAGE on the schema
-- and a grant:
--
--   GRANT EXECUTE ON FUNCTION fencepost.reset(text, bigint) TO operator;
--
-- The command "fencepost marks" also reads the tables: GRANT SELECT ON fencepost.marks, fencepost.floor; and pg_read_all_stats
-- to see what the sessions of other roles do.

-- +goose Up

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
REVOKE EXECUTE ON FUNCTION "fencepost".reset(text, bigint) FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".version();
  DROP FUNCTION "fencepost".reset(text, bigint);
END
$fencepost$;
-- +goose StatementEnd

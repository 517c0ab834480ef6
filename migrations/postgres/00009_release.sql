-- +goose Up

-- Gives resource r back if holder h still has it, and says whether. Its number stays. The commit does not wait for the
-- disk unless the transaction has written something before: a release that a crash undoes only lets the lease run out. Made
-- for a transaction of its own: what comes behind it in another one would not wait for the disk either.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".release(r text, h text) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  IF pg_current_xact_id_if_assigned() IS NULL THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  UPDATE "fencepost".leases l SET holder = '', expires_at = '-infinity'
   WHERE l.resource = r AND l.holder = h AND l.expires_at > clock_timestamp();
  RETURN FOUND;
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".release(text, text);
-- +goose StatementEnd

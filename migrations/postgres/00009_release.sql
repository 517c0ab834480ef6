-- +goose Up

-- Gives resource r back if holder h still has it, and says whether. Its number stays. Where somebody waits, the one who has
-- waited longest is granted it in the same step, at a number of its own. Made for a transaction of its own.
--
-- Where nobody does, the commit does not wait for the disk unless the transaction has written something before: a release that a
-- crash undoes only lets the lease run out. What comes behind it in another transaction would not wait for the disk either.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".release(r text, h text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $fencepost$
DECLARE
  hasty pg_catalog.text := CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NULL
                                THEN pg_catalog.set_config('synchronous_commit', 'off', true) END;
BEGIN
  UPDATE "fencepost".leases l SET holder = '', expires_at = '-infinity'
   WHERE l.resource OPERATOR(pg_catalog.=) r AND l.holder OPERATOR(pg_catalog.=) h
     AND l.expires_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp() AND NOT l.queued;
  IF FOUND THEN
    RETURN true;
  END IF;
  RETURN "fencepost".release_slow(r, h);
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".release(text, text);
-- +goose StatementEnd

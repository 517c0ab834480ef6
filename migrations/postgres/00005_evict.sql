-- +goose Up

-- Ends the sessions that hold resource r while its mark is below t, and says how many: the last resort of a successor
-- whose bound has passed. A holder that is paused inside COPY, or with a result it does not read, is bounded by no
-- timeout of its own. Claim again afterwards. Whoever holds the lock under a lower mark has an older token, or is
-- raising the mark just now; if that one was newer it is told that nothing was applied, and runs again.
--
-- It runs with the caller's own rights: a role may end its own sessions, others need pg_signal_backend.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".evict(r text, t bigint) RETURNS integer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  k bigint := "fencepost".lock_key(r);
  ended integer;
BEGIN
  -- A 64-bit key stands in pg_locks as two halves with objsubid 1.
  SELECT count(*) FILTER (WHERE pg_terminate_backend(l.pid)) INTO ended
    FROM pg_locks l
   WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
     AND l.classid = ((k >> 32) & 4294967295)::oid AND l.objid = (k & 4294967295)::oid AND l.objsubid = 1
     AND "fencepost".mark_number(r) < t;
  RETURN ended;
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".evict(text, bigint);
-- +goose StatementEnd

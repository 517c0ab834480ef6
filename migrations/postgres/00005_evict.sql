-- +goose Up

-- Ends the sessions that share resource r under a mark below t, and says how many: the last resort of a successor whose
-- bound has passed. A holder that is paused inside COPY, or with a result it does not read, is bounded by no timeout of
-- its own. Claim again afterwards.
--
-- Whoever shares the lock was admitted under the committed mark. Nobody could raise it meanwhile, so if it is still below
-- t after they were listed, they are older. Whoever has the lock alone is raising just now, to who knows what: spared.
-- Call it under READ COMMITTED: a fixed snapshot may show a mark that was raised since. A session that has let go of the
-- lock by the time it is ended, and begun anew perhaps, is told that nothing was applied, and runs again.
--
-- It runs with the caller's own rights: a role may end its own sessions, others need pg_signal_backend.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".evict(r text, t bigint) RETURNS integer LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  k bigint := "fencepost".lock_key(r);
  older integer[];
BEGIN
  -- A 64-bit key stands in pg_locks as two halves with objsubid 1.
  SELECT array_agg(s.pid) INTO older
    FROM (SELECT l.pid
            FROM pg_locks l
           WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
             AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
             AND l.classid = ((k >> 32) & 4294967295)::pg_catalog.oid AND l.objid = (k & 4294967295)::pg_catalog.oid AND l.objsubid = 1
           GROUP BY l.pid HAVING every(l.mode = 'ShareLock')) s;
  -- A statement of its own, which sees what was committed since.
  IF older IS NULL OR ("fencepost".mark_number(r) < t) IS NOT TRUE THEN
    RETURN 0;
  END IF;
  RETURN (SELECT count(*) FILTER (WHERE pg_terminate_backend(p)) FROM unnest(older) p);
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".evict(text, bigint);
-- +goose StatementEnd

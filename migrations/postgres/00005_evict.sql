-- +goose Up

-- Ends the sessions that hold resource r for a token below t, and says how many: the last resort of a successor whose
-- bound has passed. A holder that is paused inside COPY, or with a result it does not read, is bounded by no timeout of
-- its own. Claim again afterwards.
--
-- Whoever shares the lock was admitted under the committed mark. Nobody could raise it meanwhile, so if it is still below
-- t after they were listed, they are older. Whoever has the lock alone is raising the mark just now, in a transaction that
-- has not ended: to the highest of the numbers that it says in locks of their own, see lock_number, among which those of
-- another resource, one in 16384, can only spare it. Where it says none, it is about to: spared.
--
-- Call it under READ COMMITTED: a fixed snapshot may show a mark that was raised since. A session that has let go of the
-- lock by the time it is ended, and begun anew perhaps, is told that nothing was applied, and runs again. So is one that
-- was about to be refused: it has the lock while it looks.
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
  WITH held AS (
    SELECT l.pid, l.mode, l.classid::bigint << 32 | l.objid::bigint AS key
      FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ), raising AS (
    SELECT h.pid, max(h.key & (1::bigint << 50) - 1) AS number
      FROM held h WHERE h.mode = 'ShareLock' AND h.key <> k AND h.key >> 50 & 16383 = k & 16383
     GROUP BY h.pid
  )
  SELECT array_agg(s.pid) INTO older
    FROM (SELECT h.pid FROM held h WHERE h.key = k GROUP BY h.pid
          HAVING every(h.mode = 'ShareLock') OR (SELECT n.number < t FROM raising n WHERE n.pid = h.pid)) s;
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

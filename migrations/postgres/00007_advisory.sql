-- Advisory locks: resources that are held by a session (contrib/pgadvisory). The lock ends when the session ends, and not at a
-- time.

-- +goose Up

-- The numbers of these resources. A row is written under the resource's lock, and stays after the lock ended, because the
-- next number must exceed its number. holder and ttl are those of the last grant, for callers that are refused. Never
-- UNLOGGED.
-- +goose StatementBegin
CREATE TABLE "fencepost".advisory (
  resource "fencepost".name PRIMARY KEY,
  number "fencepost".last_number NOT NULL,
  holder "fencepost".last_holder NOT NULL,
  ttl interval NOT NULL
) WITH (fillfactor = 50);
-- +goose StatementEnd

-- Returns the key of a resource's session lock, which no rollback releases. It is used as a pair of integers, its halves:
-- such keys never collide with keys of one bigint, as the locks of marks have (manual: Advisory Lock Functions).
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_key(r text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $fencepost$
  SELECT pg_catalog.hashtextextended(('fencepost' OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) r) COLLATE pg_catalog."C", 9652)
$fencepost$;
-- +goose StatementEnd

-- Raises an error unless this session may take a lock: it must be the client's own, with the process id that the server
-- sent to the client when it connected, and must not have a lock of this kind, which the server would grant to it a second time.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_check(r text, h text, ms integer, pid integer) RETURNS void LANGUAGE plpgsql AS $fencepost$
BEGIN
  IF (r <> '' AND h <> '' AND ms > 0) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: a lock needs a resource, a holder, and a ttl above 0';
  END IF;
  IF current_setting('idle_session_timeout', true) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'fencepost: advisory locks with a ttl need PostgreSQL 14',
      HINT = 'A lease row does without.';
  END IF;
  IF pid IS DISTINCT FROM pg_backend_pid() THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = format('fencepost: a pooler is in between: the client was told of process %s, and this is process %s', pid, pg_backend_pid()),
      HINT = 'A session''s lock needs a connection to the server itself. A lease row does without.';
  END IF;
  IF coalesce(current_setting('fencepost.advisory', true), '') <> '' THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'fencepost: this session has a lock already';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Records in the session's settings which lock it has. The record lasts as long as the lock: settings are reset by a
-- rollback, and by DISCARD ALL, which releases the lock as well.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_record(r text, h text) RETURNS void LANGUAGE plpgsql AS $fencepost$
BEGIN
  PERFORM set_config('fencepost.advisory_idle', current_setting('idle_session_timeout'), false);
  PERFORM set_config('fencepost.advisory', r || E'\n' || h, false);
END
$fencepost$;
-- +goose StatementEnd

-- Returns whether this session has recorded the lock of resource r for holder h. If so, the server ends the session, and
-- with it the lock, ms milliseconds after the client's last statement.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_renew(r text, h text, ms integer) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  IF current_setting('fencepost.advisory', true) IS DISTINCT FROM r || E'\n' || h THEN
    RETURN false;
  END IF;
  PERFORM set_config('idle_session_timeout', ms::pg_catalog.text, false);
  RETURN true;
END
$fencepost$;
-- +goose StatementEnd

-- Draws a number for the lock that this session has recorded, and sets its ttl to ms milliseconds. The row is written in the
-- same commit that makes the number visible, and the commit is durable: no crash brings a number back.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_draw(r text, h text, ms integer) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  n bigint;
  lasts pg_catalog.interval := ms * interval '1 millisecond';
BEGIN
  IF NOT "fencepost".advisory_renew(r, h, ms) THEN
    RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'fencepost: this session does not have the lock';
  END IF;
  PERFORM "fencepost".commit_durably();
  UPDATE "fencepost".advisory a SET number = "fencepost".next_number(a.number), holder = h, ttl = lasts
   WHERE a.resource = r RETURNING a.number INTO n;
  IF NOT FOUND THEN  -- not an INSERT alone: advisory_recover may insert the row meanwhile
    INSERT INTO "fencepost".advisory AS a VALUES (r, "fencepost".next_number(0), h, lasts)
      ON CONFLICT (resource) DO UPDATE SET number = "fencepost".next_number(a.number), holder = excluded.holder, ttl = excluded.ttl
      RETURNING a.number INTO n;
  END IF;
  RETURN n;
END
$fencepost$;
-- +goose StatementEnd

-- Takes the lock of resource r for holder h and this session, and draws a number; or returns the holder and ttl of the last
-- grant. During a hand-off that is the previous holder. Call it in a transaction of its own. If it raises an error, the
-- session may have the lock: end the session.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_acquire(r text, h text, ms integer, pid integer,
  OUT granted boolean, OUT number bigint, OUT holder text, OUT ttl interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  k bigint := "fencepost".advisory_key(r);
BEGIN
  PERFORM "fencepost".advisory_check(r, h, ms, pid);
  granted := pg_try_advisory_lock((k >> 32)::integer, k::bit(32)::integer);
  IF NOT granted THEN
    SELECT a.holder, a.ttl INTO holder, ttl FROM "fencepost".advisory a WHERE a.resource = r;
    RETURN;
  END IF;
  PERFORM "fencepost".advisory_record(r, h);
  number := "fencepost".advisory_draw(r, h, ms);
  holder := h;
END
$fencepost$;
-- +goose StatementEnd

-- Prepares this transaction for advisory_wait: it removes the server's timeouts, since the client decides how long to wait,
-- and has the server check every second whether the client is connected. On systems where a server cannot check, a dead
-- client may be granted the lock, and its session then ends by its ttl. It is a statement of its own because the timeouts of
-- a statement are fixed when it starts.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_prepare(r text, h text, ms integer, pid integer) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  PERFORM "fencepost".advisory_check(r, h, ms, pid);
  PERFORM set_config(s.name, '0', true) FROM unnest(ARRAY['statement_timeout', 'lock_timeout', 'transaction_timeout']) s (name)
    WHERE current_setting(s.name, true) IS NOT NULL;
  BEGIN
    PERFORM set_config('client_connection_check_interval', '1s', true);
  EXCEPTION WHEN invalid_parameter_value THEN
    NULL;
  END;
END
$fencepost$;
-- +goose StatementEnd

-- Waits for the lock of resource r in PostgreSQL's own queue, which pg_try_advisory_lock does not overtake. Then the client
-- has ms milliseconds to draw a number, or the session ends.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_wait(r text, h text, ms integer) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  k bigint := "fencepost".advisory_key(r);
BEGIN
  PERFORM "fencepost".advisory_record(r, h);
  PERFORM "fencepost".advisory_renew(r, h, ms);
  PERFORM pg_advisory_lock((k >> 32)::integer, k::bit(32)::integer);
END
$fencepost$;
-- +goose StatementEnd

-- Releases the lock that this session has recorded, and restores the session's idle_session_timeout. If it does not return
-- true, the session may still have the lock: end the session.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_release(r text, h text) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  k bigint := "fencepost".advisory_key(r);
BEGIN
  IF current_setting('fencepost.advisory', true) IS DISTINCT FROM r || E'\n' || h THEN
    RETURN false;
  END IF;
  PERFORM set_config('idle_session_timeout', current_setting('fencepost.advisory_idle'), false);
  PERFORM set_config('fencepost.advisory', '', false);
  RETURN pg_advisory_unlock((k >> 32)::integer, k::bit(32)::integer);
END
$fencepost$;
-- +goose StatementEnd

-- For a server that lost data: makes all later numbers of resource r greater than n, the number of a mark. Returns false,
-- and changes nothing, if the row has n or more; NULL if n is more than 24 hours ahead of the clock, as no issuer's number is.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".advisory_recover(r text, n bigint) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  IF n > "fencepost".number_at(clock_timestamp() + interval '24 hours') THEN
    RETURN NULL;
  END IF;
  PERFORM "fencepost".commit_durably();
  INSERT INTO "fencepost".advisory AS a VALUES (r, n, '', '0')
    ON CONFLICT (resource) DO UPDATE SET number = n WHERE a.number < n;
  RETURN FOUND;
END
$fencepost$;
-- +goose StatementEnd

-- Called only by functions that run as the owner.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".advisory_check(text, text, integer, integer),
  "fencepost".advisory_record(text, text)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".advisory_recover(text, bigint);
  DROP FUNCTION "fencepost".advisory_release(text, text);
  DROP FUNCTION "fencepost".advisory_wait(text, text, integer);
  DROP FUNCTION "fencepost".advisory_prepare(text, text, integer, integer);
  DROP FUNCTION "fencepost".advisory_acquire(text, text, integer, integer);
  DROP FUNCTION "fencepost".advisory_draw(text, text, integer);
  DROP FUNCTION "fencepost".advisory_renew(text, text, integer);
  DROP FUNCTION "fencepost".advisory_record(text, text);
  DROP FUNCTION "fencepost".advisory_check(text, text, integer, integer);
  DROP FUNCTION "fencepost".advisory_key(text);
  DROP TABLE "fencepost".advisory;
END
$fencepost$;
-- +goose StatementEnd

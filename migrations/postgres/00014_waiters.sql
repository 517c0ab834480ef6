-- +goose Up

-- Who waits for which resource, in the order of the tickets. Nothing here is needed after a crash: whoever still waits asks
-- again, with its ticket.
--
-- A waiter that is notified has an inbox: a random number, which its session of notifications listens to as a channel and
-- holds as the key of an advisory lock. Whoever can share that lock knows that the session is gone. A waiter without one
-- (inbox 0) asks again and again, and is gone when it has not for as long as its patience.
-- +goose StatementBegin
CREATE TABLE "fencepost".waiters (
  resource "fencepost".name,
  holder "fencepost".name,
  ticket bigint NOT NULL,
  inbox bigint NOT NULL,
  ttl interval NOT NULL,
  claims boolean NOT NULL,
  seen_at timestamptz NOT NULL,
  patience interval NOT NULL,
  PRIMARY KEY (resource, holder)
) WITH (fillfactor = 50);
-- +goose StatementEnd
CREATE INDEX ON "fencepost".waiters (resource, ticket);

-- The ticket of one who stands in the line already, with this inbox; NULL for one who does not. One who polls is seen.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".place_of(r text, h text, inbox bigint, clock timestamptz) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  place bigint;
  hasty pg_catalog.text;
BEGIN
  IF inbox <> 0 THEN
    SELECT w.ticket INTO place FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = h AND w.inbox = place_of.inbox;
    RETURN place;
  END IF;
  IF pg_current_xact_id_if_assigned() IS NULL THEN
    hasty := set_config('synchronous_commit', 'off', true);
  END IF;
  UPDATE "fencepost".waiters w SET seen_at = clock WHERE w.resource = r AND w.holder = h AND w.inbox = 0 RETURNING w.ticket INTO place;
  RETURN place;
END
$fencepost$;
-- +goose StatementEnd

-- Enters the line, or asks again in it, and returns the ticket. The lease is locked by whoever calls this.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".enter(r text, h text, ttl interval, claims boolean, inbox bigint, ticket bigint, patience interval,
  clock timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  place bigint := ticket;
BEGIN
  IF (place > 0) IS NOT TRUE THEN
    place := greatest("fencepost".micros(clock),
      (SELECT max(w.ticket) + 1 FROM "fencepost".waiters w WHERE w.resource = r));
  END IF;
  INSERT INTO "fencepost".waiters AS w VALUES (r, h, place, inbox, ttl, claims, clock, coalesce(patience, interval '0'))
    ON CONFLICT (resource, holder) DO UPDATE SET inbox = excluded.inbox, ttl = excluded.ttl, claims = excluded.claims,
      seen_at = excluded.seen_at, patience = excluded.patience
    RETURNING w.ticket INTO place;
  UPDATE "fencepost".leases l SET queued = true WHERE l.resource = r AND NOT l.queued;
  RETURN place;
END
$fencepost$;
-- +goose StatementEnd

-- Takes h out of the line, and says whether others are in it.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".leave_line(r text, h text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  DELETE FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = h;
  RETURN EXISTS (SELECT FROM "fencepost".waiters w WHERE w.resource = r);
END
$fencepost$;
-- +goose StatementEnd

-- Whoever is first in the line and alive, or is h: those before it are dead, and taken out. NULL where there is
-- nobody. The lease is locked by whoever calls this.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".head_of(r text, h text) RETURNS "fencepost".waiters LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  head "fencepost".waiters;
BEGIN
  LOOP
    SELECT w.* INTO head FROM "fencepost".waiters w WHERE w.resource = r ORDER BY w.ticket, w.holder LIMIT 1;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
    -- Shared: two who look at the same dead one at once must both see that it is.
    IF head.holder = h OR head.inbox = 0 AND head.seen_at + head.patience > clock_timestamp()
       OR head.inbox <> 0 AND NOT pg_try_advisory_xact_lock_shared(head.inbox) THEN
      RETURN head;
    END IF;
    DELETE FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = head.holder;
  END LOOP;
END
$fencepost$;
-- +goose StatementEnd

-- Grants the resource to the head of its line, and tells it: what give returns, the ttl in microseconds, resource and holder, one line
-- each, which it can read when all of this is committed. The lease is short, until the head is heard of: dead or deaf, it
-- holds the others up no longer than that.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".hand_over(head "fencepost".waiters, last bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  accept pg_catalog.interval := least(head.ttl, greatest(head.ttl / 3, interval '250 milliseconds'));
  given pg_catalog.text;
BEGIN
  PERFORM "fencepost".commit_durably();
  given := "fencepost".give(head.resource, head.holder, accept, last,
    head.claims, "fencepost".leave_line(head.resource, head.holder));
  IF head.inbox <> 0 THEN
    PERFORM pg_notify('fencepost_' || to_hex(head.inbox),
      concat_ws(E'\n', given, (extract(epoch FROM accept) * 1000000)::bigint, head.resource, head.holder));
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- What tells a client that it is refused.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".say_held(holder text, expires_at timestamptz, clock timestamptz, ticket bigint) RETURNS text LANGUAGE sql AS $fencepost$
  SELECT concat_ws(' ', 0, (extract(epoch FROM expires_at - clock) * 1000000)::bigint,
    "fencepost".micros(clock), coalesce(ticket, 0), holder)
$fencepost$;
-- +goose StatementEnd

-- Whoever finds the resource held, or somebody waiting, or no row.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".ask_slow(r text, h text, ttl interval, claims boolean, inbox bigint, ticket bigint, patience interval) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  lease "fencepost".leases;
  head "fencepost".waiters;
  clock pg_catalog.timestamptz := clock_timestamp();
  place bigint;
BEGIN
  IF (r <> '' AND h <> '' AND ttl > interval '0') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'fencepost: a lease needs a resource, a holder, and a ttl above 0';
  END IF;
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  -- Without a lock first: a refusal then writes nothing, and those who poll neither queue nor flush the log.
  SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r;
  IF lease.holder NOT IN ('', h) AND lease.expires_at > clock THEN
    IF inbox IS NOT NULL THEN
      place := "fencepost".place_of(r, h, inbox, clock);
    END IF;
    IF inbox IS NULL OR place IS NOT NULL THEN
      RETURN "fencepost".say_held(lease.holder, lease.expires_at, clock, place);
    END IF;
  END IF;
  PERFORM "fencepost".commit_durably();
  lease := "fencepost".lock_lease(r);
  clock := clock_timestamp();  -- again: the row may have been waited for, longer than ttl even
  IF lease.holder = h AND lease.expires_at > clock THEN
    RETURN "fencepost".give_again(lease, ttl, clock);
  END IF;
  IF inbox IS NOT NULL THEN
    place := "fencepost".enter(r, h, ttl, claims, inbox, ticket, patience, clock);
  END IF;
  IF lease.holder <> '' AND lease.expires_at > clock THEN
    RETURN "fencepost".say_held(lease.holder, lease.expires_at, clock, place);
  END IF;
  -- Nobody passes the line, not even in a moment in which the resource is free.
  head := "fencepost".head_of(r, h);
  IF head.holder <> h THEN
    PERFORM "fencepost".hand_over(head, lease.number);
    SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r;
    RETURN "fencepost".say_held(lease.holder, lease.expires_at, clock, place);
  END IF;
  RETURN "fencepost".give(r, h, ttl, lease.number, claims, "fencepost".leave_line(r, h));
END
$fencepost$;
-- +goose StatementEnd

-- Grants what its holder has already, since the first answer was lost, or since it was handed over: the same number, and the
-- full ttl.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".give_again(lease "fencepost".leases, ttl interval, clock timestamptz) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  UPDATE "fencepost".leases l SET expires_at = clock + ttl, queued = "fencepost".leave_line(lease.resource, lease.holder)
   WHERE l.resource = lease.resource;
  RETURN concat_ws(' ', lease.number,
    (SELECT count(*) FROM "fencepost".marks m WHERE m.resource = lease.resource AND m.number = lease.number AND m.holder = lease.holder),
    "fencepost".micros(clock), "fencepost".micros(clock) - "fencepost".micros(statement_timestamp()));
END
$fencepost$;
-- +goose StatementEnd

-- Whoever may have to hand over, or has nothing to give back.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".release_slow(r text, h text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  lease "fencepost".leases;
  head "fencepost".waiters;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r AND l.holder = h FOR NO KEY UPDATE;
  IF (lease.expires_at > clock_timestamp()) IS NOT TRUE THEN
    RETURN false;
  END IF;
  head := "fencepost".head_of(r, NULL);
  IF head.holder IS NOT NULL THEN
    PERFORM "fencepost".hand_over(head, lease.number);
  ELSE
    UPDATE "fencepost".leases l SET holder = '', expires_at = '-infinity', queued = false WHERE l.resource = r;
  END IF;
  RETURN true;
END
$fencepost$;
-- +goose StatementEnd

-- Takes h out of the line, and passes on what it was handed in that very moment.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".leave(r text, h text) RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM "fencepost".refuse_snapshot();
  END IF;
  IF pg_current_xact_id_if_assigned() IS NULL THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  PERFORM FROM "fencepost".leases l WHERE l.resource = r FOR NO KEY UPDATE;
  DELETE FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = h;
  RETURN "fencepost".release_slow(r, h);
END
$fencepost$;
-- +goose StatementEnd

-- Only the functions that run as the owner call these.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".place_of(text, text, bigint, timestamptz),
  "fencepost".enter(text, text, interval, boolean, bigint, bigint, interval, timestamptz),
  "fencepost".leave_line(text, text),
  "fencepost".head_of(text, text),
  "fencepost".hand_over("fencepost".waiters, bigint),
  "fencepost".say_held(text, timestamptz, timestamptz, bigint),
  "fencepost".ask_slow(text, text, interval, boolean, bigint, bigint, interval),
  "fencepost".give_again("fencepost".leases, interval, timestamptz),
  "fencepost".release_slow(text, text)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".leave(text, text);
  DROP FUNCTION "fencepost".release_slow(text, text);
  DROP FUNCTION "fencepost".give_again("fencepost".leases, interval, timestamptz);
  DROP FUNCTION "fencepost".ask_slow(text, text, interval, boolean, bigint, bigint, interval);
  DROP FUNCTION "fencepost".say_held(text, timestamptz, timestamptz, bigint);
  DROP FUNCTION "fencepost".hand_over("fencepost".waiters, bigint);
  DROP FUNCTION "fencepost".head_of(text, text);
  DROP FUNCTION "fencepost".leave_line(text, text);
  DROP FUNCTION "fencepost".enter(text, text, interval, boolean, bigint, bigint, interval, timestamptz);
  DROP FUNCTION "fencepost".place_of(text, text, bigint, timestamptz);
  DROP TABLE "fencepost".waiters;
END
$fencepost$;
-- +goose StatementEnd

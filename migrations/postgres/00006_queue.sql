-- The queue of waiters for leases: the table, and the slow paths of try_acquire and release, which read it.

-- +goose Up

-- The waiters of each resource, in the order of their tickets. Nothing here is needed after a crash: a client that still
-- waits repeats its request, with its ticket.
--
-- A waiter that is notified has a channel: a random number, which its session of notifications listens to as a channel and
-- holds as the key of an advisory lock. If another session can share that lock, the waiter's session is gone. A waiter
-- without one (channel 0) polls, and counts as gone if it has not polled for idle_timeout.
-- +goose StatementBegin
CREATE TABLE "fencepost".waiters (
  resource "fencepost".name,
  holder "fencepost".name,
  ticket bigint NOT NULL,
  channel bigint NOT NULL,
  ttl interval NOT NULL,
  claims boolean NOT NULL,
  seen_at timestamptz NOT NULL,
  idle_timeout interval NOT NULL,
  PRIMARY KEY (resource, holder)
) WITH (fillfactor = 50);
-- +goose StatementEnd
CREATE INDEX ON "fencepost".waiters (resource, ticket);

-- Returns the ticket of waiter h if it is in the queue with this channel, otherwise NULL. Updates seen_at of a waiter that
-- polls.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".ticket_of(r text, h text, channel bigint, clock timestamptz) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  place bigint;
  async_commit pg_catalog.text;
BEGIN
  IF channel <> 0 THEN
    SELECT w.ticket INTO place FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = h AND w.channel = ticket_of.channel;
    RETURN place;
  END IF;
  IF pg_current_xact_id_if_assigned() IS NULL THEN
    async_commit := set_config('synchronous_commit', 'off', true);
  END IF;
  UPDATE "fencepost".waiters w SET seen_at = clock WHERE w.resource = r AND w.holder = h AND w.channel = 0 RETURNING w.ticket INTO place;
  RETURN place;
END
$fencepost$;
-- +goose StatementEnd

-- Adds waiter h to the queue, or updates its entry, and returns its ticket. The caller has locked the lease's row.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".enqueue(r text, h text, ttl interval, claims boolean, channel bigint, ticket bigint, idle_timeout interval,
  clock timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  place bigint := ticket;
BEGIN
  IF (place > 0) IS NOT TRUE THEN
    place := greatest("fencepost".micros(clock),
      (SELECT max(w.ticket) + 1 FROM "fencepost".waiters w WHERE w.resource = r));
  END IF;
  INSERT INTO "fencepost".waiters AS w VALUES (r, h, place, channel, ttl, claims, clock, coalesce(idle_timeout, interval '0'))
    ON CONFLICT (resource, holder) DO UPDATE SET channel = excluded.channel, ttl = excluded.ttl, claims = excluded.claims,
      seen_at = excluded.seen_at, idle_timeout = excluded.idle_timeout
    RETURNING w.ticket INTO place;
  UPDATE "fencepost".leases l SET queued = true WHERE l.resource = r AND NOT l.queued;
  RETURN place;
END
$fencepost$;
-- +goose StatementEnd

-- Removes waiter h from the queue, and returns whether the queue has other waiters.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".dequeue(r text, h text) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  DELETE FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = h;
  RETURN EXISTS (SELECT FROM "fencepost".waiters w WHERE w.resource = r);
END
$fencepost$;
-- +goose StatementEnd

-- Returns the first waiter in the queue that is alive or is h, and deletes the dead ones before it. NULL if there is none.
-- The caller has locked the lease's row.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".queue_head(r text, h text) RETURNS "fencepost".waiters LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  head "fencepost".waiters;
BEGIN
  LOOP
    SELECT w.* INTO head FROM "fencepost".waiters w WHERE w.resource = r ORDER BY w.ticket, w.holder LIMIT 1;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
    -- Shared: two sessions that check the same dead waiter at once must both find it dead.
    IF head.holder = h OR head.channel = 0 AND head.seen_at + head.idle_timeout > clock_timestamp()
       OR head.channel <> 0 AND NOT pg_try_advisory_xact_lock_shared(head.channel) THEN
      RETURN head;
    END IF;
    DELETE FROM "fencepost".waiters w WHERE w.resource = r AND w.holder = head.holder;
  END LOOP;
END
$fencepost$;
-- +goose StatementEnd

-- Grants the resource to head, the first waiter, and notifies it: the reply of grant_lease, the ttl in microseconds, resource
-- and holder, one line each. The notification is delivered after the commit. The first lease is short, until the waiter
-- confirms it: if the waiter is dead, or does not receive the notification, the others wait no longer than that.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".hand_off(head "fencepost".waiters, last bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  accept pg_catalog.interval := least(head.ttl, greatest(head.ttl / 3, interval '250 milliseconds'));
  given pg_catalog.text;
BEGIN
  PERFORM "fencepost".commit_durably();
  given := "fencepost".grant_lease(head.resource, head.holder, accept, last,
    head.claims, "fencepost".dequeue(head.resource, head.holder));
  IF head.channel <> 0 THEN
    PERFORM pg_notify('fencepost_' || to_hex(head.channel),
      concat_ws(E'\n', given, (extract(epoch FROM accept) * 1000000)::bigint, head.resource, head.holder));
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Returns try_acquire's reply for a resource that is held.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".held_reply(holder text, expires_at timestamptz, clock timestamptz, ticket bigint) RETURNS text LANGUAGE sql AS $fencepost$
  SELECT concat_ws(' ', 0, (extract(epoch FROM expires_at - clock) * 1000000)::bigint,
    "fencepost".micros(clock), coalesce(ticket, 0), holder)
$fencepost$;
-- +goose StatementEnd

-- try_acquire if the resource is held, has waiters, or has no row.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".try_acquire_slow(r text, h text, ttl interval, claims boolean, channel bigint, ticket bigint, idle_timeout interval) RETURNS text
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
  -- Read without a lock first: a refusal then writes nothing, and callers that poll do not queue for the row or flush the
  -- log.
  SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r;
  IF lease.holder NOT IN ('', h) AND lease.expires_at > clock THEN
    IF channel IS NOT NULL THEN
      place := "fencepost".ticket_of(r, h, channel, clock);
    END IF;
    IF channel IS NULL OR place IS NOT NULL THEN
      RETURN "fencepost".held_reply(lease.holder, lease.expires_at, clock, place);
    END IF;
  END IF;
  PERFORM "fencepost".commit_durably();
  lease := "fencepost".lock_lease(r);
  clock := clock_timestamp();  -- again: the wait for the row may have been longer than the lease
  IF lease.holder = h AND lease.expires_at > clock THEN
    RETURN "fencepost".grant_again(lease, ttl, clock);
  END IF;
  IF channel IS NOT NULL THEN
    place := "fencepost".enqueue(r, h, ttl, claims, channel, ticket, idle_timeout, clock);
  END IF;
  IF lease.holder <> '' AND lease.expires_at > clock THEN
    RETURN "fencepost".held_reply(lease.holder, lease.expires_at, clock, place);
  END IF;
  -- The resource is free, but only the first waiter in the queue may take it.
  head := "fencepost".queue_head(r, h);
  IF head.holder <> h THEN
    PERFORM "fencepost".hand_off(head, lease.number);
    SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r;
    RETURN "fencepost".held_reply(lease.holder, lease.expires_at, clock, place);
  END IF;
  RETURN "fencepost".grant_lease(r, h, ttl, lease.number, claims, "fencepost".dequeue(r, h));
END
$fencepost$;
-- +goose StatementEnd

-- Grants a lease again to its holder, because the first reply was lost or the lease was handed off: the same number, with
-- the full ttl.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".grant_again(lease "fencepost".leases, ttl interval, clock timestamptz) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  UPDATE "fencepost".leases l SET expires_at = clock + ttl, queued = "fencepost".dequeue(lease.resource, lease.holder)
   WHERE l.resource = lease.resource;
  RETURN concat_ws(' ', lease.number,
    (SELECT count(*) FROM "fencepost".marks m WHERE m.resource = lease.resource AND m.number = lease.number AND m.holder = lease.holder),
    "fencepost".micros(clock), "fencepost".micros(clock) - "fencepost".micros(statement_timestamp()));
END
$fencepost$;
-- +goose StatementEnd

-- release if the resource may have waiters, or h does not have the lease.
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
  head := "fencepost".queue_head(r, NULL);
  IF head.holder IS NOT NULL THEN
    PERFORM "fencepost".hand_off(head, lease.number);
  ELSE
    UPDATE "fencepost".leases l SET holder = '', expires_at = '-infinity', queued = false WHERE l.resource = r;
  END IF;
  RETURN true;
END
$fencepost$;
-- +goose StatementEnd

-- Removes waiter h from the queue. If the lease was just handed off to h, releases it.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".leave_queue(r text, h text) RETURNS boolean LANGUAGE plpgsql
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

-- Called only by functions that run as the owner.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".ticket_of(text, text, bigint, timestamptz),
  "fencepost".enqueue(text, text, interval, boolean, bigint, bigint, interval, timestamptz),
  "fencepost".dequeue(text, text),
  "fencepost".queue_head(text, text),
  "fencepost".hand_off("fencepost".waiters, bigint),
  "fencepost".held_reply(text, timestamptz, timestamptz, bigint),
  "fencepost".try_acquire_slow(text, text, interval, boolean, bigint, bigint, interval),
  "fencepost".grant_again("fencepost".leases, interval, timestamptz),
  "fencepost".release_slow(text, text)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".leave_queue(text, text);
  DROP FUNCTION "fencepost".release_slow(text, text);
  DROP FUNCTION "fencepost".grant_again("fencepost".leases, interval, timestamptz);
  DROP FUNCTION "fencepost".try_acquire_slow(text, text, interval, boolean, bigint, bigint, interval);
  DROP FUNCTION "fencepost".held_reply(text, timestamptz, timestamptz, bigint);
  DROP FUNCTION "fencepost".hand_off("fencepost".waiters, bigint);
  DROP FUNCTION "fencepost".queue_head(text, text);
  DROP FUNCTION "fencepost".dequeue(text, text);
  DROP FUNCTION "fencepost".enqueue(text, text, interval, boolean, bigint, bigint, interval, timestamptz);
  DROP FUNCTION "fencepost".ticket_of(text, text, bigint, timestamptz);
  DROP TABLE "fencepost".waiters;
END
$fencepost$;
-- +goose StatementEnd

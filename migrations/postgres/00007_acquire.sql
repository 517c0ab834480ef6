-- +goose Up

-- Asks for resource r, for holder h (the id of this one acquisition) and for ttl, and to raise the mark together with the
-- grant where claims says so, see claim. Made for a transaction of its own: the lease stays locked until the commit. Who waits
-- says so with inbox: the key of an advisory lock that its session of notifications holds, see 00014_waiters.sql, or 0
-- for one that asks again within patience; and with the ticket that an earlier answer gave it, so that it keeps its
-- place where the line was lost. The answer is one line of text, since a row of several columns costs a tenth of it all:
--
--   number, claimed (0 or 1), clock, waited       granted. waited is how long the server took to get at the lease, which
--                                                 therefore lasts at least until ttl + waited after the client asked.
--                                                 What stands behind the number is left out where it is 0, or no news
--   0, remaining, clock, ticket, holder           refused; the ticket is 0 for who does not wait
--
-- Times are in microseconds. Nearly all find the resource free and nobody waiting, and need the one UPDATE. For them every name
-- has its schema: see admit.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".ask(r text, h text, ttl interval, claims boolean,
  inbox bigint DEFAULT NULL, ticket bigint DEFAULT NULL, patience interval DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $fencepost$
DECLARE
  clock pg_catalog.timestamptz := pg_catalog.clock_timestamp();  -- now() stands still while a transaction is open, and so would every lease
  n bigint;
  claimed bigint;
  durable pg_catalog.text;
BEGIN
  IF (h OPERATOR(pg_catalog.<>) '' AND ttl OPERATOR(pg_catalog.>) interval '0') IS NOT TRUE THEN
    RETURN "fencepost".ask_slow(r, h, ttl, claims, inbox, ticket, patience);  -- which refuses
  END IF;
  IF pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY (ARRAY['off', 'local', 'remote_write']) THEN
    durable := pg_catalog.set_config('synchronous_commit', 'on', true);  -- as commit_durably
  END IF;
  -- The new row is made before the old one is waited for. Where that was changed meanwhile, it is looked at and made
  -- again; where it was only locked, it is not.
  UPDATE "fencepost".leases l SET holder = h, expires_at = clock OPERATOR(pg_catalog.+) ttl,
         number = greatest(pg_catalog.nextval($numbers$"fencepost".numbers$numbers$), l.number OPERATOR(pg_catalog.+) 1,
           "fencepost".micros(clock) OPERATOR(pg_catalog./) 10, (SELECT f.number FROM "fencepost".floor f))
   WHERE l.resource OPERATOR(pg_catalog.=) r AND (l.holder OPERATOR(pg_catalog.=) '' OR l.expires_at OPERATOR(pg_catalog.<=) clock)
     AND NOT l.queued AND l.number OPERATOR(pg_catalog.<) 999999999999999
  RETURNING l.number INTO n;
  IF NOT FOUND THEN
    RETURN "fencepost".ask_slow(r, h, ttl, claims, inbox, ticket, patience);
  END IF;
  -- So one that took long is made anew, now that the row is ours: the number was drawn before others', and the lease
  -- may have ended before it began.
  IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) clock OPERATOR(pg_catalog.>) interval '1 millisecond' THEN
    RETURN "fencepost".give(r, h, ttl, n, claims, false);
  END IF;
  IF NOT claims THEN
    RETURN n::pg_catalog.text;
  END IF;
  -- As claim, for a mark that is there and free. Where it was raised since this statement began, it is looked at again.
  UPDATE "fencepost".marks m SET holder = h, number = greatest(n, m.number OPERATOR(pg_catalog.+) 1)
   WHERE m.resource OPERATOR(pg_catalog.=) r AND m.number OPERATOR(pg_catalog.<) (n OPERATOR(pg_catalog.+) 8640000000)
     AND pg_catalog.pg_try_advisory_xact_lock("fencepost".lock_key(r))
  RETURNING CASE WHEN "fencepost".lock_number(r, m.number) THEN m.number ELSE m.number END INTO claimed;
  IF NOT FOUND THEN
    claimed := "fencepost".claim(r, h, n);
  END IF;
  IF claimed OPERATOR(pg_catalog.>) n THEN
    UPDATE "fencepost".leases l SET number = claimed WHERE l.resource OPERATOR(pg_catalog.=) r;
  END IF;
  RETURN CASE WHEN claimed OPERATOR(pg_catalog.>) 0 THEN claimed::pg_catalog.text OPERATOR(pg_catalog.||) ' 1' ELSE n::pg_catalog.text END;
END
$fencepost$;
-- +goose StatementEnd

-- ask for people, without waiting: acquires resource r for holder h for ttl, or says who has it and for how much longer. Asked
-- again by the holder who has it, it returns the same number and the full ttl; a holder whose lease has ended gets a
-- new number. waited is how long the server took to get at the lease, which therefore lasts at least until ttl + waited
-- after the client asked.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".acquire(r text, h text, ttl interval,
  OUT granted boolean, OUT number bigint, OUT holder text, OUT remaining interval, OUT waited interval)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  answer pg_catalog.text[] := string_to_array("fencepost".ask(r, h, ttl, false), ' ');
BEGIN
  granted := answer[1] <> '0';
  IF granted THEN
    number := answer[1];
    holder := h;
    waited := coalesce(answer[4], '0')::bigint * interval '1 microsecond';
  ELSE
    holder := array_to_string(answer[5:], ' ');
    remaining := answer[2]::bigint * interval '1 microsecond';
    waited := interval '0';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".acquire(text, text, interval);
  DROP FUNCTION "fencepost".ask(text, text, interval, boolean, bigint, bigint, interval);
END
$fencepost$;
-- +goose StatementEnd

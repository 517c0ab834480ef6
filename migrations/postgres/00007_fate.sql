-- Fates: whether a transaction of a guard was committed, for a writer that lost the reply to its COMMIT. pg_xact_status
-- returns that for a transaction id, but an id can come again: after a crash the server assigns ids that no surviving record
-- of the log contains, and a standby that is promoted assigns ids that the old primary had assigned too. So an id is only
-- believed within one incarnation of the server: the time between two crash recoveries or promotions.

-- +goose Up

-- The current incarnation, in one row. UNLOGGED, since recovery after a crash, a promotion and the restore of a base backup
-- empty the table. system and timeline are those of the server that has inserted the row: a row that a dump has brought
-- from another server is not believed.
-- +goose StatementBegin
CREATE UNLOGGED TABLE "fencepost".incarnation (
  one boolean PRIMARY KEY DEFAULT true
    CHECK (one),
  id uuid NOT NULL,
  system bigint NOT NULL,
  timeline text NOT NULL
);
-- +goose StatementEnd

-- Returns the id of the current incarnation, and begins one if there is none. It returns NULL if it cannot: on a standby; on
-- Aurora, where an UNLOGGED table survives a crash; if the table was made LOGGED; if there is none yet and the transaction is
-- read only or has a fixed snapshot; while another session begins one, for which it does not wait; if the server refuses it
-- the functions. Then fates are unknown, and nothing else changes.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".incarnation() RETURNS uuid LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  current "fencepost".incarnation;
BEGIN
  IF pg_is_in_recovery() OR EXISTS (SELECT FROM pg_proc p WHERE p.proname = 'aurora_version')
     OR NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname = 'fencepost' AND c.relname = 'incarnation' AND c.relpersistence = 'u') THEN
    RETURN NULL;
  END IF;
  SELECT true, NULL, s.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) INTO current FROM pg_control_system() s;
  SELECT i.id INTO current.id FROM "fencepost".incarnation i WHERE i.system = current.system AND i.timeline = current.timeline;
  -- A row that was inserted after a fixed snapshot would not be seen below. No resource has the name ''.
  IF FOUND OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
     OR NOT pg_try_advisory_xact_lock("fencepost".lock_key('')) THEN
    RETURN current.id;
  END IF;
  -- A session that had the lock may have committed its row since this statement began. Then the row is current, and kept.
  DELETE FROM "fencepost".incarnation i WHERE i.system <> current.system OR i.timeline <> current.timeline;
  INSERT INTO "fencepost".incarnation (id, system, timeline) VALUES (gen_random_uuid(), current.system, current.timeline)
  ON CONFLICT (one) DO NOTHING;
  SELECT i.id INTO current.id FROM "fencepost".incarnation i;
  RETURN current.id;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END
$fencepost$;
-- +goose StatementEnd

-- Returns the incarnation with the schema's key in front, or 'none'. It keeps an incarnation in the session's setting
-- fencepost.incarnation. No session outlives its incarnation, so later admissions of the session only read the setting. Behind
-- a pooler it belongs to the server's session, as the transaction does.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".session_incarnation() RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  id pg_catalog.uuid := "fencepost".incarnation();
BEGIN
  IF id IS NULL THEN
    RETURN 'none';
  END IF;
  RETURN set_config('fencepost.incarnation', concat("fencepost".lock_key(''), '/', id), false);
END
$fencepost$;
-- +goose StatementEnd

-- Returns the fate of a transaction: 'committed', 'aborted', 'in progress', or NULL if it is not known, because the incarnation
-- has ended, this is not its server, or the id is too old. Never on a standby, which may lack the commit. name is the
-- transaction's id, its process, and the result of session_incarnation, with spaces in between, as the admission returned them.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".transaction_fate(name text) RETURNS text LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  x pg_catalog.xid8 := split_part(name, ' ', 1)::pg_catalog.xid8;
  status pg_catalog.text;
BEGIN
  IF pg_is_in_recovery() THEN
    RETURN NULL;
  END IF;
  -- A transaction that begins an incarnation has this lock until it ends. Until then its row is not visible.
  PERFORM pg_advisory_xact_lock_shared("fencepost".lock_key(''));
  IF concat("fencepost".lock_key(''), '/', "fencepost".incarnation()) <> split_part(name, ' ', 3) THEN
    RETURN NULL;
  END IF;
  status := pg_xact_status(x);
  -- A commit that waits for a synchronous standby is in the log, and is not visible yet.
  IF status = 'committed' AND NOT pg_visible_in_snapshot(x, pg_current_snapshot()) THEN
    RETURN 'in progress';
  END IF;
  RETURN status;
EXCEPTION WHEN invalid_parameter_value THEN  -- the id is in the future
  RETURN NULL;
END
$fencepost$;
-- +goose StatementEnd

-- Ends the session that runs the transaction called name, and reports whether it found one. A session that waits for a
-- synchronous standby is left alone, and so is one of another role whose wait this role may not see: ended, it would return
-- without the standby's reply. It runs with the caller's rights, as evict does.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".end_transaction(name text) RETURNS boolean LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $fencepost$
  SELECT coalesce(bool_or(pg_terminate_backend(a.pid)), false) FROM pg_stat_activity a
   WHERE a.pid = split_part(name, ' ', 2)::integer AND a.backend_xid = split_part(name, ' ', 1)::xid8::xid
     AND a.backend_type IS NOT NULL AND a.wait_event IS DISTINCT FROM 'SyncRep'
$fencepost$;
-- +goose StatementEnd

-- +goose StatementBegin
SELECT "fencepost".incarnation();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".end_transaction(text);
  DROP FUNCTION "fencepost".transaction_fate(text);
  DROP FUNCTION "fencepost".session_incarnation();
  DROP FUNCTION "fencepost".incarnation();
  DROP TABLE "fencepost".incarnation;
END
$fencepost$;
-- +goose StatementEnd

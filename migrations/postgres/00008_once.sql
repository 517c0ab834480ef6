-- Units: pieces of work that are applied once (sqlguard.Guard.Once). A row is inserted by the transaction that applies the
-- unit, so it exists if and only if the unit was applied.

-- +goose Up

-- fingerprint is a SHA-256. result is NULL until the unit's transaction has set it, and stays NULL for an empty one. A row
-- may be deleted after kept_until; until then a repeat returns result. Never UNLOGGED.
-- +goose StatementBegin
CREATE TABLE "fencepost".units (
  resource "fencepost".name,
  key "fencepost".name,
  fingerprint bytea NOT NULL
    CHECK (octet_length(fingerprint) = 32),
  result bytea
    CHECK (octet_length(result) <= 65536),
  kept_until timestamptz NOT NULL,
  PRIMARY KEY (resource, key)
);
-- +goose StatementEnd

-- Returns what insert_unit returns for a unit that exists, or NULL. A guard calls it for a token that was refused: no
-- transaction of that token can commit any more, so a unit that does not exist was not applied under it. A standby may lack
-- the row, and raises an error.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".find_unit(r text, k text, f bytea) RETURNS bytea LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = 'fencepost: this is a standby';
  END IF;
  RETURN (SELECT CASE WHEN u.fingerprint = f THEN '\x01'::pg_catalog.bytea || coalesce(u.result, '') ELSE '' END
            FROM "fencepost".units u WHERE u.resource = r AND u.key = k);
END
$fencepost$;
-- +goose StatementEnd

-- Inserts the unit k of resource r, to be kept for that time, and returns NULL. If it exists, the function returns an empty
-- value if the fingerprint is not f, and otherwise one byte and the first result: one value, because a pooler recognises a
-- write by FOR UPDATE, which a query FROM a function cannot have. If the transaction that has inserted the unit goes on, the
-- function waits. Under a fixed snapshot that does not show the row, the INSERT raises SQLSTATE 40001.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".insert_unit(r text, k text, f bytea, keep interval) RETURNS bytea LANGUAGE plpgsql
SECURITY DEFINER AS $fencepost$
DECLARE
  first pg_catalog.bytea;
BEGIN
  INSERT INTO "fencepost".units (resource, key, fingerprint, kept_until) VALUES (r, k, f, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) keep)
  ON CONFLICT (resource, key) DO NOTHING;
  IF FOUND THEN
    RETURN NULL;
  END IF;
  first := "fencepost".find_unit(r, k, f);
  IF first IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'fencepost: the unit was deleted in between';
  END IF;
  RETURN first;
END
$fencepost$;
-- +goose StatementEnd

-- Sets the result of a unit, unless it has one. The unit's transaction calls it before its COMMIT. Raises 25000 if there is
-- no such unit: a ROLLBACK AND CHAIN has undone its insertion, and this is another transaction than the one that was
-- admitted. Both are in each unit's way, so all operators have their schema, and no SET of the search path is needed.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".set_result(r text, k text, value bytea) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER AS $fencepost$
BEGIN
  UPDATE "fencepost".units u SET result = value
   WHERE u.resource OPERATOR(pg_catalog.=) r AND u.key OPERATOR(pg_catalog.=) k AND u.result IS NULL;
  IF NOT FOUND AND NOT EXISTS (SELECT FROM "fencepost".units u WHERE u.resource OPERATOR(pg_catalog.=) r AND u.key OPERATOR(pg_catalog.=) k) THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_state', MESSAGE = 'fencepost: the unit is not there: its transaction was ended, and another one was begun';
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Deletes at most most units whose time has passed, and returns how many. A unit that is repeated after that is applied
-- again. Only the owner may call it: GRANT EXECUTE ON FUNCTION fencepost.prune_units(integer) TO janitor.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".prune_units(most integer DEFAULT 1000) RETURNS integer LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
DECLARE
  gone integer;
BEGIN
  DELETE FROM "fencepost".units u WHERE (u.resource, u.key) IN (
    SELECT o.resource, o.key FROM "fencepost".units o WHERE o.kept_until < clock_timestamp() LIMIT most FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS gone = ROW_COUNT;
  RETURN gone;
END
$fencepost$;
-- +goose StatementEnd

-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION "fencepost".prune_units(integer) FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".prune_units(integer);
  DROP FUNCTION "fencepost".set_result(text, text, bytea);
  DROP FUNCTION "fencepost".insert_unit(text, text, bytea, interval);
  DROP FUNCTION "fencepost".find_unit(text, text, bytea);
  DROP TABLE "fencepost".units;
END
$fencepost$;
-- +goose StatementEnd

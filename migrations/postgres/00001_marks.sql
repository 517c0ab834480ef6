-- +goose Up

-- A role of the application needs USAGE on this schema and nothing else. A schema grants nothing to PUBLIC, so the
-- EXECUTE that PUBLIC has on the functions for applications is worth nothing without it; the functions that write run as
-- their owner, so no role but the owner needs a right on the tables, and none can lower or delete a mark.
-- Whoever has USAGE may admit any number: give it to those who may write what is fenced.
--
-- PL/pgSQL looks up the types of DECLARE once in a session, with the search_path of whoever has the function compiled
-- first. So every type is written with its schema, but for those that SQL's grammar knows by itself.
--
-- CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even where this one is there already.
-- +goose StatementBegin
DO $fencepost$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'fencepost') THEN
    CREATE SCHEMA "fencepost";
  END IF;
END
$fencepost$;
-- +goose StatementEnd

-- Domains check what is assigned. A CHECK of a table is read from the catalog and prepared anew by each UPDATE, whatever
-- it changes, which cost a quarter of a raised mark.
-- +goose StatementBegin
CREATE DOMAIN "fencepost".name AS text COLLATE "C"
  CHECK (octet_length(VALUE) BETWEEN 1 AND 200 AND VALUE !~ '[[:cntrl:]]');
-- +goose StatementEnd
-- +goose StatementBegin
CREATE DOMAIN "fencepost".number AS bigint
  CHECK (VALUE BETWEEN 1 AND 999999999999999);
-- +goose StatementEnd

-- The highest token admitted for each resource, never kept together with the data: a mark that is forgotten admits the
-- stale again. Only prune deletes rows, and raises the floor for them; only reset lowers one. Never UNLOGGED. Names are
-- compared byte by byte. Half of each page is left free, so that a raise stays on its page and leaves the index alone.
-- +goose StatementBegin
CREATE TABLE "fencepost".marks (
  resource "fencepost".name PRIMARY KEY,
  number "fencepost".number NOT NULL,
  holder "fencepost".name NOT NULL
) WITH (fillfactor = 50);
-- +goose StatementEnd

-- Judges the resources that have no mark: a token below it is stale, one at or above it is admitted. Each mark that was
-- ever pruned was below it. One row, which never falls; without the row every token of such a resource is stale.
-- +goose StatementBegin
CREATE TABLE "fencepost".floor (
  one boolean PRIMARY KEY DEFAULT true
    CHECK (one),
  number bigint NOT NULL DEFAULT 0
    CHECK (number BETWEEN 0 AND 999999999999999)
);
-- +goose StatementEnd
INSERT INTO "fencepost".floor DEFAULT VALUES;

-- The key of a resource's advisory lock: shared for writers of the mark's own token, exclusive for whoever raises it.
-- The schema is part of it, so that two schemas of one database do not wait for each other.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_key(r text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $fencepost$
  SELECT pg_catalog.hashtextextended(('fencepost' OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) r) COLLATE pg_catalog."C", 9651)
$fencepost$;
-- +goose StatementEnd

-- The number of a resource's mark, or that of the floor where it has none.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".mark_number(r text) RETURNS bigint LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $fencepost$
  SELECT coalesce((SELECT m.number FROM "fencepost".marks m WHERE m.resource = r), (SELECT f.number FROM "fencepost".floor f));
$fencepost$;
-- +goose StatementEnd

-- +goose Down

-- The schema stays: its rights are the administrator's work, and goose's own table may live in it.
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".mark_number(text);
  DROP FUNCTION "fencepost".lock_key(text);
  DROP TABLE "fencepost".floor;
  DROP TABLE "fencepost".marks;
  DROP DOMAIN "fencepost".number;
  DROP DOMAIN "fencepost".name;
END
$fencepost$;
-- +goose StatementEnd

-- +goose Up

-- Who has which resource until when. A row stays when its lease ends (holder '', expires_at -infinity), since its number
-- is what the next one must exceed.
-- +goose StatementBegin
CREATE TABLE "fencepost".leases (
  resource text COLLATE "C" PRIMARY KEY
    CHECK (octet_length(resource) BETWEEN 1 AND 200 AND resource !~ '[[:cntrl:]]'),
  number bigint NOT NULL
    CHECK (number BETWEEN 0 AND 999999999999999),
  holder text COLLATE "C" NOT NULL
    CHECK (octet_length(holder) <= 200 AND holder !~ '[[:cntrl:]]'),
  expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);
-- +goose StatementEnd

-- One sequence for all resources. CACHE above 1 gives each session a block of its own, and numbers that fall; CYCLE
-- starts again. Never setval it: numbers drawn in the meantime come a second time.
-- +goose StatementBegin
CREATE SEQUENCE "fencepost".numbers AS bigint MINVALUE 1 MAXVALUE 999999999999999 CACHE 1 NO CYCLE;
-- +goose StatementEnd

-- Draws the number of a new lease, above the lease's last one. For whoever has the row of the lease locked: drawn before
-- the decision, numbers would not come in the order of the leases.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".draw_number(last bigint) RETURNS bigint LANGUAGE plpgsql AS $fencepost$
DECLARE
  lowest bigint := "fencepost".next_number(last);
BEGIN
  RETURN greatest(nextval(format('%I.numbers', 'fencepost')::pg_catalog.regclass), lowest);
EXCEPTION WHEN sequence_generator_limit_exceeded THEN
  RAISE EXCEPTION USING ERRCODE = 'ZF005', MESSAGE = 'fencepost: numbers exhausted';
END
$fencepost$;
-- +goose StatementEnd

-- Locks the row of a resource's lease, and makes it where there is none.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".lock_lease(r text) RETURNS "fencepost".leases LANGUAGE plpgsql AS $fencepost$
DECLARE
  lease "fencepost".leases;
BEGIN
  LOOP
    SELECT l.* INTO lease FROM "fencepost".leases l WHERE l.resource = r FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO "fencepost".leases VALUES (r, 0, '', '-infinity') ON CONFLICT DO NOTHING;
  END LOOP;
  RETURN lease;
END
$fencepost$;
-- +goose StatementEnd

-- Only the functions that run as the owner call these.
-- +goose StatementBegin
REVOKE EXECUTE ON FUNCTION
  "fencepost".lock_lease(text),
  "fencepost".draw_number(bigint)
FROM PUBLIC;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $fencepost$
BEGIN
  DROP FUNCTION "fencepost".lock_lease(text);
  DROP FUNCTION "fencepost".draw_number(bigint);
  DROP SEQUENCE "fencepost".numbers;
  DROP TABLE "fencepost".leases;
END
$fencepost$;
-- +goose StatementEnd

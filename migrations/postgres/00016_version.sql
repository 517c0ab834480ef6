-- +goose Up

-- The number of the last of these files: a program compares it at its start with the number it was built with, and needs
-- no right on the table of versions for that. Each later file replaces it by its own number.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".version() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE AS $fencepost$
  SELECT 16
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".version();
-- +goose StatementEnd

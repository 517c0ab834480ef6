-- +goose Up

-- As admit, but a refusal (ZF001, ZF002) is returned as the mark that refused, and nothing is locked; no row means admitted.
-- Where the bound has ended before it could judge (55P03), the row is 0 and ''.
-- +goose StatementBegin
CREATE FUNCTION "fencepost".observe(r text, t bigint, h text, bound integer DEFAULT 0)
RETURNS TABLE (number bigint, holder text) LANGUAGE plpgsql AS $fencepost$
DECLARE
  mark pg_catalog.text;
BEGIN
  PERFORM "fencepost".admit(r, t, h, bound);
EXCEPTION
WHEN SQLSTATE 'ZF001' OR SQLSTATE 'ZF002' THEN
  GET STACKED DIAGNOSTICS mark = PG_EXCEPTION_DETAIL;
  number := pg_catalog.split_part(mark, ' ', 1);
  holder := pg_catalog.substr(mark, pg_catalog.length(number::pg_catalog.text) + 2);
  RETURN NEXT;
WHEN lock_not_available THEN
  number := 0;
  holder := '';
  RETURN NEXT;
END
$fencepost$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION "fencepost".observe(text, bigint, text, integer);
-- +goose StatementEnd

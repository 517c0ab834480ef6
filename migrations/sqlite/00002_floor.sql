-- +goose Up

-- Judges the resources that have no mark: a token below it is stale, one at or above it is admitted. Each mark that was
-- ever pruned was below it. One row, which must never fall; without the row every token of such a resource is stale.
--
-- To prune, raise the floor, and delete what is below it then, in this order, which needs no transaction around it:
--
--   UPDATE fencepost_floor SET number = max(number, strftime('%s', 'now', '-30 days') * 100000);
--   DELETE FROM fencepost_marks WHERE number < (SELECT number FROM fencepost_floor);
--
-- A number stands for a time, in units of 10 µs since 1970. Every token below the floor is stale from then on where there
-- is no mark, also one whose lease lives and that was never admitted: choose a time before the oldest lease that still
-- lives, and never one in the future. It is for numbers that are clocks, as every issuer of Fencepost makes them.
CREATE TABLE fencepost_floor (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  number INTEGER NOT NULL CHECK (number BETWEEN 0 AND 999999999999999)
);
INSERT INTO fencepost_floor (one, number) VALUES (1, 0);

-- +goose Down
DROP TABLE fencepost_floor;

-- Marks: the highest token admitted for each resource, and the floor for resources without a mark. Package stdsql has the
-- statements that read and raise them.

-- +goose Up

-- The highest token admitted for each resource. A number is never lowered, and a row is deleted only if it is below the
-- floor: if a mark is lost, stale tokens are admitted again. Text is compared byte by byte (BINARY, SQLite's own default).
CREATE TABLE fencepost_marks (
  resource TEXT PRIMARY KEY CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 200),
  number INTEGER NOT NULL CHECK (number BETWEEN 1 AND 999999999999999),
  holder TEXT NOT NULL CHECK (length(CAST(holder AS BLOB)) BETWEEN 1 AND 200)
) WITHOUT ROWID;

-- The mark of every resource that has none of its own: a token below the floor is stale, a token at or above it is
-- admitted. Every pruned mark was below the floor. The table has one row, whose number must never fall. If the row is
-- missing, every token of a resource without a mark is stale.
--
-- To prune, raise the floor, then delete the marks below it, in this order. A transaction is not needed:
--
--   UPDATE fencepost_floor SET number = max(number, strftime('%s', 'now', '-30 days') * 100000);
--   DELETE FROM fencepost_marks WHERE number < (SELECT number FROM fencepost_floor);
--
-- A number stands for a time, in units of 10 µs since 1970. After that, every token below the floor is stale for a resource
-- without a mark, also one that was never admitted and whose lease is still valid: choose a time before the oldest lease
-- that is still valid, and never one in the future. Prune only numbers that are clocks, as those of every Fencepost issuer.
CREATE TABLE fencepost_floor (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  number INTEGER NOT NULL CHECK (number BETWEEN 0 AND 999999999999999)
);
INSERT INTO fencepost_floor (one, number) VALUES (1, 0);

-- +goose Down
DROP TABLE fencepost_floor;
DROP TABLE fencepost_marks;

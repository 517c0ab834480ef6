-- Marks: the highest token admitted for each resource, and the floor for resources without a mark. Package stdsql has the
-- statements that read and raise them.
--
-- Names are VARBINARY: the default collations of MySQL and MariaDB would take ACCOUNT/42 for account/42, and ignore trailing
-- spaces. The columns are wider than the CHECK allows, because without a strict sql_mode the server would truncate a name
-- that is too long without an error. MySQL before 8.0.16 parses CHECK and ignores it; the library validates every token.
--
-- CREATE TABLE commits, so goose cannot roll it back: an interrupted migration is run again, which IF NOT EXISTS allows.

-- +goose Up

-- The highest token admitted for each resource. A number is never lowered, and a row is deleted only if it is below the
-- floor: if a mark is lost, stale tokens are admitted again. InnoDB, whatever the server's default is, because its row locks
-- are the fence.
CREATE TABLE IF NOT EXISTS fencepost_marks (
  resource VARBINARY(255) NOT NULL PRIMARY KEY CHECK (OCTET_LENGTH(resource) BETWEEN 1 AND 200),
  number BIGINT NOT NULL CHECK (number BETWEEN 1 AND 999999999999999),
  holder VARBINARY(255) NOT NULL CHECK (OCTET_LENGTH(holder) BETWEEN 1 AND 200)
) ENGINE = InnoDB;

-- The mark of every resource that has none of its own: a token below the floor is stale, a token at or above it is
-- admitted. The table has one row, whose number must never fall. If the row is missing, every token of a resource without a
-- mark is stale.
--
-- To prune, raise the floor, then delete the marks below it, in this order. A transaction is not needed:
--
--   UPDATE fencepost_floor SET number = GREATEST(number, UNIX_TIMESTAMP(NOW() - INTERVAL 30 DAY) * 100000);
--   DELETE FROM fencepost_marks WHERE number < (SELECT number FROM fencepost_floor);
--
-- A number stands for a time, in units of 10 µs since 1970. After that, every token below the floor is stale for a resource
-- without a mark, also one that was never admitted and whose lease is still valid: choose a time before the oldest lease
-- that is still valid, and never one in the future. The DELETE waits for every transaction that is writing under one of the
-- deleted marks.
CREATE TABLE IF NOT EXISTS fencepost_floor (
  one TINYINT NOT NULL PRIMARY KEY CHECK (one = 1),
  number BIGINT NOT NULL CHECK (number BETWEEN 0 AND 999999999999999)
) ENGINE = InnoDB;
INSERT IGNORE INTO fencepost_floor (one, number) VALUES (1, 0);

-- +goose Down
DROP TABLE IF EXISTS fencepost_floor;
DROP TABLE IF EXISTS fencepost_marks;

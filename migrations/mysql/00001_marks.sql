-- +goose Up

-- Names are bytes: the collations that MySQL and MariaDB compare text with by default take ACCOUNT/42 for account/42, and
-- pass over spaces at the end. The columns hold more than the CHECK lets in, since without a strict sql_mode what is too
-- long would be cut in silence. MySQL before 8.0.16 reads CHECK and passes it over; the library checks every token itself.
--
-- CREATE TABLE commits, whatever goose has begun: a migration that was interrupted is run again, and IF NOT EXISTS lets it.

-- The highest token admitted for each resource. Rows are never lowered, nor deleted but under the floor: a mark that is
-- forgotten admits the stale again. InnoDB, whatever the server's default is, since its row locks are the fence.
CREATE TABLE IF NOT EXISTS fencepost_marks (
  resource VARBINARY(255) NOT NULL PRIMARY KEY CHECK (OCTET_LENGTH(resource) BETWEEN 1 AND 200),
  number BIGINT NOT NULL CHECK (number BETWEEN 1 AND 999999999999999),
  holder VARBINARY(255) NOT NULL CHECK (OCTET_LENGTH(holder) BETWEEN 1 AND 200)
) ENGINE = InnoDB;

-- Judges the resources that have no mark: a token below it is stale, one at or above it is admitted. One row, which must
-- never fall; without the row every token of such a resource is stale.
--
-- To prune, raise the floor, and delete what is below it then, in this order, which needs no transaction around it:
--
--   UPDATE fencepost_floor SET number = GREATEST(number, UNIX_TIMESTAMP(NOW() - INTERVAL 30 DAY) * 100000);
--   DELETE FROM fencepost_marks WHERE number < (SELECT number FROM fencepost_floor);
--
-- A number stands for a time, in units of 10 µs since 1970. Every token below the floor is stale from then on where there
-- is no mark, also one whose lease lives and that was never admitted: choose a time before the oldest lease that still
-- lives, and never one in the future. The DELETE waits for everybody who is writing under one of those marks.
CREATE TABLE IF NOT EXISTS fencepost_floor (
  one TINYINT NOT NULL PRIMARY KEY CHECK (one = 1),
  number BIGINT NOT NULL CHECK (number BETWEEN 0 AND 999999999999999)
) ENGINE = InnoDB;
INSERT IGNORE INTO fencepost_floor (one, number) VALUES (1, 0);

-- +goose Down
DROP TABLE IF EXISTS fencepost_floor;
DROP TABLE IF EXISTS fencepost_marks;

-- Units: pieces of work that are applied once (stdsql.Guard.Once). Names are VARBINARY, as in 00001_marks.sql.

-- +goose Up

-- A row is inserted by the transaction that applies the unit, so it exists if and only if the unit was applied. fingerprint
-- is a SHA-256. A unit that is repeated after its row was deleted is applied again. kept_until is in seconds since 1970, so
-- that no session's time zone changes it. fencepost marks prune deletes expired rows.
CREATE TABLE IF NOT EXISTS fencepost_units (
  resource VARBINARY(255) NOT NULL,
  `key` VARBINARY(255) NOT NULL,
  fingerprint BINARY(32) NOT NULL,
  result MEDIUMBLOB NOT NULL,
  kept_until BIGINT NOT NULL,
  PRIMARY KEY (resource, `key`)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE IF EXISTS fencepost_units;

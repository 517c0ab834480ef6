-- Units: pieces of work that are applied once (stdsql.Guard.Once).

-- +goose Up

-- A row is inserted by the transaction that applies the unit, so it exists if and only if the unit was applied. fingerprint
-- is a SHA-256. kept_until is in seconds since 1970; a unit that is repeated after its row was deleted is applied again. To
-- prune:
--
--   DELETE FROM fencepost_units WHERE kept_until < strftime('%s', 'now') + 0;
CREATE TABLE fencepost_units (
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  result BLOB NOT NULL DEFAULT x'',
  kept_until INTEGER NOT NULL,
  PRIMARY KEY (resource, key)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE fencepost_units;

-- +goose Up

-- The highest token admitted for each resource. Rows are never lowered, nor deleted but under the floor: a mark that is
-- forgotten admits the stale again. Text is compared byte by byte (BINARY, SQLite's own default).
CREATE TABLE fencepost_marks (
  resource TEXT PRIMARY KEY CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 200),
  number INTEGER NOT NULL CHECK (number BETWEEN 1 AND 999999999999999),
  holder TEXT NOT NULL CHECK (length(CAST(holder AS BLOB)) BETWEEN 1 AND 200)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE fencepost_marks;

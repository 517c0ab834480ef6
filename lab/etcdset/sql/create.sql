-- One row is one set. number and holder are the mark of the way check-then-write.
CREATE TABLE IF NOT EXISTS sets (
  name text PRIMARY KEY,
  members bigint[] NOT NULL DEFAULT '{}',
  number bigint NOT NULL DEFAULT 0,
  holder text NOT NULL DEFAULT ''
)

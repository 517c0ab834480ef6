-- The accounts of one run. "main" is SQLite's own schema; on PostgreSQL the run's schema takes its place.
CREATE TABLE "main".accounts (
  id text PRIMARY KEY,
  balance bigint NOT NULL,
  increments text NOT NULL,
  number bigint NOT NULL,
  holder text NOT NULL
)

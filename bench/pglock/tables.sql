-- A thousand rows, of which each worker writes one: those of sixteen workers lie
-- in pages of their own.
CREATE TABLE plain (id bigint PRIMARY KEY, n bigint NOT NULL, owner text NOT NULL);
INSERT INTO plain SELECT id, 0, repeat('owner ', 16) || id FROM generate_series(1, 1000) id;
ANALYZE plain;

-- Three tables of a thousand accounts, of which each worker writes one: those of
-- sixteen workers lie in pages of their own.
CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, owner text NOT NULL);
INSERT INTO accounts SELECT id, 100, 'owner ' || id FROM generate_series(1, 1000) id;

CREATE TABLE fenced (LIKE accounts INCLUDING ALL);
SELECT fencepost.add_mark_columns('fenced');
INSERT INTO fenced SELECT * FROM accounts;

CREATE TABLE protected (LIKE accounts INCLUDING ALL);
INSERT INTO protected SELECT * FROM accounts;
SELECT fencepost.protect('protected', $$'account/' || id$$);

ANALYZE accounts, fenced, protected;
